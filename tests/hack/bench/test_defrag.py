import argparse
import json
from pathlib import Path

import pytest

from hack.bench import command
from hack.bench.report import BenchError


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(["defrag", *words])


def files(folder: Path) -> list[str]:
    """Twelve nodes of two cards, and pods that leave holes when they are placed at random."""
    nodes = ["sn,cpu_milli,memory_mib,gpu,model", *(f"n{i},64000,262144,2,P100" for i in range(12))]
    pods = ["name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec"]
    pods += [f"small-{i},1000,1024,1,200," for i in range(40)] + [
        f"whole-{i},1000,1024,1,1000," for i in range(16)
    ]
    (folder / "nodes.csv").write_text("\n".join(nodes))
    (folder / "pods.csv").write_text("\n".join(pods))
    return ["--nodes", str(folder / "nodes.csv"), "--pods", str(folder / "pods.csv")]


def test_the_curve_rises_within_the_budget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*files(tmp_path), "--seeds", "1-2", "--max-moves-share", "0.2", "--processes", "1"]
    assert command.run(parsed(*words, "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    curve = found["curve"]
    assert curve[0]["moves"] == 0
    assert 0 < curve[-1]["moves"] <= 0.2 * found["pods"] + 1
    assert [point["allocated"] for point in curve] == sorted(point["allocated"] for point in curve)
    assert curve[-1]["fragmented"] < curve[0]["fragmented"]
    assert found["gained"] == pytest.approx(found["offered_again"] - curve[0]["allocated"], abs=0.02)
    assert found["gained"] > 5
    assert command.run(parsed(*words)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("pods placed by `random`; mean of seeds 1-2")
    assert lines[-1].startswith("offered again: ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nodes", "nodes.csv"], "write --nodes and --pods, or neither"),
        (["--max-moves-share", "5"], "write --max-moves-share above 0 and up to 1"),
    ],
)
def test_what_cannot_be_run_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(BenchError, match=said):
        command.run(parsed(*words))
