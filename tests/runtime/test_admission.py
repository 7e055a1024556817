"""Admissions of several processes: who waits for the lock, and whose charges count."""

import fcntl
import os
import platform
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.deadline import until
from tests.runtime.conftest import MIB, Slice
from tests.runtime.test_memory import REFUSED, TRY
from vgpu_runtime import region

FLOCK = {"x86_64": 73, "aarch64": 32}[platform.machine()]
SLOT = 5


@pytest.fixture
def container(container: Slice) -> Slice:
    container.configure()
    return container


@contextmanager
def neighbour(container: Slice, mib: int) -> Iterator[None]:
    """Another process of the slice, with a slot and a charge, which this test plays."""
    with container.region.open("r+b") as file:
        lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, region.LOCK_SLOT + SLOT, 1, 0)
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, lock)
        os.pwrite(file.fileno(), struct.pack("<Q", mib * MIB), region.USED_OFFSET + 8 * SLOT)
        yield


def test_a_process_that_is_alone_does_not_wait_for_the_lock(container: Slice) -> None:
    script = (
        "kfd.alloc(GPU, MIB); print(flush=True); input(); print(kfd.alloc(GPU, MIB) > 0, flush=True); input()"
    )
    with container.region.open("r+b") as owner, container.start(script) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        fcntl.flock(owner, fcntl.LOCK_EX)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "True\n"
        assert region.read(container.region).used_bytes[0] == 2 * MIB
        process.communicate("\n", timeout=60)


def test_a_process_waits_for_the_lock_when_another_has_come(container: Slice) -> None:
    """Its charge is published while it waits: the one with the lock has to see it."""
    script = (
        "kfd.alloc(GPU, MIB); print(flush=True); input(); kfd.alloc(GPU, MIB); print(flush=True); input()"
    )
    with container.region.open("r+b") as owner, container.start(script) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        with neighbour(container, 100):
            fcntl.flock(owner, fcntl.LOCK_EX)
            process.stdin.write("\n")
            process.stdin.flush()
            call = Path(f"/proc/{process.pid}/syscall")
            until(lambda: call.read_text().startswith(f"{FLOCK} "), "the process waits for the lock")
            assert region.read(container.region).used_bytes[0] == 102 * MIB
            fcntl.flock(owner, fcntl.LOCK_UN)
            process.stdout.readline()
        process.communicate("\n", timeout=60)


def test_a_charge_that_is_taken_back_refuses_nobody(container: Slice) -> None:
    with neighbour(container, 900):
        taken_back = {"STUB_TAKEN_BACK": str(region.USED_OFFSET + 8 * SLOT)}
        assert container.output(TRY + "print(attempt(500 * MIB) > 0)", **taken_back) == ["True"]


def test_a_refusal_leaves_no_charge(container: Slice) -> None:
    script = "kfd.alloc(GPU, MIB); print(attempt(500 * MIB), flush=True); input()"
    with neighbour(container, 900), container.start(TRY + script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{REFUSED}\n"
        usage = region.read(container.region)
        assert (usage.used_bytes[0], usage.denied[0]) == (901 * MIB, 1)
        process.communicate("\n", timeout=60)


def test_a_request_that_never_fits_is_published_at_no_time(container: Slice) -> None:
    """The agent's figures are of charges that can be."""
    with container.region.open("r+b") as owner, neighbour(container, 1):
        script = "kfd.create_queue(GPU); print(flush=True); input(); print(attempt(1025 * MIB), flush=True)"
        with container.start(TRY + script) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            process.stdout.readline()
            fcntl.flock(owner, fcntl.LOCK_EX)
            process.stdin.write("\n")
            process.stdin.flush()
            call = Path(f"/proc/{process.pid}/syscall")
            until(lambda: call.read_text().startswith(f"{FLOCK} "), "the process asks what is in use")
            assert region.read(container.region).used_bytes[0] == MIB
            fcntl.flock(owner, fcntl.LOCK_UN)
            assert process.stdout.readline() == f"{REFUSED}\n"
