"""The line on stderr that says why memory was refused: once in a process, never in the program's way."""

import errno
import os
import subprocess
from pathlib import Path

import pytest

from tests.runtime.conftest import GPU, MIB, Slice, card
from tests.runtime.test_memory import REFUSED, TRY

SAID = "vgpu: 5000 MiB refused: the slice has 4092 MiB, 0 in use (hygon.com/dcu-mem: 4)\n"


@pytest.fixture
def talking(container: Slice) -> Slice:
    container.configure(card(mem_bytes=4092 * MIB, request="hygon.com/dcu-mem:4"))
    return container


def said(container: Slice, script: str, quiet: str = "") -> "subprocess.CompletedProcess[str]":
    done = container.run(TRY + script, VGPU_QUIET=quiet)
    assert done.returncode == 0
    return done


def test_first_refusal_is_said_on_stderr_only(talking: Slice) -> None:
    done = said(talking, "print(attempt(5000 * MIB)); print(attempt(6000 * MIB))")
    assert (done.stdout.splitlines(), done.stderr) == ([REFUSED, REFUSED], SAID)


def test_variable_silences_it(talking: Slice) -> None:
    done = said(talking, "print(attempt(5000 * MIB))", quiet="1")
    assert (done.stdout, done.stderr) == (f"{REFUSED}\n", "")


@pytest.mark.parametrize(
    ("held", "asked", "text"),
    [
        (1000 * MIB, 3093 * MIB, "3093 MiB refused: the slice has 4092 MiB, 1000 in use"),
        (4092 * MIB - 4096, 2 * MIB, "2 MiB refused: the slice has 4092 MiB, 4092 in use"),
        (4092 * MIB, MIB + 4096, "2 MiB refused: the slice has 4092 MiB, 4092 in use"),
        (4092 * MIB, 65 << 10, "68 KiB refused: the slice has 4092 MiB, 4092 in use"),
    ],
)
def test_figures_never_seem_to_fit(talking: Slice, held: int, asked: int, text: str) -> None:
    printed = said(talking, f"attempt({held}); attempt({asked})").stderr
    assert printed == f"vgpu: {text} (hygon.com/dcu-mem: 4)\n"


@pytest.mark.parametrize(
    ("request_value", "text"),
    [
        ("hygon.com/dcu-percent:25", " (hygon.com/dcu-percent: 25)"),
        ("x" * 254 + ":1", f" ({'x' * 254}: 1)"),
        ("?", ""),
    ],
    ids=lambda value: value[:16],
)
def test_what_the_container_asked_for_is_named_where_it_is_known(
    talking: Slice, request_value: str, text: str
) -> None:
    talking.configure(card(mem_bytes=4092 * MIB, request=request_value))
    said_before = SAID.partition(" (")[0]
    assert said(talking, "attempt(5000 * MIB)").stderr == f"{said_before}{text}\n"


def test_of_several_cards_the_line_is_about_the_one_that_refused(talking: Slice) -> None:
    first = card(mem_bytes=1024 * MIB, request="hygon.com/dcu-mem:8", uuid="DCU-2", gpu_id=7)
    talking.configure(first, card(mem_bytes=4092 * MIB, request="hygon.com/dcu-mem:8"))
    assert said(talking, "attempt(5000 * MIB)").stderr == SAID.replace(": 4)", ": 8)")


def test_use_of_other_processes_is_in_use(talking: Slice) -> None:
    script = "kfd.alloc(GPU, 300 * MIB)\nif os.fork() == 0:\n    attempt(5000 * MIB); os._exit(0)\nos.wait()"
    assert said(talking, script).stderr == SAID.replace(", 0 in", ", 300 in")


def test_each_process_says_it_once(talking: Slice) -> None:
    script = (
        "attempt(5000 * MIB)\nfor child in range(2):\n"
        "    if os.fork() == 0:\n        attempt(5000 * MIB); attempt(5000 * MIB); os._exit(0)\n"
        "    os.wait()"
    )
    assert said(talking, script).stderr == 3 * SAID


def test_thread_that_is_cancelled_leaves_no_lock_behind(container: Slice, built: Path) -> None:
    """poll and write are cancellation points of the C library, and a queue is refused under the library's lock."""
    container.configure()
    container.region.unlink()
    program = (built / "cancelled", str(GPU))
    done = subprocess.run(program, env=container.environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{errno.ENOMEM} {errno.ENOMEM}\n"), done.stderr


def test_pipe_that_nobody_reads_does_not_block(talking: Slice) -> None:
    script = (
        "import fcntl; read, write = os.pipe(); fcntl.fcntl(write, fcntl.F_SETFL, os.O_NONBLOCK)\n"
        "try:\n    while True: os.write(write, bytes(1 << 16))\n"
        "except BlockingIOError: fcntl.fcntl(write, fcntl.F_SETFL, 0)\n"
        "os.dup2(write, 2); print(attempt(5000 * MIB))"
    )
    assert said(talking, script).stdout == f"{REFUSED}\n"


def test_pipe_without_a_reader_does_not_end_the_program(talking: Slice) -> None:
    script = (
        "import signal; signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
        "read, write = os.pipe(); os.dup2(write, 2); os.close(read); print(attempt(5000 * MIB))"
    )
    assert said(talking, script).stdout == f"{REFUSED}\n"


def test_closed_stderr_is_no_fault(talking: Slice) -> None:
    script = "os.close(2); print(attempt(5000 * MIB), os.strerror(12))"
    assert said(talking, script).stdout == f"{REFUSED} {os.strerror(12)}\n"
