"""hack/nightly userlands: what becomes of releases of HIP that are there, wrong or gone."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from hack.measure import userlands
from vgpu_runtime.sim import hip
from vgpu_runtime.sim.cards import SimCard

RELEASES = 4


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """All releases are there and right."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: None)
    monkeypatch.setattr(userlands, "_found", Path)
    monkeypatch.setattr(userlands, "_suites", lambda _: ("9 passed", True))
    found(monkeypatch, {})
    return monkeypatch


def found(monkeypatch: pytest.MonkeyPatch, other: Mapping[str, int]) -> None:
    """Every check holds in all five sizes, except the `other` ones."""

    def five_sizes(_card: SimCard, _found: Path) -> Mapping[str, int]:
        return {**dict.fromkeys((*userlands.CHECKS, userlands.FOLLOWS), 5), **other}

    monkeypatch.setattr(userlands, "_five_sizes", five_sizes)


def gone(monkeypatch: pytest.MonkeyPatch, *versions: str) -> None:
    """Neither Debian nor the cache has these."""

    def ensure(version: str) -> Path:
        if version in versions:
            raise hip.HipUnavailableError("a reason")
        return Path(version)

    monkeypatch.setattr(userlands, "_found", ensure)


def test_every_release_is_a_text_and_its_cards_are_rows(
    tried: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tried
    texts, passed = userlands.run()
    assert passed
    assert texts[0] == "HIP 5.2.3 9 passed, 5 cards, none wrong"
    assert len(texts) == RELEASES
    row = "| 5.2.3 | `hygon-60cu-16gib` | 1, 15, 30, 45, 59 of 60 |" + " 5 of 5 |" * 6
    assert row in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("other", "passed"), [({"masks": 4}, False), ({userlands.FOLLOWS: 0}, True)])
def test_one_wrong_size_fails_the_part_but_not_hips_own_figure(
    tried: pytest.MonkeyPatch, other: Mapping[str, int], passed: bool
) -> None:
    found(tried, other)
    assert userlands.run()[1] is passed


def test_a_failed_suite_fails_the_part(tried: pytest.MonkeyPatch) -> None:
    tried.setattr(userlands, "_suites", lambda _: ("1 failed", False))
    assert not userlands.run()[1]


@pytest.mark.parametrize(
    ("version", "ci", "passed"),
    [("7.2.4", "", True), ("7.2.4", "true", True), ("5.7.1", "", True), ("5.7.1", "true", False)],
)
def test_a_release_that_is_gone_is_said(
    tried: pytest.MonkeyPatch, version: str, ci: str, passed: bool
) -> None:
    """In CI only those may be gone that Debian still changes."""
    tried.setenv("CI", ci)
    gone(tried, version)
    texts, ended = userlands.run()
    assert ended is passed
    assert f"HIP {version} not tried (a reason)" in texts
    assert len(texts) == RELEASES
