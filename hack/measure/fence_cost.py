"""Time what the library costs a program, in pairs of runs without and with it.

`hack/fence-cost` prints, as medians of the pairs, the time that the library adds to

- an allocation of card memory (p50 and p99), also while another process holds card memory,
- an ioctl that is not for the driver, and an ioctl for another device with the number of a request of the driver,
- a program that does nothing (CPU time), and 64 such programs at once (wall time).

A small library stands for the driver, and grants every request. The usage region lies on a tmpfs, as on a node.
"""

import argparse
import os
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from vgpu_runtime import config, region
from vgpu_runtime.config import CardLimit, SliceConfig
from vgpu_runtime.paths import BUILD, SOURCES
from vgpu_runtime.rocm import UNITS_VARIABLE, RocmLimit

HERE = Path(__file__).parent / "fence"
TMPFS = Path("/dev/shm")  # noqa: S108 - each run has its own folder in it
LIBRARY = BUILD / "libvgpu-test.so"
CALLS = 20_000
STARTS = 200
AT_ONCE = 64


Environment = Mapping[str, str]


@dataclass(frozen=True)
class Pairs:
    """The environments of a pair of runs, without and with the library, and the number of pairs."""

    plain: Environment
    held: Environment
    count: int

    def measure(self, run: Callable[[Environment], float]) -> tuple[float, float]:
        """Return two medians over the pairs: the result of `run` without the library, and the library's addition."""
        plain, added = [], []
        for _ in range(self.count):
            plain.append(run(self.plain))
            added.append(run(self.held) - plain[-1])
        return statistics.median(plain), statistics.median(added)

    def on_driver(self, driver: Path) -> "Pairs":
        """Returns these pairs of runs with the simulated `driver` in LD_PRELOAD too, after the library if loaded."""

        def preloading(environment: Environment) -> Environment:
            libraries = [environment.get("LD_PRELOAD"), str(driver)]
            return {**environment, "LD_PRELOAD": ":".join(filter(None, libraries))}

        return replace(self, plain=preloading(self.plain), held=preloading(self.held))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="hack/fence-cost", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=11, metavar="N")
    options = parser.parse_args()
    if options.pairs < 1:
        parser.error("write --pairs of at least 1")
    subprocess.run(["make", "--silent", "-C", SOURCES], check=True)
    with tempfile.TemporaryDirectory(dir=TMPFS) as folder:
        _report(Path(folder), options.pairs)
    return 0


def _report(folder: Path, count: int) -> None:
    program, driver = _build(folder)
    pairs = _slice(folder, count)
    print(f"{'medians of ' + str(count) + ' pairs':32}{'without':>10}{'added':>10}{'ratio':>8}")
    for what, share in (
        ("allocation", 0.5),
        ("allocation", 0.99),
        ("other-request", 0.5),
        ("other-device", 0.5),
    ):
        found = pairs.on_driver(driver).measure(partial(_call, program, what, share))
        _print(f"{what}, p{share * 100:.0f}", "ns", *found)
    beside = partial(_beside, program, partial(_call, program, "allocation", 0.5))
    _print("allocation beside another, p50", "ns", *pairs.on_driver(driver).measure(beside))
    _print("start of a program, CPU", "µs", *pairs.measure(_start_cpu))
    _print(f"{AT_ONCE} programs at once, wall", "ms", *pairs.measure(_at_once))


def _print(name: str, unit: str, plain: float, added: float) -> None:
    print(f"{name:32}{plain:>10.1f}{added:>10.1f}{(plain + added) / plain:>8.2f} {unit}", flush=True)


def _build(folder: Path) -> tuple[Path, Path]:
    """Compile the timed program and the stand-in for the driver; returns their paths."""
    program, driver = folder / "fence_cost", folder / "driver.so"
    command = ["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{SOURCES / 'include'}"]
    subprocess.run([*command, HERE / "cost.c", "-o", program], check=True)
    subprocess.run([*command, "-shared", "-fPIC", HERE / "cost_driver.c", "-o", driver], check=True)
    return program, driver


def _slice(folder: Path, count: int) -> Pairs:
    """Write the files of a slice (a quarter of a card's units, 1 GiB), and return the pairs for it."""
    limit = RocmLimit(gpu_id=1, render_minor=128, compute_units=60, xcc=1, paired=False, mask=(1 << 15) - 1)
    card = CardLimit("D", "0000:19:00.0", "Z100", "hygon.com/dcu-mem:1", 1 << 30, limit)
    (folder / "vgpu.conf").write_text(config.render(SliceConfig("pod", "main", (card,))))
    region.create(folder / "usage")
    plain = {"PATH": os.environ["PATH"], UNITS_VARIABLE: "0x7fff"}  # as the runtime sets it
    return Pairs(plain, {**plain, "LD_PRELOAD": str(LIBRARY), "VGPU_TEST_FOLDER": str(folder)}, count)


def _call(program: Path, what: str, share: float, environment: Environment) -> float:
    """The nanoseconds that a `share` (0 to 1) of the calls does not exceed."""
    done = subprocess.run([program, what, str(CALLS)], env=environment, stdout=subprocess.PIPE, check=True)
    values = sorted(value for (value,) in struct.iter_unpack("<Q", done.stdout))
    return float(values[int(share * (len(values) - 1))])


def _beside(program: Path, call: Callable[[Environment], float], environment: Environment) -> float:
    """Run `call` while another process holds card memory; returns its result."""
    ready, told = os.pipe()
    with subprocess.Popen(
        [program, "hold"], env=environment, stdin=subprocess.PIPE, stdout=told
    ) as neighbour:
        os.close(told)
        os.read(ready, 1)
        os.close(ready)
        found = call(environment)
        neighbour.communicate()
    return found


def _start_cpu(environment: Environment) -> float:
    """The CPU microseconds of an empty program, from fork to end."""
    began = _children_cpu()
    for _ in range(STARTS):
        subprocess.run(["true"], env=environment, check=True)
    return (_children_cpu() - began) / STARTS * 1e6


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _at_once(environment: Environment) -> float:
    """The milliseconds until AT_ONCE programs, started together, have ended."""
    began = time.monotonic()
    running = [subprocess.Popen(["true"], env=environment) for _ in range(AT_ONCE)]
    for process in running:
        process.wait()
    return (time.monotonic() - began) * 1e3


if __name__ == "__main__":
    sys.exit(main())
