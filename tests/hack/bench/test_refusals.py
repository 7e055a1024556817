"""`vgpu bench refusals`: what it prints, and what it cannot measure."""

import json

import pytest

from device_plugin.wiring.commands import main


def test_figures_of_placements_and_refusals(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "refusals", "--nodes", "40", "--requests", "18", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"placement", "refusal: larger than any card", "refusal: all of these"} <= found.keys()
    assert all(0 < cost["locked_p50_ms"] <= cost["locked_p99_ms"] for cost in found.values())


def test_what_cannot_be_measured_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "refusals", "--nodes", "0"]) == 2
    assert "write --nodes of at least 1" in capsys.readouterr().err
