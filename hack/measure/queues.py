"""Create queues in slices on simulated drivers that check a queue's save area as three Linux versions do.

`hack/queues` runs real HIP in slices of five sizes of each of five cards, and a program on the driver's interface alone
in slices of every size (the checks: vgpu_runtime/sim/save_area.py). A row shows what HIP counts on each kernel, on RDNA
pairs of units, and how many queues it creates; `!` marks what differs from the grant. The last line sums it up. It
takes about 40 s of CPU.
"""

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.runtime import slices
from tests.runtime.slices import SHAPES, Outcome
from vgpu_runtime.paths import BUILD, SOURCES
from vgpu_runtime.sim import Kernel, hip

PASSED = "hipSuccess"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="hack/queues", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    subprocess.run(["make", "--no-print-directory", "-C", SOURCES], check=True)
    libraries = hip.ensure(hip.default_cache())
    faults: Counter[str] = Counter()
    print(f"{'card':22}{'granted':>10}" + "".join(f"{'Linux ' + kernel.value:>26}" for kernel in Kernel))
    for shape in SHAPES:
        _five_sizes(shape, libraries, faults)
    sizes = sum(_every_size(shape, faults) for shape in SHAPES)
    trials = 5 * len(SHAPES) * len(Kernel)
    print(
        f"HIP in {trials} slices and the driver's interface in {sizes}: refused {faults['refused']},"
        f" wrong unit counts {faults['units']}, wrong masks {faults['masks']}"
    )
    return 1 if faults.total() else 0


def _five_sizes(shape: str, libraries: Path, faults: Counter[str]) -> None:
    card = SHAPES[shape]
    for groups in slices.sizes(card):
        cells = []
        for kernel in Kernel:
            with tempfile.TemporaryDirectory() as folder:
                slice_ = slices.make(Path(folder), BUILD, libraries, card, groups, kernel)
                outcome = slice_.outcome()
                found = _judge(outcome, slice_.hip_units)
            faults.update(found)
            cells.append(f"{outcome.units} units, {outcome.queues} queues{' !' if found else ''}")
        print(f"{shape:22}{slice_.units:>10}" + "".join(f"{cell:>26}" for cell in cells), flush=True)


def _every_size(shape: str, faults: Counter[str]) -> int:
    """Try slices of every size on all kernels, and count faults; returns the number of slices."""
    card, tried = SHAPES[shape], 0
    for kernel in Kernel:
        with tempfile.TemporaryDirectory() as folder:
            slice_ = slices.make(Path(folder), BUILD, None, card, 1, kernel)
            for groups in range(1, slices.all_groups(card) + 1):
                slice_ = slice_.resized(groups)
                faults.update(_judge(slice_.outcome("vgpu-kfd-probe"), slice_.units))
                tried += 1
    return tried


def _judge(outcome: Outcome, units: int) -> list[str]:
    wrong = {
        "refused": outcome.error != PASSED or not outcome.queues,
        "units": outcome.units != units,
        "masks": outcome.wrong > 0,
    }
    return [name for name, is_so in wrong.items() if is_so]


if __name__ == "__main__":
    sys.exit(main())
