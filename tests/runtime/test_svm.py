"""Shared virtual memory stays with the host: no request moves it to a card."""

import errno
from pathlib import Path

import pytest

from tests.runtime import slices
from tests.runtime.slices import LIMIT_MIB, SHAPES, SimSlice
from vgpu_runtime.sim import Kernel

PREFERRED, PREFETCH, ACCESS, UNDEFINED = 0, 1, 2, 0xFFFFFFFF

HEAD = """
import ctypes

def svm(*attributes, count=None, op=0):
    words = [word & 0xFFFFFFFF for attribute in attributes for word in attribute]
    fields = "start:64 size:64 op:32 count:32 " + " ".join(f"word{i}:32" for i in range(len(words)))
    count = len(attributes) if count is None else count
    left = kfd.call(0x20, fields, 1 << 40, 4096 * MIB, op, count, *words)
    assert [getattr(left, f"word{i}") for i in range(len(words))] == words

def attempt(action, *arguments, **named):
    try:
        action(*arguments, **named)
    except OSError as error:
        return error.errno
    return 0

def used():
    return int(open(BOOKS).read()) // MIB

kfd.use(GPU)
"""


@pytest.fixture
def machine(native: Path, tmp_path: Path) -> SimSlice:
    return slices.make(tmp_path, native, None, SHAPES["hygon-60cu-16gib"], 15, Kernel.UNCHECKED)


def output(machine: SimSlice, script: str, **extra: str) -> list[str]:
    books = f"BOOKS = {str(machine.folder / 'sim/state/vram_used.0')!r}"
    done = machine.python(f"{books}\n{HEAD}{script}\nkfd.available(GPU); print(used())", **extra)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_prefetched_memory_does_not_move_to_the_card(machine: SimSlice) -> None:
    script = f"svm(({PREFERRED}, GPU), ({PREFETCH}, GPU), ({ACCESS}, GPU)); print(kfd.available(GPU) // MIB)"
    assert output(machine, script) == [str(LIMIT_MIB), "0"]
    values = [(int(call["type"]), int(call["value"])) for call in machine.calls("svm")]
    assert values == [(PREFERRED, 0), (PREFETCH, 0), (ACCESS, machine.card.gpu_id)]


def test_without_the_library_it_moves(machine: SimSlice) -> None:
    driver = str(machine.build / "libsimkfd.so")
    assert output(machine, f"svm(({PREFETCH}, GPU))", LD_PRELOAD=driver) == ["4096"]


def test_a_location_that_is_left_open_stays_so(machine: SimSlice) -> None:
    output(machine, f"svm(({PREFERRED}, {UNDEFINED}))")
    assert [call["value"] for call in machine.calls("svm")] == [str(UNDEFINED)]


def test_more_attributes_than_the_request_has_are_refused(machine: SimSlice) -> None:
    script = f"print(attempt(svm, ({PREFETCH}, GPU), count=2), attempt(svm, *[({PREFETCH}, GPU)] * 100))"
    assert output(machine, script) == [f"{errno.EINVAL} {errno.EINVAL}", "0"]
    assert machine.calls("svm") == []


def test_faults_do_not_move_memory_either(machine: SimSlice) -> None:
    ask = 'print(kfd.call(0x21, "enabled:32", 0xFFFFFFFF).enabled)'
    script = f'print(attempt(kfd.call, 0x21, "enabled:32", 1)); {ask}'
    assert output(machine, script) == [str(errno.EPERM), "0", "0"]
    assert [call["enabled"] for call in machine.calls("xnack")] == ["-1"], "the driver was asked for more"


def test_without_a_readable_config_memory_stays_with_the_host(machine: SimSlice) -> None:
    (machine.folder / "vgpu.conf").write_text("version = 99\n")
    machine.python(f"{HEAD}svm(({PREFETCH}, GPU))")
    assert [call["value"] for call in machine.calls("svm")] == ["0"]
