"""What keeps a pod from a node where a card is free, as a person reads it."""

import pytest

from device_plugin.core.obstacles import NONE, Obstacles

SELECTED = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
UNBOUND = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."
ABSENT = '0/3 nodes are available: persistentvolumeclaim "never" not found.'
TAINTED = "0/3 nodes are available: 3 node(s) had untolerated taint(s)."


@pytest.mark.parametrize(
    ("obstacles", "text"),
    [
        (NONE, ""),
        (Obstacles(gates=("x/y", "x/z"), said="Scheduling is blocked"), "scheduling gate x/y, x/z"),
        (Obstacles(selector="nodeSelector a=b", said=SELECTED), f"nodeSelector a=b: {SELECTED}"),
        (Obstacles(claims=("never",), said=UNBOUND), f"volume claim never: {UNBOUND}"),
        (
            Obstacles(claims=("never",), selector="nodeSelector a=b", said=ABSENT),
            f"volume claim never: {ABSENT}",
        ),
        (Obstacles(selector="nodeSelector a=b", said=TAINTED), TAINTED),
    ],
)
def test_it_is_named(obstacles: Obstacles, text: str) -> None:
    assert obstacles.text == text


@pytest.mark.parametrize(
    "said",
    [
        "",
        "0/3 nodes are available: 3 lack memory (largest free at least 1 GiB).",
        "0/1 nodes are available: 1 cordoned.",
    ],
)
def test_what_we_said_ourselves_is_no_obstacle_once_there_is_room(said: str) -> None:
    assert Obstacles(selector="nodeSelector a=b", claims=("data",), said=said).text == ""
