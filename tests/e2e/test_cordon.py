"""A card is taken out of service for repair, and comes back, with `vgpu` as people run it."""

import subprocess
import sys

import pytest

from tests.e2e import nodes
from tests.e2e.kubectl import Kubectl
from tests.e2e.slices import cards, held
from tests.e2e.waiting import eventually
from tests.e2e.workloads import deployment, slice_pod


def vgpu(*words: str) -> str:
    """What the command prints; it must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", "device_plugin", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def running(kubectl: Kubectl) -> list[str]:
    pods = kubectl.items(labels="app=service", fields="status.phase=Running")
    return [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def test_a_drained_card_is_empty_gets_nothing_new_and_comes_back(kubectl: Kubectl) -> None:
    kubectl.create(deployment("service", 1, slice_pod("service", mem=4, cores=15, **nodes.on(nodes.first()))))
    kubectl("rollout", "status", "deployment/service", "--timeout=180s")
    (before,) = running(kubectl)
    card = held(kubectl, before)[0].card
    pci = cards()[card]["pci"]
    with pytest.raises(AssertionError, match=f"cards have the name {pci}: write one of .*{card}"):
        vgpu("drain", pci)
    try:
        assert vgpu("drain", f"{nodes.first()}/{pci}").splitlines()[-1] == f"{card} is empty"
        after = eventually(lambda: [name for name in running(kubectl) if name != before], 60)
        assert held(kubectl, after[0])[0].card != card
        wanted = slice_pod("wanted", mem=1, cores=2)
        wanted["metadata"]["annotations"] = {"vgpu.io/card-uuid": card}
        kubectl.create(wanted)
        assert eventually(lambda: any("cordoned" in event for event in kubectl.events("wanted")), 60)
    finally:
        vgpu("uncordon", card)
    kubectl.running("wanted")
    assert held(kubectl, "wanted")[0].card == card


def test_defrag_reads_the_cluster_and_changes_nothing(kubectl: Kubectl) -> None:
    kubectl.create(slice_pod("alone", mem=4, cores=15))
    kubectl.running("alone")
    assert "alone" not in vgpu("defrag", "--dry-run"), "nobody would make it again"
    assert kubectl.phase("alone") == "Running"
