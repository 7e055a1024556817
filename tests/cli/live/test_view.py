"""The lines of a live screen for its rows, and the keys that change them."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from device_plugin.cli.live.screen import BOTTOM, DOWN, ENTER, ERASE, ESCAPE, PAGE_DOWN, PAGE_UP, UP
from device_plugin.cli.live.view import AROUND, Frame, LiveView
from device_plugin.cli.printing.output import Column, Listing
from device_plugin.cli.printing.terminal import Terminal


class Cup(NamedTuple):
    owner: str
    name: str
    filled: int


FILLED: Column[Cup] = Column(
    "FILLED", lambda cup: f"{cup.filled}/10", key=lambda cup: cup.filled, share=lambda cup: cup.filled / 10
)
LISTING: Listing[Cup] = Listing(
    "cups",
    (
        Column("NAME", lambda cup: cup.name),
        FILLED,
        Column("MORE", lambda cup: cup.name, wide=True),
    ),
    name=lambda cup: cup.name,
    object=lambda cup: cup._asdict(),
)
CUPS = [Cup(f"team-{number % 2}", f"cup-{number:02}", number % 11) for number in range(20)]
HEIGHT = AROUND + 5


class Person:
    """A person before a screen of 60 columns and HEIGHT lines."""

    def __init__(self, *, several: bool = True) -> None:
        of = (lambda cup: cup.owner) if several else None
        self.view = LiveView("cups of all", LISTING, FILLED, "no cup is there", of)
        self.frame: Frame[Cup] = Frame(CUPS)

    def lines(self, height: int = HEIGHT, width: int = 60) -> list[str]:
        return self.view.lines(self.frame, Terminal(width), height)

    def names(self) -> list[str]:
        return [line.split()[0] for line in self.lines()[2:-2] if line]

    def press(self, keys: Sequence[str]) -> list[str]:
        self.names()
        assert all(self.view.press(key) for key in keys)
        return self.names()


def test_the_fullest_come_first_and_all_lines_are_there() -> None:
    lines = Person().lines()
    assert len(lines) == HEIGHT
    assert lines[0] == "cups of all  1-5 of 20  by filled"
    assert lines[1].split() == ["NAME", "FILLED"]
    assert lines[2] == "cup-10  ██████████ 10/10"
    assert lines[-1] == "q quit  ↑↓ j k scroll  s sort  n namespace"


def test_keys_scroll_and_stop_at_the_ends() -> None:
    person = Person()
    first = person.names()
    assert person.press("k") == first
    assert person.press("j")[:4] == first[1:]
    assert person.press([UP]) == first
    last = person.press("G")
    assert person.press([DOWN, PAGE_DOWN, BOTTOM]) == last
    assert person.press([PAGE_UP])[-1] != last[-1]
    assert person.press("g") == first
    person.press("G")
    person.frame = Frame(CUPS[:2])
    assert len(person.names()) == 2, "rows that are gone leave no empty screen"


def test_the_order_goes_from_column_to_column() -> None:
    person = Person()
    assert person.press("s") == [f"cup-{number:02}" for number in range(5)]
    assert person.press("s")[0] == "cup-10"


def test_a_namespace_is_typed_and_enter_shows_it() -> None:
    person = Person()
    person.press(["n", *"team-1"])
    assert person.lines()[-1].startswith("namespace contains: team-1_")
    person.press([ENTER])
    assert person.lines()[0] == "cups of all  1-5 of 10  namespace team-1  by filled"
    person.press(["n", ERASE, "x", ESCAPE])
    assert "namespace team-1" in person.lines()[0]
    person.press(["n", *[ERASE] * 9, ENTER])
    assert "1-5 of 20" in person.lines()[0]
    person.press(["n", *"q" * 500])
    assert len(person.lines(width=300)[-1]) < 130


def test_rows_of_one_namespace_have_no_filter() -> None:
    person = Person(several=False)
    assert person.press("n") == person.names()
    assert person.lines()[-1] == "q quit  ↑↓ j k scroll  s sort"


def test_q_ends_the_view() -> None:
    assert Person().view.press("q") is False


def test_notes_and_a_lost_connection_have_a_line() -> None:
    person = Person()
    person.frame = Frame(CUPS, "use is not known")
    assert person.lines()[-2] == "use is not known"
    person.frame = Frame(CUPS, "use is not known", "connection lost")
    assert person.lines()[-2] == "connection lost"
    person.frame = Frame(())
    assert person.lines()[1] == "no cup is there"


def test_texts_of_tenants_stay_texts_and_in_their_line() -> None:
    person = Person()
    person.frame = Frame([Cup("a", "b\x1b[2J\n\u202e", 1)], "c\x1b[2J\n" * 99, "d\r\x9b" * 99)
    lines = person.lines()
    assert all(line.isprintable() for line in lines)
    assert max(map(len, lines)) <= 60


@pytest.mark.parametrize("height", [1, 2, 3, 5, 50])
@pytest.mark.parametrize("width", [1, 10, 200])
def test_a_screen_of_any_size_has_no_more_lines_than_fit(height: int, width: int) -> None:
    assert len(Person().lines(height, width)) == height
