"""hack/pairs: when a figure counts as dearer, how the commit that made it so is found, and what the benches print."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from hack.measure import pairs
from hack.measure.pairs import BENCHES, PROJECT, Compared, culprit

SMALL = {
    "extender": ["--nodes", "3", "--cards", "2", "--seconds", "2"],
    "refusals": ["--nodes", "40", "--requests", "18"],
    "rounds": ["--large", "20", "--nodes", "8"],
}


@pytest.mark.parametrize(
    ("ratios", "dearer"),
    [
        ([1.06, 1.07, 1.06, 1.08, 1.2], True),
        ([1.06, 1.07, 1.06, 1.08, 0.9], True),
        ([1.06, 1.07, 1.06, 0.9, 0.9], False),
        ([1.04, 1.04, 1.04, 1.04, 9.0], False),
        ([0.9, 0.8, 0.9, 0.9, 0.9], False),
    ],
)
def test_a_figure_is_dearer_if_its_median_is_and_most_pairs_agree(
    ratios: Sequence[float], *, dearer: bool
) -> None:
    compared = Compared("rounds", "a round", ratios)
    assert compared.dearer is dearer
    assert ("DEARER" in str(compared)) is dearer


@pytest.mark.parametrize("first", range(7))
def test_the_first_dearer_commit_is_found_in_few_looks(first: int) -> None:
    commits, looks = [f"c{number}" for number in range(7)], list[str]()

    def is_dearer(commit: str) -> bool:
        looks.append(commit)
        return int(commit[1:]) >= first

    assert culprit(commits, is_dearer) == f"c{first}"
    assert len(looks) <= 3


@pytest.mark.no_cover
@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("bench", SMALL)
def test_the_figures_of_a_bench_are_read(bench: str) -> None:
    kind = "jobs" if bench == "rounds" else bench
    command = [sys.executable, "-m", "device_plugin", "bench", kind, *SMALL[bench], "--json"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    values = BENCHES[bench].read(done.stdout)
    assert values
    assert all(value > 0 for value in values.values())


def test_the_time_of_a_call_is_with_the_library() -> None:
    printed = (
        "medians of 5 pairs    without     added   ratio\nallocation, p50     800.0     -20.5    0.97 ns\n"
    )
    assert BENCHES["fence"].read(printed) == {"an admission of the library": 779.5}


@pytest.fixture
def checkouts(mocker: MockerFixture, tmp_path: Path) -> None:
    """Commits c1 to c4, measured without a checkout: from c3 on a round takes a tenth more."""

    @contextmanager
    def checkout(commit: str) -> Iterator[Path]:
        yield tmp_path / ("c4" if commit == "HEAD" else commit)

    def measured(_: str, path: Path) -> pairs.Values:
        return {"a round": 1.1 if path.name >= "c3" else 1.0, "another": 1.0}

    def git(*words: str) -> str:
        return "c2\nc3\nc4" if words[0] == "rev-list" else f"{words[-1]} its subject"

    mocker.patch.object(pairs, "_checkout", checkout)
    mocker.patch.object(pairs, "_measured", measured)
    mocker.patch.object(pairs, "_git", git)


@pytest.mark.usefixtures("checkouts")
def test_the_commit_that_made_a_figure_dearer_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    text, passed = pairs.run("c1", names=["rounds"])
    assert not passed
    assert text == "2 figures against c1 its subject: a round 1.10 since c3 its subject"
    assert "a round                         1.10  1.10 1.10 1.10 1.10 1.10  DEARER" in capsys.readouterr().out
    assert pairs.run("c3", names=["rounds"]) == ("2 figures against c3 its subject: none is dearer", True)


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--pairs", "0"], "write --pairs of at least 1"), (["many"], "there is no bench many")],
)
def test_wrong_words_are_refused(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["hack/pairs", *words])
    with pytest.raises(SystemExit):
        pairs.main()
    assert said in capsys.readouterr().err
