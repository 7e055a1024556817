"""The kubelet's calls of a driver for a pod's ResourceClaims: when they come, and when they do not."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.contract.claims import GROUP, USED, Object, allocation, consumer, result
from tests.contract.cluster import PODS, Cluster, unique
from tests.contract.kubelet.claim_driver import ClaimDriver
from tests.contract.kubelet.machines import NODE
from tests.contract.kubelet.node import Node
from tests.release import since

pytestmark = since("1.36", "a capacity that a claim consumes")

SLICES = f"{GROUP}/resourceslices"
PRINT = ["sh", "-c", "echo claim $CLAIM; exec sleep 1000"]
Give = Callable[..., Object]


@pytest.fixture
def driver(node: Node) -> Iterator[ClaimDriver]:
    """A driver that is registered."""
    made = ClaimDriver(node.folders, f"{node.prefix}.example.com")
    made.serve()
    node.until(lambda: made.registered == [True], "registered")
    yield made
    made.close()


class Users:
    """Pods that use one claim, and are bound to the node."""

    def __init__(self, cluster: Cluster, node: Node, driver: ClaimDriver, path: str) -> None:
        self.cluster, self.node, self.driver, self.path = cluster, node, driver, path
        self.claim = path.rpartition("/")[2]

    def create(self, name: str, command: list[str] = PRINT, **spec: Any) -> Object:
        container = self.node.container(command=command)
        container["resources"] = {"claims": [{"name": USED}]}
        entry = {"name": USED, "resourceClaimName": self.claim}
        made: Object = self.node.create(name, container, resourceClaims=[entry], **spec)
        return made

    def give(self, *pods: Object) -> None:
        """Give the claim a device of the driver, for these pods."""
        given = allocation(result(driver=self.driver.name, pool=NODE))
        status = {"allocation": given, "reservedFor": [consumer(each) for each in pods]}
        answer = self.cluster.patch(f"{self.path}/status", {"status": status})
        assert answer.code == 200, answer.body

    def failed(self, name: str, text: str) -> bool:
        """True once an event about the pod says that its claim was not prepared, and why."""
        return any(
            reason == "FailedPrepareDynamicResources" and text in message
            for reason, message in self.node.events(name)
        )

    def uid(self) -> str:
        return str(self.cluster.get(self.path).body["metadata"]["uid"])


@pytest.fixture
def users(cluster: Cluster, node: Node, driver: ClaimDriver, named: str) -> Users:
    return Users(cluster, node, driver, named)


def touch(cluster: Cluster, pod: Object, value: str) -> None:
    """Change the pod, so that the kubelet tries again at once."""
    path = f"{PODS}/{pod['metadata']['name']}"
    assert cluster.patch(path, {"metadata": {"annotations": {"touched": value}}}).code == 200


def test_a_container_gets_the_device_that_its_driver_names(users: Users, node: Node) -> None:
    users.give(users.create("one"))
    touch(users.cluster, node.pod("one"), "1")
    node.until_phase("one", "Running")
    node.until(lambda: node.log("one") == f"claim {users.uid()}\n", "the environment")
    assert users.driver.prepared == [users.claim]
    node.delete("one")
    node.until(lambda: node.gone("one"), "gone")
    assert users.driver.unprepared == [users.claim]


def test_a_container_that_starts_again_brings_no_second_call(users: Users, node: Node) -> None:
    users.give(users.create("one", ["sh", "-c", "exit 1"]))
    touch(users.cluster, node.pod("one"), "1")
    node.until(lambda: node.state("one")["restartCount"] >= 2, "restarts")
    assert users.driver.prepared == [users.claim]


def test_the_driver_is_done_with_a_pod_before_the_pod_has_ended(users: Users, node: Node) -> None:
    users.driver.stuck = "still in use"
    users.give(users.create("one", ["true"], restartPolicy="Never"))
    touch(users.cluster, node.pod("one"), "1")
    node.until(lambda: len(users.driver.unprepared) >= 2, "it is asked again")
    assert node.status("one")["phase"] != "Succeeded"
    users.driver.stuck = ""
    node.until_phase("one", "Succeeded")


def test_a_pod_for_which_the_claim_is_not_reserved_waits(users: Users, node: Node) -> None:
    pod = users.create("one")
    node.until(lambda: users.failed("one", f"is not allowed to use ResourceClaim {users.claim}"), "the event")
    assert (node.status("one")["phase"], users.driver.prepared) == ("Pending", [])
    users.give(pod)
    touch(users.cluster, pod, "1")
    node.until_phase("one", "Running")


def test_a_pod_whose_driver_is_away_waits(users: Users, node: Node) -> None:
    users.driver.stop()
    pod = users.create("one")
    users.give(pod)

    def is_away() -> bool:
        """The kubelet notices it a moment later, and is made to try again until then."""
        touch(users.cluster, pod, unique())
        return users.failed("one", f"DRA driver {users.driver.name} is not registered")

    node.until(is_away, "the event")
    assert node.status("one")["phase"] == "Pending"
    users.driver.serve()
    node.until(lambda: users.driver.registered == [True, True], "registered")
    touch(users.cluster, pod, "again")
    node.until_phase("one", "Running")


def test_a_refused_start_is_tried_again_when_the_pod_changes(users: Users, node: Node) -> None:
    users.driver.refusal = "not now"
    pod = users.create("one")
    users.give(pod)
    touch(users.cluster, pod, "1")
    node.until(lambda: users.failed("one", "not now"), "the event")
    users.driver.refusal = ""
    touch(users.cluster, pod, "2")
    node.until_phase("one", "Running")


def test_a_second_pod_gets_the_devices_of_a_prepared_claim_without_a_call(users: Users, node: Node) -> None:
    """So a driver cannot refuse it, and must count the claim as used until neither pod has processes."""
    first = users.create("one")
    users.give(first)
    touch(users.cluster, first, "1")
    node.until_phase("one", "Running")
    users.create("two")
    touch(users.cluster, node.pod("two"), "1")
    node.until_phase("two", "Running")
    node.until(lambda: node.log("two") == f"claim {users.uid()}\n", "the environment")
    node.delete("one", grace=0)
    node.until(lambda: node.gone("one"), "gone")
    assert users.driver.prepared == [users.claim]
    assert users.driver.unprepared == []
    node.delete("two")
    node.until(lambda: users.driver.unprepared == [users.claim], "unprepared")


def test_after_a_restart_of_the_kubelet_nothing_is_prepared_again(users: Users, node: Node) -> None:
    users.give(users.create("one"))
    touch(users.cluster, node.pod("one"), "1")
    node.until_phase("one", "Running")
    node.restart_kubelet()
    node.until(lambda: len(users.driver.registered) == 2, "registered")
    node.delete("one")
    node.until(lambda: node.gone("one"), "gone")
    assert (users.driver.prepared, users.driver.unprepared) == ([users.claim], [users.claim])


def test_slices_are_deleted_when_the_kubelet_starts_and_when_their_driver_is_away(
    cluster: Cluster, node: Node, driver: ClaimDriver
) -> None:
    def show() -> str:
        pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
        body = {"driver": driver.name, "nodeName": NODE, "pool": pool, "devices": [{"name": "card-0"}]}
        name = unique()
        assert cluster.post(SLICES, {"metadata": {"name": name}, "spec": body}).code == 201
        return f"{SLICES}/{name}"

    first = show()
    node.restart_kubelet()
    node.until(lambda: cluster.get(first).code == 404, "wiped at the start")
    node.until(lambda: len(driver.registered) == 2, "registered")
    second = show()
    driver.stop()
    node.until(lambda: cluster.get(second).code == 404, "wiped while the driver is away")


def test_a_driver_without_a_version_of_the_kubelet_is_not_registered(node: Node) -> None:
    made = ClaimDriver(node.folders, f"{node.prefix}.example.com")
    made.versions = ["v9.DRAPlugin"]
    made.serve()
    try:
        node.until(lambda: made.registered[:1] == [False], "refused")
    finally:
        made.close()
