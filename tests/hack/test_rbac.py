"""The comparison of roles with an audit log, in both directions."""

import json
from pathlib import Path
from typing import Any

from hack.testbed import audit
from hack.testbed.rbac import check, differences, granted

ROLES: list[dict[str, Any]] = [
    {
        "kind": "ClusterRole",
        "metadata": {"name": "agent"},
        "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]}],
    },
    {
        "kind": "ClusterRoleBinding",
        "roleRef": {"kind": "ClusterRole", "name": "agent"},
        "subjects": [{"kind": "ServiceAccount", "name": "vgpu-node", "namespace": "vgpu-system"}],
    },
]


def event(verb: str, resource: str, code: int = 200, agent: str = "vgpu-node", **more: str) -> str:
    return json.dumps({
        "stage": "ResponseComplete", "requestReceivedTimestamp": "2026-11-21T08:00:00.000000Z",
        "verb": verb, "userAgent": agent, "responseStatus": {"code": code},
        "user": {"username": "system:serviceaccount:vgpu-system:vgpu-node"},
        "objectRef": {"resource": resource, **more},
    })  # fmt: skip


def compare(tmp_path: Path, *events: str) -> list[str]:
    log = tmp_path / "audit.log"
    log.write_text("".join(f"{line}\n" for line in events))
    return differences(granted(ROLES), list(audit.calls(log)))


def test_roles_that_fit_what_is_used_differ_in_nothing(tmp_path: Path) -> None:
    assert compare(tmp_path, event("get", "nodes", name="n1"), event("patch", "nodes", name="n1")) == []


def test_a_permission_that_nobody_uses_is_named(tmp_path: Path) -> None:
    assert compare(tmp_path, event("get", "nodes")) == ["granted and not used: vgpu-node: patch nodes"]


def test_a_right_to_several_named_objects_is_used_by_one_of_them(tmp_path: Path) -> None:
    rule = {"apiGroups": [""], "resources": ["nodes"], "resourceNames": ["n1", "n2"], "verbs": ["get"]}
    named = granted([{**ROLES[0], "rules": [rule]}, ROLES[1]])
    log = tmp_path / "audit.log"
    log.write_text(event("get", "nodes", name="n2") + "\n")
    assert differences(named, list(audit.calls(log))) == []
    log.write_text(event("get", "nodes", name="n3") + "\n")
    unused, stranger = differences(named, list(audit.calls(log)))
    assert unused == "granted and not used: vgpu-node: get nodes n1 n2"
    assert stranger.startswith("used and not granted by us: vgpu-node: get nodes")


def test_a_right_to_one_kind_of_workload_is_used_by_the_same_right_to_another(tmp_path: Path) -> None:
    rules = [{"apiGroups": ["ray.io"], "resources": ["rayjobs"], "verbs": ["get", "patch"]}]
    named = granted([{**ROLES[0], "rules": rules}, ROLES[1]])
    log = tmp_path / "audit.log"
    log.write_text(event("get", "jobs", apiGroup="batch") + "\n")
    unused = [line for line in differences(named, list(audit.calls(log))) if line.startswith("granted")]
    assert unused == ["granted and not used: vgpu-node: patch rayjobs.ray.io"]


def test_a_right_that_no_request_names_is_used_by_the_requests_that_need_it(tmp_path: Path) -> None:
    resources = ["resourceclaims/status", "resourceclaims/binding"]
    rules = [{"apiGroups": ["resource.k8s.io"], "resources": resources, "verbs": ["update"]}]
    named = granted([{**ROLES[0], "rules": rules}, ROLES[1]])
    log = tmp_path / "audit.log"
    log.write_text(event("get", "nodes") + "\n")
    unused = [line for line in differences(named, list(audit.calls(log))) if line.startswith("granted")]
    assert [line.rpartition(" ")[2] for line in unused] == [
        f"{each}.resource.k8s.io" for each in sorted(resources)
    ]
    log.write_text(event("update", "resourceclaims", apiGroup="resource.k8s.io", subresource="status") + "\n")
    assert differences(named, list(audit.calls(log))) == []


def test_a_use_that_no_role_of_ours_covers_is_named(tmp_path: Path) -> None:
    used = (event("get", "nodes"), event("patch", "nodes"))
    (line,) = compare(tmp_path, *used, event("patch", "nodes", subresource="status"))
    assert line.startswith("used and not granted by us: vgpu-node: patch nodes/status")
    lines = compare(tmp_path, *used, event("list", "pods", code=403))
    assert "refused: vgpu-node: list pods (vgpu-node)" in lines


def test_what_is_refused_while_the_product_is_removed_is_no_difference(tmp_path: Path) -> None:
    used = (event("get", "nodes"), event("patch", "nodes"))
    assert compare(tmp_path, *used, event("patch", "nodes", code=403)) == []


def test_what_kube_scheduler_does_with_the_same_account_is_its_own_roles_matter(tmp_path: Path) -> None:
    used = (event("get", "nodes"), event("patch", "nodes"))
    assert compare(tmp_path, *used, event("list", "services", agent="kube-scheduler/v1.36.3")) == []


def test_a_list_that_stands_for_a_refused_watch_of_kube_scheduler_is_no_difference(tmp_path: Path) -> None:
    """An API server that has just started refuses both, and in all of its life kube-scheduler only watches."""
    used = (event("get", "nodes"), event("patch", "nodes"))
    scheduler = "kube-scheduler/v1.36.3"
    refused = [event(verb, "services", code=403, agent=scheduler) for verb in ("watch", "list")]
    assert compare(tmp_path, *used, *refused, event("watch", "services", agent=scheduler)) == []
    lines = compare(tmp_path, *used, *refused)
    assert lines == [f"refused: vgpu-node: {verb} services ({scheduler})" for verb in ("list", "watch")]
    # Our own services list, and then watch.
    lines = compare(tmp_path, *used, event("list", "pods", code=403), event("watch", "pods"))
    assert lines[-1] == "refused: vgpu-node: list pods (vgpu-node)"


def test_a_log_without_calls_is_no_proof(tmp_path: Path) -> None:
    assert "run the end-to-end tests first" in check([tmp_path / "none"])[0]


def test_reads_are_not_writes(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    verbs = ("get", "list", "watch", "create", "delete")
    log.write_text("".join(event(verb, "pods") + "\n" for verb in verbs))
    assert [call.verb for call in audit.calls(log) if call.writes] == ["create", "delete"]
