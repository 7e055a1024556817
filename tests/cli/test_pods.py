"""What `vgpu pods` takes a pod to hold: nothing that the allocator would not count."""

import pytest

from device_plugin.cli.pods import read_pod
from device_plugin.core.annotations import GRANT
from device_plugin.core.grants import Grant, Slice

PART = (Slice("n1-0", 4092, (0, 1)),)


def held(grant: Grant) -> tuple[tuple[Slice, ...], str]:
    found = read_pod({
        "metadata": {"name": "a", "namespace": "b", "uid": "u", "annotations": {GRANT: grant.encode()}},
        "spec": {"nodeName": "n1", "containers": [{"name": "main"}], "initContainers": [{"name": "side"}]},
    })  # fmt: skip
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
