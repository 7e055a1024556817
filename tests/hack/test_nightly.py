"""hack/nightly: its parts, what it installs on an older Kubernetes, and how its last line comes to be."""

import os
from pathlib import Path

import pytest

from hack.testbed import nightly, programs
from hack.testbed.e2e import LaneResult
from hack.testbed.layout import Layout
from tests.manifests.conftest import kustomize

older = pytest.mark.parametrize("release", nightly.OLDER_RELEASES)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The parts that were run, of two that can be: the first passes, the second fails."""
    names = list[str]()

    def part(name: str, *, passed: bool) -> nightly.Ended:
        names.append(name)
        return nightly.Ended(f"5 {'passed' if passed else 'failed'}", passed)

    parts = {"good": lambda: part("good", passed=True), "bad": lambda: part("bad", passed=False)}
    monkeypatch.setattr(nightly, "PARTS", parts)
    for name in ("VGPU_E2E", "VGPU_E2E_REUSES", nightly.WANTED):
        monkeypatch.setenv(name, "")
    return names


@pytest.mark.parametrize(
    ("words", "expected", "status", "texts"),
    [
        ([], ["good", "bad"], 1, "good: 5 passed; bad: 5 failed"),
        (["good"], ["good"], 0, "good: 5 passed"),
        (["bad"], ["bad"], 1, "bad: 5 failed"),
    ],
)
def test_parts_can_be_chosen(
    words: list[str],
    expected: list[str],
    status: int,
    texts: str,
    ran: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert nightly.main(words) == status
    assert ran == expected
    assert capsys.readouterr().out == f"nightly: {texts}; 0 s\n"


def test_an_unknown_part_is_refused(ran: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        nightly.main(["good", "none"])
    assert "there is no part none; there are: good, bad" in capsys.readouterr().err
    assert not ran


def test_what_the_machine_lacks_is_said(
    ran: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lacks() -> nightly.Ended:
        raise programs.MissingError("missing: root")

    monkeypatch.setattr(nightly, "PARTS", {"good": lacks})
    assert nightly.main([]) == 1
    assert capsys.readouterr().err == "missing: root\n"
    assert not ran


@older
def test_only_one_part_is_of_the_older_kubernetes(release: str) -> None:
    with nightly.kubernetes(release):
        assert programs.version("k8s.io/kubernetes").startswith(f"v{release}.")
    assert programs.RELEASE not in os.environ


def test_the_part_has_the_results_of_all_older_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    def lanes(*_: object) -> nightly.Ended:
        release = os.environ[programs.RELEASE]
        return nightly.Ended(release, release == nightly.OLDER_RELEASES[-1])

    monkeypatch.setattr(nightly, "lanes", lanes)
    assert nightly.older() == nightly.Ended(", ".join(nightly.OLDER_RELEASES), passed=False)


@older
def test_it_installs_what_the_readme_has_for_this_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    monkeypatch.setenv(programs.RELEASE, release)
    made = kustomize(nightly.older_overlay(Layout(tmp_path / "contract")))
    assert not made.of("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")
    assert made.of("ValidatingAdmissionPolicy")
    images = {container["image"] for container in made.containers()}
    assert f"registry.k8s.io/kube-scheduler:{programs.version('k8s.io/kubernetes')}" in images
    assert "/var/lib/vgpu-sim" in str(made.pods())


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("...\n=== 5 passed, 1 skipped in 61.02s (0:01:01) ===\n", "5 passed, 1 skipped"),
        ("FAILED tests/a.py\n== 1 failed, 4 passed in 3.10s ==\n", "1 failed, 4 passed"),
        ("the cluster does not come up", "did not run"),
    ],
)
def test_the_summary_is_pytests_own(output: str, text: str) -> None:
    assert nightly.summary(LaneResult(0, output)) == text
