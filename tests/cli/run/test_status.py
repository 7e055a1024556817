"""The lines of `vgpu run` about its Job: one for each change, and a last one whose bar and time change."""

import io

import pytest

from device_plugin.cli.run.console import Console
from device_plugin.cli.run.status import JobStatus
from device_plugin.core.jobs.progress import Progress

CLEAR = "\r\x1b[K"
WHY = "room for 4 pods, number 1 of its queue"


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class World:
    """A status on a stream, and a clock that the test moves."""

    def __init__(self, err: io.StringIO) -> None:
        self.now = 1000.0
        self.err = err
        self.status = JobStatus(Console(io.BytesIO(), err), err, "train", lambda: self.now)

    def last(self) -> str:
        """The last line of the terminal."""
        return self.err.getvalue().rpartition(CLEAR)[2].rpartition("\n")[2]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    return World(Terminal())


def test_the_last_line_changes_while_a_job_waits(terminal: World) -> None:
    terminal.status.state("waits in its queue", WHY)
    assert terminal.last() == f"████{'░' * 16} 0s  train waits in its queue: {WHY}"
    terminal.now += 64
    terminal.status.redraw()
    assert terminal.last() == f"████{'░' * 16} 1m4s  train waits in its queue: {WHY}"
    terminal.now += 1
    terminal.status.redraw()
    assert terminal.last().startswith(f"░████{'░' * 15} 1m5s")
    terminal.status.state("waits in its queue", "room for 4 pods")
    assert terminal.last().endswith("queue: room for 4 pods")
    lines = [line.rpartition(CLEAR)[2] for line in terminal.err.getvalue().split("\n")[:-1]]
    assert lines == ["train: waits in its queue"]


def test_a_new_state_begins_its_own_time_and_another_number_of_replicas_does_not(terminal: World) -> None:
    terminal.status.state("starts")
    terminal.now += 30
    terminal.status.state("runs with 1 of 4 replicas")
    assert "0s  train runs with 1 of 4" in terminal.last()
    terminal.now += 10
    terminal.status.state("runs with 4 of 4 replicas")
    assert "10s  train runs with 4 of 4" in terminal.last()


def test_the_progress_is_a_bar_with_the_time_that_is_left(terminal: World) -> None:
    terminal.status.state("runs with 4 of 4 replicas")
    terminal.now += 5
    terminal.status.progress(Progress(1, 4), 7800.0)
    assert terminal.last() == (
        f"{'█' * 5}{'░' * 15}  25%  5s  train runs with 4 of 4 replicas: 1 of 4, about 2h10m left"
    )
    terminal.status.state("waits in its queue")
    assert "%" not in terminal.last()


@pytest.mark.parametrize(("columns", "bar"), [(60, 20), (50, 20), (49, 0), (10, 0), (1, 0)])
def test_the_last_line_is_shorter_than_the_terminal(
    monkeypatch: pytest.MonkeyPatch, terminal: World, columns: int, bar: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    terminal.status.state("waits in its queue", "x" * 5000 + "\x1b[2J")
    assert len(terminal.last()) < max(columns, 2)
    assert sum(terminal.last().count(letter) for letter in "█░") == bar


def test_the_last_line_goes_when_the_job_ends(terminal: World) -> None:
    terminal.status.state("starts")
    terminal.status.close()
    assert terminal.err.getvalue().endswith(CLEAR)


def test_without_a_terminal_there_are_lines_with_reasons() -> None:
    world = World(io.StringIO())
    world.status.state("waits in its queue", WHY)
    world.status.state("waits in its queue", WHY)
    world.status.state("waits in its queue", "room for 4 pods")
    world.now += 60
    world.status.redraw()
    world.status.state("runs with 1 of 1 replicas")
    world.status.progress(None)
    world.status.progress(Progress(1, 3))
    assert world.err.getvalue().splitlines() == [
        f"train: waits in its queue: {WHY}",
        "train: waits in its queue: room for 4 pods",
        "train: runs with 1 of 1 replicas",
        "train: 1 of 3",
    ]
