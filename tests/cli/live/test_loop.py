"""`vgpu top --live` in a pseudo terminal: what a person sees, and how the terminal is left."""

import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.cli.fleet import Fleet
from tests.deadline import until

# The program gets the pseudo terminal as its controlling terminal, which turns Ctrl-C into SIGINT. A shell may have
# started the tests so that they ignore it, and a child would too.
PROGRAM = (
    "import fcntl, signal, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from device_plugin.wiring.commands import main\n"
    "sys.exit(main(sys.argv[1:]))"
)
HOME, LEAVE = "\x1b[H", "\x1b[?1049l"


class Person:
    """A person before a terminal of 90 columns and 20 lines in which a command runs."""

    def __init__(self, *words: str) -> None:
        self._person, program = os.openpty()
        fcntl.ioctl(program, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 90, 0, 0))
        self.before = termios.tcgetattr(program)
        self._terminal = program
        self._seen = ""
        environment = {
            **os.environ,
            "TERM": "xterm",
            "NO_COLOR": "1",
            "PYTHONIOENCODING": "utf-8",
            "PYTHONFAULTHANDLER": "1",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *words],
            stdin=program, stdout=program, stderr=program, start_new_session=True, env=environment,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                self._seen += os.read(self._person, 1 << 16).decode(errors="replace")
            except OSError:
                return

    def press(self, keys: str) -> None:
        os.write(self._person, keys.encode())

    def seen(self) -> str:
        """All that the program has written."""
        return self._seen

    def frame(self) -> list[str]:
        """The lines of the last whole screen."""
        whole = self._seen.rpartition("\x1b[J")[0].rpartition(HOME)[2]
        return [line.removesuffix("\x1b[K") for line in whole.split("\r\n")]

    def sees(self, text: str) -> None:
        until(lambda: any(text in line for line in self.frame()), text)

    def end(self) -> int:
        """The exit status of the program, which has left the terminal as it found it."""
        try:
            status = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            self.process.wait(60)
            raise AssertionError(f"it has not ended: {self._seen[-6000:]}") from None
        until(lambda: LEAVE in self._seen)
        assert termios.tcgetattr(self._terminal) == self.before
        return status

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._terminal)
        self._reader.join(10)
        os.close(self._person)


@pytest.fixture
def top(fleet: Fleet) -> Iterator[Callable[..., Person]]:
    fleet.node("n1", 2)
    fleet.pod("a", 4, "n1-0")
    fleet.pod("b", 8, "n1-1")
    people = list[Person]()

    def start(*words: str) -> Person:
        people.append(Person("top", "--live", "--kubeconfig", str(fleet.kubeconfig), *words))
        return people[-1]

    yield start
    for each in people:
        each.close()


def test_keys_choose_what_is_seen_and_q_ends_it(fleet: Fleet, top: Callable[..., Person]) -> None:
    person = top("-A")
    person.sees("1-2 of 2  by memory")
    person.sees("use is not known: no node agent runs")
    assert len(person.frame()) == 20
    person.press("s")
    person.sees("by compute")
    fleet.pod("c", 4, "n1-1")
    person.sees("1-3 of 3")
    person.press("nfault\r")
    person.sees("1-3 of 3  namespace fault")
    person.press("nx\r")
    person.sees("0  namespace faultx")
    person.sees("no container holds a slice")
    person.press("q")
    assert person.end() == 0
    assert "Traceback" not in person.seen()


def test_ctrl_c_and_sigterm_give_the_terminal_back(top: Callable[..., Person]) -> None:
    first, second = top(), top()
    for person in (first, second):
        person.sees("1-2 of 2")
    first.press("\x03")
    assert first.end() == 130
    second.process.send_signal(signal.SIGTERM)
    assert second.end() == 130


def test_a_lost_connection_has_a_line_until_it_is_back(fleet: Fleet, top: Callable[..., Person]) -> None:
    person = top("-A")
    person.sees("1-2 of 2")
    fleet.stop()
    person.sees("connection lost, figures of ")
    person.sees("default ")
    fleet.start()
    person.sees("use is not known: no node agent runs")
    person.press("q")
    assert person.end() == 0


@pytest.mark.parametrize(
    ("words", "says"), [(("-o", "json"), "leave them out"), (("-w",), "leave them out"), ((), "write -w")]
)
def test_what_is_no_screen_says_what_to_write(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    from device_plugin.wiring.commands import main

    assert main(["top", "--live", *words, "--kubeconfig", str(fleet.kubeconfig)]) == 2
    assert says in capsys.readouterr().err
