"""Pods that ask for a slice have a seccomp profile and no SYS_CHROOT, whatever their authors wrote."""

from typing import Any

import pytest

from tests.builders.objects import pod
from tests.contract.asking import SLICE, asking, container
from tests.contract.cluster import Cluster
from tests.release import since

# Nothing writes it on older releases.
pytestmark = since("1.36", "MutatingAdmissionPolicy")
DEFAULT, OWN = {"type": "RuntimeDefault"}, {"type": "Localhost", "localhostProfile": "profiles/a.json"}
DEBUG = {"name": "d", "image": "i", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"}


def test_a_seccomp_profile_is_written_where_there_is_none(name: str, accepted: Any) -> None:
    assert accepted(asking(name))["securityContext"]["seccompProfile"] == DEFAULT


@pytest.mark.parametrize("profile", [DEFAULT, OWN], ids=lambda profile: profile["type"])
def test_a_seccomp_profile_that_is_there_stays(name: str, accepted: Any, profile: dict[str, str]) -> None:
    context = {"runAsUser": 7, "seccompProfile": profile}
    assert accepted(asking(name, securityContext=context))["securityContext"] == context


def test_a_container_keeps_its_own_seccomp_profile(name: str, accepted: Any) -> None:
    spec = accepted(asking(name, containers=[container(securityContext={"seccompProfile": OWN})]))
    assert spec["securityContext"]["seccompProfile"] == DEFAULT
    assert spec["containers"][0]["securityContext"]["seccompProfile"] == OWN


# What a container says of its capabilities, and what it drops in the end. Runtimes know the name without CAP_ only.
DROPS: list[tuple[dict[str, Any] | None, list[str]]] = [
    (None, ["SYS_CHROOT"]),
    ({}, ["SYS_CHROOT"]),
    ({"runAsUser": 7}, ["SYS_CHROOT"]),
    ({"capabilities": {}}, ["SYS_CHROOT"]),
    ({"capabilities": {"add": ["KILL"]}}, ["SYS_CHROOT"]),
    ({"capabilities": {"drop": ["NET_RAW", "KILL"]}}, ["NET_RAW", "KILL", "SYS_CHROOT"]),
    ({"capabilities": {"drop": ["CAP_SYS_CHROOT"]}}, ["CAP_SYS_CHROOT", "SYS_CHROOT"]),
    ({"capabilities": {"drop": ["SYS_CHROOT"]}}, ["SYS_CHROOT"]),
    ({"capabilities": {"drop": ["sys_chroot"]}}, ["sys_chroot"]),
    ({"capabilities": {"drop": ["ALL"]}}, ["ALL"]),
]


def _container(index: int, context: dict[str, Any] | None, limits: dict[str, str]) -> dict[str, Any]:
    more = {} if context is None else {"securityContext": context}
    return container(f"c{index}", limits, **more)


def test_sys_chroot_is_dropped_by_every_container(name: str, accepted: Any) -> None:
    spec = accepted(
        asking(
            name,
            containers=[_container(i, c, {} if i else SLICE) for i, (c, _) in enumerate(DROPS)],
            initContainers=[_container(50 + i, c, {}) for i, (c, _) in enumerate(DROPS)],
        )
    )
    for kind in ("containers", "initContainers"):
        found = [one["securityContext"]["capabilities"]["drop"] for one in spec[kind]]
        assert found == [drop for _, drop in DROPS]
        assert spec[kind][2]["securityContext"]["runAsUser"] == 7
        assert spec[kind][4]["securityContext"]["capabilities"]["add"] == ["KILL"]


def test_a_sidecar_with_the_slice_is_confined_too(name: str, accepted: Any) -> None:
    spec = accepted(pod(name, initContainers=[container("side", restartPolicy="Always")]))
    assert spec["initContainers"][0]["securityContext"]["capabilities"]["drop"] == ["SYS_CHROOT"]
    assert spec["securityContext"]["seccompProfile"] == DEFAULT


def test_ephemeral_containers_are_confined_when_they_are_added(
    cluster: Cluster, name: str, path: str, accepted: Any
) -> None:
    accepted(asking(name))
    added: list[dict[str, Any]] = []
    for index, (context, drop) in enumerate(DROPS):
        more = {} if context is None else {"securityContext": context}
        change = {"spec": {"ephemeralContainers": [*added, {**DEBUG, "name": f"d{index}", **more}]}}
        answer = cluster.patch(f"{path}/ephemeralcontainers", change, "tenant")
        assert answer.code == 200, answer.body
        added = answer.body["spec"]["ephemeralContainers"]
        assert added[-1]["securityContext"]["capabilities"]["drop"] == drop
        # The pod's profile is theirs.
        assert "seccompProfile" not in added[-1]["securityContext"]


def test_a_pod_that_does_not_ask_is_left_as_it_is(
    cluster: Cluster, name: str, path: str, accepted: Any
) -> None:
    spec = accepted(pod(name, schedulerName="nobody"))
    assert spec["securityContext"] == {}
    assert "securityContext" not in spec["containers"][0]
    change = {"spec": {"ephemeralContainers": [DEBUG]}}
    answer = cluster.patch(f"{path}/ephemeralcontainers", change, "tenant")
    assert "securityContext" not in answer.body["spec"]["ephemeralContainers"][0]


def test_a_pod_of_windows_gets_nothing_that_windows_lacks(name: str, accepted: Any) -> None:
    spec = accepted(asking(name, os={"name": "windows"}))
    assert spec["securityContext"] == {}
    assert "securityContext" not in spec["containers"][0]
