"""The checks of Hygon's cards: what the maker's driver does with slices that are made by vdev files.

Each check has pipes of its own: the driver keeps a pipe from other slices for a second after its slice has ended.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from hack.gpu_check import vdev
from hack.gpu_check.cards import cards, read
from hack.gpu_check.checks import Bench
from hack.gpu_check.running import NO_DEVICE, OUT_OF_MEMORY, FailedError, ImpossibleError, good
from hack.gpu_check.slices import LIMIT_MIB, MIB, Slice

RECORDS = "/sys/devices/virtual/kfd/kfd/vgpu"
REST_SECONDS = 1.0  # for which the agent gives the pipe of an ended slice to no other
LATER_PIPES = (4, 5, 19)
MORE_THAN_HALF_MIB = LIMIT_MIB // 2 + 64
_MASKS_PIPE, _RECORD_PIPE, _RESTART_PIPE, _MEMORY_PIPE, _CARDS_PIPE = 0, 1, 2, 3, 6
Seen = TypeVar("Seen", str, bool)
_ERRORS = {NO_DEVICE: "finds no device", OUT_OF_MEMORY: "is out of memory"}


def masks(bench: Bench) -> str:
    """Check that a program can set masks for its queues, and find whether a mask of all ones is accepted."""
    with vdev.container(bench.one, "masks", _MASKS_PIPE) as slice_:
        answer = good(_ask(f"masks {slice_.units}", slice_), "masks of queues")
    if not answer["queues"]:
        raise FailedError("no queue of the program is known to /dev/kfd")
    half, ones = (
        f"HIP {_accepts(answer[f'{name}_hip'])}, ioctl {_accepts(answer[f'{name}_errno'], errno.errorcode)}"
        for name in ("half", "ones")
    )
    if answer["half_hip"] or answer["half_errno"]:
        raise FailedError(f"a mask within the slice is refused: {half}")
    return f"within the slice: {half}; all ones: {ones}"


def record(bench: Bench) -> str:
    """Check that the driver shows the slice (a record), with the limit of its file, while a program uses it."""
    name = f"0x{bench.card.gpu_id:x}@{_RECORD_PIPE}"
    with vdev.container(bench.one, "record", _RECORD_PIPE) as slice_:
        with vdev.start("hold 64", slice_, slice_.environment) as program:
            good(program.answer(), "64 MiB in a slice")
            text, shown = _until(lambda: read(f"{RECORDS}/{name}/entry")), ", ".join(_records())
        ended = time.monotonic()
        gone = _until(lambda: name not in _records())
        seconds = time.monotonic() - ended
    values = {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())
    }
    if not text:
        raise FailedError(
            f"no record {name} while a program of the slice lives; there are: {shown or 'none'}"
        )
    if values.get("Vram limit") != str(LIMIT_MIB * MIB):
        raise FailedError(f"record {name}: limit {values.get('Vram limit')}, the file has {LIMIT_MIB * MIB}")
    end = f"gone after {seconds:.1f} s" if gone else "still there 5 s after the end"
    return f"{name}, limit {LIMIT_MIB} MiB; {end}"


def later_pipes(bench: Bench) -> str:
    """Check that slices can have pipes beyond the four of the maker's tools."""
    refused = []
    for pipe in LATER_PIPES:
        with vdev.container(bench.one, f"pipe-{pipe}", pipe) as slice_:
            error = _ask("info", slice_)["error"]
        if error:
            refused.append(f"with pipe {pipe} HIP {_hip(error)}")
    if refused:
        raise FailedError(", ".join(refused))
    return f"pipes {', '.join(map(str, LATER_PIPES))} work"


def memory(bench: Bench) -> str:
    """Find whether the maker's memory limit holds for each process alone or for all processes of a slice together."""
    with contextlib.ExitStack() as stack:
        slice_ = stack.enter_context(vdev.container(bench.one, "memory", _MEMORY_PIPE))
        holder = stack.enter_context(vdev.start(f"hold {MORE_THAN_HALF_MIB}", slice_, slice_.bare))
        good(holder.answer(), f"{MORE_THAN_HALF_MIB} MiB in a slice")
        alone = vdev.ask(f"alloc {LIMIT_MIB + 1}", slice_, slice_.bare)["error"]
        second = vdev.ask(f"alloc {MORE_THAN_HALF_MIB}", slice_, slice_.bare)["error"]
    if not alone:
        raise FailedError(f"a process got {LIMIT_MIB + 1} MiB, the file has {LIMIT_MIB}")
    both = f"of two processes with {MORE_THAN_HALF_MIB} MiB each, of {LIMIT_MIB}"
    if second:
        return f"all processes together: {both}, the second {_hip(second)}"
    return f"each process: {both}, both got them"


def restart(bench: Bench) -> str:
    """Check when the pipe of an ended slice works again: in the same slice at once, in another one after a second."""
    with contextlib.ExitStack() as stack:
        one, other = (
            stack.enter_context(vdev.container(bench.one, name, _RESTART_PIPE)) for name in ("ended", "next")
        )
        # They load HIP in their second step, at the moment that counts.
        again, early, late = (
            stack.enter_context(vdev.start("late", slice_, slice_.environment))
            for slice_ in (one, other, other)
        )
        for program in (again, early, late):
            program.answer()
        good(_ask("info", one), "a program in a slice")
        again.go()
        same = again.answer()["error"]
        again.end()
        ended = time.monotonic()
        early.go()
        within = early.answer()["error"]
        early.end()
        seconds = time.monotonic() - ended
        time.sleep(max(0.0, REST_SECONDS - seconds))
        late.go()
        after = late.answer()["error"]
    if same:
        raise FailedError(f"the same slice, started again at once, {_hip(same)}")
    if after:
        raise FailedError(f"another slice with the pipe, {REST_SECONDS:g} s later, {_hip(after)}")
    first = f"refused before ({_hip(within)})" if within else f"accepted within {seconds:.1f} s"
    return f"the same slice: at once; another slice: after {REST_SECONDS:g} s, {first}"


def several_cards(bench: Bench) -> str:
    """Check that a container can have slices of two cards."""
    vdev.check(bench.card)
    others = [
        card for card in cards() if card.ids.startswith(vdev.HYGON) and card.gpu_id != bench.card.gpu_id
    ]
    if not others:
        raise ImpossibleError("needs two cards of Hygon's")
    with vdev.container(bench.one, "cards", _CARDS_PIPE, others[0]) as slice_:
        found = {card.pci: vdev.ask("info", slice_, slice_.bare, card) for card in (bench.card, others[0])}
    wrong = [f"{pci} {_hip(answer['error'])}" for pci, answer in found.items() if answer["error"]]
    if wrong:
        raise FailedError("; ".join(wrong))
    seen = (
        f"{pci}: {answer['units']:.0f} units, {answer['total_mib']:.0f} MiB" for pci, answer in found.items()
    )
    return ", ".join(seen)


CHECKS: dict[str, Callable[[Bench], str]] = {
    "vdev: masks": masks,
    "vdev: record": record,
    "vdev: later pipes": later_pipes,
    "vdev: memory": memory,
    "vdev: restart": restart,
    "vdev: two cards": several_cards,
}


def _ask(words: str, slice_: Slice) -> Mapping[str, float]:
    return vdev.ask(words, slice_, slice_.environment)


def _accepts(error: float, names: Mapping[int, str] = {}) -> str:
    """The driver's answer to a mask as text: `accepts it`, or `refuses it` with the error's name."""
    return f"refuses it ({names.get(int(error), f'error {error:.0f}')})" if error else "accepts it"


def _hip(error: float) -> str:
    """An error number of HIP as text, such as `is out of memory`."""
    return _ERRORS.get(int(error), f"gives HIP error {error:.0f}")


def _records() -> list[str]:
    """The names of all records (slices in use) that the driver shows.

    Raises ImpossibleError if it has no folder for them.
    """
    try:
        return sorted(os.listdir(RECORDS))  # noqa: PTH208 - a simulated driver answers this call
    except OSError:
        raise ImpossibleError(f"the driver has no {RECORDS}") from None


def _until(look: Callable[[], Seen], seconds: float = 5) -> Seen:
    """Call `look` until its value is true; returns this value, or the last one after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        seen = look()
        if seen or time.monotonic() > end:
            return seen
        time.sleep(0.05)
