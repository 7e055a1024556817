"""Tables that fit, bars that shrink, and texts of tenants that stay texts."""

import argparse
import io
from dataclasses import dataclass, replace

import pytest

from device_plugin.cli.printing import output
from device_plugin.cli.printing.output import Column, Listing, ListPrinter


@dataclass(frozen=True)
class Cup:
    name: str
    filled: int


LISTING: Listing[Cup] = Listing(
    "cups",
    (
        Column("NAME", lambda cup: cup.name),
        Column(
            "FILLED",
            lambda cup: f"{cup.filled}/10",
            key=lambda cup: cup.filled,
            share=lambda cup: cup.filled / 10,
        ),
        Column("COLOUR", lambda _: "white", wide=True),
    ),
    name=lambda cup: f"cup/{cup.name}",
    object=lambda cup: {"name": cup.name, "filled": cup.filled},
)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    output.add_arguments(parser, LISTING)
    return parser.parse_args(words)


def shown(*cups: Cup, words: tuple[str, ...] = (), terminal: bool = False) -> list[str]:
    out = Terminal() if terminal else io.StringIO()
    ListPrinter(options(*words), LISTING, out).show(cups)
    return out.getvalue().splitlines()


@pytest.mark.parametrize(
    ("filled", "bar"),
    [(0, "." * 10), (1, "#" + "." * 9), (5, "#####....."), (9, "#" * 9 + "."), (10, "#" * 10)],
)
def test_a_bar_is_the_share_and_full_or_empty_only_if_that_is_true(filled: int, bar: str) -> None:
    assert shown(Cup("a", filled)) == ["NAME  FILLED", f"a     {bar} {filled}/10"]


@pytest.mark.parametrize(
    ("used", "bar"),
    [
        (0.0, "=====....."),
        (0.01, "#====....."),
        (0.3, "###==....."),
        (0.9, "#####....."),
        (None, "#####....."),
    ],
)
def test_the_used_part_of_a_bar_is_full_and_the_rest_of_it_lighter(used: float | None, bar: str) -> None:
    column: Column[Cup] = Column("FILLED", lambda _: "5/10", share=lambda _: 0.5, used=lambda _: used)
    out = io.StringIO()
    ListPrinter(options(), replace(LISTING, columns=(column,)), out).show([Cup("a", 5)])
    assert out.getvalue().splitlines() == ["FILLED", f"{bar} 5/10"]


@pytest.mark.parametrize(("columns", "name", "bar"), [(80, 30, 10), (45, 30, 7), (40, 28, 4), (24, 12, 4)])
def test_on_a_terminal_bars_shrink_and_then_texts_are_cut(
    monkeypatch: pytest.MonkeyPatch, columns: int, name: int, bar: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "")
    _, line = shown(Cup("n" * 30, 10), terminal=True)
    assert len(line) <= columns
    assert line.count("█") == bar
    assert line.index(" ") == name


def test_wide_rows_are_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    _, line = shown(Cup("n" * 30, 10), words=("-o", "wide"), terminal=True)
    assert line.split()[0] == "n" * 30
    assert line.count("█") == 10


def test_of_two_long_texts_none_is_cut_to_the_benefit_of_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    columns: tuple[Column[Cup], ...] = (
        Column("A", lambda cup: cup.name), Column("B", lambda cup: cup.name[:30])
    )  # fmt: skip
    out = Terminal()
    ListPrinter(options(), replace(LISTING, columns=columns), out).show([Cup("n" * 60, 1)])
    assert [len(word) for word in out.getvalue().splitlines()[1].split()] == [24, 24]


@pytest.mark.parametrize("width", [80, 30, 4])
def test_a_line_below_a_row_is_wrapped_and_nothing_of_it_is_lost(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    out, text = Terminal(), "    team-a/a-long-name-of-a-pod main: 4 GiB, core groups 0-14, 2h"
    ListPrinter(options(), replace(LISTING, below=lambda _: [text]), out).show([Cup("a", 1)])
    lines = out.getvalue().splitlines()[2:]
    assert max(map(len, lines)) <= width
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert width < 80 or lines == [text]


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[" in shown(Cup("a", 5), terminal=True)[1]
    assert "\x1b" not in shown(Cup("a", 5))[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in shown(Cup("a", 5), terminal=True)[1]


@pytest.mark.parametrize(("filled", "colour"), [(1, 32), (6, 32), (7, 33), (8, 33), (9, 31), (10, 31)])
def test_a_bar_has_the_colour_of_its_load_and_the_number_beside_it(
    monkeypatch: pytest.MonkeyPatch, filled: int, colour: int
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    (_, line) = shown(Cup("a", filled), terminal=True)
    assert f"\x1b[{colour}m{'█' * filled}\x1b[0m" in line
    assert line.endswith(f" {filled}/10")


def test_control_characters_and_marks_that_turn_text_are_replaced() -> None:
    (_, line) = shown(Cup("a\x1b[31m\n\u202eb", 0))
    assert line.startswith("a\ufffd[31m\ufffd\ufffdb ")


@pytest.mark.parametrize("form", ["name", "yaml", "json"])
def test_no_form_writes_a_mark_that_moves_the_cursor_or_turns_text(form: str) -> None:
    printer = ListPrinter(options("-o", form), LISTING, out := io.StringIO())
    printer.show([Cup("a\x1b[31m\x9b\u202eb", 0)])
    printer.show_changes([Cup("c\u2066\x07", 0)])
    assert all(line.isprintable() for line in out.getvalue().split("\n"))


def test_wide_shows_more_columns() -> None:
    assert shown(Cup("a", 0), words=("-o", "wide"))[0].split() == ["NAME", "FILLED", "COLOUR"]


@pytest.mark.parametrize(
    ("form", "lines"),
    [
        ("json", ['{"type": "MODIFIED", "object": {"name": "a", "filled": 2}}',
                  '{"type": "ADDED", "object": {"name": "c", "filled": 0}}',
                  '{"type": "DELETED", "object": {"name": "b", "filled": 1}}']),
        ("name", ["cup/a", "cup/c"]),
    ],
)  # fmt: skip
def test_changes_are_the_rows_that_differ_and_those_that_are_gone(form: str, lines: list[str]) -> None:
    out = io.StringIO()
    printer = ListPrinter(options("-o", form), LISTING, out)
    printer.remember([Cup("a", 1), Cup("b", 1), Cup("d", 4)])
    printer.show_changes([Cup("a", 2), Cup("c", 0), Cup("d", 4)])
    assert out.getvalue().splitlines() == lines
    printer.show_changes([Cup("a", 2), Cup("c", 0), Cup("d", 4)])
    assert out.getvalue().splitlines() == lines


def test_changed_rows_stand_under_the_columns_of_the_first_table() -> None:
    out = io.StringIO()
    printer = ListPrinter(options(), LISTING, out)
    printer.show([Cup("long-name", 1)])
    printer.remember([Cup("long-name", 1)])
    printer.show_changes([Cup("b", 1)])
    header, _, changed, gone = out.getvalue().splitlines()
    assert changed.index("#") == header.index("FILLED")
    assert gone == "cup/long-name is gone"


def test_columns_of_ones_own_are_paths_in_the_objects_and_are_never_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("NO_COLOR", "1")
    words = ("-o", "custom-columns=CUP:.name,NO:.absent", "--sort-by=-filled")
    assert shown(Cup("n" * 30, 1), Cup("b\x1b", 2), words=words, terminal=True) == [
        "CUP" + " " * 29 + "NO", "b\ufffd" + " " * 30 + "<none>", "n" * 30 + "  <none>",
    ]  # fmt: skip


@pytest.mark.parametrize("words", [(), ("-o", "wide"), ("-o", "custom-columns=A VERY LONG TITLE:.name")])
def test_a_table_without_titles_has_no_room_for_them(words: tuple[str, ...]) -> None:
    line, *more = shown(Cup("a", 10), words=(*words, "--no-headers"))
    assert line.split()[0] == "a"
    assert more == []
    assert words or line == "a  ########## 10/10"
    assert shown(Cup("a", 10), words=words)[1].split() == line.split()


def test_a_template_is_printed_as_it_is_and_for_changes_of_the_changed_rows() -> None:
    out = io.StringIO()
    printer = ListPrinter(
        options("-o", 'jsonpath={range .items[*]}{.name}{"\\n"}{end}{.missing}'), LISTING, out
    )
    printer.show([Cup("a", 1), Cup("b", 1)], {"missing": []})
    assert out.getvalue() == "a\nb\n[]"
    printer.remember([Cup("a", 1), Cup("b", 1)])
    printer.show_changes([Cup("a", 1), Cup("b", 2)])
    assert out.getvalue() == "a\nb\n[]b\n"
    printer.show_changes([Cup("a", 1), Cup("b", 2)])
    assert out.getvalue() == "a\nb\n[]b\n"


@pytest.mark.parametrize(
    ("columns", "titles"), [(30, "NAME  FILLED  NOTE"), (21, "NAME  FILLED  NOTE"), (20, "NAME  FILLED")]
)
def test_an_extra_column_is_left_out_before_a_text_is_cut(
    monkeypatch: pytest.MonkeyPatch, columns: int, titles: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "")
    note: Column[Cup] = Column("NOTE", lambda _: "12", extra=True)
    out = Terminal()
    printer = ListPrinter(options(), replace(LISTING, columns=(*LISTING.columns, note)), out)
    printer.show([Cup("a", 1)])
    printer.show_changes([Cup("a", 2)])
    header, *rows = out.getvalue().splitlines()
    assert header.split() == titles.split()
    assert [row.split()[-1] for row in rows] == (["12", "12"] if "NOTE" in titles else ["1/10", "2/10"])
