"""The checks of any card: each returns the text of a passed row, or raises ImpossibleError or FailedError."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import stat
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hack.gpu_check.cards import RDNA, Card, read
from hack.gpu_check.running import (
    OUT_OF_MEMORY,
    TIMEOUT_SECONDS,
    FailedError,
    ImpossibleError,
    Running,
    ask,
    command_of,
    good,
    started,
)
from hack.gpu_check.slices import LIMIT_MIB, MIB, Slice

PROCESSES = "/sys/devices/virtual/kfd/kfd/proc"
PAIRS = 3
OCCUPANCY_SECONDS = 2
# Of the check with changing masks; STALLED is the ratio of times from which short kernels count as held up.
SHORT_KERNELS, MASK_CHANGES, STALLED = 1000, 1000, 2.0
# A program that prints the units on which its work groups ran.
WHERE = Path(__file__).parent / "where.hip"
TORCH = """
import sys, torch
if not torch.version.hip: sys.exit("PyTorch is not built for ROCm")
limit = int(sys.argv[1])
inside = torch.empty(limit // 2, dtype=torch.uint8, device="cuda")
try:
    torch.empty(limit, dtype=torch.uint8, device="cuda")
except RuntimeError as error:
    print(type(error).__name__)
"""


@dataclass(frozen=True)
class Bench:
    """Two slices of one card without a common compute unit."""

    card: Card
    one: Slice
    other: Slice


def kernel() -> str:
    """Return the versions of the kernel and of the driver."""
    drivers = ("amdgpu", "hycu", "hydcu", "amdkfd")
    loaded = [name for name in drivers if read(f"/sys/module/{name}/initstate") == "live"]
    versions = [f"{name} {read(f'/sys/module/{name}/version') or 'of the kernel'}" for name in loaded]
    return f"Linux {platform.release()}, {platform.machine()}; driver {', '.join(versions) or 'not loaded as a module'}"


def model(bench: Bench) -> str:
    """Return the name and the numbers of the card."""
    card = bench.card
    return f"{card.name}, PCI {card.ids}, gfx {card.gfx}, {card.units} units on {card.xcc} XCC, gpu_id {card.gpu_id}"


def queue(bench: Bench) -> str:
    """Check that a queue can be created and used in a slice."""
    good(ask("queue 1", bench.card, bench.one.environment), "a stream in a slice")
    return f"1,000 fills of memory with {bench.one.units} of {bench.card.units} units"


def unit_count(bench: Bench) -> str:
    """Check that HIP reports the slice's number of compute units (on RDNA, of pairs of units)."""
    seen = good(ask("info", bench.card, bench.one.environment), "the number of units")["units"]
    if seen not in (bench.one.units, bench.one.units // 2 if bench.card.gfx >= RDNA else 0):
        raise FailedError(f"HIP counts {seen:.0f} units, the slice has {bench.one.units}")
    return f"{seen:.0f} for {bench.one.units} units"


def memory(bench: Bench) -> str:
    """Check that HIP reports the slice's memory, can allocate within it, and not beyond it."""
    environment = bench.one.environment
    total = good(ask("info", bench.card, environment), "the memory that HIP sees")["total_mib"]
    good(ask(f"alloc {LIMIT_MIB // 2}", bench.card, environment), "half of the slice's memory")
    refused = ask(f"alloc {LIMIT_MIB + 1}", bench.card, environment)["error"]
    if total != LIMIT_MIB or refused != OUT_OF_MEMORY:
        raise FailedError(
            f"of {LIMIT_MIB} MiB HIP sees {total:.0f}; 1 MiB more gives HIP error {refused:.0f}"
        )
    return f"{LIMIT_MIB} MiB seen, {LIMIT_MIB // 2} given, {LIMIT_MIB + 1} refused"


def torch_memory(bench: Bench) -> str:
    """Check that PyTorch raises its out-of-memory error at the limit."""
    command = [sys.executable, "-c", TORCH, str(LIMIT_MIB * MIB)]
    done = subprocess.run(
        command,
        env=bench.one.environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    if "No module named 'torch'" in done.stderr or "not built for ROCm" in done.stderr:
        raise ImpossibleError("no PyTorch for ROCm in this Python")
    if done.returncode or not done.stdout.strip():
        raise FailedError(
            f"it ended with status {done.returncode}: {done.stderr.strip()[-200:] or 'no error'}"
        )
    return f"{done.stdout.strip()} beyond {LIMIT_MIB} MiB"


def places(bench: Bench) -> tuple[set[str], set[str]]:
    """Run a kernel in both slices, and return the compute units on which it ran.

    Raises ImpossibleError, FailedError.
    """
    compiler = shutil.which("hipcc") or shutil.which("hipcc", path="/opt/rocm/bin:/opt/dtk/bin")
    if not compiler:
        raise ImpossibleError("no hipcc to compile a kernel that reads HW_ID")
    folder = bench.one.folder
    command = [compiler, "-O1", "-o", str(folder / "where"), str(WHERE)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        raise ImpossibleError(f"hipcc: {built.stderr.strip()[-200:]}")
    running = [
        subprocess.Popen([str(folder / "where")], env=part.environment, stdout=subprocess.PIPE, text=True)
        for part in (bench.one, bench.other)
    ]
    found = [set(process.communicate(timeout=TIMEOUT_SECONDS)[0].split()) for process in running]
    if any(process.returncode for process in running) or not all(found):
        raise FailedError("the kernel did not run")
    return found[0], found[1]


def masks(bench: Bench) -> str:
    """Check that a slice's kernels run on no more compute units than the slice has."""
    one, _ = places(bench)
    if len(one) > bench.one.units:
        raise FailedError(f"kernels ran on {len(one)} units, the slice has {bench.one.units}")
    return f"ran on {len(one)} units of {bench.one.units}"


def disjoint(bench: Bench) -> str:
    """Check that two slices that run at the same time have no common compute unit."""
    one, other = places(bench)
    if one & other:
        raise FailedError(f"{len(one & other)} units were used by both")
    return f"{len(one)} and {len(other)} units, none in common"


@contextlib.contextmanager
def holding(bench: Bench, mib: int) -> Iterator[int]:
    """Start a process in the slice that holds `mib` MiB until the context ends; yields its id."""
    with started(command_of(f"hold {mib}", bench.card), bench.one.environment) as program:
        good(program.answer(), f"{mib} MiB in a slice")
        yield program.process.pid


def figures(bench: Bench) -> str:
    """Check that the kernel and the library count the same memory for a process."""
    with holding(bench, 512) as process:
        text = read(f"{PROCESSES}/{process}/vram_{bench.card.gpu_id}")
        charged = bench.one.used_bytes()
    if not text:
        raise ImpossibleError(f"the kernel has no {PROCESSES}/PID/vram_GPU (outside of a container?)")
    if abs(int(text) - charged) > 64 * MIB or charged < 512 * MIB:
        raise FailedError(f"the kernel counts {int(text) // MIB} MiB, the library {charged // MIB} MiB")
    return f"kernel {int(text) // MIB} MiB, library {charged // MIB} MiB"


def render_files(bench: Bench) -> str:
    """Check that the kernel's text about an open render node has the memory; the agent reads it with renderWork."""
    with holding(bench, 512) as process:
        folder = f"/proc/{process}/fdinfo"
        texts = [read(f"{folder}/{name}") for name in os.listdir(folder)]  # noqa: PTH208 - as the driver's files
    lines = [line for text in texts if f"drm-pdev:\t{bench.card.pci}" in text for line in text.splitlines()]
    found = {key: value.strip() for key, _, value in (line.partition(":") for line in lines) if "vram" in key}
    if not found:
        raise ImpossibleError("the kernel's texts on the process's open files name no memory of the card")
    shown = ", ".join(f"{key} {value}" for key, value in sorted(found.items()))
    units = {"KiB": 1 << 10, "MiB": 1 << 20}
    most = max(int(value.split()[0]) * units.get(value.split()[-1], 1) for value in found.values())
    if most < 512 * MIB:
        raise FailedError(f"512 MiB are held, and the texts say: {shown}")
    return shown


def occupancy(bench: Bench) -> str:
    """Check that Linux counts busy compute units while a program's kernel runs in a slice."""
    units = bench.one.units
    with started(command_of(f"busy {units}", bench.card), bench.one.environment) as program:
        good(program.answer(), "a kernel in a slice")
        path = f"{PROCESSES}/{program.process.pid}/stats_{bench.card.gpu_id}/cu_occupancy"
        program.go()
        end = time.monotonic() + OCCUPANCY_SECONDS
        seen = set()
        while time.monotonic() < end:
            seen.add(read(path))
            time.sleep(0.02)
    figures = sorted(int(text) for text in seen if text)
    if not figures:
        raise ImpossibleError(
            f"the kernel has no {PROCESSES}/PID/stats_GPU/cu_occupancy (outside of a container?)"
        )
    if not figures[-1]:
        raise FailedError(f"always 0 in the {OCCUPANCY_SECONDS} s in which a kernel ran")
    return f"{figures[0]} to {figures[-1]} with {units} of {bench.card.units} units"


def beside(bench: Bench) -> tuple[contextlib.AbstractContextManager[Running], ...]:
    """Two programs, in two slices: one changes its running queue's mask in every second step, one has short kernels."""
    one, groups = bench.one, bench.one.units // bench.card.group_units
    half = max(1, groups // 2) * bench.card.group_units
    return (
        started(command_of(f"busy {one.units} {half} {MASK_CHANGES}", bench.card), one.environment),
        started(command_of(f"short {SHORT_KERNELS}", bench.card), bench.other.environment),
    )


def changed_masks(bench: Bench) -> str:
    """Check that short kernels of a slice do not wait while another slice changes the mask of its running queue."""
    changes, seconds = 0.0, 0.0
    pairs: list[list[Mapping[str, float]]] = []
    with contextlib.ExitStack() as stack:
        busy, short = (stack.enter_context(program) for program in beside(bench))
        if not good(busy.answer(), "a kernel in a slice")["queues"]:
            raise FailedError("no queue of the program is known to /dev/kfd")
        good(short.answer(), "a kernel in the other slice")
        busy.go()
        for _ in range(PAIRS):
            pairs.append([])
            for _ in ("quiet", "changing"):
                short.go()
                pairs[-1].append(good(short.answer(), "short kernels"))
                busy.go()
                done = good(busy.answer(), "the running kernel")
                if done["errno"]:
                    raise FailedError(f"the mask of a running queue is refused: errno {done['errno']:.0f}")
            changes, seconds = changes + done["changes"], seconds + done["seconds"]
    ratios = sorted(changing["median"] / quiet["median"] for quiet, changing in pairs)
    longest = [max(pair[part]["longest"] for pair in pairs) * 1000 for part in (0, 1)]
    shown = (
        f"{statistics.median(ratios):.2f} times as long (of {PAIRS} pairs {ratios[0]:.2f} to {ratios[-1]:.2f}),"
        f" at most {longest[1]:.1f} ms instead of {longest[0]:.1f}, during {changes:.0f} changes in {seconds:.1f} s"
    )
    if ratios[0] > STALLED:
        raise FailedError(f"short kernels of another slice take {shown}")
    return shown


def trace(bench: Bench) -> str:
    """Check that the runtime sends its requests to /dev/kfd, where the library can check them."""
    if not Path("/dev/kfd").exists() or not stat.S_ISCHR(Path("/dev/kfd").stat().st_mode):
        raise ImpossibleError("no device /dev/kfd: a simulated driver's requests never reach the kernel")
    if not shutil.which("strace"):
        raise ImpossibleError("no strace")
    file = bench.one.folder / "trace"
    command = ["strace", "-f", "-y", "-e", "trace=ioctl", "-o", str(file), *command_of("queue 1", bench.card)]
    subprocess.run(command, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    devices = re.findall(r"ioctl\(\d+<(/dev/[\w/]+)", file.read_text(errors="replace"))
    counts = ", ".join(f"{devices.count(name)} to {name}" for name in sorted(set(devices)))
    if "/dev/kfd" not in devices:
        raise FailedError(f"no request to /dev/kfd; {counts or 'none to another device'}")
    return counts


def overhead(bench: Bench) -> str:
    """Return the time of 1,000 fills in a slice divided by the time without the library, in alternating pairs."""
    whole = {**bench.one.environment, "LD_PRELOAD": os.environ.get("LD_PRELOAD", "")}
    pairs = [
        [
            good(ask("queue 1", bench.card, environment), "fills")["seconds"]
            for environment in (bench.one.environment, whole)
        ]
        for _ in range(PAIRS)
    ]
    ratios = sorted(inside / outside for inside, outside in pairs)
    return f"{statistics.median(ratios):.3f} (of {PAIRS} pairs {ratios[0]:.3f} to {ratios[-1]:.3f})"


CHECKS: dict[str, Callable[[Bench], str]] = {
    "card": model,
    "queue in a slice": queue,
    "unit count": unit_count,
    "memory limit, HIP": memory,
    "memory limit, PyTorch": torch_memory,
    "masks by HW_ID": masks,
    "two slices disjoint": disjoint,
    "kernel's figures": figures,
    "render node's text": render_files,
    "cu_occupancy": occupancy,
    "ioctl path": trace,
    "masks of a running queue": changed_masks,
    "overhead": overhead,
}
