import argparse
import json
from pathlib import Path

import pytest

from device_plugin.core.errors import VgpuError
from hack.bench import command
from hack.bench.plot import PERCENT
from hack.bench.replay import replay
from hack.bench.workload import read
from tests.hack.bench.test_workload import files


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(["placement", *words])


def test_the_figures_of_two_policies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes, pods = files(tmp_path)
    words = ["--nodes", str(nodes), "--pods", str(pods), "--policy", "pack,fragmentation", "--seeds", "42-43"]
    assert command.run(parsed(*words, "--json")) == 0
    found = json.loads(capsys.readouterr().out)["policies"]
    assert list(found) == ["pack", "fragmentation"]
    for figures in found.values():
        assert set(figures) >= {
            "alloc_at_100",
            "alloc_at_130",
            "frag_at_100",
            "pods_placed",
            "us_per_decision",
        }
        assert 0 < figures["alloc_at_130"] <= 100
    assert command.run(parsed(*words)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1 nodes, 2 cards, 3 pods in the list; mean of seeds 42-43"
    assert [line.split()[0] for line in lines[1:]] == ["policy", "pack", "fragmentation"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--policy", "fastest"), "no placement policy 'fastest': write best-fit"),
        (("--seeds", "4-x"), "--seeds 4-x: write 42-51 or 1,2,7"),
        (("--seeds", "5-4"), "--seeds 5-4: write"),
        (("--seeds", "0-999999999"), "--seeds 0-999999999: write 42-51 or 1,2,7, at most 1000 of them"),
        (("--seeds", f"1-1{'0' * 40}"), "at most 1000 of them"),
        (("--seeds", ",".join(map(str, range(1001)))), "at most 1000 of them"),
        (("--nodes", "f"), "write --nodes and --pods, or neither"),
        (("--nodes", "none", "--pods", "none"), "^none: No such file or directory$"),
        (("--offered", "95"), "write --lifetimes too"),
        (("--lifetimes", "f", "--offered", "nan"), "write --offered above 0"),
        (("--lifetimes", "f", "--offered", "1e300"), "write --offered above 0 and up to 1000"),
        (("--processes", "-1"), "write --processes from 1 to 256"),
        (("--processes", "1000000"), "write --processes from 1 to 256"),
        (("--plot", "drawn.txt"), "--plot drawn.txt: write a file that ends in .png, .svg, .pdf"),
        (("--plot", "none/drawn.svg"), "--plot none/drawn.svg: no folder none"),
    ],
)
def test_what_cannot_be_run_says_what_to_write(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(VgpuError, match=message):
        command.run(parsed(*words))


def test_a_plot_has_a_line_for_each_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes, pods = files(tmp_path)
    drawn = tmp_path / "drawn.svg"
    words = ["--nodes", str(nodes), "--pods", str(pods), "--policy", "pack,spread", "--seeds", "42"]
    assert command.run(parsed(*words, "--plot", str(drawn))) == 0
    assert drawn.read_text().startswith("<?xml")
    assert "policy" in capsys.readouterr().out
    with pytest.raises(VgpuError, match="--plot draws"):
        command.run(parsed(*words, "--plot", str(drawn), "--lifetimes", str(pods)))


def test_the_curve_goes_up_as_pods_arrive(tmp_path: Path) -> None:
    nodes, pods = files(tmp_path)
    outcome = replay("pack", 42, read(nodes, pods))
    allocated = [outcome.at(percent)[0] for percent in PERCENT]
    assert allocated == sorted(allocated)
    assert 0 < allocated[-1] <= 100
