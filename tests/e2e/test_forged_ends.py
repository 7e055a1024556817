"""Somebody writes that a pod has ended while it runs: refused, and without the policy nobody who runs is ended."""

import json
import signal
from collections.abc import Iterator

import pytest

from device_plugin.kube.api import EVENTS, Kind, Ref
from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl, KubectlError, api
from tests.e2e.slices import held
from tests.e2e.test_restarts import life
from tests.e2e.waiting import eventually
from tests.e2e.workloads import deployment, slice_pod

pytestmark = pytest.mark.disturbs
BINDINGS = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    dict,
)
POLICY = Ref("vgpu-ends")


@pytest.fixture
def unguarded() -> Iterator[Kubectl]:
    """A cluster without the policy, from the moment that the fixture's value deletes the binding."""
    binding = api().get(BINDINGS, POLICY)
    yield Kubectl("")
    if not Kubectl("").has(BINDINGS, POLICY.name):
        made = {"name": POLICY.name, "labels": binding["metadata"].get("labels", {})}
        api().create(BINDINGS, {"metadata": made, "spec": binding["spec"]})


def forge(kubectl: Kubectl, phase: str) -> str:
    """Why the phase of the victim cannot be written; empty if it was."""
    patch = json.dumps({"status": {"phase": phase}})
    try:
        kubectl("patch", "pod", "victim", "--subresource=status", "--type=merge", "--patch", patch)
    except KubectlError as error:
        return str(error)
    return ""


def newcomers(kubectl: Kubectl) -> dict[str, str]:
    """The pods of the newcomer by UID, each with its node or an empty text."""
    found = kubectl.items(labels="app=newcomer")
    return {each["metadata"]["uid"]: each["spec"].get("nodeName", "") for each in found}


def conflicts(kubectl: Kubectl) -> dict[str, str]:
    """By UID of the pod: what the allocator says of a slice that another one uses."""
    found = kubectl.items(EVENTS, fields="reason=SliceConflict")
    return {each["involvedObject"]["uid"]: each["message"] for each in found}


@pytest.mark.parametrize("another_leader", [False, True])
def test_whoever_runs_keeps_its_slice_and_the_newcomer_is_placed_anew(
    kubectl: Kubectl, unguarded: Kubectl, another_leader: bool
) -> None:
    """Other cards of the node are free, so the kubelet admits the newcomer, whose container waits for the slice."""
    here = nodes.on(nodes.first())
    kubectl.create(slice_pod("victim", mem=16, cores=60, **here))
    kubectl.running("victim")
    before = life(kubectl, "victim"), held(kubectl, "victim")
    card = before[1][0].card
    refusal = forge(kubectl, "Failed")
    assert "only the kubelet of its node" in refusal
    assert "to end the pod, delete it" in refusal
    wanted = deployment("newcomer", 1, slice_pod("newcomer", mem=16, cores=60, **here))
    wanted["spec"]["template"]["metadata"]["annotations"] = {"vgpu.io/card-uuid": card}
    kubectl.create(wanted)
    assert eventually(lambda: [*newcomers(kubectl).values()] == [""], 30)
    (first,) = newcomers(kubectl)

    unguarded("delete", "validatingadmissionpolicybinding", POLICY.name)
    # Its kubelet writes within 10 s that the victim runs.
    assert eventually(lambda: not forge(kubectl, "Failed") and newcomers(kubectl)[first], 60)
    if another_leader:
        leading = service.leader()
        for words in ("vgpu cluster", "kube-scheduler"):
            service.signal_all(leading, words, signal.SIGKILL)
    assert eventually(lambda: first not in newcomers(kubectl), 120)
    assert f"{kubectl.namespace}/victim" in conflicts(kubectl)[first]
    assert kubectl.phase("victim") == "Running"
    assert (life(kubectl, "victim"), held(kubectl, "victim")) == before

    kubectl.gone("victim")
    (pod,) = (each["metadata"]["name"] for each in kubectl.items(labels="app=newcomer"))
    kubectl.running(pod)
    assert held(kubectl, pod)[0].card == card
