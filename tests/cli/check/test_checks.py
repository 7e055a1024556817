"""`vgpu check` finds what is wrong with an installation, and says the cure."""

import json
import time
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import yaml

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.check import checks, node_checks
from device_plugin.cli.check.checks import findings
from device_plugin.cli.check.installation import CheckState, Finding, Installation
from device_plugin.cli.reading.cluster import AnnotationFault, ClusterReading, KnownCluster
from device_plugin.cli.reading.reader import ClusterReader
from device_plugin.core.contract import annotations
from device_plugin.core.contract.cards import Inventory, ReportedSlice, SliceState
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.contract.resize import api_time
from device_plugin.core.pods import Node
from device_plugin.kube.api import EVERYWHERE, Kind, Listed, Metadata, Where
from device_plugin.kube.errors import from_status
from device_plugin.wiring.commands import main
from tests.builders.cards import FAMILY, card, inventory
from tests.cli.fleet import Fleet
from vgpu_runtime.paths import SOURCES

NOW = 1_800_000_000.0
MANIFESTS = SOURCES.parent / "manifests"


def named(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **more}


def service(
    name: str,
    container: str,
    ready: int = 2,
    image: str = "vgpu:1",
    env: tuple[dict[str, str], ...] = (),
    scheduler: str = "v1.36.3",
) -> dict[str, Any]:
    containers = [
        {"name": container, "image": image, "env": [{"name": "VGPU_POD_NAME", "valueFrom": {}}, *env]},
        {"name": "scheduler", "image": f"r:5/kube-scheduler:{scheduler}"},
    ]
    spec = {
        "replicas": 2,
        "template": {"spec": {"nodeSelector": {"vgpu.io/node": "true"}, "containers": containers}},
    }
    metadata = {"name": name, "namespace": "vgpu-system"}
    return {"metadata": metadata, "spec": spec, "status": {"readyReplicas": ready}}


def stopped(name: str, container: str) -> dict[str, Any]:
    """A Deployment that was scaled to none."""
    made = service(name, container)
    return {**made, "spec": {**made["spec"], "replicas": 0}, "status": {}}


HYGON = service("vgpu-node-hygon", "agent")
AGENTS = [service("vgpu-node", "agent"), HYGON]


def agents_refused(message: str) -> dict[str, Any]:
    """The DaemonSet has none of its two pods, and an event says why."""
    status = {"desiredNumberScheduled": 2, "currentNumberScheduled": 0, "numberReady": 0}
    daemons = {**service("vgpu-node", "agent"), "status": status}
    of = {"kind": "DaemonSet", "name": "vgpu-node"}
    refused = {"involvedObject": of, "message": message, "lastTimestamp": "2"}
    stale = {**refused, "message": "quota", "lastTimestamp": "1"}
    others = {**refused, "involvedObject": {**of, "name": "other"}, "lastTimestamp": "3"}
    return {
        "workloads": [service("vgpu-cluster", "allocator"), daemons, HYGON],
        "refusals": [refused, stale, others],
    }


def node(name: str, shown: Inventory | None = None, count: str = "2") -> Node:
    text = (shown or inventory(name)).encode()
    return Node(name, text, kubelet="v1.36.3", capacity={FAMILY: count}, labels={"vgpu.io/node": "true"})


def reading(
    shown: Inventory, held: Grant | None = None, cordoned: str = "", *, may_list_nodes: bool = True
) -> ClusterReading:
    """The known cluster after node n1 and one pod on it were read."""
    known = KnownCluster()
    if may_list_nodes:
        kept = {annotations.CARDS: shown.encode(), annotations.CORDONED: cordoned}
        known.see_node(Metadata("n1", annotations=kept))
    if held is not None:
        kept = {annotations.GRANT: held.encode()}
        known.see_pod(Metadata("p", "default", held.pod, annotations=kept), running=True)
    return known.reading()


HELD = Grant("u", "n1", {"main": (Slice("n1-0", 16 * 1023, (0, 1, 59)),)})


def cluster_service(**env: str) -> list[dict[str, Any]]:
    """The services, with these variables of the allocator."""
    variables = tuple({"name": name, "value": value} for name, value in env.items())
    return [service("vgpu-cluster", "allocator", env=variables), *AGENTS]


def ready_pod(node_name: str, ready: str = "True") -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready}]
    return named(f"pod-{node_name}", spec={"nodeName": node_name}, status={"conditions": conditions})


def lease(name: str, age: float) -> dict[str, Any]:
    return named(name, spec={"holderIdentity": "a_b", "renewTime": api_time(NOW - age)})


def bound(names: tuple[str, ...], **spec: Any) -> list[dict[str, Any]]:
    return [named(name, spec={"policyName": name, "validationActions": ["Deny"], **spec}) for name in names]


CHANGING = [named(name, spec={"policyName": name}) for name in checks.MUTATING]
SOUND = Installation(
    ClusterReading({}, ()),
    nodes=[node("n1"), node("n2")],
    workloads=[
        service("vgpu-cluster", "allocator"),
        service("vgpu-node", "agent", image="r:5/simulated:1@sha256:0"),
        HYGON,
    ],
    agents=[ready_pod("n1"), ready_pod("n2")],
    policies=bound(checks.POLICIES),
    bindings=bound(checks.POLICIES),
    mutating=CHANGING,
    mutating_bindings=CHANGING,
    leases=[lease("vgpu-scheduler", 1)],
    leases_at=NOW,
    node_leases=[lease("n1", 2), lease("n2", 9)],
    node_leases_at=NOW,
    notices=[],
    server="v1.36.3",
)


# The checks of every installation.
BASE = [name for name in checks.CHECKS if name != "claims"]


def problems(installed: Installation) -> list[Finding]:
    return [each for each in findings(installed) if each.state is CheckState.PROBLEM]


def test_events_that_a_tenant_writes_are_of_no_node_or_short() -> None:
    forged = [{**NOTICE, "involvedObject": {"name": f"x{number}"}} for number in range(1000)]
    long = {**NOTICE, "message": "run this " * 1000, "lastTimestamp": "9999"}
    (_, text) = node_checks.agents(
        replace(SOUND, agents=[ready_pod("n1"), ready_pod("n2", "False")], notices=[*forged, NOTICE, long])
    )
    assert text.text.startswith("an event of n2 says: run this")
    assert len(text.text) < 600
    assert "can write one" in text.cure


def test_of_many_annotations_that_cannot_be_read_a_few_are_named() -> None:
    faults = tuple(AnnotationFault(f"ns/{number}", "grant: void") for number in range(4000))
    found = problems(replace(SOUND, reading=ClusterReading({}, (), faults)))
    assert [each.check for each in found] == ["annotations"] * 21
    assert found[-1].text == "3980 more that cannot be read"


def test_of_a_sound_installation_each_check_says_so() -> None:
    found = findings(SOUND)
    assert [each.check for each in found] == BASE
    assert {each.state for each in found} == {CheckState.OK}


NOWHERE = {"namespaceSelector": {"matchLabels": {"no": "namespace"}}}
WITHOUT_NAMES = tuple(name for name in checks.POLICIES if name != "vgpu-names")
SICK = Inventory((card("n1-0", healthy=False),))
SMALL = Inventory((card("n1-0", mem_mib=8 * 1024 - 16),))
FEW_GROUPS = Inventory((msgspec.structs.replace(card("n1-0"), core_groups=30, compute_units=30),))
COVERED = replace(
    inventory("n1"),
    slices=(ReportedSlice("u", "default", "p", "main", SliceState.COVERED, HELD.containers["main"]),),
)
UNIT = Inventory((msgspec.structs.replace(card("n2-0"), units=32, unit_mib=512),))
NOTICE = {"involvedObject": {"name": "n2"}, "message": "cdiDir cannot be written", "lastTimestamp": "2"}
WARNING = {"status": {"typeChecking": {"expressionWarnings": [{"warning": "undefined field x"}]}}}


@pytest.mark.parametrize(
    ("change", "check", "text"),
    [
        ({"workloads": AGENTS}, "services", "vgpu-cluster is not installed"),
        ({"workloads": (SOUND.workloads or ())[:-1]}, "services", "vgpu-node-hygon is not installed"),
        (
            {"workloads": [service("vgpu-cluster", "allocator", 1), *AGENTS]},
            "services", "vgpu-cluster: 1 of 2 pods are Ready",
        ),
        (
            {"workloads": [*(SOUND.workloads or ())[:-1], service("vgpu-node-hygon", "agent", 1)]},
            "services", "vgpu-node-hygon: 1 of 2 pods are Ready",
        ),
        (
            {"workloads": [stopped("vgpu-cluster", "allocator"), *AGENTS]},
            "services", "vgpu-cluster has 0 replicas, so it does nothing",
        ),
        (agents_refused("exceeded quota"), "services", "no pod of vgpu-node can be made: exceeded quota"),
        (
            {
                "workloads": [
                    service("vgpu-cluster", "allocator"), service("vgpu-node", "agent", image="vgpu:2"), HYGON,
                ]
            },
            "services", "different versions: 1: vgpu-cluster, vgpu-node-hygon; 2: vgpu-node",
        ),
        ({"policies": SOUND.policies[1:]}, "admission", "policy vgpu-cdi-annotations is missing"),  # type: ignore[index]
        ({"bindings": SOUND.bindings[:-1]}, "admission", "policy vgpu-touches is not bound"),  # type: ignore[index]
        ({"mutating": CHANGING[:1]}, "admission", "policy vgpu-scheduler-name is missing"),
        (
            {"bindings": bound(checks.POLICIES, validationActions=["Audit"])},
            "admission", "policy vgpu-cdi-annotations refuses nothing",
        ),
        (
            {"bindings": bound(checks.POLICIES, matchResources=NOWHERE)},
            "admission", "policy vgpu-cdi-annotations holds for some objects only",
        ),
        (
            {"policies": [*SOUND.policies[:-1], {**named("vgpu-touches"), **WARNING}]},  # type: ignore[index]
            "admission", "finds errors in policy vgpu-touches: undefined field x",
        ),
        (
            {"nodes": [node("n1"), node("n2", replace(inventory("n2"), serving=False))]},
            "agents", "not serving: n2; these nodes get no new slices",
        ),
        ({"agents": [ready_pod("n1")]}, "agents", "no agent is Ready on n2, so their inventories may be out of date"),
        ({"nodes": [node("n1")]}, "agents", "no inventory of n2 can be read, though agents run there"),
        (
            {"agents": [ready_pod("n1"), ready_pod("n2", "False")], "notices": [NOTICE]},
            "agents", "an event of n2 says: cdiDir cannot be written",
        ),
        ({"nodes": [node("n1", count="3"), node("n2")]}, "plugins", "n1: the kubelet counts 3 of hygon.com/dcu"),
        (
            {"nodes": [replace(node("n1"), capacity={}), node("n2")]},
            "plugins", "n1: the kubelet does not know hygon.com/dcu",
        ),
        (
            {"nodes": [node("n1"), node("n2", UNIT, "1")]},
            "units", "one hygon.com/dcu-mem is 512 MiB on n2; 1024 MiB on n1",
        ),
        (
            {"reading": ClusterReading({}, (), (AnnotationFault("default/p", "grant: void"),))},
            "annotations", "default/p: grant: void",
        ),
        (
            {"nodes": [replace(node("n1"), labels={})], "agents": []},
            "agents", "no node has the label vgpu.io/node=true, so no agent runs",
        ),
        ({"nodes": [], "agents": []}, "agents", "no node has the label vgpu.io/node=true"),
        ({"nodes": [replace(node("n1"), inventory="")]}, "cards", "no node shows a card: no agent has published"),
        ({"server": "v1.30.9"}, "versions", "the API server is v1.30.9, older than v1.31"),
        (
            {"nodes": [replace(node("n1"), kubelet="v1.30.1"), node("n2")]},
            "versions", "kubelets are older than v1.31: n1 (v1.30.1)",
        ),
        ({"server": "v1.35.0"}, "versions", "kube-scheduler is v1.36.3, newer than the API server (v1.35.0)"),
        ({"reading": reading(SICK)}, "cards", "unhealthy: n1/n1-0; they get no new slices"),
        ({"reading": reading(SMALL, HELD)}, "cards", "smaller than the slices on them: n1/n1-0"),
        ({"reading": reading(FEW_GROUPS, HELD)}, "cards", "smaller than the slices on them: n1/n1-0"),
        (
            {"reading": reading(Inventory(()), HELD)},
            "cards", "not shown by their nodes, though pods hold slices of them: n1/n1-0",
        ),
        ({"reading": reading(COVERED, HELD)}, "cards", "something covers the files that limit default/p"),
        ({"nodes": [node("n1"), node("n2", Inventory(()), "0")]}, "cards", "no card is offered on n2"),
        # Our agent has withdrawn the family, because another plugin serves it.
        (
            {"nodes": [node("n1"), node("n2", Inventory(()), "4")]},
            "plugins", "n2: the kubelet counts 4 of hygon.com/dcu",
        ),
        (
            {"nodes": [node("n1"), node("n2"), Node("n3", capacity={"hygon.com/hcu": "1"})]},
            "plugins", "n3: the kubelet counts 1 of hygon.com/hcu, the inventory shows 0 cards",
        ),
        (
            {
                "workloads": cluster_service(FAMILIES="hygon.com/dcu,amd.com/gpu"),
                "nodes": [node("n1"), node("n2"), Node("n3", capacity={"amd.com/gpu": "1"})],
            },
            "plugins", "n3: the kubelet counts 1 of amd.com/gpu",
        ),
        ({"bindings": bound(WITHOUT_NAMES)}, "admission", "policy vgpu-names is not bound"),
        ({"leases": []}, "clocks", "no replica of the cluster service leads"),
        ({"leases": [lease("vgpu-scheduler", 60)]}, "clocks", "leading replica was renewed 60 s ago"),
        ({"node_leases": [lease("n1", 3), lease("n2", -60)]}, "clocks", "the clocks of n2 are ahead"),
        ({"node_leases": [lease("n1", 3), lease("n2", 90)]}, "clocks", "the kubelets of n2 have not renewed"),
        (
            {"node_leases": [lease("n1", 90), lease("n2", 99)]},
            "clocks", "the Leases of all nodes were renewed 90 s ago",
        ),
    ],
)  # fmt: skip
def test_each_problem_is_found_with_its_cure(change: dict[str, Any], check: str, text: str) -> None:
    found = [each for each in problems(replace(SOUND, **change)) if text in each.text]
    assert [each.check for each in found[:1]] == [check]
    assert found[0].cure


def test_the_cure_of_a_card_without_new_slices_names_both_events_that_say_why() -> None:
    (found,) = [each for each in problems(replace(SOUND, reading=reading(SICK))) if "unhealthy" in each.text]
    assert "CardUnhealthy" in found.cure
    assert "Preflight" in found.cure


def test_a_cordoned_card_is_named_and_no_problem() -> None:
    cordoned = replace(SOUND, reading=reading(inventory("n1"), cordoned="n1-0"))
    said = [(each.state, each.text) for each in findings(cordoned) if each.check == "cards"]
    assert said == [
        (CheckState.OK, "all cards are healthy"),
        (CheckState.OK, "cordoned: n1/n1-0; `vgpu cards` says why"),
    ]


def test_without_the_right_to_list_nodes_no_card_is_missing() -> None:
    assert problems(replace(SOUND, reading=reading(inventory("n1"), HELD, may_list_nodes=False))) == []


def test_the_policy_of_names_may_be_left_out_with_its_binding() -> None:
    """As docs/install.md says, where another plugin serves a name like ours."""
    left = bound(WITHOUT_NAMES)
    found = findings(replace(SOUND, policies=left, bindings=left))
    assert {each.state for each in found} == {CheckState.OK}
    assert "vgpu-names is left out: misspelt resources are not refused" in [each.text for each in found]


def test_the_lease_is_where_the_cluster_service_looks_for_it() -> None:
    """With the default kube-scheduler it is in kube-system."""
    env = {"VGPU_LEASE_NAMESPACE": "kube-system", "VGPU_LEASE_NAME": "kube-scheduler"}
    other = replace(SOUND, workloads=cluster_service(**env), leases=[lease("kube-scheduler", 1)])
    assert problems(other) == []
    assert [each.text for each in problems(replace(other, leases=SOUND.leases))] == [
        "no replica of the cluster service leads, so no pod is placed"
    ]


NONE_BESIDE = "the kube-scheduler of a leads, and no pod of vgpu-cluster is Ready there"
EVICTED = named("p", spec={"nodeName": "a"}, status={"phase": "Failed", "reason": "Evicted"})
ENDING = {**ready_pod("a"), "metadata": {"name": "p", "deletionTimestamp": "2027-01-15T08:00:00Z"}}


@pytest.mark.parametrize(
    ("replicas", "said"),
    [
        ([ready_pod("b"), ready_pod("a")], [(CheckState.OK, "a replica leads, and all Leases are fresh")]),
        ([ready_pod("b")], [(CheckState.PROBLEM, NONE_BESIDE)]),
        ([ready_pod("b"), ready_pod("a", "False")], [(CheckState.PROBLEM, NONE_BESIDE)]),
        ([ready_pod("b"), EVICTED], [(CheckState.PROBLEM, NONE_BESIDE)]),
        ([ready_pod("b"), ENDING], [(CheckState.PROBLEM, NONE_BESIDE)]),
        (None, [(CheckState.UNKNOWN, "no right")]),
    ],
)
def test_a_replica_runs_beside_the_default_kube_scheduler_that_leads(
    replicas: list[dict[str, Any]] | None, said: list[tuple[CheckState, str]]
) -> None:
    ours = service("vgpu-cluster", "allocator")
    (name, *_) = ours["spec"]["template"]["spec"]["containers"][0]["env"]
    name["valueFrom"] = {"fieldRef": {"fieldPath": "spec.nodeName"}}
    beside = replace(
        SOUND, workloads=[ours, *AGENTS], missing={} if replicas else {"replicas": "no right"},
        replicas=replicas,
    )  # fmt: skip
    found = [each for each in findings(beside) if each.check == "clocks"]
    assert [(each.state, each.text.partition(": ")[0]) for each in found] == said


# The checks that look at each list. What cards are is in `reading`, which was read.
LOOKING = {
    "nodes": {"versions", "agents", "plugins", "units"},
    "workloads": {"services", "versions", "admission", "agents", "plugins", "clocks"},
    "agents": {"agents"}, "notices": {"agents"},
    "policies": {"admission"}, "bindings": {"admission"}, "mutating": {"admission"}, "mutating_bindings": {"admission"},
    "leases": {"clocks"}, "node_leases": {"clocks"},
    "server": {"versions"},
}  # fmt: skip


@pytest.mark.parametrize("lists", [*((name,) for name in LOOKING), tuple(LOOKING)], ids=",".join)
def test_nothing_that_was_not_read_is_ok(lists: tuple[str, ...]) -> None:
    missing = {name: f"{name} cannot be read" for name in lists}
    unread: dict[str, Any] = {name: "" if name == "server" else None for name in lists}
    found = findings(replace(SOUND, **unread, missing=missing))
    assert {each.text for each in found if each.state is CheckState.UNKNOWN} == {*missing.values()}
    ok = {each.check for each in found if each.state is CheckState.OK}
    assert ok == set(BASE) - {check for name in lists for check in LOOKING[name]}
    assert not [each for each in found if each.state is CheckState.PROBLEM]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"leases": [named("vgpu-scheduler", spec={"holderIdentity": "a_b"})]},
            "no time of renewal is in the Lease of the leading replica",
        ),
        (
            {"node_leases": [lease("n1", 1), named("n2", spec={})]},
            "no time of renewal is in the Leases of n2",
        ),
    ],
)
def test_a_lease_without_a_time_of_renewal_is_not_called_fresh(change: dict[str, Any], text: str) -> None:
    found = findings(replace(SOUND, **change))
    assert [(each.state, each.text) for each in found if each.check == "clocks"] == [
        (CheckState.UNKNOWN, text)
    ]


def test_one_whole_binding_that_denies_is_enough() -> None:
    others = [
        *bound(checks.POLICIES, validationActions=["Audit"]),
        *bound(checks.POLICIES, matchResources=NOWHERE),
    ]
    whole = bound(checks.POLICIES, matchResources={"matchPolicy": "Equivalent", "namespaceSelector": {}})
    for bindings in ([*others, *whole], [*whole, *others]):
        assert not problems(replace(SOUND, bindings=bindings))
    assert {each.check for each in problems(replace(SOUND, bindings=others))} == {"admission"}


def test_a_lease_is_compared_with_the_time_at_which_it_was_read(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that is read after the Leases takes 60 s here."""
    fleet.node("n1")
    now, read, listed = [NOW], ClusterReader.read, KubeClient.list

    def slowly(reader: ClusterReader) -> ClusterReading:
        now[0] += 60
        return read(reader)

    def with_leases(client: KubeClient, kind: Kind[Any], where: Where = EVERYWHERE) -> Any:
        if kind.plural == "leases":
            return Listed([lease("n1" if where.namespace == "kube-node-lease" else "vgpu-scheduler", 1)])
        return listed(client, kind, where)

    monkeypatch.setattr(time, "time", lambda: now[0])
    monkeypatch.setattr(ClusterReader, "read", slowly)
    monkeypatch.setattr(KubeClient, "list", with_leases)
    main(["check", "--kubeconfig", str(fleet.kubeconfig)])
    said = capsys.readouterr().out
    assert now[0] == NOW + 60
    assert "problem  clocks" not in said


def test_without_mutating_policies_one_policy_may_only_warn() -> None:
    old = replace(SOUND, mutating=None, mutating_bindings=None, has_mutating=False)
    warning = [
        named(
            name,
            spec={
                "policyName": name,
                "validationActions": ["Warn" if name == "vgpu-confinement" else "Deny"],
            },
        )
        for name in checks.POLICIES
    ]
    assert problems(replace(old, bindings=warning)) == []


def test_the_policies_of_the_job_engine_are_wanted_where_it_is_installed() -> None:
    with_jobs = replace(SOUND, workloads=[*(SOUND.workloads or ()), service("vgpu-jobs", "engine")])
    assert len(problems(with_jobs)) == len(checks.JOB_POLICIES) + len(checks.JOB_MUTATING)


def test_the_policy_about_queue_labels_of_other_kinds_only_warns() -> None:
    names = (*checks.POLICIES, *checks.JOB_POLICIES)
    changing = [*CHANGING, *(named(name, spec={"policyName": name}) for name in checks.JOB_MUTATING)]
    with_jobs = replace(
        SOUND, workloads=[*(SOUND.workloads or ()), service("vgpu-jobs", "engine")], policies=bound(names),
        mutating=changing, mutating_bindings=changing,
    )  # fmt: skip
    for name, found in ((checks.WARNING, 0), ("vgpu-kinds", 1)):
        warns = bound((name,), validationActions=["Warn"])
        denies = bound(tuple(other for other in names if other != name))
        assert len(problems(replace(with_jobs, bindings=[*warns, *denies]))) == found


def test_pods_that_pod_security_refuses_have_the_label_as_their_cure() -> None:
    refused = agents_refused(
        'pods "vgpu-node-x" is forbidden: violates PodSecurity "baseline:latest": hostPath'
    )
    (found,) = problems(replace(SOUND, **refused))
    assert "violates PodSecurity" in found.text
    assert found.cure == (
        "kubectl label --overwrite namespace vgpu-system pod-security.kubernetes.io/enforce=privileged"
    )
    running = {"desiredNumberScheduled": 2, "currentNumberScheduled": 2, "numberReady": 2}
    refused["workloads"][1]["status"] = running
    assert not problems(replace(SOUND, **refused)), "an event of before is no problem of now"


def test_the_policies_are_those_of_the_manifests() -> None:
    found: dict[str, set[str]] = {}
    folders = {"admission": "base", "components/jobs": "jobs", "components/dra": "claims"}
    for folder, kept in ((MANIFESTS / name, kept) for name, kept in folders.items()):
        for file in folder.glob("*.yaml"):
            for each in yaml.safe_load_all(file.read_text()):
                if each["kind"].endswith("AdmissionPolicy"):
                    found.setdefault(f"{kept} {each['kind']}", set()).add(each["metadata"]["name"])
    assert found == {
        "base ValidatingAdmissionPolicy": set(checks.POLICIES),
        "base MutatingAdmissionPolicy": set(checks.MUTATING),
        "jobs ValidatingAdmissionPolicy": set(checks.JOB_POLICIES),
        "jobs MutatingAdmissionPolicy": set(checks.JOB_MUTATING),
        "claims ValidatingAdmissionPolicy": set(checks.CLAIM_POLICIES),
        "claims MutatingAdmissionPolicy": set(checks.CLAIM_MUTATING),
    }


def test_what_may_not_be_read_is_said_and_the_rest_is_checked(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server serves no policies and no version, and the caller may not list Leases."""
    fleet.node("n1")
    listed, asked = KubeClient.list, list[str]()

    def limited(client: KubeClient, kind: Kind[Any], where: Where = EVERYWHERE) -> Any:
        if kind.plural == "leases":
            asked.append(where.namespace)
            raise from_status(403, "Forbidden", "no")
        if kind.group == "admissionregistration.k8s.io":
            raise from_status(404, "NotFound", "no")
        return listed(client, kind, where)

    def unknown(_: KubeClient, target: str) -> str:
        raise from_status(404, "NotFound", target)

    monkeypatch.setattr(KubeClient, "list", limited)
    monkeypatch.setattr(KubeClient, "text", unknown)
    assert main(["check", "--kubeconfig", str(fleet.kubeconfig)]) == 1
    said = capsys.readouterr().out
    assert (
        "unknown  clocks       you may not list leases of namespace vgpu-system. A rule that allows it: "
        in said
    )
    assert "unknown  admission    the API server has no validatingadmissionpolicies of " in said
    assert "unknown  versions     the API server does not say its version: " in said
    assert "mutating" not in said
    assert set(asked) == {"vgpu-system", "kube-node-lease"}
    assert (
        "problem  agents       no agent is Ready on n1, so their inventories may be out of date: see why"
        in said
    )
    assert main(["check", "-o", "json", "--kubeconfig", str(fleet.kubeconfig)]) == 1
    told = json.loads(capsys.readouterr().out)["findings"]
    assert {each["state"] for each in told} == {"ok", "problem", "unknown"}
