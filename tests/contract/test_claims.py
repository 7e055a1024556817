"""ResourceClaims, their templates, ResourceSlices and DeviceClasses: who may write which part of them, and how."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders.objects import annotated
from tests.contract.claims import (
    CLAIMS,
    DRIVER,
    FINALIZER,
    GROUP,
    TEMPLATES,
    Object,
    allocation,
    claim,
    consumer,
    remove,
    result,
    spec,
)
from tests.contract.cluster import Cluster
from tests.release import since

pytestmark = since("1.36", "a capacity that a claim consumes")

CLASSES = f"{GROUP}/deviceclasses"
SLICES = f"{GROUP}/resourceslices"
UUID = "f8ffa9cb-dd44-4113-a42c-a1aa92ab5f6a"
LABEL = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'"
NOT_NAMED = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
RESULT = "status.allocation.devices.results[0]"


@pytest.fixture
def where(name: str) -> str:
    """The path of the claim `name`."""
    return f"{CLAIMS}/{name}"


@pytest.fixture
def made(cluster: Cluster, name: str, where: str) -> Iterator[Object]:
    """The claim `name`, which exists."""
    answer = cluster.post(CLAIMS, claim(name))
    assert answer.code == 201, answer.body
    yield answer.body
    remove(cluster, where)


@pytest.fixture
def consumers(cluster: Cluster, pending: str) -> list[Object]:
    """The entry in reservedFor of a pod that exists: the controller manager removes others."""
    return [consumer(cluster.get(pending).body)]


def test_a_request_without_a_mode_is_for_one_device(made: Object) -> None:
    (request,) = made["spec"]["devices"]["requests"]
    assert (request["exactly"]["allocationMode"], request["exactly"]["count"]) == ("ExactCount", 1)


def test_amounts_are_stored_in_one_spelling(cluster: Cluster, name: str) -> None:
    amounts = {"memory": "4096Mi", "cores": 15}
    template = cluster.post(TEMPLATES, template_of(name, spec(capacity={"requests": amounts})))
    made = cluster.post(CLAIMS, claim(name) | {"spec": spec(capacity={"requests": amounts})})
    given = {"status": {"allocation": allocation(result(consumedCapacity=amounts))}}
    status = cluster.patch(f"{CLAIMS}/{name}/status", given).body["status"]
    assert [
        template.body["spec"]["spec"]["devices"]["requests"][0]["exactly"]["capacity"]["requests"],
        made.body["spec"]["devices"]["requests"][0]["exactly"]["capacity"]["requests"],
        status["allocation"]["devices"]["results"][0]["consumedCapacity"],
    ] == 3 * [{"memory": "4Gi", "cores": "15"}]
    remove(cluster, f"{CLAIMS}/{name}")
    cluster.delete(f"{TEMPLATES}/{name}")


def test_an_amount_that_is_none_is_refused(cluster: Cluster, name: str) -> None:
    answer = cluster.post(CLAIMS, claim(name) | {"spec": spec(capacity={"requests": {"memory": "much"}})})
    assert answer.refusal == (400, "BadRequest")
    assert "quantities must match the regular expression" in answer.message


def test_the_spec_of_a_claim_stays(cluster: Cluster, name: str, where: str, made: Object) -> None:
    answer = cluster.put(where, made | {"spec": spec(count=2)})
    assert answer.refusal == (422, "Invalid")
    assert answer.message.startswith(
        f'ResourceClaim.resource.k8s.io "{name}" is invalid: spec: Invalid value: '
    )
    assert answer.message.endswith("field is immutable")


def test_the_spec_of_a_template_stays(cluster: Cluster, name: str) -> None:
    written = cluster.post(TEMPLATES, template_of(name, spec()))
    answer = cluster.put(f"{TEMPLATES}/{name}", template_of(name, spec(count=2)))
    assert answer.refusal == (422, "Invalid")
    assert answer.message.endswith("field is immutable")
    assert cluster.patch(f"{TEMPLATES}/{name}", annotated(a="1")).code == 200
    assert cluster.delete(f"{TEMPLATES}/{name}").body["metadata"]["uid"] == written.body["metadata"]["uid"]


def test_a_claim_and_its_status_are_written_by_different_routes(
    cluster: Cluster, name: str, where: str, consumers: list[Object]
) -> None:
    status = {"allocation": allocation(result()), "reservedFor": consumers}
    assert cluster.post(CLAIMS, claim(name) | {"status": status}).body["status"] == {}
    object_ = cluster.patch(where, {"metadata": {"labels": {"a": "1"}}, "status": status}).body
    assert (object_["metadata"]["labels"], object_["status"]) == ({"a": "1"}, {})
    metadata = {"labels": {"a": "2"}, "annotations": {"b": "1"}, "finalizers": [FINALIZER]}
    changed = {"metadata": {**object_["metadata"], **metadata}, "spec": spec(count=2), "status": status}
    after = cluster.put(f"{where}/status", changed).body
    kept = {
        key: value
        for key, value in after["metadata"].items()
        if key not in ("resourceVersion", "managedFields")
    }
    assert kept.items() <= object_["metadata"].items()
    assert (after["spec"], after["status"]) == (object_["spec"], status)
    protected = cluster.put(
        where, after | {"metadata": after["metadata"] | {"finalizers": [FINALIZER]}, "status": {}}
    )
    assert (protected.body["metadata"]["finalizers"], protected.body["status"]) == ([FINALIZER], status)
    remove(cluster, where)


def test_both_routes_refuse_a_stale_version_and_need_none(cluster: Cluster, where: str, made: Object) -> None:
    assert cluster.patch(where, annotated(a="1")).code == 200
    for path in (where, f"{where}/status"):
        answer = cluster.put(path, made)
        assert answer.refusal == (409, "Conflict")
        assert "the object has been modified" in answer.message
        body = copy.deepcopy(made)
        del body["metadata"]["resourceVersion"]
        assert cluster.put(path, body).code == 200


def test_the_patches_by_which_a_claim_is_given_and_cleared(
    cluster: Cluster, where: str, made: Object, consumers: list[Object]
) -> None:
    """As the allocator writes it: the finalizer for a UID, then the status for a version."""
    media = "application/strategic-merge-patch+json"
    assert cluster.patch(where, {"metadata": {"finalizers": ["example.com/own"]}}).code == 200
    ours = {"metadata": {"uid": made["metadata"]["uid"], "finalizers": [FINALIZER]}}
    protected = cluster.patch(where, ours, media=media)
    assert sorted(protected.body["metadata"]["finalizers"]) == sorted(["example.com/own", FINALIZER])
    assert cluster.patch(where, ours, media=media).version == protected.version
    ours["metadata"]["uid"] = UUID
    assert cluster.patch(where, ours, media=media).refusal == (422, "Invalid")
    status = {"allocation": allocation(result()), "reservedFor": consumers}
    stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "status": status}
    assert cluster.patch(f"{where}/status", stale).refusal == (409, "Conflict")
    given = cluster.patch(
        f"{where}/status", {"metadata": {"resourceVersion": protected.version}, "status": status}
    )
    assert (given.code, given.body["status"]) == (200, status)
    nothing = {"allocation": None, "reservedFor": None, "devices": None}
    cleared = cluster.patch(
        f"{where}/status", {"metadata": {"resourceVersion": given.version}, "status": nothing}
    )
    assert (cleared.code, cleared.body["status"]) == (200, {})


def test_an_allocation_changes_only_by_way_of_none(
    cluster: Cluster, name: str, where: str, made: Object, consumers: list[Object]
) -> None:
    first = cluster.put(
        f"{where}/status",
        made | {"status": {"allocation": allocation(result()), "reservedFor": consumers}},
    )
    assert first.code == 200
    again = cluster.put(f"{where}/status", first.body)
    assert again.version == first.version
    other = {"allocation": allocation(result(device="card-1")), "reservedFor": consumers}
    refused = cluster.put(f"{where}/status", first.body | {"status": other})
    assert refused.refusal == (422, "Invalid")
    assert refused.message.startswith(
        f'ResourceClaim.resource.k8s.io "{name}" is invalid: status.allocation: Invalid value: '
    )
    assert refused.message.endswith("field is immutable")
    half = cluster.put(f"{where}/status", first.body | {"status": {"reservedFor": consumers}})
    assert half.refusal == (422, "Invalid")
    assert half.message.endswith(
        "status.reservedFor: Forbidden: may not be specified when `allocated` is not set"
    )
    cleared = cluster.put(f"{where}/status", first.body | {"status": {}})
    assert (cleared.code, cleared.body["status"]) == (200, {})
    last = cluster.put(f"{where}/status", cleared.body | {"status": other})
    assert (last.code, last.body["status"]) == (200, other)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (allocation(result(shareID="abc")),
         f'{RESULT}.shareID: Invalid value: "abc": error validating uid: invalid UUID length: 3'),
        (allocation(result(shareID=UUID.replace("f", "g"))), f"{RESULT}.shareID: Invalid value: "),
        (allocation(result(shareID=UUID.upper())), f'{RESULT}.shareID: Invalid value: "{UUID.upper()}": uid must be'),
        (allocation(result(device="Card0")), f'{RESULT}.device: Invalid value: "Card0": {LABEL}'),
        (allocation(result(device=None)), f'{RESULT}.device: Invalid value: "": {LABEL}'),
        (allocation(result(pool=None)), f"{RESULT}.pool: Required value"),
        (allocation(result(pool="A_b")), f'{RESULT}.pool: Invalid value: "A_b": a lowercase RFC 1123 subdomain'),
        (allocation(result(driver=None)), f"{RESULT}.driver: Required value"),
        (allocation(result(request="other")), f'{RESULT}.request: Invalid value: "other": {NOT_NAMED}'),
        (allocation(result(request=None)), f'{RESULT}.request: Invalid value: "": {NOT_NAMED}'),
        (allocation(*(result() for _ in range(33))),
         "status.allocation.devices.results: Too many: 33: must have at most 32 items"),
        (allocation(result()) | {"nodeSelector": {"nodeSelectorTerms": []}},
         "nodeSelectorTerms: Required value: must have at least one node selector term"),
    ],
)  # fmt: skip
def test_an_allocation_that_is_none_is_refused(
    cluster: Cluster, where: str, made: Object, given: Object, fault: str
) -> None:
    answer = cluster.put(f"{where}/status", made | {"status": {"allocation": given}})
    assert answer.refusal == (422, "Invalid")
    assert fault in answer.message


@pytest.mark.parametrize(
    "given",
    [
        allocation(result(consumedCapacity={"memory": "1000Gi"})), allocation(result(consumedCapacity={"x": "1"})),
        allocation(result(consumedCapacity=None)), allocation(result(shareID=None)),
        allocation(result(driver="other.example.com")), allocation(result(pool="no-node/no-pool")),
        allocation(result(), result()), {"devices": {"results": [result()]}},
    ],
)  # fmt: skip
def test_of_an_allocation_only_the_syntax_is_looked_at(
    cluster: Cluster, where: str, made: Object, given: Object
) -> None:
    answer = cluster.put(f"{where}/status", made | {"status": {"allocation": given}})
    assert (answer.code, answer.body["status"]) == (200, {"allocation": given})


def test_pods_are_reserved_for_by_all_their_names_and_once(
    cluster: Cluster, where: str, made: Object, consumers: list[Object]
) -> None:
    (whole,) = consumers
    for key in whole:
        half = {name: text for name, text in whole.items() if name != key}
        status = {"allocation": allocation(result()), "reservedFor": [half]}
        answer = cluster.put(f"{where}/status", made | {"status": status})
        assert answer.refusal == (422, "Invalid")
        assert answer.message.endswith(f"status.reservedFor[0].{key}: Required value")
    status = {"allocation": allocation(result()), "reservedFor": [whole, whole]}
    twice = cluster.put(f"{where}/status", made | {"status": status})
    assert twice.refusal == (422, "Invalid")
    assert twice.message.endswith(f'status.reservedFor[1]: Duplicate value: "{whole["uid"]}"')


@pytest.mark.usefixtures("made")
def test_a_claim_with_a_finalizer_stays_until_it_is_removed(
    cluster: Cluster, where: str, consumers: list[Object]
) -> None:
    # Not the one of the controller manager, which removes its own at once.
    assert cluster.patch(where, {"metadata": {"finalizers": ["example.com/a"]}}).code == 200
    deleted = cluster.delete(where)
    assert (deleted.code, deleted.body["kind"]) == (200, "ResourceClaim")
    assert cluster.get(where).body["metadata"]["deletionTimestamp"]
    added = cluster.patch(where, {"metadata": {"finalizers": ["example.com/a", FINALIZER]}})
    assert added.refusal == (422, "Invalid")
    assert added.message.endswith(
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new"
        f' finalizers []string{{"{FINALIZER}"}}'
    )
    status = {"allocation": allocation(result()), "reservedFor": consumers}
    late = cluster.patch(f"{where}/status", {"status": status})
    assert late.refusal == (422, "Invalid")
    assert "status.reservedFor: Forbidden: new entries may not be added while" in late.message
    assert cluster.patch(where, {"metadata": {"finalizers": None}}).code == 200
    assert cluster.get(where).code == 404
    assert cluster.delete(where).refusal == (404, "NotFound")


def test_a_claim_without_finalizers_is_gone_at_once(cluster: Cluster, name: str, where: str) -> None:
    made = cluster.post(CLAIMS, claim(name)).body
    deleted = cluster.delete(where)
    assert (deleted.code, deleted.body["metadata"]["uid"]) == (200, made["metadata"]["uid"])
    assert cluster.get(where).code == 404


def test_no_request_has_the_path_of_the_right_to_allocate(cluster: Cluster, where: str, made: Object) -> None:
    for sub in ("binding", "driver"):
        assert cluster.put(f"{where}/{sub}", made).refusal == (404, "NotFound")


def test_a_watch_shows_what_a_claim_was_given(
    cluster: Cluster, where: str, made: Object, consumers: list[Object]
) -> None:
    version = made["metadata"]["resourceVersion"]
    with cluster.watch(
        CLAIMS, resourceVersion=version, fieldSelector=f"metadata.name={made['metadata']['name']}"
    ) as w:
        status = {"allocation": allocation(result()), "reservedFor": consumers}
        cluster.put(f"{where}/status", made | {"status": status})
        ((kind, shown),) = w.take(1)
    assert (kind, shown["kind"], shown["apiVersion"]) == ("MODIFIED", "ResourceClaim", "resource.k8s.io/v1")
    assert shown["status"] == status


def template_of(name: str, asked: Object) -> Object:
    return {"metadata": {"name": name}, "spec": {"spec": asked}}


def slice_(name: str, **more: Any) -> Object:
    """A ResourceSlice of one card, in the pool and on the node of its own name."""
    step = {"default": "1024Mi", "validRange": {"min": "1024Mi", "step": "1024Mi"}}
    device = {
        "name": "card-0", "allowMultipleAllocations": True, "attributes": {"model": {"string": "Z100"}},
        "capacity": {"memory": {"value": "16384Mi", "requestPolicy": step}},
        "taints": [{"key": "example.com/sick", "effect": "NoSchedule"}],
    }  # fmt: skip
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    body = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": [device], **more}
    return {"metadata": {"name": name}, "spec": body}


@pytest.fixture
def shown(cluster: Cluster, name: str) -> Iterator[Object]:
    """The ResourceSlice `name`, which exists."""
    answer = cluster.post(SLICES, slice_(name))
    assert answer.code == 201, answer.body
    yield answer.body
    cluster.delete(f"{SLICES}/{name}")


def test_a_slice_comes_back_with_one_spelling_and_with_the_time_of_its_taints(shown: Object) -> None:
    (device,) = shown["spec"]["devices"]
    one = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    assert device["capacity"]["memory"] == {"value": "16Gi", "requestPolicy": one}
    assert device["taints"][0]["timeAdded"]


@pytest.mark.usefixtures("shown")
def test_slices_are_found_by_node_and_driver(cluster: Cluster, name: str) -> None:
    for field in (f"spec.nodeName={name}", f"spec.driver={DRIVER}"):
        found = cluster.get(f"{SLICES}?fieldSelector={field}").body
        assert (found["kind"], [item["metadata"]["name"] for item in found["items"]]) == (
            "ResourceSliceList",
            [name],
        )
    assert cluster.get(f"{SLICES}?fieldSelector=spec.pool={name}").refusal == (400, "BadRequest")


def test_a_slice_stays_on_its_node_and_in_its_pool(cluster: Cluster, name: str, shown: Object) -> None:
    for more, field in (
        ({"nodeName": "other"}, "nodeName"), ({"driver": "other.example.com"}, "driver"),
        ({"pool": {"name": "other", "generation": 1, "resourceSliceCount": 1}}, "pool.name"),
    ):  # fmt: skip
        answer = cluster.put(f"{SLICES}/{name}", slice_(name, **more))
        assert answer.refusal == (422, "Invalid")
        assert f"spec.{field}: Invalid value: " in answer.message
        assert answer.message.endswith("field is immutable")
    pool = shown["spec"]["pool"] | {"generation": 2}
    assert cluster.put(f"{SLICES}/{name}", slice_(name, pool=pool)).body["spec"]["pool"] == pool
    assert cluster.put(f"{SLICES}/{name}", shown).refusal == (409, "Conflict")
    assert cluster.delete(f"{SLICES}/{name}").body["metadata"]["uid"] == shown["metadata"]["uid"]


def test_a_class_can_be_written_and_removed(cluster: Cluster, name: str) -> None:
    chosen = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}
    made = cluster.post(CLASSES, {"metadata": {"name": name}, "spec": chosen})
    assert (made.code, made.body["spec"]) == (201, chosen)
    assert cluster.put(f"{CLASSES}/{name}", {"metadata": {"name": name}, "spec": {}}).body["spec"] == {}
    assert cluster.delete(f"{CLASSES}/{name}").body["metadata"]["uid"] == made.body["metadata"]["uid"]
