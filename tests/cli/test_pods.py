"""What `vgpu pods` takes a pod to hold: nothing that the allocator would not count."""

import pytest

from device_plugin.cli.pods import HoldingPod, PodUse, read_pod, with_use
from device_plugin.cli.reading.slice_use import SliceUse
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


def use(container: str, card: str, used: float | None, compute: float | None) -> SliceUse:
    return SliceUse("b", "a", container, "n1", card, used, 100.0, compute)


@pytest.mark.parametrize(
    ("uses", "found"),
    [
        ([use("main", "n1-0", 5.0, 1.0), use("side", "n1-1", 2.0, 0.0)], PodUse(7.0, 1 / 64)),
        ([use("main", "n1-0", 5.0, 1.0), use("side", "n1-1", None, 0.5)], PodUse(None, (1 + 63 / 2) / 64)),
        ([use("main", "n1-0", 5.0, None), use("side", "n1-1", 2.0, 0.5)], PodUse(7.0, None)),
        ([use("main", "n1-0", 5.0, 1.0)], PodUse()),
        ([use("main", "n1-0", 5.0, 1.0), use("side", "n1-0", 2.0, 0.0)], PodUse()),
        ([], PodUse()),
    ],
)
def test_the_use_of_a_pod_is_that_of_all_its_core_groups(uses: list[SliceUse], found: PodUse) -> None:
    pod = read(
        Grant("u", "n1", {"main": (Slice("n1-0", 4, (0,)),), "side": (Slice("n1-1", 4, tuple(range(63))),)})
    )
    (shown,) = with_use([pod], {(one.namespace, one.pod, one.container, one.card): one for one in uses})
    assert shown.use == found
