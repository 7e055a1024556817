"""A machine's supervisor, with ordinary programs and a real socket."""

import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.testbed.supervisor import OrderError, Program, Supervisor, order
from tests.deadline import eventually

LIVES = Program("lives", ["sh", "-c", "echo started >> starts; exec sleep 1000"])
DIES = Program("dies", ["sh", "-c", "echo started >> deaths; exit 1"])


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not tmp_path: the paths of sockets are short."""
    made = Path(tempfile.mkdtemp(prefix="sup-"))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def control(folder: Path) -> Iterator[Path]:
    supervisor = Supervisor(folder, [LIVES, DIES])
    supervisor.boot()
    socket = folder / "control"
    threading.Thread(target=supervisor.serve, args=(socket,), daemon=True).start()
    assert eventually(lambda: listens(socket), 60)
    yield socket
    supervisor.crash()


def listens(control: Path) -> bool:
    """True once the supervisor takes orders, which is after its socket has appeared."""
    try:
        order(control, "status")
    except OSError:
        return False
    return True


def running(control: Path) -> dict[str, bool]:
    found: dict[str, bool] = order(control, "status")["programs"]
    return found


def starts(folder: Path, noted: str = "starts") -> int:
    """How often the program has started that notes it in this file."""
    file = folder / noted
    return file.read_text().count("started") if file.exists() else 0


def test_a_program_that_ends_by_itself_is_started_again(folder: Path, control: Path) -> None:
    assert control
    assert eventually(lambda: starts(folder, "deaths") >= 2, 60)


@pytest.mark.parametrize("do", ["stop", "kill", "crash"])
def test_a_program_that_was_stopped_stays_so_until_it_is_started(
    folder: Path, control: Path, do: str
) -> None:
    assert eventually(lambda: starts(folder) == 1, 60)
    order(control, do, program="lives")
    assert not running(control)["lives"]
    order(control, "start", program="lives")
    assert eventually(lambda: starts(folder) == 2, 60)
    assert running(control)["lives"]


def test_signals_go_to_a_program_that_runs(control: Path) -> None:
    order(control, "pause", program="lives")
    order(control, "resume", program="lives")
    assert running(control)["lives"]
    order(control, "stop", program="lives")
    with pytest.raises(OrderError, match="lives does not run"):
        order(control, "pause", program="lives")


def test_commands_run_on_the_machine(folder: Path, control: Path) -> None:
    answer = order(control, "run", command=["sh", "-c", "pwd; exit 3"])
    assert (answer["status"], answer["output"]) == (3, f"{folder}\n")


def test_an_order_that_makes_no_sense_says_what_would(control: Path) -> None:
    with pytest.raises(OrderError, match="no program other here; there are lives, dies"):
        order(control, "start", program="other")
    with pytest.raises(OrderError, match="no order dance"):
        order(control, "dance")


def test_nothing_is_left_after_a_crash(control: Path) -> None:
    order(control, "crash")
    assert running(control) == {"lives": False, "dies": False}
