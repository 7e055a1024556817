"""`vgpu bench`: measure the product's own parts, with data of yours or without."""

import argparse
import json

from hack.bench import defrag, gang, placement, refusals
from hack.bench.extender import measurement as extender
from hack.bench.jobs import command as jobs
from hack.bench.report import Report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu bench`."""
    kinds = parser.add_subparsers(metavar="WHAT", required=True)
    for name, text, module in (
        ("placement", "how full the cards get, by policy, and how long a decision takes", placement),
        ("defrag", "how much more fits a full cluster when a few pods are moved", defrag),
        ("gang", "how long it takes to decide for all pods of a gang at once", gang),
        ("jobs", "how soon training jobs end, by job policy, on a virtual clock", jobs),
        ("refusals", "how long refusing a pod keeps the others from being placed", refusals),
        ("extender", "pods per second through /filter and /bind of the real service", extender),
    ):
        parser = kinds.add_parser(
            name, help=text, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.add_arguments(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.set_defaults(bench=module.run)


def run(args: argparse.Namespace) -> int:
    """Run the chosen benchmark and print its report. Raises VgpuError if it cannot run."""
    report: Report = args.bench(args)
    print(json.dumps(report.figures) if args.json else report.text)
    return 0
