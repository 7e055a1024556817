"""`vgpu simulate`: simulated cards for a node that has none, for tests (manifests/components/simulated-cards).

vgpu simulate build --cards cards.yaml --folder /var/lib/vgpu-sim --machine node-1
vgpu simulate sick GPU-1122334455000001 --folder /var/lib/vgpu-sim
vgpu simulate well GPU-1122334455000001 --folder /var/lib/vgpu-sim
vgpu simulate busy GPU-1122334455000001 --percent 85 --folder /var/lib/vgpu-sim
vgpu simulate process 4711 GPU-1122334455000001 --mib 512 --folder /var/lib/vgpu-sim
"""

import argparse
import shutil
import zlib
from pathlib import Path

from device_plugin.core.errors import VgpuError
from vgpu_runtime import sim

# The file with the input from which the folder was built. For equal input the folder is not built again, because
# containers may use the cards.
BUILT_OF = "built-of"
MACHINES = 1 << 16


class SimulateError(VgpuError):
    """The cards cannot be made, or the named card does not exist."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu simulate`."""
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    build = verbs.add_parser("build", help="make the cards; does nothing if they exist")
    build.add_argument(
        "--cards", type=Path, required=True, metavar="FILE", help="YAML file of cards (version: v1)"
    )
    build.add_argument(
        "--kernel", type=sim.Kernel, default=sim.Kernel.EQUAL, metavar="LINUX",
        help="the Linux whose driver is simulated: 6.1, 6.12 (default) or 6.18.4, which check queues differently",
    )  # fmt: skip
    build.add_argument("--machine", required=True, help="name of the node: each has cards of its own")
    build.set_defaults(act=_build)
    for verb, text in (("sick", "make a card unhealthy"), ("well", "make it healthy again")):
        health = verbs.add_parser(verb, help=text)
        health.add_argument("uuid", metavar="UUID")
        health.set_defaults(act=_set_health, healthy=verb == "well")
    busy = verbs.add_parser("busy", help="set how busy the driver reports a card")
    busy.add_argument("uuid", metavar="UUID")
    busy.add_argument(
        "--percent", type=int, choices=range(101), metavar="0-100", help="default: the driver reports nothing"
    )
    busy.set_defaults(act=_set_busy)
    process = verbs.add_parser("process", help="set what the driver says that a process uses of a card")
    process.add_argument("process", type=int, metavar="PID", help="its number on the host")
    process.add_argument("uuid", metavar="UUID")
    process.add_argument("--mib", type=int, default=0, help="card memory that it holds (default: 0)")
    process.add_argument("--queues", type=int, default=0, help="queues that it has on the card (default: 0)")
    process.add_argument(
        "--busy-units", type=int, help="compute units that run its work (default: not reported)"
    )
    process.set_defaults(act=_set_process)
    for command in verbs.choices.values():
        command.add_argument("--folder", type=Path, required=True, metavar="DIR", help="folder of the cards")


def run(args: argparse.Namespace) -> int:
    """Carry out one verb. Raises SimulateError."""
    try:
        args.act(args)
    except (sim.SpecError, LookupError, OSError) as error:
        raise SimulateError(str(error)) from error
    return 0


def _build(args: argparse.Namespace) -> None:
    cards = sim.load(args.cards, zlib.crc32(args.machine.encode()) % MACHINES)
    wanted = f"{sim.CONF_VERSION} {args.kernel.value} {cards!r}"
    stamp = args.folder / BUILT_OF
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        stamp.unlink(missing_ok=True)
        for name in ("sys", "dev", "state", "opt"):
            shutil.rmtree(args.folder / name, ignore_errors=True)
        args.folder.mkdir(parents=True, exist_ok=True)
        sim.build(cards, args.folder, args.kernel)
        stamp.write_text(wanted, encoding="utf-8")
    sim.add_driver(args.folder)
    for card in cards:
        print(f"{card.name} at {card.pci}, {card.memory_mib} MiB, {card.compute_units} compute units")


def _set_health(args: argparse.Namespace) -> None:
    sim.set_health(args.folder, args.uuid, args.healthy)
    print(f"{args.uuid} is {'well' if args.healthy else 'sick'}")


def _set_busy(args: argparse.Namespace) -> None:
    sim.set_busy(args.folder, args.uuid, args.percent)
    shown = "says no load" if args.percent is None else f"is {args.percent} % busy"
    print(f"{args.uuid} {shown}")


def _set_process(args: argparse.Namespace) -> None:
    sim.set_process(args.folder, args.process, args.uuid, args.mib, args.queues, args.busy_units)
    print(f"process {args.process} uses {args.mib} MiB and {args.queues} queues of {args.uuid}")
