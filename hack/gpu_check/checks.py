"""The checks: each returns the detail of a row that passes, or raises ImpossibleError or FailedError."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import shutil
import stat
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hack.gpu_check.cards import RDNA, Card, read
from hack.gpu_check.program import (
    OUT_OF_MEMORY,
    TIMEOUT_SECONDS,
    FailedError,
    ImpossibleError,
    ask,
    command_of,
    good,
)
from hack.gpu_check.slices import LIMIT_MIB, MIB, Slice

PROCESSES = "/sys/devices/virtual/kfd/kfd/proc"
CGROUPS = Path("/sys/fs/cgroup")
PAIRS = 3
# Prints the units on which its groups ran.
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
    """Two slices of one card that share no unit."""

    card: Card
    one: Slice
    other: Slice


def kernel() -> str:
    """The kernel and the driver."""
    drivers = ("amdgpu", "hycu", "hydcu", "amdkfd")
    loaded = [name for name in drivers if read(f"/sys/module/{name}/initstate") == "live"]
    versions = [f"{name} {read(f'/sys/module/{name}/version') or 'of the kernel'}" for name in loaded]
    return f"Linux {platform.release()}, {platform.machine()}; driver {', '.join(versions) or 'not loaded as a module'}"


def model(bench: Bench) -> str:
    """The card."""
    card = bench.card
    return f"{card.name}, PCI {card.ids}, gfx {card.gfx}, {card.units} units on {card.xcc} XCC, gpu_id {card.gpu_id}"


def queue(bench: Bench) -> str:
    """A queue is created and used in a slice."""
    good(ask("queue 1", bench.card, bench.one.environment), "a stream in a slice")
    return f"1,000 fills of memory with {bench.one.units} of {bench.card.units} units"


def unit_count(bench: Bench) -> str:
    """HIP counts the slice's units; on RDNA pairs of them."""
    seen = good(ask("info 0", bench.card, bench.one.environment), "the number of units")["units"]
    if seen not in (bench.one.units, bench.one.units // 2 if bench.card.gfx >= RDNA else 0):
        raise FailedError(f"HIP counts {seen:.0f} units, the slice has {bench.one.units}")
    return f"{seen:.0f} for {bench.one.units} units"


def memory(bench: Bench) -> str:
    """HIP sees the slice's memory, gets what it has, and no more."""
    environment = bench.one.environment
    total = good(ask("info 0", bench.card, environment), "the memory that HIP sees")["total_mib"]
    good(ask(f"alloc {LIMIT_MIB // 2}", bench.card, environment), "half of the slice's memory")
    refused = ask(f"alloc {LIMIT_MIB + 1}", bench.card, environment)["error"]
    if total != LIMIT_MIB or refused != OUT_OF_MEMORY:
        raise FailedError(
            f"of {LIMIT_MIB} MiB HIP sees {total:.0f}; 1 MiB more gives HIP error {refused:.0f}"
        )
    return f"{LIMIT_MIB} MiB seen, {LIMIT_MIB // 2} given, {LIMIT_MIB + 1} refused"


def torch_memory(bench: Bench) -> str:
    """PyTorch gets its own out-of-memory error at the limit."""
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
    """The units on which kernels of both slices ran, as HW_ID names them. Raises ImpossibleError, FailedError."""
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
    """A slice's kernels run on no more units than it has."""
    one, _ = places(bench)
    if len(one) > bench.one.units:
        raise FailedError(f"kernels ran on {len(one)} units, the slice has {bench.one.units}")
    return f"ran on {len(one)} units of {bench.one.units}"


def disjoint(bench: Bench) -> str:
    """Two slices that run at once use no unit together."""
    one, other = places(bench)
    if one & other:
        raise FailedError(f"{len(one & other)} units were used by both")
    return f"{len(one)} and {len(other)} units, none in common"


@contextlib.contextmanager
def holding(bench: Bench, mib: int) -> Iterator[int]:
    """The id of a process of the slice that holds `mib` MiB until the block ends."""
    process = subprocess.Popen(
        command_of(f"hold {mib}", bench.card),
        env=bench.one.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None  # noqa: S101 - PIPE
        answer = json.loads(process.stdout.readline() or "{}")
        if "impossible" in answer:
            raise ImpossibleError(answer["impossible"])
        good(answer or {"error": -1}, f"{mib} MiB in a slice")
        yield process.pid


def figures(bench: Bench) -> str:
    """The kernel counts for a process what the library charges to it."""
    with holding(bench, 512) as process:
        text = read(f"{PROCESSES}/{process}/vram_{bench.card.gpu_id}")
        charged = bench.one.used_bytes()
    if not text:
        raise ImpossibleError(f"the kernel has no {PROCESSES}/PID/vram_GPU (outside of a container?)")
    if abs(int(text) - charged) > 64 * MIB or charged < 512 * MIB:
        raise FailedError(f"the kernel counts {int(text) // MIB} MiB, the library {charged // MIB} MiB")
    return f"kernel {int(text) // MIB} MiB, library {charged // MIB} MiB"


def render_files(bench: Bench) -> str:
    """The kernel's text on an open render node has the memory too: the agent reads it with the setting renderWork."""
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


def dmem(bench: Bench) -> str:
    """The kernel's own limit of card memory refuses, or moves memory out of the card. Needs root and cgroup v2."""
    region = f"drm/{bench.card.pci}/vram"
    if region not in read(str(CGROUPS / "dmem.capacity")):
        raise ImpossibleError(f"no controller dmem with {region} (cgroup v2, Linux 6.14)")
    group = CGROUPS / f"vgpu-gpu-check-{os.getpid()}"
    try:
        (CGROUPS / "cgroup.subtree_control").write_text("+dmem")
        group.mkdir()
    except OSError as error:
        raise ImpossibleError(f"needs root: {error}") from None
    try:
        (group / "dmem.max").write_text(f"{region} {256 * MIB}")
        enter = ["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh"]
        command = [*enter, *command_of("hold 512", bench.card)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None  # noqa: S101 - PIPE
            answer = json.loads(process.stdout.readline() or "{}")
            current = dict(line.split() for line in read(str(group / "dmem.current")).splitlines())
        if answer.get("error"):
            return f"512 MiB beyond 256 refused: HIP error {answer['error']}"
        held = int(current.get(region, "0"))
        if held > 256 * MIB:
            raise FailedError(f"{held // MIB} MiB are held, 256 allowed")
        return f"512 MiB beyond 256 given, {held // MIB} MiB in the card: evicted"
    finally:
        group.rmdir()


def trace(bench: Bench) -> str:
    """The runtime's requests go to /dev/kfd, where the library meets them."""
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
    """Time of 1,000 fills in a slice, divided by that without the library; the pairs take turns."""
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
    "dmem.max": dmem,
    "ioctl path": trace,
    "overhead": overhead,
}
