"""Slices by ResourceClaim: the same cards and the same ledger as slices by limits, on real Kubernetes."""

import json
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from device_plugin.core.contract.claims import FINALIZER, quota_resource
from device_plugin.kube.api import PODS
from tests.e2e import nodes, service
from tests.e2e.claims import (
    API_VERSION,
    CLAIMS,
    CLASS,
    CLASSES,
    SLICES,
    asking,
    claim,
    claim_of,
    claim_pod,
    device_uuids,
    devices,
    template,
)
from tests.e2e.conftest import in_own_namespace
from tests.e2e.kubectl import Kubectl, KubectlError
from tests.e2e.machines import Machines
from tests.e2e.slices import check_disjoint, grant, held, inventory
from tests.e2e.test_health import simulate
from tests.e2e.test_restarts import life, restart_kubelet
from tests.e2e.test_sharing import probe
from tests.e2e.test_why import vgpu
from tests.e2e.waiting import eventually, within
from tests.e2e.workloads import container, pod, slice_of, slice_pod
from tests.requirement import require

ALLOWED = "vgpu.io/claims=allowed"
NODE = "n1"
HERE = nodes.on(NODE)
FOUR = asking("4Gi", 15)
AGENT = "vgpu node"


@pytest.fixture(autouse=True)
def _claims_are_served() -> None:
    require(
        Kubectl("").has(CLASSES, CLASS), "needs the component dra: make e2e ARGS=tests/e2e/test_claims.py"
    )


def allow(kubectl: Kubectl) -> None:
    """Let the namespace ask by claims; returns once admission knows it."""
    Kubectl("")("label", "namespace", kubectl.namespace, ALLOWED)
    assert eventually(lambda: not kubectl.would_refuse(claim("any", FOUR)), 20)


@pytest.fixture
def kubectl() -> Iterator[Kubectl]:
    """kubectl in a namespace that may ask by claims, with the template `slice` of 4 GiB and 15 core groups."""
    with in_own_namespace() as made:
        allow(made)
        made.create(template("slice", FOUR))
        yield made


def test_check_finds_nothing_wrong_with_claims() -> None:
    def sound() -> bool:
        status, said = vgpu("check")
        print(said)
        return (
            status == 0 and "ok       claims       ResourceClaims are served on every node with cards" in said
        )

    assert eventually(sound, 90)


def test_a_claim_is_given_the_slice_that_limits_are_given_on_the_same_card(kubectl: Kubectl) -> None:
    kubectl.create(slice_pod("limits", mem=4, cores=15), claim_pod("claim", "slice"))
    kubectl.running("limits", "claim")
    first, second = held(kubectl, "limits") + held(kubectl, "claim")
    assert first.card == second.card, "the default policy packs"
    assert (first.mem_bytes, len(first.units)) == (second.mem_bytes, len(second.units))
    check_disjoint([first, second])
    seen = probe(kubectl, "claim", "info")
    assert (seen["devices"], seen["total_mib"], seen["units"]) == (1, 4092, 15)
    assert probe(kubectl, "claim", "alloc", "6144")["error"] == "hipErrorOutOfMemory"
    found = claim_of(kubectl, "claim")
    (given,) = devices(found)
    assert device_uuids()[given["pool"], given["device"]] == second.card
    assert given["consumedCapacity"] == {"memory": "4Gi", "cores": "15"}
    assert grant(kubectl, "claim")["claims"] == {"main": found["metadata"]["uid"]}


def test_a_claim_of_slices_of_several_cards(kubectl: Kubectl) -> None:
    kubectl.create(template("two", asking("2Gi", 5, count=2)), claim_pod("two", "two"))
    kubectl.running("two")
    two = held(kubectl, "two")
    assert len({each.card for each in two}) == 2
    known = device_uuids()
    shown = {known[each["pool"], each["device"]] for each in devices(claim_of(kubectl, "two"))}
    assert shown == {each.card for each in two}


def test_containers_of_one_pod_ask_by_claims_and_in_limits(kubectl: Kubectl) -> None:
    kubectl.create(template("one", asking("2Gi", 5)))
    kubectl.create(
        pod(
            "mixed",
            container("one", resources={"claims": [{"name": "one"}]}),
            container("four", resources={"claims": [{"name": "four"}]}),
            container("limits", resources=slice_of(mem=1, cores=2)),
            schedulerName="vgpu-scheduler",
            resourceClaims=[
                {"name": "one", "resourceClaimTemplateName": "one"},
                {"name": "four", "resourceClaimTemplateName": "slice"},
            ],
        )
    )
    kubectl.running("mixed")
    found = [held(kubectl, "mixed", name) for name in ("one", "four", "limits")]
    assert [each.mem_bytes >> 20 for (each,) in found] == [2046, 4092, 1023]
    check_disjoint([each for (each,) in found])


def test_a_claim_is_freed_with_its_pod_and_the_slice_with_it(kubectl: Kubectl) -> None:
    kubectl.create(claim("kept", FOUR), claim_pod("a", named="kept"))
    kubectl.running("a")
    assert devices(kubectl.get(CLAIMS, "kept"))
    kubectl.gone("a")
    assert eventually(lambda: not devices(kubectl.get(CLAIMS, "kept")), 20)
    kubectl.create(claim_pod("b", named="kept"))
    kubectl.running("b")
    (given,) = devices(kubectl.get(CLAIMS, "kept"))
    assert device_uuids()[given["pool"], given["device"]] == held(kubectl, "b")[0].card


def test_claims_that_were_given_no_card_are_deleted_at_once(kubectl: Kubectl) -> None:
    """They have the finalizer from their creation on, and Kubernetes' claim controller removes it."""
    kubectl.create(claim("unused", FOUR), claim("large", asking("4Ti", 60)), claim_pod("p", named="large"))
    assert [kubectl.get(CLAIMS, name)["metadata"]["finalizers"] for name in ("unused", "large")] == [
        [FINALIZER], [FINALIZER],
    ]  # fmt: skip
    assert eventually(lambda: kubectl.events("p"), 60), "it was tried to place the pod"
    kubectl("delete", "pod", "p", "--wait=true", "--timeout=60s")
    kubectl("delete", "resourceclaim", "unused", "large", "--wait=true", "--timeout=60s")
    assert kubectl.items(CLAIMS) == []


def test_a_pod_of_another_scheduler_never_starts_and_says_what_to_write(kubectl: Kubectl) -> None:
    kubectl.create(claim_pod("other", "slice", schedulerName="default-scheduler"))
    assert eventually(lambda: any("schedulerName: vgpu-scheduler" in e for e in kubectl.events("other")), 60)
    assert kubectl.phase("other") == "Pending"
    assert not devices(claim_of(kubectl, "other"))


def test_nobody_computes_on_the_slice_of_a_claim_that_another_pod_holds(kubectl: Kubectl) -> None:
    """Kubernetes itself reserves a claim for any pod that is bound and names it; the policy keeps it from that."""
    kubectl.create(claim("shared", FOUR), claim_pod("a", named="shared"))
    kubectl.running("a")
    uid = kubectl.pod("a")["metadata"]["uid"]
    node = kubectl.pod("a")["spec"]["nodeName"]
    thief = claim_pod("b", named="shared", schedulerName="default-scheduler", nodeName=node)
    refused = kubectl.would_refuse(thief)
    if not refused:
        kubectl.create(thief)
        assert eventually(lambda: any("not allowed to use" in e for e in kubectl.events("b")), 60)
        assert kubectl.phase("b") == "Pending"
    reserved = [each["uid"] for each in kubectl.get(CLAIMS, "shared")["status"]["reservedFor"]]
    assert reserved == [uid]


def test_pods_wait_for_an_agent_that_is_down_and_none_fails(kubectl: Kubectl) -> None:
    agent = service.agent(NODE)
    service.signal_all(agent, AGENT, signal.SIGSTOP)
    names = [f"w{i}" for i in range(6)]
    try:
        kubectl.create(*(claim_pod(name, "slice", **HERE) for name in names))
        assert eventually(lambda: all(kubectl.pod(name)["spec"].get("nodeName") for name in names), 60)
        assert {kubectl.phase(name) for name in names} == {"Pending"}
    finally:
        service.resume(agent, AGENT)
    kubectl.running(*names)
    check_disjoint([slice_ for name in names for slice_ in held(kubectl, name)])


def prepare_claims(*, on: bool) -> None:
    """Have all agents prepare claims, or none; returns once their nodes say so."""
    service.SYSTEM("set", "env", "daemonset/vgpu-node", f"VGPU_CLAIMS={str(on).lower()}")
    service.SYSTEM("rollout", "status", "daemonset/vgpu-node", "--timeout=300s")
    assert eventually(lambda: {inventory(name).get("claims", False) for name in nodes.names()} == {on}, 60)


@pytest.fixture
def _no_claims() -> Iterator[None]:
    """No agent prepares claims."""
    prepare_claims(on=False)
    yield
    prepare_claims(on=True)


@pytest.mark.usefixtures("_no_claims")
def test_a_pod_is_refused_where_no_agent_prepares_claims_and_runs_once_one_does(kubectl: Kubectl) -> None:
    refused = "on nodes that prepare no ResourceClaims"
    kubectl.create(claim_pod("waits", "slice"), slice_pod("limits", mem=4, cores=15))
    assert eventually(lambda: any(refused in event for event in kubectl.events("waits")), 60)
    kubectl.running("limits")
    assert refused in vgpu("why", "waits", "-n", kubectl.namespace)[1]
    assert "nodeName" not in kubectl.pod("waits")["spec"]
    prepare_claims(on=True)
    kubectl.running("waits")


@pytest.mark.parametrize("program", ["agent", "kubelet"])
def test_running_pods_notice_no_restart_and_the_cards_are_shown_again(
    kubectl: Kubectl, machines: Machines, program: str
) -> None:
    kubectl.create(claim_pod("sitting", "slice", **HERE))
    kubectl.running("sitting")
    before = life(kubectl, "sitting"), held(kubectl, "sitting")
    if program == "agent":
        service.signal_all(service.agent(NODE), AGENT, signal.SIGKILL)
    else:
        restart_kubelet(machines)
    kubectl.create(claim_pod("next", "slice", **HERE))
    kubectl.running("next")
    assert eventually(lambda: shown(NODE) == len(inventory(NODE)["cards"]), 30)
    assert (life(kubectl, "sitting"), held(kubectl, "sitting")) == before


def test_slices_that_somebody_removes_are_back_within_seconds(kubectl: Kubectl) -> None:
    assert kubectl
    (name,) = [each["metadata"]["name"] for each in Kubectl("").items(SLICES) if on(NODE, each)]
    Kubectl("")("delete", "resourceslice", name)
    assert within(lambda: shown(NODE) == len(inventory(NODE)["cards"]), 5)


def test_the_slice_of_a_card_family_that_the_node_has_no_more_is_removed() -> None:
    """As the agent of that node, which a token of its pod would name."""
    agent = "system:serviceaccount:vgpu-system:vgpu-node"
    who = f"--as={agent}", f"--as-user-extra=authentication.kubernetes.io/node-name={NODE}"
    name = f"hcu.vgpu.io-{NODE}"
    left = {
        "apiVersion": API_VERSION,
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": "hcu.vgpu.io", "nodeName": NODE, "devices": [],
            "pool": {"name": NODE, "generation": 1, "resourceSliceCount": 1},
        },
    }  # fmt: skip
    Kubectl("")("create", "--filename=-", *who, given=json.dumps(left))
    assert eventually(lambda: not Kubectl("").has(SLICES, name), 30)


REFUSED = "no pod is bound here now"


@pytest.fixture
def refusing(kubectl: Kubectl) -> Iterator[str]:
    """The API server refuses every Binding in the namespace."""
    name = f"refuses-{kubectl.namespace}"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    here = {"matchLabels": {"kubernetes.io/metadata.name": kubectl.namespace}}
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    constraints = {"namespaceSelector": here, "resourceRules": [rule]}
    validations = [{"expression": "false", "message": REFUSED}]
    spec = {"failurePolicy": "Fail", "matchConstraints": constraints, "validations": validations}
    cluster = Kubectl("")
    cluster.apply(
        {**kind, "kind": "ValidatingAdmissionPolicy", "spec": spec},
        {
            **kind,
            "kind": "ValidatingAdmissionPolicyBinding",
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    )
    assert eventually(lambda: REFUSED in _bound(kubectl, "nobody"), 30)
    yield REFUSED
    for each in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
        cluster("delete", each, name)


def _bound(kubectl: Kubectl, name: str) -> str:
    """Returns the API server's answer to a Binding of this pod, as text."""
    target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods/{name}/binding"
    try:
        return kubectl("create", "--raw", path, "--filename=-", given=json.dumps(body))
    except KubectlError as error:
        return str(error)


def test_a_claim_whose_pod_was_not_bound_has_no_card(kubectl: Kubectl, refusing: str) -> None:
    """It was written before the Binding, and is cleared when that is refused."""
    kubectl.create(claim("kept", FOUR), claim_pod("p", named="kept"))
    assert eventually(lambda: any(refusing in event for event in kubectl.events("p")), 60)
    assert eventually(lambda: not devices(kubectl.get(CLAIMS, "kept")), 20)
    assert kubectl.get(CLAIMS, "kept")["metadata"]["finalizers"] == [FINALIZER]


def test_a_container_that_ends_by_itself_starts_again_with_its_slice(kubectl: Kubectl) -> None:
    kubectl.create(claim_pod("again", "slice"))
    kubectl.running("again")
    before = held(kubectl, "again")
    with suppress(KubectlError):  # the container ends with its first process
        kubectl.inside("again", "sh", "-c", "kill -TERM 1")
    assert eventually(lambda: life(kubectl, "again")[1] == 1, 60)
    kubectl.running("again")
    assert held(kubectl, "again") == before
    assert probe(kubectl, "again", "info")["total_mib"] == 4092


def test_the_pod_shows_that_its_card_is_sick(kubectl: Kubectl) -> None:
    kubectl.create(claim_pod("ill", "slice", **nodes.on(nodes.first())))
    kubectl.running("ill")
    (slice_,) = held(kubectl, "ill")
    simulate("sick", slice_.card)
    try:
        assert eventually(lambda: "Unhealthy" in shown_health(kubectl, "ill"), 60), kubectl.pod("ill")
    finally:
        simulate("well", slice_.card)
    assert eventually(lambda: "Unhealthy" not in shown_health(kubectl, "ill"), 60)


def test_a_force_deletion_frees_the_claim_and_not_the_slice_of_a_process_that_runs(kubectl: Kubectl) -> None:
    kubectl.create(claim_pod("gone", "slice", **HERE))
    kubectl.running("gone")
    uid = kubectl.pod("gone")["metadata"]["uid"]
    kubectl("delete", "pod", "gone", "--force", "--grace-period=0", "--wait=false")
    assert eventually(lambda: not kubectl.has(PODS, "gone"), 30)
    kubectl.create(*(claim_pod(f"next-{i}", "slice", **HERE) for i in range(3)))
    kubectl.running(*(f"next-{i}" for i in range(3)))
    assert eventually(
        lambda: uid not in {each["uid"] for _, each in service.ledger_slices(service.leader())}, 30
    )
    check_disjoint([slice_ for i in range(3) for slice_ in held(kubectl, f"next-{i}")])


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "dcu.vgpu.io"}}]}}, "capacity"),
        ({"devices": {**asking("4Gi")["devices"], "constraints": [{"matchAttribute": "vgpu.io/model"}]}},
         "constraints"),
    ],
)  # fmt: skip
def test_a_claim_that_is_not_served_is_refused_with_what_to_write(
    kubectl: Kubectl, spec: dict[str, object], said: str
) -> None:
    assert said in kubectl.refusal(claim("odd", spec))


def test_a_namespace_that_was_not_asked_may_not_use_claims() -> None:
    with in_own_namespace() as made:
        assert ALLOWED.replace("=", ": ") in made.refusal(claim("any", FOUR))


def test_a_quota_counts_the_slices_of_claims(kubectl: Kubectl) -> None:
    spec = {"hard": {quota_resource("hygon.com/dcu"): "1"}}
    kubectl.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "one"}, "spec": spec})
    assert eventually(lambda: "0/1" in vgpu("quota", "-n", kubectl.namespace)[1], 30)
    assert "exceeded quota" in kubectl.refusal(claim("two", asking("4Gi", 15, count=2)))
    kubectl.create(claim_pod("first", "slice"))
    kubectl.running("first")
    kubectl.create(claim_pod("second", "slice"))
    assert eventually(lambda: any("exceeded quota" in event for event in kubectl.events("second")), 60)
    assert "1/1" in vgpu("quota", "-n", kubectl.namespace)[1]
    assert "waits for its claim" in vgpu("why", "second", "-n", kubectl.namespace)[1]
    kubectl.gone("first")
    kubectl.running("second")


def shown(node: str) -> int:
    """The number of cards that the node's ResourceSlices show."""
    return sum(len(each["spec"].get("devices") or ()) for each in Kubectl("").items(SLICES) if on(node, each))


def on(node: str, found: dict[str, object]) -> bool:
    spec = found["spec"]
    return isinstance(spec, dict) and spec.get("nodeName") == node


def shown_health(kubectl: Kubectl, name: str) -> set[str]:
    """The health of the pod's devices, as its status shows it (KEP-4680)."""
    (status,) = kubectl.pod(name)["status"]["containerStatuses"]
    return {
        each["health"]
        for resource in status.get("allocatedResourcesStatus") or ()
        for each in resource.get("resources") or ()
    }
