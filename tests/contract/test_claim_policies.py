"""The admission policies of the component `dra`: who asks by claims and how, and who gives, uses and shows cards."""

import os
import uuid
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import pytest
import yaml

from device_plugin.core.contract.claims import FINALIZER, read_claim
from tests import pages
from tests.builders import objects
from tests.builders.objects import binding, pod
from tests.builders.written_jobs import as_object, job
from tests.contract import claim_policies
from tests.contract.asking import container, refused
from tests.contract.cluster import OWN_NODE, Answer, Cluster, namespace, unique
from tests.contract.conftest import seen, stand_in
from tests.deadline import until
from tests.pages import PROJECT
from tests.release import since

pytestmark = since("1.36", "a capacity that a claim consumes")

GROUP = "/apis/resource.k8s.io/v1"
SLICES = f"{GROUP}/resourceslices"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
ALLOWED = {"vgpu.io/claims": "allowed"}
CLASS = "dcu.vgpu.io"
HOME = "node-of-the-agent"
DRY = "?dryRun=All"
CAPACITY = {"requests": {"memory": "4Gi", "cores": "15"}}
SENTENCE = "only vgpu gives devices of dcu.vgpu.io: write schedulerName: vgpu-scheduler in the pod"


@pytest.fixture(scope="module")
def cluster(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The cluster with these policies: a stand-in of its own, or the real one, from which they are removed again."""
    if not os.environ.get("VGPU_CONTRACT_KUBECONFIG"):
        server = stand_in(claim_policies.written(tmp_path_factory.mktemp("policies")))
        made = seen(server)
        yield made
        made.close()
        server.stop()
        return
    before = [_put(cluster, item["spec"], where(item)) for item in claim_policies.changed()]
    added = [where(item) for item in claim_policies.added() if cluster.post(*split(item)).code == 201]
    until(
        lambda: cluster.post(f"/apis/batch/v1/namespaces/default/jobs{DRY}", queued()).code == 422, "policies"
    )
    yield cluster
    for path in reversed(added):
        cluster.delete(path)
    for path, spec in before:
        _put(cluster, spec, path)


def _put(cluster: Cluster, spec: Mapping[str, Any], path: str) -> tuple[str, dict[str, Any]]:
    """Replace the spec of a policy; returns its path and the spec before."""
    found = cluster.get(path).body
    answer = cluster.put(path, found | {"spec": spec})
    assert answer.code == 200, answer.body
    return path, found["spec"]


def checked(cluster: Cluster, path: str) -> list[Any]:
    """The warnings of the API server about the types in this policy, once it has looked at them."""
    until(lambda: "typeChecking" in cluster.get(path).body.get("status", {}), f"types of {path}")
    return list(cluster.get(path).body["status"]["typeChecking"].get("expressionWarnings", []))


def split(item: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The path at which this policy or binding is created, and its object."""
    return where(item).rpartition("/")[0], item


def where(item: Mapping[str, Any]) -> str:
    """The path of a policy or a binding."""
    kind = item["kind"].lower()
    plural = kind.removesuffix("y") + "ies" if kind.endswith("y") else f"{kind}s"
    return f"{POLICIES}/{plural}/{item['metadata']['name']}"


@pytest.fixture(scope="module")
def allowed(cluster: Cluster) -> Iterator[str]:
    """A namespace whose pods may ask by claims."""
    labels = {**ALLOWED, "resource.kubernetes.io/admin-access": "true"}
    with namespace(cluster, labels) as made:
        yield made


def exactly(**more: Any) -> dict[str, Any]:
    """A request of one slice; `more` are further fields, or other ones."""
    return {"name": "slice", "exactly": {"deviceClassName": CLASS, "capacity": CAPACITY, **more}}


def spec(*requests: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"devices": {"requests": list(requests or (exactly(),)), **more}}


def create(cluster: Cluster, where: str, asked: Mapping[str, Any], *, template: bool = False) -> Answer:
    """Try to create a claim, or a template of claims, in this namespace."""
    plural, body = ("resourceclaimtemplates", {"spec": asked}) if template else ("resourceclaims", asked)
    path = f"{GROUP}/namespaces/{where}/{plural}{DRY}"
    return cluster.post(path, {"metadata": {"name": unique()}, "spec": body}, "tenant")


FOREIGN = "gpu.example.com"
SERVED: dict[str, dict[str, Any]] = {
    "both": exactly(),
    "memory": exactly(capacity={"requests": {"memory": "1500Mi"}}),
    "core groups": exactly(capacity={"requests": {"cores": "15"}}),
    "of the other name": exactly(deviceClassName="hcu.vgpu.io"),
    "several": exactly(count=16),
}
CEL = [{"cel": {"expression": "true"}}]
SUBREQUEST = {"name": "a", "deviceClassName": CLASS, "capacity": CAPACITY}
# Shapes that are refused with the words of core/contract/claims.py.
FAULTS: dict[str, dict[str, Any]] = {
    "no capacity": spec({"name": "slice", "exactly": {"deviceClassName": CLASS}}),
    "other capacity": spec(exactly(capacity={"requests": {"memory": "4Gi", "bandwidth": "1"}})),
    "two requests": spec(exactly(), exactly() | {"name": "other"}),
    "two classes": spec(exactly(), exactly(deviceClassName=FOREIGN) | {"name": "other"}),
    "alternatives": spec({"name": "slice", "firstAvailable": [SUBREQUEST]}),
    "the second alternative": spec(
        {"name": "slice", "firstAvailable": [{"name": "f", "deviceClassName": FOREIGN}, SUBREQUEST]}
    ),
    "all": spec(exactly(allocationMode="All")),
    "selectors": spec(exactly(selectors=CEL)),
    "constraints": spec(constraints=[{"matchAttribute": "dcu.vgpu.io/model"}]),
    "as administrator": spec(exactly(adminAccess=True)),
}
AMOUNTS: dict[str, tuple[dict[str, Any], str]] = {
    "17": (exactly(count=17), "count is 17: write 1 to 16"),
    "no memory": (
        exactly(capacity={"requests": {"memory": "0", "cores": "15"}}),
        "memory is '0': write an amount above 0, such as 4Gi",
    ),
    "no cores": (
        exactly(capacity={"requests": {"cores": "0"}}),
        "cores is '0': write an amount above 0, such as 15",
    ),
    "no such class": (
        exactly(deviceClassName="dcu2.vgpu.io"),
        "there is no device class dcu2.vgpu.io: write dcu.vgpu.io or hcu.vgpu.io",
    ),
}
TEMPLATES = pytest.mark.parametrize("template", [False, True], ids=["claim", "template"])


@TEMPLATES
@pytest.mark.parametrize("request_", SERVED.values(), ids=SERVED)
def test_what_a_claim_may_ask(
    cluster: Cluster, allowed: str, request_: dict[str, Any], *, template: bool
) -> None:
    assert create(cluster, allowed, spec(request_), template=template).code == 201


@pytest.mark.parametrize("kept", [(), ("example.com/keep",), (FINALIZER,)], ids=str)
def test_a_new_claim_for_a_card_of_ours_has_the_finalizer(
    cluster: Cluster, allowed: str, kept: tuple[str, ...]
) -> None:
    path = f"{GROUP}/namespaces/{allowed}/resourceclaims{DRY}"
    metadata = {"name": unique(), "finalizers": list(kept)}
    made = cluster.post(path, {"metadata": metadata, "spec": spec()}, "tenant").body
    assert made["metadata"]["finalizers"] == list(dict.fromkeys((*kept, FINALIZER)))


def test_a_claim_for_another_drivers_device_has_no_finalizer_of_us(cluster: Cluster, allowed: str) -> None:
    made = create(cluster, allowed, spec({"name": "slice", "exactly": {"deviceClassName": FOREIGN}}))
    assert made.code == 201
    assert "finalizers" not in made.body["metadata"]


@TEMPLATES
@pytest.mark.parametrize("asked", FAULTS.values(), ids=FAULTS)
def test_a_shape_that_is_not_served_is_refused_in_the_allocators_words(
    cluster: Cluster, allowed: str, asked: dict[str, Any], *, template: bool
) -> None:
    fault = read_claim({"metadata": {"name": "c"}, "spec": asked}).fault
    assert fault
    answer = create(cluster, allowed, asked, template=template)
    refused(answer, "vgpu-claims")
    assert answer.message.endswith(f"denied request: {fault}")


@TEMPLATES
@pytest.mark.parametrize(("request_", "text"), AMOUNTS.values(), ids=AMOUNTS)
def test_an_amount_that_no_card_gives_is_refused(
    cluster: Cluster, allowed: str, request_: dict[str, Any], text: str, *, template: bool
) -> None:
    answer = create(cluster, allowed, spec(request_), template=template)
    refused(answer, "vgpu-claims")
    assert answer.message.endswith(f"denied request: {text}")


def test_the_largest_claims_are_judged_within_what_an_expression_may_cost(
    cluster: Cluster, allowed: str
) -> None:
    many = [exactly() | {"name": f"r{i}"} for i in range(32)]
    refused(create(cluster, allowed, spec(*many)), "vgpu-claims", "it has 32 requests")
    choices = [{**SUBREQUEST, "name": f"s{i}", "deviceClassName": FOREIGN} for i in range(7)]
    alternatives = [
        {"name": f"r{i}", "firstAvailable": [*choices, {**SUBREQUEST, "name": "last"}]} for i in range(32)
    ]
    refused(create(cluster, allowed, spec(*alternatives)), "vgpu-claims", "it has 32 requests")


PATHS = {
    "ResourceClaimTemplate": f"{GROUP}/namespaces/{{}}/resourceclaimtemplates",
    "Pod": "/api/v1/namespaces/{}/pods",
}
EXAMPLE = [*yaml.safe_load_all((PROJECT / "examples/claim.yaml").read_text(encoding="utf-8"))]
SHOWN = [
    pytest.param(item, id=f"{page}-{item['kind']}")
    for page, item in [
        *(("claim.yaml", item) for item in EXAMPLE),
        ("requests.md", pages.shown("ResourceClaimTemplate", "requests.md")),
        ("requests.md", pages.shown("Pod", "requests.md", "notebook-by-claim")),
    ]
]


@pytest.mark.parametrize("item", SHOWN)
def test_the_objects_that_pages_show_are_accepted(
    cluster: Cluster, allowed: str, item: dict[str, Any]
) -> None:
    answer = cluster.post(f"{PATHS[item['kind']].format(allowed)}{DRY}", item, "editor")
    assert answer.code == 201, answer.body


@TEMPLATES
def test_a_namespace_allows_claims_by_a_label(cluster: Cluster, *, template: bool) -> None:
    refused(
        create(cluster, "default", spec(), template=template),
        "vgpu-claims",
        "namespace default has no claims for cards",
        "ask in the limits of a pod, or ask a cluster administrator for the label vgpu.io/claims: allowed",
    )


@TEMPLATES
def test_claims_for_others_devices_pass_everywhere(cluster: Cluster, *, template: bool) -> None:
    asked = {"name": "a", "exactly": {"deviceClassName": FOREIGN, "allocationMode": "All", "selectors": CEL}}
    assert create(cluster, "default", spec(asked), template=template).code == 201


def test_the_example_is_accepted(cluster: Cluster, allowed: str) -> None:
    template, user = claim_policies.documents(PROJECT / "examples" / "claim.yaml")
    path = f"{GROUP}/namespaces/{allowed}/resourceclaimtemplates{DRY}"
    assert cluster.post(path, template, "tenant").code == 201
    made = cluster.post(f"/api/v1/namespaces/{allowed}/pods{DRY}", user, "tenant")
    assert made.code == 201, made.body
    (used,) = user["spec"]["resourceClaims"]
    assert used["resourceClaimTemplateName"] == template["metadata"]["name"]
    asked = read_claim({"metadata": {"name": "c"}, "spec": template["spec"]["spec"]})
    assert (asked.device_class, asked.memory, asked.cores, asked.fault) == (CLASS, "4Gi", "15", "")


# What is given.


def allocation(driver: str = CLASS, count: int = 1) -> dict[str, Any]:
    results = [
        {
            "request": "slice", "driver": driver, "pool": "n1", "device": f"card-{i}",
            "shareID": str(uuid.uuid4()), "consumedCapacity": {"memory": "4Gi", "cores": "15"},
        }
        for i in range(count)
    ]  # fmt: skip
    only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    return {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [only]}}


def consumer(name: str, uid: str = "") -> dict[str, str]:
    return {"resource": "pods", "name": name, "uid": uid or str(uuid.uuid4())}


def taken(cluster: Cluster, where: str, asked: dict[str, Any]) -> Iterator[str]:
    """The path of a new claim of this kind; it is removed afterwards."""
    path = f"{GROUP}/namespaces/{where}/resourceclaims"
    name = unique()
    answer = cluster.post(path, {"metadata": {"name": name}, "spec": asked})
    assert answer.code == 201, answer.body
    yield f"{path}/{name}"
    cluster.patch(f"{path}/{name}/status", {"status": None}, "allocator")
    cluster.delete(f"{path}/{name}")


@pytest.fixture
def claim(cluster: Cluster, allowed: str) -> Iterator[str]:
    """The path of a claim of ours that was given nothing."""
    yield from taken(cluster, allowed, spec())


@pytest.fixture
def foreign(cluster: Cluster) -> Iterator[str]:
    """The path of a claim for another driver's device."""
    yield from taken(cluster, "default", spec({"name": "slice", "exactly": {"deviceClassName": FOREIGN}}))


@pytest.fixture
def user(cluster: Cluster, allowed: str) -> Iterator[dict[str, str]]:
    """A pod that waits, as a claim's consumer: of a pod that is not there, a real controller frees the claim."""
    name, path = unique(), f"/api/v1/namespaces/{allowed}/pods"
    made = cluster.post(path, pod(name, schedulerName="nobody"))
    assert made.code == 201, made.body
    yield consumer(name, made.body["metadata"]["uid"])
    cluster.delete(f"{path}/{name}?gracePeriodSeconds=0")


@pytest.fixture
def given(cluster: Cluster, claim: str, user: dict[str, str]) -> dict[str, Any]:
    """The claim of `claim` with a card, for the pod `user`."""
    answer = write(cluster, claim, {"allocation": allocation(), "reservedFor": [user]}, "allocator")
    assert answer.code == 200, answer.body
    return dict(answer.body["status"])


def write(cluster: Cluster, path: str, status: dict[str, Any], role: str, *, dry: bool = False) -> Answer:
    """Try to give the claim this status."""
    found = cluster.get(path).body
    return cluster.put(f"{path}/status{DRY if dry else ''}", found | {"status": status}, role)


def forbidden(answer: Answer, policy: str, *words: str) -> None:
    assert answer.refusal == (403, "Forbidden"), answer.body
    assert f"ValidatingAdmissionPolicy '{policy}'" in answer.message
    for word in words:
        assert word in answer.message


OTHERS = ("scheduler", "tenant", "kubelet", "agent", "claim controller", "controller manager")
CONTROLLERS = ("claim controller", "controller manager")


@pytest.mark.parametrize("role", OTHERS)
def test_only_the_allocator_gives_a_card(
    cluster: Cluster, claim: str, user: dict[str, str], role: str
) -> None:
    tried = write(cluster, claim, {"allocation": allocation(), "reservedFor": [user]}, role, dry=True)
    forbidden(tried, "vgpu-claim-allocations", SENTENCE)
    assert (
        write(cluster, claim, {"allocation": allocation(), "reservedFor": [user]}, "allocator", dry=True).code
        == 200
    )


@pytest.mark.parametrize("role", OTHERS)
def test_only_the_allocator_lets_a_pod_use_a_claim(
    cluster: Cluster, claim: str, given: dict[str, Any], role: str
) -> None:
    both = deepcopy(given)
    both["reservedFor"].append(consumer("thief"))
    forbidden(write(cluster, claim, both, role, dry=True), "vgpu-claim-allocations", SENTENCE)
    # In place of the pod that has it.
    both["reservedFor"] = both["reservedFor"][1:]
    forbidden(write(cluster, claim, both, role, dry=True), "vgpu-claim-allocations", SENTENCE)
    assert write(cluster, claim, both, "allocator", dry=True).code == 200


@pytest.mark.parametrize("role", CONTROLLERS)
def test_the_claim_controller_removes_pods_and_frees_the_claim(
    cluster: Cluster, claim: str, given: dict[str, Any], role: str
) -> None:
    assert write(cluster, claim, {"allocation": given["allocation"]}, role, dry=True).code == 200
    assert write(cluster, claim, {}, role, dry=True).code == 200


@pytest.mark.parametrize("role", ["scheduler", "tenant"])
def test_nobody_else_takes_a_card_away(
    cluster: Cluster, claim: str, given: dict[str, Any], role: str
) -> None:
    for status in ({"allocation": given["allocation"]}, {}):
        forbidden(write(cluster, claim, status, role, dry=True), "vgpu-claim-allocations", SENTENCE)


def test_a_claim_with_all_that_fits_is_judged_within_what_an_expression_may_cost(
    cluster: Cluster, claim: str, user: dict[str, str]
) -> None:
    pods = [user, *(consumer(f"pod-{i}") for i in range(255))]
    full = {"allocation": allocation(count=32), "reservedFor": pods}
    forbidden(write(cluster, claim, full, "scheduler", dry=True), "vgpu-claim-allocations", SENTENCE)
    assert write(cluster, claim, full, "allocator", dry=True).code == 200


def test_our_cards_are_not_given_for_claims_of_other_classes(cluster: Cluster, foreign: str) -> None:
    tried = write(cluster, foreign, {"allocation": allocation()}, "scheduler", dry=True)
    forbidden(tried, "vgpu-claim-allocations", SENTENCE)


def test_other_drivers_devices_are_given_by_anybody(cluster: Cluster, foreign: str) -> None:
    theirs = {"allocation": allocation("gpu.example.com"), "reservedFor": [consumer("any")]}
    for role in ("scheduler", "claim controller"):
        assert write(cluster, foreign, theirs, role, dry=True).code == 200


# What is shown.


def shown(name: str, node: str, driver: str = CLASS, pool: str = "") -> dict[str, Any]:
    """A ResourceSlice with a card on the node."""
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
        "spec": {
            "driver": driver, "nodeName": node, "devices": [{"name": "card"}],
            "pool": {"name": pool or node, "generation": 1, "resourceSliceCount": 1},
        },
    }  # fmt: skip


def test_an_agent_shows_the_cards_of_its_own_node(cluster: Cluster) -> None:
    name = unique()
    made = cluster.post(SLICES, shown(name, HOME), "agent")
    assert made.code == 201, made.body
    changed = deepcopy(made.body)
    changed["spec"]["pool"]["generation"] = 2
    for role in ("admin", "scheduler"):
        forbidden(cluster.put(f"{SLICES}/{name}", changed, role), "vgpu-resource-slices", CLASS)
    assert cluster.put(f"{SLICES}/{name}", changed, "agent").code == 200
    assert cluster.delete(f"{SLICES}/{name}", role="agent").code == 200


@pytest.mark.parametrize(
    "body",
    [
        shown("s", "elsewhere"),
        shown("s", HOME, pool="elsewhere"),
        shown("s", HOME, driver=FOREIGN),
        shown("s", "elsewhere", driver=FOREIGN),
    ],
    ids=["node", "pool", "driver", "both"],
)
def test_an_agent_shows_nothing_else(cluster: Cluster, body: dict[str, Any]) -> None:
    forbidden(cluster.post(f"{SLICES}{DRY}", body, "agent"), "vgpu-resource-slices", "of its own node")


def test_nobody_else_shows_our_cards(cluster: Cluster) -> None:
    for role in ("admin", "tenant", "scheduler"):
        tried = cluster.post(f"{SLICES}{DRY}", shown("s", HOME), role)
        forbidden(tried, "vgpu-resource-slices", "only the vgpu agent on that node writes it")
    assert cluster.post(f"{SLICES}{DRY}", shown("s", HOME, driver=FOREIGN), "admin").code == 201


def test_a_slice_is_removed_by_others_and_by_no_other_agent(cluster: Cluster) -> None:
    name, other = unique(), unique()
    assert cluster.post(SLICES, shown(name, HOME), "agent").code == 201
    assert cluster.post(SLICES, shown(other, HOME, driver=FOREIGN)).code == 201
    forbidden(cluster.delete(f"{SLICES}/{other}", role="agent"), "vgpu-resource-slices")
    for each in (name, other):
        assert cluster.delete(f"{SLICES}/{each}").code == 200


# Who uses it.


def using(name: str, **more: Any) -> dict[str, Any]:
    """A pod of our scheduler whose container uses a claim; `more` of its spec."""
    inside = {"name": "main", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
    made = {
        "schedulerName": "vgpu-scheduler",
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
        "containers": [inside | more.pop("container", {})],
    }
    return pod(name, **{**made, **more})


HOSTILE: dict[str, tuple[dict[str, Any], str, str]] = {
    "node": ({"nodeName": "n1"}, "vgpu-requests", "spec.nodeName is set"),
    "privileged": ({"container": {"securityContext": {"privileged": True}}}, "vgpu-isolation", "privileged"),
    "unconfined": (
        {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "vgpu-isolation", "Unconfined"
    ),
    "grace": ({"terminationGracePeriodSeconds": 86400}, "vgpu-grace", "86400"),
}  # fmt: skip


@pytest.mark.parametrize(("more", "policy", "word"), HOSTILE.values(), ids=HOSTILE)
def test_pods_with_claims_are_held_to_the_rules_for_slices(
    cluster: Cluster, allowed: str, more: dict[str, Any], policy: str, word: str
) -> None:
    path = f"/api/v1/namespaces/{allowed}/pods{DRY}"
    refused(cluster.post(path, using(unique(), **more), "tenant"), policy, word)
    # Pods of other schedulers have nothing of ours.
    elsewhere = using(unique(), **{**more, "schedulerName": "default-scheduler"})
    assert cluster.post(path, elsewhere, "tenant").code == 201


def test_pods_with_claims_are_confined(cluster: Cluster, allowed: str) -> None:
    made = cluster.post(f"/api/v1/namespaces/{allowed}/pods{DRY}", using(unique()), "tenant")
    assert made.code == 201, made.body
    assert made.body["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (main,) = made.body["spec"]["containers"]
    assert main["securityContext"]["capabilities"] == {"drop": ["SYS_CHROOT"]}


def test_a_pod_with_claims_gets_no_devices_by_annotations(cluster: Cluster, allowed: str) -> None:
    body = using(unique())
    body["metadata"]["annotations"] = {"cdi.k8s.io/all": "vgpu.io/slice=all"}
    refused(cluster.post(f"/api/v1/namespaces/{allowed}/pods{DRY}", body), "vgpu-cdi-annotations")


def test_the_end_of_a_pod_with_claims_is_its_kubelets(cluster: Cluster, allowed: str) -> None:
    name, path = unique(), f"/api/v1/namespaces/{allowed}/pods"
    made = cluster.post("/api/v1/nodes", objects.node(OWN_NODE)).code
    assert made in (201, 409)
    assert cluster.post(path, using(name)).code == 201
    assert cluster.post(f"{path}/{name}/binding", binding(name, OWN_NODE)).code == 201
    ended = {"status": {"phase": "Failed"}}
    answer = cluster.patch(f"{path}/{name}/status", ended, "tenant")
    forbidden(answer, "vgpu-ends")
    answer = cluster.delete(f"{path}/{name}?gracePeriodSeconds=0", role="editor")
    forbidden(answer, "vgpu-deletions", "a forced deletion")
    assert cluster.patch(f"{path}/{name}/status", ended, "own kubelet").code == 200
    cluster.delete(f"{path}/{name}?gracePeriodSeconds=0")
    cluster.delete(f"/api/v1/nodes/{OWN_NODE}")


def test_a_namespace_without_cards_has_no_pods_with_claims(cluster: Cluster) -> None:
    with namespace(cluster, {"vgpu.io/admission": "ignore"}) as made:
        answer = cluster.post(f"/api/v1/namespaces/{made}/pods{DRY}", using(unique()), "tenant")
        refused(answer, "vgpu-opted-out", "vgpu.io/admission: ignore")


def test_a_limit_by_a_class_of_ours_is_refused(cluster: Cluster, allowed: str) -> None:
    path = f"/api/v1/namespaces/{allowed}/pods{DRY}"
    name = f"deviceclass.resource.kubernetes.io/{CLASS}"
    body = pod(unique(), containers=[container(limits={name: "1"})])
    refused(
        cluster.post(path, body, "tenant"),
        "vgpu-class-limits",
        f"container main: {name} says no memory and no core groups",
        "write the limits hygon.com/dcu-mem and hygon.com/dcu-cores, or a ResourceClaim",
    )
    theirs = container(limits={"deviceclass.resource.kubernetes.io/gpu.example.com": "1"})
    assert cluster.post(path, pod(unique(), containers=[theirs]), "tenant").code == 201


def test_what_must_wait_in_a_queue_does_not_ask_by_claims(cluster: Cluster) -> None:
    with namespace(cluster, {**ALLOWED, "vgpu.io/queue-required": "true"}) as made:
        answer = cluster.post(f"/api/v1/namespaces/{made}/pods{DRY}", using(unique()), "tenant")
        refused(answer, "vgpu-queue-required-claims", "write limits")


def queued(**more: Any) -> dict[str, Any]:
    """A Job of a queue whose pods ask by claims."""
    made = as_object(job({"queue": "default"}, name=unique()))
    made["spec"]["suspend"] = True
    template = made["spec"]["template"]["spec"]
    template["schedulerName"] = "vgpu-scheduler"
    template["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    return {**made, **more}


def test_a_job_of_a_queue_asks_by_limits(cluster: Cluster) -> None:
    path = f"/apis/batch/v1/namespaces/default/jobs{DRY}"
    refused(cluster.post(path, queued(), "tenant"), "vgpu-job-claims", "write limits")
