"""`vgpu bench placement` on a small cluster: its figures, and what it says of a workload that cannot be made."""

import argparse
import json

import pytest

from device_plugin.cli import bench


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    return parser.parse_args(["placement", *words])


def test_the_figures_of_a_half_full_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.run(parsed("--nodes", "10", "--cards", "4", "--decisions", "50", "--json")) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["nodes"], figures["cards"]) == (10, 40)
    # Half of 40 cards of 16 units, in slices of 1 to 8 units.
    assert 40 <= figures["slices"] <= 320
    assert figures["decisions_per_s"] > 0


def test_the_same_seed_makes_the_same_workload(capsys: pytest.CaptureFixture[str]) -> None:
    held = []
    for seed in ("1", "1", "2"):
        bench.run(parsed("--nodes", "10", "--cards", "4", "--decisions", "100", "--seed", seed))
        held.append(capsys.readouterr().out.splitlines()[0].split(" (seed")[0])
    assert held[0] == held[1] != held[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--nodes", "0"), "--nodes and --decisions of at least 1"),
        (("--fill", "1"), "--fill from 0 to 0.9"),
        (("--nodes", "1", "--cards", "1", "--policy", "fastest"), "no placement policy 'fastest'"),
    ],
)
def test_a_workload_that_cannot_be_made_says_what_to_write(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(bench.BenchError, match=message):
        bench.run(parsed(*words))
