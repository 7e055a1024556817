"""What `vgpu pods` takes a pod to hold: nothing that the allocator would not count."""

from collections.abc import Mapping

import pytest

from device_plugin.cli.pods import HoldingPod, read_pod, with_use
from device_plugin.cli.reading.held_use import HeldUse, SliceUse
from device_plugin.core.contract.annotations import GRANT
from device_plugin.core.contract.grants import Grant, Slice

PART = (Slice("n1-0", 4092, (0, 1)),)


def read(grant: Grant) -> HoldingPod:
    return read_pod({
        "metadata": {"name": "a", "namespace": "b", "uid": "u", "annotations": {GRANT: grant.encode()}},
        "spec": {"nodeName": "n1", "containers": [{"name": "main"}], "initContainers": [{"name": "side"}]},
    })  # fmt: skip


def held(grant: Grant) -> tuple[tuple[Slice, ...], str]:
    found = read(grant)
    return found.slices, found.fault


def test_its_own_grant_is_what_it_holds() -> None:
    assert held(Grant("u", "n1", {"main": PART, "side": (Slice("n1-1", 1, (2,)),)}))[1] == ""
    assert held(Grant("u", "n1", {"main": PART})) == (PART, "")


@pytest.mark.parametrize(
    ("grant", "fault"),
    [
        (Grant("v", "n1", {"main": PART}), "written for pod v"),
        (Grant("u", "n2", {"main": PART}), "written for node n2"),
        (Grant("u", "n1", {"main": PART, "x": (Slice("n1-1", 1, (0,)),)}), "no container x"),
    ],
)
def test_a_grant_that_somebody_wrote_is_void_and_said(grant: Grant, fault: str) -> None:
    slices, said = held(grant)
    assert not slices
    assert fault in said


GRANTED = 8.0 * 2**20


def use(container: str, card: str, used: float | None, compute: float | None) -> SliceUse:
    return SliceUse("b", "a", container, "n1", card, used, 100.0, compute)


@pytest.mark.parametrize(
    ("uses", "found"),
    [
        ([use("main", "n1-0", 5.0, 1.0), use("side", "n1-1", 2.0, 0.0)], HeldUse(7.0, 1.0, GRANTED - 7)),
        ([use("main", "n1-0", 5.0, 1.0), use("side", "n1-1", None, 0.5)], HeldUse(None, 1 + 63 / 2)),
        ([use("main", "n1-0", 5.0, None), use("side", "n1-1", 2.0, 0.5)], HeldUse(7.0, None, GRANTED - 7)),
        ([use("main", "n1-0", 5.0, 1.0)], HeldUse()),
        ([use("main", "n1-0", 5.0, 1.0), use("side", "n1-0", 2.0, 0.0)], HeldUse()),
        ([], HeldUse()),
    ],
)
def test_the_use_of_a_pod_is_that_of_all_its_core_groups(uses: list[SliceUse], found: HeldUse) -> None:
    pod = read(
        Grant("u", "n1", {"main": (Slice("n1-0", 4, (0,)),), "side": (Slice("n1-1", 4, tuple(range(63))),)})
    )
    (shown,) = with_use([pod], {(one.namespace, one.pod, one.container, one.card): one for one in uses})
    assert shown.use == found


@pytest.mark.parametrize(
    ("kind", "name", "labels", "owner"),
    [
        ("Job", "train", {}, ("Job", "train")),
        ("ReplicaSet", "serve-5d", {"pod-template-hash": "5d"}, ("Deployment", "serve")),
        ("ReplicaSet", "own", {"app": "x"}, ("ReplicaSet", "own")),
        ("Foreign" * 99, "x", {}, (("Foreign" * 9), "x")),
    ],
)
def test_the_owner_of_a_pod_is_its_controller(
    kind: str, name: str, labels: Mapping[str, str], owner: tuple[str, str]
) -> None:
    references = [{"kind": "Other", "name": "no"}, {"kind": kind, "name": name, "controller": True}]
    metadata = {"name": "a", "namespace": "b", "uid": "u", "labels": labels, "ownerReferences": references}
    assert read_pod({"metadata": metadata, "spec": {}}).owner == owner


def test_a_pod_without_a_controller_is_its_own_owner() -> None:
    assert read_pod({"metadata": {"name": "a", "namespace": "b", "uid": "u"}, "spec": {}}).owner == (
        "Pod",
        "a",
    )
