"""hack/nightly: what it installs on an older Kubernetes, and how its last line comes to be."""

from pathlib import Path

import pytest

from hack.testbed import nightly, programs
from hack.testbed.e2e import LaneResult
from hack.testbed.layout import Layout
from tests.manifests.conftest import kustomize


def test_it_installs_what_the_readme_has_for_this_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(programs.RELEASE, nightly.RELEASE)
    made = kustomize(nightly.older(Layout(tmp_path / "contract")))
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
