"""`vgpu bench jobs`: what it prints, and what it refuses."""

import json
from pathlib import Path

import pytest

from device_plugin.wiring.commands import main
from hack.bench.jobs.large import WIDTHS
from hack.bench.jobs.policies import POLICIES
from hack.bench.jobs.splits import MODES
from tests.hack.bench.jobs.test_trace import line

FIGURES = {
    "jct_mean_s", "jct_p50_s", "jct_p99_s", "jct_silent_s", "wait_mean_s", "wait_worst_s", "stop_longest_s",
    "restarts_mean", "restarts_p99", "allocation", "useless_shrinks", "rounds_to_rest", "rounds",
    "outside_widths", "over_commitments",
}  # fmt: skip


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    kinds = ("A3C", "LM (batch size 20)", "ResNet-18 (batch size 64)")
    for name in ("103959", "2869ce", "ee9e8c"):
        lines = (line(kinds[n % 3], 20_000 * (1 + n % 5), 3000 * n, (1, 4, 8)[n % 3]) for n in range(12))
        (tmp_path / f"{name}.trace").write_text("".join(lines))
    return tmp_path


def test_figures_of_every_policy_and_their_ratios(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "--trace",
        str(traces / "2869ce.trace"),
        "--cards",
        "8",
        "--widths",
        "1..2x",
        "--slots",
        "--json",
    ]
    assert main(["bench", "jobs", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["policies"]) == set(POLICIES)
    assert all(set(figures) == FIGURES for figures in found["policies"].values())
    assert set(found["ratios"]["fifo-skip"].values()) == {1.0}
    assert found["ratios"]["engine"]["jct_mean_s"] < 1


def test_the_four_loads_and_the_geometric_mean(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "jobs", "--loads", str(traces), "--policy", "engine", "--processes", "1"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["loads"]) == ["103959@12", "103959@64", "2869ce@64", "ee9e8c@112"]
    assert set(found["ratios"]) == set(found["worst"]) == {"fifo-skip", "engine"}
    assert main(words) == 0
    assert "geometric mean" in capsys.readouterr().out


def test_with_tells_the_jobs_that_say_nothing_are_counted_apart(
    traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "--trace",
        str(traces / "2869ce.trace"),
        "--cards",
        "8",
        "--policy",
        "engine-all",
        "--tells",
        "3",
    ]
    assert main(["bench", "jobs", *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["policies"]["engine-all"]
    assert found["jct_silent_s"] < found["jct_mean_s"]  # every third job of this trace is long


def test_on_nodes_the_ledger_decides(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--trace", str(traces / "2869ce.trace"), "--cards", "16", "--nodes", "8", "--policy", "engine"]
    assert main(["bench", "jobs", *words]) == 0
    assert "engine" in capsys.readouterr().out


def test_elasticity_costs_twenty_equal_jobs_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "jobs", "--equal", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["policies"]
    assert found["elastic-score"]["jct_mean_s"] > found["fifo-skip"]["jct_mean_s"]
    assert found["elastic-score"]["wait_mean_s"] < 10 < found["fifo-skip"]["wait_mean_s"]


@pytest.mark.parametrize("resumable", ["0", "1"])
def test_equal_jobs_end_no_later_with_the_engine(resumable: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "jobs", "--equal", "--resumable", resumable, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["policies"]
    for name in ("engine", "engine-declared", "engine-progress", "engine-all"):
        assert found[name]["jct_mean_s"] <= found["fifo-skip"]["jct_mean_s"]


def test_rigid_jobs_are_never_narrower_and_stop_only_where_they_are_resumable(
    traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--trace", str(traces / "2869ce.trace"), "--cards", "8", "--rigid", "--policy", "engine"]
    found = {}
    for resumable in ("0", "1"):
        assert main(["bench", "jobs", *words, "--resumable", resumable, "--json"]) == 0
        found[resumable] = json.loads(capsys.readouterr().out)["policies"]["engine"]
    assert (found["0"]["restarts_mean"], found["0"]["stop_longest_s"]) == (0, 0)
    assert found["1"]["restarts_mean"] > 0


def test_cases_made_by_hand_are_chosen_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--handmade", "burst-rigid", "--policy", "engine", "--processes", "1"]
    assert main(["bench", "jobs", *words, "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["cases"]) == ["burst-rigid"]


@pytest.mark.parametrize("room", [["--slots"], ["--nodes", "8"]])
def test_replicas_of_several_cards(traces: Path, room: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "--trace",
        str(traces / "2869ce.trace"),
        "--cards",
        "16",
        *room,
        "--cards-per-replica",
        "2:1,8:1",
    ]
    assert main(["bench", "jobs", *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["policies"]
    assert {each["outside_widths"] + each["over_commitments"] for each in found.values()} == {0}
    assert found["engine"]["useless_shrinks"] == 0


def test_splits_among_the_jobs_of_a_trace(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--split", "--trace", str(traces / "2869ce.trace"), "--cards", "8", "--nodes", "8"]
    assert main(["bench", "jobs", *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["modes"]) == list(found["others_jct_ratios"]) == list(MODES)
    assert {mode["parts_lost"] + mode["parts_twice"] for mode in found["modes"].values()} == {0}


@pytest.mark.parametrize("nodes", [[], ["--nodes", "8"]])
def test_the_time_of_a_large_round(nodes: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "jobs", "--large", "100", *nodes, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["jobs"], found["cards"]) == (100, 100)
    assert 100 / max(WIDTHS) < found["first_steps"] < 100, "jobs get the width asked for"
    assert found.get("distinct_rounds") == (1 if nodes else None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "write --trace FILE or --loads FOLDER"),
        (["--trace", "x", "--loads", "y"], "write --trace FILE or --loads FOLDER"),
        (["--trace", "none.trace"], "none.trace: No such file or directory"),
        (["--trace", "x", "--cards", "0"], "write --cards and --nodes from 1"),
        (["--trace", "x", "--squeeze", "0"], "write --squeeze above 0"),
        (["--trace", "x", "--tick", "0"], "write --drain, --start and --tick"),
        (["--trace", "x", "--tells", "0"], "write --tells N from 1"),
        (["--trace", "x", "--policy", "best"], "no policy 'best': write fifo-skip, "),
        (["--loads", "x", "--plot", "x.png"], "--plot draws one load"),
        (["--split", "--loads", "x"], "--split takes one load"),
        (["--trace", "x", "--cards-per-replica", "2"], "write cards and weights above 0, such as 1:3,8:1"),
        (["--trace", "x", "--cards-per-replica", "2:nan"], "write cards and weights above 0"),
        (["--trace", "x", "--cards-per-replica", "0:1"], "write cards and weights above 0"),
        (["--trace", "x", "--nodes", "4", "--cards-per-replica", "8:1"], "no node has 8 cards"),
        (
            ["--split", "--cards-per-replica", "2:1"],
            "--cards-per-replica changes the jobs of --trace or --loads",
        ),
        (["--large", "0"], "write --large from 1"),
        (["--handmade", "none", "--processes", "1"], "no case 'none': write livelock-19.5h, "),
    ],
)
def test_what_cannot_be_measured_is_said(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main(["bench", "jobs", *words]) == 2
    assert said in capsys.readouterr().err
