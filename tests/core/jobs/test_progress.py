"""What a program says of its progress: read from bytes that a tenant wrote, whatever they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.core.jobs.progress import (
    BYTES,
    LINE,
    MOST,
    Progress,
    ProgressReport,
    by_pod,
    checkpoints_of,
    progress_of,
)

BLANK = b" " * (LINE - 1) + b"\n"


def line(text: str) -> bytes:
    return f"{text:<{LINE - 1}}\n".encode()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (line("120000 1281167"), Progress(120000, 1281167)),
        (line("0 10"), Progress(0, 10)),
        (line("  7   10  ") + line("2"), Progress(7, 10)),
        (b"3 10\n", Progress(3, 10)),  # echo, between two of its writes
        (b"3 10\n" + b"\0" * 59, Progress(3, 10)),
        (line("11 10"), Progress(10, 10)),
        (line(f"1 {MOST}"), Progress(1, MOST)),
        (line(f"1 {MOST + 1}"), None),
        (line("9" * 16 + " 5"), Progress(5, 5)),
        (line("9" * 40 + " 5"), None),
        (line("0 0"), None),
        (line("-1 10"), None),
        (line("1.5 10"), None),
        (line("1e3 10"), None),
        (line("٣ 10"), None),
        (line("10"), None),
        (line("1 2 3"), None),
        (line("half"), None),
        (BLANK, None),
        (b"", None),
        (b"\0" * BYTES, None),
        (b"120000 128", None),
        (line("120000 1281167")[:-1], None),
        (b"5 20\n00\n", None),  # a short line over a longer one
        (b"\xff" * 4096, None),
    ],
)
def test_a_whole_line_is_progress_and_everything_else_is_no_news(
    said: bytes, expected: Progress | None
) -> None:
    assert progress_of(said) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (BLANK + line("3"), 3),
        (line("1 2") + b"4\n", 4),
        (line("1 2") + b"\0" * LINE, 0),
        (line("1 2"), 0),
        (BLANK + line("3 4"), 0),
        (BLANK + line("9" * 16), MOST),
        (BLANK + b"12", 0),
        (b"", 0),
    ],
)
def test_checkpoints_are_counted_in_a_line_of_their_own(said: bytes, expected: int) -> None:
    assert checkpoints_of(said) == expected


@given(st.binary(max_size=2 * BYTES) | st.text("0123456789 \n-", max_size=BYTES).map(str.encode))
def test_no_bytes_raise_and_none_say_more_than_all(said: bytes) -> None:
    found = progress_of(said)
    assert found is None or (0 <= found.done <= found.total and 1 <= found.total <= MOST)
    assert 0 <= checkpoints_of(said) <= MOST


@given(st.integers(0, MOST), st.integers(1, MOST), st.integers(0, LINE - 1))
def test_a_line_that_is_cut_anywhere_is_no_news(done: int, total: int, cut: int) -> None:
    assert progress_of(line(f"{done} {total}")[:cut]) is None


def test_the_containers_of_a_pod_tell_together() -> None:
    told = {
        ("default", "a", "main"): ProgressReport(Progress(5, 10), 2),
        ("default", "a", "logs"): ProgressReport(None, 1),
        ("default", "a", "zip"): ProgressReport(Progress(1, 2), 0),
        ("default", "other", "main"): ProgressReport(Progress(1, 1), 1),
        ("other", "a", "main"): ProgressReport(Progress(1, 1), 1),
    }
    assert by_pod(told, [("default", "a"), ("default", "silent")]) == {
        ("default", "a"): ProgressReport(Progress(5, 10), 3),
        ("default", "silent"): ProgressReport(),
    }
