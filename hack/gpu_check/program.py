"""A program of a slice: it asks HIP for something and prints the answer as JSON. Errors are HIP's numbers."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping

from hack.gpu_check.cards import Card, cards
from hack.gpu_check.slices import MIB

TIMEOUT_SECONDS = 120
# Constants of HIP's interface, unchanged since 5.0.
OUT_OF_MEMORY, MULTIPROCESSOR_COUNT = 2, 63
HIP_FOLDERS = ("", "/opt/rocm/lib/", "/opt/dtk/hip/lib/", "/opt/dtk/lib/")


class ImpossibleError(Exception):
    """A check cannot be made on this machine; the message is the reason."""


class FailedError(Exception):
    """A check was made and shows something else than it should; the message says what."""


def hip() -> ctypes.CDLL:
    """The HIP runtime. Raises ImpossibleError."""
    for folder in HIP_FOLDERS:
        for name in ("libamdhip64.so", *(f"libamdhip64.so.{number}" for number in (7, 6, 5, 4))):
            with contextlib.suppress(OSError):
                return ctypes.CDLL(folder + name)
    raise ImpossibleError("no HIP runtime (libamdhip64.so); name its folder in LD_LIBRARY_PATH")


def program(command: str, mib: int, device: int) -> dict[str, object]:
    """HIP's answers to a program in the slice; errors are HIP's numbers."""
    runtime = hip()
    pointer, stream = ctypes.c_void_p(), ctypes.c_void_p()
    free, total, units = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_int()
    error = runtime.hipSetDevice(device)
    if command == "info":
        error = error or runtime.hipMemGetInfo(ctypes.byref(free), ctypes.byref(total))
        error = error or runtime.hipDeviceGetAttribute(ctypes.byref(units), MULTIPROCESSOR_COUNT, device)
        return {"error": error, "units": units.value, "total_mib": total.value // MIB}
    error = error or runtime.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(mib * MIB))
    if command != "queue":
        return {"error": error}
    error = error or runtime.hipStreamCreate(ctypes.byref(stream))
    began = time.perf_counter()
    for _ in range(1000):
        error = error or runtime.hipMemsetAsync(pointer, 0, ctypes.c_size_t(mib * MIB), stream)
    error = error or runtime.hipStreamSynchronize(stream)
    return {"error": error, "seconds": time.perf_counter() - began}


def command_of(words: str, card: Card) -> list[str]:
    """The command that runs one of these programs on a card: "info 0", "alloc MIB", "hold MIB" or "queue MIB"."""
    device = [other.gpu_id for other in cards()].index(card.gpu_id)
    return [sys.executable, "-m", "hack.gpu_check.program", *words.split(), str(device)]


def ask(words: str, card: Card, environment: Mapping[str, str] | None = None) -> dict[str, float]:
    """The answer of such a program, in a slice's environment or in none. Raises ImpossibleError, FailedError."""
    done = subprocess.run(
        command_of(words, card),
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    lines = done.stdout.splitlines()
    if not lines:
        raise FailedError(f"`{words}` ended with status {done.returncode}: {done.stderr.strip()[-200:]}")
    answer = json.loads(lines[-1])
    if "impossible" in answer:
        raise ImpossibleError(answer["impossible"])
    return dict(answer)


def good(answer: dict[str, float], doing: str) -> dict[str, float]:
    """The answer. Raises FailedError if HIP failed."""
    if answer["error"]:
        raise FailedError(f"{doing}: HIP error {answer['error']:.0f}")
    return answer


def main() -> None:
    """Carry out one command; "hold" then stays until its input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["info", "alloc", "hold", "queue"])
    parser.add_argument("mib", type=int)
    parser.add_argument("device", type=int)
    options = parser.parse_args()
    try:
        print(json.dumps(program(options.command, options.mib, options.device)), flush=True)
    except ImpossibleError as error:
        print(json.dumps({"impossible": str(error)}), flush=True)
    if options.command == "hold":
        sys.stdin.read()
    os._exit(0)  # the runtime's own clean-up is not what is looked at


if __name__ == "__main__":
    main()
