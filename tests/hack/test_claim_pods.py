"""The comparison of claims with grants: each difference that a trial must notice."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.kube.api import Ref
from hack.embedded.apiserver import EmbeddedApiServer
from hack.embedded.apiserver.admission import ADMIN
from hack.embedded.claims.uses import CLAIMS, TEMPLATES
from hack.embedded.kubelet.drivers import SLICES
from hack.embedded.person import Object, Person
from hack.measure.claim_pods import CLASS, by_claims, claim_faults
from hack.measure.random_pods import FAMILY
from tests.builders import objects

SHOWN = {
    "metadata": {"name": "shown"},
    "spec": {
        "driver": CLASS, "nodeName": "n1", "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"card-{uuid}", "attributes": {"uuid": {"string": uuid}}} for uuid in ("a", "b")],
    },
}  # fmt: skip


@pytest.fixture
def person() -> Iterator[Person]:
    server = EmbeddedApiServer([])
    server.start()
    with closing(Person(server.url, ADMIN)) as made:
        made.api.create(SLICES, SHOWN)
        yield made
    server.stop()


@pytest.fixture
def pod(person: Person) -> Object:
    """A pod whose claim agrees with its grant."""
    spec = {"devices": {"requests": [{"name": "slice", "exactly": {"deviceClassName": CLASS}}]}}
    claim = person.api.create(CLAIMS, {"metadata": {"name": "c"}, "spec": spec}, "default")
    write(person, "card-a")
    body = objects.pod("p", nodeName="n1", resourceClaims=[{"name": "main", "resourceClaimName": "c"}])
    grant = Grant("u", "n1", {"main": (Slice("a", 4096, (0,)),)}, claims={"main": claim["metadata"]["uid"]})
    body["metadata"].update(uid="u", annotations={"vgpu.io/grant": grant.encode()})
    return {**body, "status": {}}


def write(person: Person, device: str, user: str = "u") -> None:
    """Give the claim this device, for the pod of the UID `user`."""
    given = {"request": "slice", "driver": CLASS, "pool": "n1", "device": device}
    status = {
        "allocation": {"devices": {"results": [given]}},
        "reservedFor": [{"resource": "pods", "name": "p", "uid": user}],
    }
    for change in (None, status):
        person.api.patch(CLAIMS, Ref("c", "default"), {"status": change}, subresource="status")


def test_a_claim_that_agrees_with_its_grant_is_no_fault(person: Person, pod: Object) -> None:
    assert list(claim_faults(person, [pod])) == []


def test_another_card_another_user_and_no_device_are_faults(person: Person, pod: Object) -> None:
    write(person, "card-b")
    assert list(claim_faults(person, [pod])) == [
        "claim c has [('n1', 'b')], and its pod's grant [('n1', 'a')]"
    ]
    write(person, "card-a", user="other")
    assert list(claim_faults(person, [pod])) == ["claim c is not reserved for its pod alone"]
    person.api.patch(CLAIMS, Ref("c", "default"), {"status": None}, subresource="status")
    assert len(list(claim_faults(person, [pod]))) == 2


def test_a_claim_of_no_pod_and_a_pod_without_its_claim_are_faults(person: Person, pod: Object) -> None:
    assert list(claim_faults(person, [])) == ["claim c is left, and no pod uses it"]
    person.api.delete(CLAIMS, Ref("c", "default"))
    assert list(claim_faults(person, [pod])) == ["pod p: no claim c, or no grant"]


def test_a_claim_asks_for_what_the_limits_asked_for(person: Person) -> None:
    for _ in range(2):
        made = by_claims(person, objects.pod("p", {f"{FAMILY}-mem": "4"}))
    assert made["spec"]["containers"][0]["resources"] == {"claims": [{"name": "main"}]}
    (template,) = person.api.list(TEMPLATES).items
    entry = {"name": "main", "resourceClaimTemplateName": template["metadata"]["name"]}
    assert made["spec"]["resourceClaims"] == [entry]
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["capacity"] == {"requests": {"memory": "4Gi"}}
