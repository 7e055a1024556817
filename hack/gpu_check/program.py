"""The program that runs in a slice: it calls HIP, and prints the answer of each step as a line of JSON.

    python3 -m hack.gpu_check.program COMMAND NUMBER... DEVICE

DEVICE is HIP's number of the device, or its PCI address. After each answer the program waits for a line of input; it
ends when the input ends. An error in an answer is HIP's error number.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import statistics
import sys
import time
from collections.abc import Callable, Iterator

from hack.gpu_check import masks
from hack.gpu_check.running import NO_DEVICE, ImpossibleError
from hack.gpu_check.slices import MIB

MULTIPROCESSOR_COUNT = 63  # a constant of HIP's interface, unchanged since 5.0
HIP_FOLDERS = ("", "/opt/rocm/lib/", "/opt/dtk/hip/lib/", "/opt/dtk/lib/")
FILLS_AHEAD, AHEAD_MIB = 64, 16  # how a queue is kept running
MOST_BITS = 128  # of a mask: more units than a card of Hygon's has


def hip() -> ctypes.CDLL:
    """Load the HIP runtime. Raises ImpossibleError if there is none."""
    for folder in HIP_FOLDERS:
        for name in ("libamdhip64.so", *(f"libamdhip64.so.{number}" for number in (7, 6, 5, 4))):
            with contextlib.suppress(OSError):
                return ctypes.CDLL(folder + name)
    raise ImpossibleError("no HIP runtime (libamdhip64.so); name its folder in LD_LIBRARY_PATH")


class Gpu:
    """A device of HIP. `error` is the number of the first error, 0 without one; after an error `call` does nothing."""

    def __init__(self, device: str) -> None:
        """Choose the device; if it does not exist, `error` is set."""
        self.runtime = hip()
        self.error = 0
        self.device = int(device) if device.isdigit() else self._at(device)
        self.call("hipSetDevice", self.device)

    def call(self, name: str, *arguments: object) -> None:
        """Call a function of HIP, unless a call has failed. Raises ImpossibleError if this HIP does not have it."""
        try:
            function = getattr(self.runtime, name)
        except AttributeError:
            raise ImpossibleError(f"this HIP has no {name}") from None
        self.error = self.error or function(*arguments)

    def memory(self, mib: int) -> ctypes.c_void_p:
        """Allocate `mib` MiB of the card's memory; returns the address."""
        pointer = ctypes.c_void_p()
        self.call("hipMalloc", ctypes.byref(pointer), ctypes.c_size_t(mib * MIB))
        return pointer

    def stream(self) -> ctypes.c_void_p:
        """A new stream."""
        stream = ctypes.c_void_p()
        self.call("hipStreamCreate", ctypes.byref(stream))
        return stream

    def fill(self, pointer: ctypes.c_void_p, mib: int, stream: ctypes.c_void_p, times: int = 1) -> None:
        """Put kernels into the stream that fill the memory at `pointer`; one kernel for each of `times`."""
        for _ in range(times):
            self.call("hipMemsetAsync", pointer, 0, ctypes.c_size_t(mib * MIB), stream)

    def wait(self, stream: ctypes.c_void_p) -> None:
        """Wait for the end of the stream's kernels."""
        self.call("hipStreamSynchronize", stream)

    def _at(self, pci: str) -> int:
        """The number of the device with this PCI address."""
        count, text = ctypes.c_int(), ctypes.create_string_buffer(32)
        self.call("hipGetDeviceCount", ctypes.byref(count))
        for device in range(count.value):
            self.call("hipDeviceGetPCIBusId", text, len(text), device)
            if text.value.decode().lower() == pci:
                return device
        self.error = self.error or NO_DEVICE
        return 0


def info(device: str) -> Iterator[dict[str, object]]:
    """The compute units and the memory that HIP sees."""
    gpu = Gpu(device)
    free, total, units = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_int()
    gpu.call("hipMemGetInfo", ctypes.byref(free), ctypes.byref(total))
    gpu.call("hipDeviceGetAttribute", ctypes.byref(units), MULTIPROCESSOR_COUNT, gpu.device)
    yield {"error": gpu.error, "units": units.value, "total_mib": total.value // MIB}


def late(device: str) -> Iterator[dict[str, object]]:
    """The compute units and the memory that HIP sees if the program does something else before it loads HIP."""
    yield {"error": 0}
    yield from info(device)


def hold(device: str, *sizes: int) -> Iterator[dict[str, object]]:
    """Allocate memory of each size in MiB, and hold it; yields the driver's error after each allocation."""
    gpu = Gpu(device)
    for mib in sizes:
        gpu.memory(mib)
        yield {"error": gpu.error}


def pool(device: str, mib: int) -> Iterator[dict[str, object]]:
    """Allocate memory from HIP's memory pool, fill it, and keep it."""
    gpu = Gpu(device)
    pointer, stream = ctypes.c_void_p(), gpu.stream()
    gpu.call("hipMallocAsync", ctypes.byref(pointer), ctypes.c_size_t(mib * MIB), stream)
    gpu.fill(pointer, mib, stream)
    gpu.wait(stream)
    yield {"error": gpu.error}


def queue(device: str, mib: int) -> Iterator[dict[str, object]]:
    """Fill `mib` MiB of memory 1,000 times; yields the time that this takes."""
    gpu = Gpu(device)
    pointer, stream = gpu.memory(mib), gpu.stream()
    began = time.perf_counter()
    gpu.fill(pointer, mib, stream, 1000)
    gpu.wait(stream)
    yield {"error": gpu.error, "seconds": time.perf_counter() - began}


def own_masks(device: str, units: int) -> Iterator[dict[str, object]]:
    """Set masks of the program's own: the lower half of the slice's units, then all ones, by HIP and by ioctl."""
    gpu = Gpu(device)
    pointer, bits = gpu.memory(1), masks.bits_of(units)
    before = masks.answers(bits)
    stream = gpu.stream()
    gpu.fill(pointer, 1, stream)
    gpu.wait(stream)
    new = masks.new_queues(before, masks.answers(bits))
    answer: dict[str, object] = {"error": gpu.error, "queues": len(new)}
    half = (1 << max(1, units // 2)) - 1
    for name, mask, width in (("half", half, bits), ("ones", (1 << MOST_BITS) - 1, MOST_BITS)):
        answer[f"{name}_errno"] = masks.set_mask(new[0], mask, width) if new else 0
        words = masks.words_of(mask, MOST_BITS)
        gpu.error = 0
        gpu.call("hipExtStreamCreateWithCUMask", ctypes.byref(stream), len(words), words)
        gpu.fill(pointer, 1, stream)
        gpu.wait(stream)
        answer[f"{name}_hip"] = gpu.error
    yield answer


def busy(device: str, units: int, half: int = 0, changes: int = 0) -> Iterator[dict[str, object]]:
    """Keep a queue running until the next step.

    With `half` every second step changes the queue's mask, at least `changes` times, between all units of the slice and
    the lowest `half` of them.
    """
    gpu = Gpu(device)
    pointer = gpu.memory(AHEAD_MIB)
    before = masks.answers(masks.bits_of(units))
    stream = gpu.stream()
    gpu.fill(pointer, AHEAD_MIB, stream)
    gpu.wait(stream)
    new = masks.new_queues(before, masks.answers(masks.bits_of(units)))
    yield {"error": gpu.error, "queues": len(new)}
    change = False
    while True:
        began, made, refused = time.perf_counter(), 0, 0
        while not gpu.error and (not _asked() or (change and made < changes)):
            if gpu.runtime.hipStreamQuery(stream) == 0:
                gpu.fill(pointer, AHEAD_MIB, stream, FILLS_AHEAD)
            if change:
                wanted = half if made % 2 == 0 else units
                refused = masks.set_mask(new[0], (1 << wanted) - 1, masks.bits_of(units)) or refused
                made += 1
        yield {"error": gpu.error, "changes": made, "errno": refused, "seconds": time.perf_counter() - began}
        change = bool(half and new) and not change


def short(device: str, count: int) -> Iterator[dict[str, object]]:
    """Run short kernels one after another, `count` in each step after the first; yields the times."""
    gpu = Gpu(device)
    pointer, stream = gpu.memory(1), gpu.stream()
    gpu.fill(pointer, 1, stream)
    gpu.wait(stream)
    yield {"error": gpu.error}
    while True:
        times = []
        for _ in range(count):
            began = time.perf_counter()
            gpu.fill(pointer, 1, stream)
            gpu.wait(stream)
            times.append(time.perf_counter() - began)
        yield {"error": gpu.error, "median": statistics.median(times), "longest": max(times)}


COMMANDS: dict[str, Callable[..., Iterator[dict[str, object]]]] = {
    "info": info, "late": late, "hold": hold, "alloc": hold, "pool": pool, "queue": queue, "masks": own_masks,
    "busy": busy, "short": short,
}  # fmt: skip


def main() -> None:
    """Carry out one command, a step for each line of the input."""
    name, *numbers, device = sys.argv[1:]
    try:
        for answer in COMMANDS[name](device, *map(int, numbers)):
            print(json.dumps(answer), flush=True)
            if not sys.stdin.readline():
                break
    except ImpossibleError as error:
        print(json.dumps({"impossible": str(error)}), flush=True)
    os._exit(0)  # skip the runtime's clean-up, which is not checked


def _asked() -> bool:
    """True if a line of input asks for the next step, or the input has ended."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


if __name__ == "__main__":
    main()
