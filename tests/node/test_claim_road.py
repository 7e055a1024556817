"""A real agent process between a kubelet and an API server, for pods that ask by ResourceClaims."""

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

import pytest

from device_plugin.core.contract.claims import FINALIZER, allocation, device_name, read_claim
from device_plugin.core.contract.grants import Grant, Slice
from hack.embedded.apiserver.admission import ADMIN
from tests.builders import objects
from tests.deadline import until
from tests.node.one_node import OneNode
from vgpu_runtime import rocm

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
SLICE = "/apis/resource.k8s.io/v1/resourceslices/dcu.vgpu.io-n1"
PODS = "/api/v1/namespaces/default/pods"


class ClaimNode(OneNode):
    """A node whose agent serves claims, once the kubelet has registered its driver."""

    def __init__(self) -> None:
        super().__init__(flags=["--claims", "true"])
        label = {"metadata": {"labels": {"vgpu.io/claims": "allowed"}}}
        self.http.request(
            "PATCH", f"{self.api.url}/api/v1/namespaces/default", json=label,
            headers={"Content-Type": "application/merge-patch+json", "Authorization": f"Bearer {ADMIN}"},
        )  # fmt: skip
        until(lambda: (found := self.inventory()) is not None and found.claims, self.agent.log_tail())

    def claim(self, name: str, slice_: Slice) -> None:
        """A pod with a claim of its own is placed here, as the allocator does it."""
        request = {
            "name": "slice",
            "exactly": {
                "deviceClassName": "dcu.vgpu.io",
                "capacity": {"requests": {"memory": "4Gi", "cores": "3"}},
            },
        }
        body = {
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": name, "finalizers": [FINALIZER]}, "spec": {"devices": {"requests": [request]}},
        }  # fmt: skip
        made = self.call("POST", CLAIMS, body, ADMIN)
        pod = objects.pod(name, {}, schedulerName="vgpu-scheduler")
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
        pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
        uid = str(self.call("POST", PODS, pod)["metadata"]["uid"])
        claim, cards = read_claim(made), {card.uuid: card for card in self.until_serving().cards}
        given = allocation(claim, "n1", [(slice_, cards[slice_.card])], [str(uuid4())])
        made["status"] = {
            "allocation": given, "reservedFor": [{"resource": "pods", "name": name, "uid": uid}],
        }  # fmt: skip
        self.call("PUT", f"{CLAIMS}/{name}/status", made)
        grant = Grant(uid, "n1", {"main": (slice_,)}, claims={"main": claim.uid})
        carried = {"vgpu.io/grant": grant.encode()}
        self.call("POST", f"{PODS}/{name}/binding", objects.binding(name, "n1", uid=uid, annotations=carried))

    def shown(self) -> list[str]:
        """The names of the devices in the node's ResourceSlice."""
        found: Mapping[str, Any] = self.call("GET", SLICE, user=ADMIN)
        return [each["name"] for each in found["spec"]["devices"]] if "spec" in found else []


@pytest.fixture
def node() -> Iterator[ClaimNode]:
    made = ClaimNode()
    yield made
    made.close()


def test_a_pod_with_a_claim_gets_its_slice_and_leaves_nothing(node: ClaimNode) -> None:
    card = node.until_serving().cards[0]
    node.claim("one", Slice(card.uuid, 4092, (0, 1, 2)))
    until(lambda: node.phase("one") == "Running", node.agent.log_tail())
    (limit,) = rocm.parse(node.seen["one"][0]["/etc/vgpu/vgpu.conf"].decode()).cards
    assert (limit.uuid, limit.mem_bytes, limit.family.mask) == (card.uuid, 4092 << 20, 0b111)
    assert limit.request == "dcu.vgpu.io/memory:4096Mi"
    assert 'pod="one"' in node.probe("/metrics")[1]
    assert node.probe("/readyz")[0] == 200
    node.delete("one")
    until(lambda: not node.left(), "files gone")


def test_the_cards_are_shown_as_devices_and_shown_again_when_somebody_removes_them(node: ClaimNode) -> None:
    names = sorted(device_name(card) for card in node.until_serving().cards)
    until(lambda: sorted(node.shown()) == names, node.agent.log_tail())
    node.call("DELETE", SLICE, user=ADMIN)
    until(lambda: sorted(node.shown()) == names, node.agent.log_tail())


def test_an_agent_that_is_killed_is_registered_again(node: ClaimNode) -> None:
    node.agent.kill()
    card = node.until_serving().cards[0]
    node.claim("one", Slice(card.uuid, 4092, (0, 1, 2)))
    node.agent.start()
    node.agent.wait()
    until(lambda: node.phase("one") == "Running", node.agent.log_tail())
    assert node.shown()
