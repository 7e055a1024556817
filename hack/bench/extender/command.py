"""Measure the real cluster service: pods per second, latency, memory and CPU.

    vgpu bench extender --nodes 1213 --fill 0.5

The service runs as with `vgpu cluster`, in a process of its own that speaks HTTP with a stub API server and a stub
kube-scheduler, which are processes too. Cards are filled to the given share first; then, for each pod that is bound, a
random one is deleted. The API server answers at once: a real one adds its own time to each Binding, not to a filter.
The measurement begins once the service has learnt the workload from the pods that are there; from fewer than 64 it
learns nothing, and its policy is `pack`. With --seconds 150 it learns again meanwhile, and the cost of that is printed.
"""

import argparse
import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from device_plugin.core.errors import VgpuError
from hack.bench.extender.cluster_model import ClusterModel
from hack.bench.extender.measurement import Figures, measure


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words that follow `vgpu bench extender`."""
    parser.add_argument("--nodes", type=int, default=500, metavar="N", help="default: 500")
    parser.add_argument("--cards", type=int, default=8, metavar="N", help="of each node (default: 8)")
    parser.add_argument(
        "--fill",
        type=float,
        default=0.5,
        metavar="F",
        help="share of all memory granted before (default: 0.5)",
    )
    parser.add_argument(
        "--seconds", type=float, default=10.0, metavar="S", help="measured, after a warm-up (default: 10)"
    )
    parser.add_argument(
        "--seed", type=int, default=42, metavar="N", help="of what the pods ask for (default: 42)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(args: argparse.Namespace) -> int:
    """Measure and print the figures. Raises ExtenderBenchError."""
    workload = ClusterModel(args.nodes, args.cards, args.fill, args.seconds, args.seed)
    with _terminated_as_interrupted():
        figures = measure(workload)
    print(json.dumps(asdict(figures)) if args.json else _table(figures))
    return 0


def _table(figures: Figures) -> str:
    heads = (
        "nodes",
        "cards",
        "slices held",
        "pods/s",
        "filter p50",
        "p99",
        "service RSS",
        "CPU a pod",
        "rebuild",
    )
    cells = (
        f"{figures.nodes}", f"{figures.cards}", f"{figures.slices}", f"{figures.pods_per_s:.0f}",
        f"{figures.filter_p50_ms:.2f} ms", f"{figures.filter_p99_ms:.2f} ms", f"{figures.rss_mib:.0f} MiB",
        f"{figures.cpu_ms_per_pod:.2f} ms", f"{figures.rebuild_s:.2f} s",
    )  # fmt: skip
    widths = [max(len(head), len(cell)) for head, cell in zip(heads, cells, strict=True)]
    rows = [
        "  ".join(f"{text:>{width}}" for text, width in zip(row, widths, strict=True))
        for row in (heads, cells)
    ]
    notes = [f"{figures.refused} pods fit nowhere"] if figures.refused else []
    if figures.learning_p99_ms is not None:
        times = f"{figures.lessons} times" if figures.lessons > 1 else "once"
        notes.append(
            f"a target workload learnt {times} meanwhile: filter p99 then {figures.learning_p99_ms:.2f} ms"
        )
    return "\n".join([*rows, *notes])


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends us as Ctrl-C does: through everything that is to be ended or removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def main() -> int:
    """Run it without the rest of `vgpu`; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(prog="vgpu bench extender")
    add_arguments(parser)
    try:
        return run(parser.parse_args())
    except VgpuError as error:
        print(f"vgpu: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
