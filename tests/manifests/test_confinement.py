"""The policy vgpu-confinement without the one that writes what it wants: what people on Kubernetes 1.31 are told."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.documents import documents
from hack.embedded.apiserver import EmbeddedApiServer
from tests.builders.objects import pod
from tests.contract.asking import asking, container, refused
from tests.contract.cluster import PODS, Cluster
from tests.manifests.conftest import MANIFESTS

FILE = MANIFESTS / "admission/confinement.yaml"
DEFAULT, OWN = {"type": "RuntimeDefault"}, {"type": "Localhost", "localhostProfile": "profiles/a.json"}
NO_CHROOT = {"capabilities": {"drop": ["SYS_CHROOT"]}}
NOT_ROOT = {"runAsNonRoot": True, "allowPrivilegeEscalation": False}


def served(folder: Path, seccomp_default: str) -> Iterator[Cluster]:
    """A server with this policy alone, whose parameter seccompDefault is given."""
    text = FILE.read_text().replace('"false" == "true"', f'"{seccomp_default}" == "true"')
    policies = [item for item in documents(text) if item["kind"].startswith("Validating")]
    (folder / "policy.yaml").write_text(yaml.safe_dump_all(policies))
    server = EmbeddedApiServer([folder / "policy.yaml"])
    server.start()
    identities = {"admin": {}, "tenant": {"Authorization": "Bearer jane"}}
    made = Cluster(server.url.removeprefix("http://"), identities)
    yield made
    made.close()
    server.stop()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    yield from served(tmp_path, "false")


@pytest.fixture
def with_default(tmp_path: Path) -> Iterator[Cluster]:
    yield from served(tmp_path, "true")


def asks(context: dict[str, Any] | None, pod_context: dict[str, Any] | None = None) -> dict[str, Any]:
    """A pod that asks, with a plain first container, and these contexts of its main container and of its own."""
    first = container("first", {}, securityContext={"seccompProfile": DEFAULT, **NO_CHROOT})
    more: dict[str, Any] = {} if context is None else {"securityContext": context}
    return asking(
        "x", initContainers=[first], containers=[container(**more)], securityContext=pod_context or {}
    )


WITHOUT_PROFILE = "container main has no seccomp profile", "seccompProfile: {type: RuntimeDefault}"
WITH_CHROOT = (
    "container main has the capability SYS_CHROOT",
    "drop: [SYS_CHROOT]",
    "allowPrivilegeEscalation: false",
)


@pytest.mark.parametrize(
    ("context", "pod_context"),
    [
        ({"seccompProfile": DEFAULT, **NO_CHROOT}, None),
        ({"seccompProfile": OWN, "capabilities": {"drop": ["ALL"]}}, None),
        (NO_CHROOT, {"seccompProfile": OWN}),
        (NOT_ROOT, {"seccompProfile": DEFAULT}),
        ({"runAsUser": 7, "allowPrivilegeEscalation": False}, {"seccompProfile": DEFAULT}),
        ({"allowPrivilegeEscalation": False}, {"seccompProfile": DEFAULT, "runAsUser": 7}),
        ({"allowPrivilegeEscalation": False}, {"seccompProfile": DEFAULT, "runAsNonRoot": True}),
    ],
)
def test_what_confines_is_fine(
    cluster: Cluster, context: dict[str, Any], pod_context: dict[str, Any] | None
) -> None:
    answer = cluster.post(PODS, asks(context, pod_context), "tenant")
    assert answer.code == 201, answer.body


@pytest.mark.parametrize("context", [None, {}, NO_CHROOT])
def test_a_seccomp_profile_is_missed(cluster: Cluster, context: dict[str, Any] | None) -> None:
    refused(cluster.post(PODS, asks(context), "tenant"), "vgpu-confinement", *WITHOUT_PROFILE)


@pytest.mark.parametrize(
    ("context", "pod_context"),
    [
        (None, {}),
        ({}, {}),
        ({"capabilities": {"drop": ["CAP_SYS_CHROOT", "KILL"]}}, {}),
        ({"runAsNonRoot": True}, {}),  # a setuid program makes root of it
        ({"allowPrivilegeEscalation": True, "runAsUser": 7}, {}),
        ({"allowPrivilegeEscalation": False}, {}),
        ({"allowPrivilegeEscalation": False, "runAsUser": 0}, {"runAsUser": 7}),
        ({"allowPrivilegeEscalation": False, "runAsNonRoot": False}, {"runAsNonRoot": True}),
    ],
)
def test_sys_chroot_is_noticed(
    cluster: Cluster, context: dict[str, Any] | None, pod_context: dict[str, Any]
) -> None:
    body = asks(context, {"seccompProfile": DEFAULT, **pod_context})
    refused(cluster.post(PODS, body, "tenant"), "vgpu-confinement", *WITH_CHROOT)


def test_kubelets_may_bring_the_profile(with_default: Cluster) -> None:
    assert with_default.post(PODS, asks(NO_CHROOT), "tenant").code == 201


def test_an_old_pods_profile_is_not_enough_for_a_new_ephemeral_container(cluster: Cluster) -> None:
    assert cluster.post(PODS, asks(NO_CHROOT, {"seccompProfile": {"type": "Unconfined"}})).code == 201
    for context, words in (
        (NO_CHROOT, ("container d has no seccomp profile",)),
        ({"seccompProfile": DEFAULT}, ("container d has the capability SYS_CHROOT",)),
    ):
        change: dict[str, Any] = {
            "spec": {"ephemeralContainers": [{"name": "d", "image": "i", "securityContext": context}]}
        }
        answer = cluster.patch(f"{PODS}/x/ephemeralcontainers", change, "tenant")
        refused(answer, "vgpu-confinement", *words)
    change["spec"]["ephemeralContainers"][0]["securityContext"] = {"seccompProfile": DEFAULT, **NO_CHROOT}
    assert cluster.patch(f"{PODS}/x/ephemeralcontainers", change, "tenant").code == 200
    # It was judged when it came; the next one does not wait for it.
    change["spec"]["ephemeralContainers"].append(
        {"name": "e", "image": "i", "securityContext": {"seccompProfile": OWN, **NO_CHROOT}}
    )
    assert cluster.patch(f"{PODS}/x/ephemeralcontainers", change, "tenant").code == 200


@pytest.mark.parametrize("body", [pod("x"), asking("x", os={"name": "windows"})], ids=["asks not", "windows"])
def test_others_are_left_alone(cluster: Cluster, body: dict[str, Any]) -> None:
    assert cluster.post(PODS, body, "tenant").code == 201
