"""ResourceSlices against an API server in memory: written on changes, made again when gone, never at rest."""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, cast

import pytest
from msgspec.structs import replace

from device_plugin.core.contract.cards import Card
from device_plugin.core.contract.resource_slices import StoredSlice, read_slice
from device_plugin.core.pods import Node
from device_plugin.kube.api import Change, Named
from device_plugin.kube.errors import ConflictError, ForbiddenError, GoneError
from device_plugin.node.api import NodeApi
from device_plugin.node.stages.resource_slices import LAST_DELAY, ResourceSlices
from tests.builders.cards import card

NAME = "dcu.vgpu.io-n1"
FOREIGN = StoredSlice("gpu-n1", "gpu.example.com", "7", 1)


class Stored:
    """The ResourceSlices of a node. The agent hears of each change at once, unless it is `deaf`."""

    def __init__(self) -> None:
        self.objects: dict[str, Mapping[str, Any]] = {}
        self.writes = 0
        self.refuses: Exception | None = None
        self.deaf = False
        # The UID of the Node; empty while it cannot be read.
        self.node = "uid-n1"
        self.now = 0.0
        self._versions: Iterator[int] = count(10)
        self.slices = ResourceSlices(NodeApi(cast("Any", self), "n1"), "n1", lambda: self.now)
        self.slices.sync([FOREIGN])

    def get(self, _: object, of: Named) -> Node:
        if not self.node:
            raise GoneError("not found", 404)
        return Node(of.name, uid=self.node)

    def create(self, _: object, body: Mapping[str, Any]) -> StoredSlice:
        self._write()
        if body["metadata"]["name"] in self.objects:
            raise ConflictError("already exists", 409)
        return self._store(body)

    def replace(self, _: object, of: Named, body: Mapping[str, Any]) -> StoredSlice:
        self._write()
        if of.name not in self.objects:
            raise GoneError("not found", 404)
        if body["metadata"]["resourceVersion"] != self.objects[of.name]["metadata"]["resourceVersion"]:
            raise ConflictError("changed", 409)
        return self._store(body)

    def delete(self, _: object, of: Named) -> None:
        self._write()
        self.wipe(of.name)

    def wipe(self, name: str = NAME) -> None:
        """Another program deletes the object."""
        found = read_slice(self.objects.pop(name))
        self._tell(Change.DELETED, found._replace(version=str(next(self._versions))))

    def change(self) -> None:
        """Another program changes the object."""
        self._tell(Change.MODIFIED, self._store(self.objects[NAME]))

    def step(self, *cards: Card, seconds: float = 0.5) -> None:
        self.now += seconds
        self.slices.step(cards)

    @property
    def devices(self) -> Mapping[str, Mapping[str, Any]]:
        return {each["name"]: each for each in self.objects[NAME]["spec"]["devices"]}

    def _write(self) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.writes += 1

    def _store(self, body: Mapping[str, Any]) -> StoredSlice:
        metadata = {**body["metadata"], "resourceVersion": str(next(self._versions))}
        self.objects[metadata["name"]] = {**body, "metadata": metadata}
        return read_slice(self.objects[metadata["name"]])

    def _tell(self, change: Change, found: StoredSlice) -> None:
        if not self.deaf:
            self.slices.change(change, found)


@pytest.fixture
def stored() -> Stored:
    return Stored()


def test_kubernetes_removes_the_slices_of_a_node_with_the_node(stored: Stored) -> None:
    stored.step(dcu(0))
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-n1"}
    assert stored.objects[NAME]["metadata"]["ownerReferences"] == [owner]
    # The node was made anew: the slice is gone with the old one.
    stored.node = "another"
    stored.wipe()
    stored.step(dcu(0))
    assert stored.objects[NAME]["metadata"]["ownerReferences"] == [owner | {"uid": "another"}]
    stored.node = ""
    stored.wipe()
    stored.step(dcu(0))
    assert "ownerReferences" not in stored.objects[NAME]["metadata"]


def dcu(number: int, *, healthy: bool = True, cordoned: bool = False) -> Card:
    return replace(
        card(f"DCU-{number}"),
        pci=f"0000:0{number}:00.0",
        family="hygon.com/dcu",
        healthy=healthy,
        cordoned=cordoned,
    )


def test_the_cards_of_a_node_are_devices_and_nothing_is_written_at_rest(stored: Stored) -> None:
    for _ in range(100):
        stored.step(dcu(1), dcu(2))
    assert stored.devices.keys() == {"card-0000-01-00-0", "card-0000-02-00-0"}
    assert stored.writes == 1


def test_nothing_is_written_before_it_is_known_what_is_there() -> None:
    stored = Stored()
    fresh = ResourceSlices(NodeApi(cast("Any", stored), "n1"), "n1", lambda: stored.now)
    fresh.step([dcu(1)])
    assert stored.writes == 0
    assert "has not listed" in fresh.why_not
    fresh.sync([])
    fresh.step([dcu(1)])
    assert (stored.writes, fresh.why_not) == (1, "")


@pytest.mark.parametrize(
    ("change", "cause"), [({"healthy": False}, "unhealthy"), ({"cordoned": True}, "cordoned")]
)
def test_a_card_that_takes_no_new_slices_gets_a_taint(
    stored: Stored, change: dict[str, bool], cause: str
) -> None:
    stored.step(dcu(1), dcu(2))
    stored.step(dcu(1, **change), dcu(2))
    tainted = {
        name: [taint["key"] for taint in each.get("taints", ())] for name, each in stored.devices.items()
    }
    assert tainted == {"card-0000-01-00-0": [f"vgpu.io/{cause}"], "card-0000-02-00-0": []}
    assert stored.objects[NAME]["spec"]["pool"]["generation"] == 2
    stored.step(dcu(1), dcu(2))
    assert "taints" not in stored.devices["card-0000-01-00-0"]
    assert stored.writes == 3


def test_what_the_kubelet_deletes_is_back_at_the_next_turn(stored: Stored) -> None:
    stored.step(dcu(1))
    stored.wipe()
    stored.step(dcu(1))
    assert stored.devices.keys() == {"card-0000-01-00-0"}
    stored.step(dcu(1))
    assert stored.writes == 2


def test_what_others_change_is_written_again(stored: Stored) -> None:
    stored.step(dcu(1))
    stored.change()
    stored.step(dcu(1))
    stored.step(dcu(1))
    assert stored.writes == 2


def test_late_news_of_the_agents_own_writes_changes_nothing(stored: Stored) -> None:
    stored.step(dcu(1))
    first = read_slice(stored.objects[NAME])
    stored.step(dcu(1), dcu(2))
    stored.slices.change(Change.MODIFIED, first)
    stored.slices.change(Change.DELETED, first._replace(version="1"))
    stored.step(dcu(1), dcu(2))
    assert stored.writes == 2


def test_an_agent_that_restarts_writes_once_and_goes_on_counting(stored: Stored) -> None:
    stored.step(dcu(1))
    again = ResourceSlices(NodeApi(cast("Any", stored), "n1"), "n1", lambda: stored.now)
    again.sync([read_slice(stored.objects[NAME])])
    for _ in range(10):
        again.step([dcu(1)])
    assert stored.objects[NAME]["spec"]["pool"]["generation"] == 2
    assert stored.writes == 2


def test_a_family_without_cards_has_no_slice_and_other_drivers_keep_theirs(stored: Stored) -> None:
    stored.objects[FOREIGN.name] = {"metadata": {"name": FOREIGN.name}}
    amd = replace(dcu(3), family="amd.com/gpu")
    stored.step(dcu(1), amd)
    assert stored.objects.keys() == {NAME, "gpu.vgpu.io-n1", FOREIGN.name}
    stored.step(amd)
    assert stored.objects.keys() == {"gpu.vgpu.io-n1", FOREIGN.name}
    stored.step()
    stored.step()
    assert stored.objects.keys() == {FOREIGN.name}
    assert stored.writes == 4


def test_a_refused_write_is_said_and_tried_again_ever_more_seldom(stored: Stored) -> None:
    stored.refuses = ForbiddenError("may not create resourceslices", 403)
    tries = 0
    for _ in range(1200):
        before = stored.slices._not_before
        stored.step(dcu(1))
        tries += stored.slices._not_before != before
    assert "may not create resourceslices" in stored.slices.why_not
    assert tries <= 600 / LAST_DELAY + 6
    stored.refuses = None
    stored.step(dcu(1), seconds=LAST_DELAY)
    assert (stored.slices.why_not, stored.writes) == ("", 1)


def test_a_conflict_is_settled_by_what_the_watch_shows(stored: Stored) -> None:
    stored.step(dcu(1))
    stored.deaf = True
    stored.change()
    stored.step(dcu(1), dcu(2))
    assert "changed" in stored.slices.why_not
    stored.slices.change(Change.MODIFIED, read_slice(stored.objects[NAME]))
    stored.step(dcu(1), dcu(2), seconds=1)
    assert stored.slices.why_not == ""
    assert stored.devices.keys() == {"card-0000-01-00-0", "card-0000-02-00-0"}
