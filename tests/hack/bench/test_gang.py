"""`vgpu bench gang`: what it prints, and what it cannot measure."""

import json

import pytest

from device_plugin.wiring.commands import main


def test_figures_of_a_gang_that_fits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "gang", "--pods", "16", "--nodes", "4", "--asks", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["pods"], found["nodes"], found["fill"], found["asks"]) == (16, 4, 0.5, 3)
    assert found["decided_s"] > 0
    assert found["later_ms"] > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pods", "1025"], "write --pods from 2 to 1024"),
        (["--pods", "4", "--asks", "5"], "--asks from 1 to as many"),
        (["--pods", "512", "--nodes", "2"], "group gang: room for "),
        (["--fill", "2"], "vgpu: write --fill from 0 to 0.9\n"),
    ],
)
def test_what_cannot_be_measured_is_said(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main(["bench", "gang", *words]) == 2
    assert said in capsys.readouterr().err
