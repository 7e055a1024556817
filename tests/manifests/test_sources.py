"""A source of requests that writes limits: every admission policy applies to the pods that it has made."""

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from hack.embedded.apiserver import EmbeddedApiServer
from hack.embedded.apiserver.errors import StatusError
from hack.embedded.apiserver.resources import NAMESPACES, PODS, RequestTarget
from hack.embedded.apiserver.server import policy_files

SOURCE = dedent("""\
    kind: MutatingAdmissionPolicy
    metadata: {name: source}
    spec:
      matchConstraints:
        resourceRules:
        - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
      mutations:
      - patchType: JSONPatch
        jsonPatch:
          expression: >-
            [JSONPatch{op: "add", path: "/spec/containers/0/resources",
              value: {"limits": {"hygon.com/dcu-mem": object.metadata.annotations["example.com/units"]}}}]
    ---
    kind: MutatingAdmissionPolicyBinding
    metadata: {name: source}
    spec: {policyName: source}
    """)


@pytest.fixture
def server(tmp_path: Path) -> EmbeddedApiServer:
    (tmp_path / "source.yaml").write_text(SOURCE)
    return EmbeddedApiServer([tmp_path / "source.yaml", *policy_files()])


def create(server: EmbeddedApiServer, namespace: str = "default", **container: Any) -> Mapping[str, Any]:
    """Create a pod that asks by the source's annotation; returns its spec as stored. Raises StatusError."""
    pod = {
        "metadata": {"name": "p", "annotations": {"example.com/units": "4"}},
        "spec": {"containers": [{"name": "main", "image": "i", **container}]},
    }
    stored = server.registry.create("jane", RequestTarget(PODS, namespace), pod)
    spec: Mapping[str, Any] = stored.value["spec"]
    return spec


def test_confinement_and_the_scheduler_are_written(server: EmbeddedApiServer) -> None:
    spec = create(server)
    assert spec["schedulerName"] == "vgpu-scheduler"
    assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    (container,) = spec["containers"]
    assert container["resources"] == {"limits": {"hygon.com/dcu-mem": "4"}}
    assert container["securityContext"] == {"capabilities": {"drop": ["SYS_CHROOT"]}}


@pytest.mark.parametrize(
    ("container", "text"),
    [
        ({"securityContext": {"privileged": True}}, "cannot run privileged containers"),
        ({"volumeMounts": [{"name": "v", "mountPath": "/etc/vgpu"}]}, "volume mount at /etc/vgpu"),
        ({"env": [{"name": "AMD_VISIBLE_DEVICES", "value": "all"}]}, "variable AMD_VISIBLE_DEVICES"),
    ],
)
def test_isolation_applies(server: EmbeddedApiServer, container: Mapping[str, Any], text: str) -> None:
    with pytest.raises(StatusError, match=text):
        create(server, **container)


def test_a_strict_quota_applies(server: EmbeddedApiServer) -> None:
    strict = {"metadata": {"name": "strict", "labels": {"vgpu.io/quota": "strict"}}}
    server.registry.create("admin", RequestTarget(NAMESPACES, ""), strict)
    with pytest.raises(StatusError, match=r"write hygon\.com/dcu-cores too"):
        create(server, "strict")
