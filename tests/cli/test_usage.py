"""Hours as a table, for a table calculator, and for programs."""

import csv
import io
import json
import time

import pytest

from device_plugin.cli import usage
from device_plugin.cli.access.prometheus import Prometheus
from device_plugin.cli.reading.usage import UNKNOWN, Usage, UsageQueries
from device_plugin.cli.reading.waste import Owner
from device_plugin.wiring.commands import main

PODS = [
    Usage("a", Owner("Job", "train"), 168.0, 42.0, 21.0, None),
    Usage("a", Owner("=cmd()", "x"), 1.0, 0.25, 0.0, 0.0),
    Usage("b", UNKNOWN, 336.0, 84.0, 80.0, 70.5),
]
URL = ("--prometheus", "http://localhost:9090")


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[UsageQueries]:
    """The queries of the command, for which Prometheus knows the hours of PODS."""
    found = list[UsageQueries]()

    def read(_: Prometheus, queries: UsageQueries) -> list[Usage]:
        found.append(queries)
        return PODS

    monkeypatch.setattr(usage, "read_usage", read)
    return found


def test_the_most_card_hours_are_first(capsys: pytest.CaptureFixture[str], asked: list[UsageQueries]) -> None:
    assert main(["usage", *URL]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == [
        "NAMESPACE", "OWNER", "SLICE", "HOURS", "CARD", "HOURS", "MEMORY", "HOURS", "BUSY", "HOURS",
    ]  # fmt: skip
    assert [row.split() for row in rows] == [
        ["b", "?", "336.0", "84.0", "80.0", "70.5"],
        ["a", "Job/train", "168.0", "42.0", "21.0", "?"],
        ["a", "=cmd()/x", "1.0", "0.2", "0.0", "0.0"],
    ]
    assert asked == [UsageQueries("vgpu-system", "", 7 * 86400)]


def test_a_namespace_and_a_time_are_chosen_and_owners_are_summed(
    capsys: pytest.CaptureFixture[str], asked: list[UsageQueries]
) -> None:
    words = ("--since", "12h", "-n", "a", "--by", "namespace", "--sort-by=card-hours", "-o", "name")
    assert main(["usage", *words, *URL]) == 0
    assert capsys.readouterr().out.split() == ["usage/a", "usage/b"]
    assert asked == [UsageQueries("vgpu-system", "a", 12 * 3600)]


def test_the_time_may_end_at_a_date(
    capsys: pytest.CaptureFixture[str], asked: list[UsageQueries], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        for text in ("2026-11-23", "2026-11-22T16:00Z"):
            assert main(["usage", "--until", text, "-o", "json", *URL]) == 0
            assert json.loads(capsys.readouterr().out)["until"] == 1795363200
    finally:
        monkeypatch.undo()
        time.tzset()
    assert asked == [UsageQueries("vgpu-system", "", 7 * 86400, 1795363200)] * 2
    for wrong in ("2999-01-01", "monday", "1969-01-01", "7d", ""):
        with pytest.raises(SystemExit):
            main(["usage", "--until", wrong, *URL])
        assert "is no moment before now: write a date" in capsys.readouterr().err


def test_a_table_calculator_reads_no_formula(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["usage", "-o", "csv", *URL]) == 0
    header, *rows = csv.reader(io.StringIO(capsys.readouterr().out))
    assert header == [
        "namespace", "owner_kind", "owner_name", "slice_hours", "card_hours", "memory_card_hours", "busy_card_hours",
    ]  # fmt: skip
    assert rows == [
        ["b", "", "", "336", "84", "80", "70.5"],
        ["a", "Job", "train", "168", "42", "21", ""],
        ["a", "'=cmd__", "x", "1", "0.25", "0", "0"],
    ]


def test_programs_get_numbers_and_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["usage", "-o", "json", *URL]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["sinceSeconds"], found["stepSeconds"]) == (604800, 303)
    assert [(row["owner"], row["cardHours"], row["busyCardHours"]) for row in found["usage"]] == [
        (None, 84, 70.5), ({"kind": "Job", "name": "train"}, 42, None), ({"kind": "=cmd()", "name": "x"}, 0.25, 0),
    ]  # fmt: skip


def test_without_a_prometheus_the_usage_says_what_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["usage"])
    assert "--prometheus" in capsys.readouterr().err
