"""Kubernetes' JSON: where a node agent can be asked."""

import json
from typing import Any

import pytest

from device_plugin.adapters.kube import decode
from device_plugin.adapters.kube.structs import DecodeError
from device_plugin.core.contract.annotations import GRANT, MAX_BYTES
from device_plugin.core.contract.resize import MAX_RECORD
from device_plugin.core.pods import Agent
from device_plugin.kube.api import AGENTS, JOBS, PODS, Metadata


def agent_pod(ports: list[dict[str, Any]], **status: object) -> bytes:
    spec = {"nodeName": "n1", "containers": [{"name": "side"}, {"name": "agent", "ports": ports}]}
    return json.dumps({"metadata": {"name": "vgpu-node-x"}, "spec": spec, "status": status}).encode()


HTTP = [{"name": "debug", "containerPort": 1}, {"name": "http", "containerPort": 9400, "protocol": "TCP"}]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (agent_pod(HTTP, phase="Running", podIP="10.1.2.3"), "10.1.2.3:9400"),
        (agent_pod(HTTP, phase="Running", podIP="fd00::1"), "[fd00::1]:9400"),
        (agent_pod(HTTP, phase="Running"), ""),
        (agent_pod(HTTP, phase="Failed", podIP="10.1.2.3"), ""),
        (agent_pod(HTTP), ""),
        (agent_pod([{"containerPort": 9400}], phase="Running", podIP="10.1.2.3"), ""),
    ],
)
def test_an_agent_can_be_asked_while_it_runs(text: bytes, address: str) -> None:
    assert decode.read(AGENTS, text) == Agent("vgpu-node-x", "n1", address)


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", False)])
def test_an_agent_is_ready_as_its_pod_is(status: str, ready: bool) -> None:
    conditions = [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": status}]
    found = decode.read(AGENTS, agent_pod(HTTP, phase="Running", podIP="10.1.2.3", conditions=conditions))
    assert found == Agent("vgpu-node-x", "n1", "10.1.2.3:9400", ready=ready)


@pytest.mark.parametrize(
    "spec", [{}, {"containers": 3}, {"containers": [{"ports": [{"name": "http"}]}]}, None]
)
def test_a_pod_of_another_form_is_no_agent(spec: object) -> None:
    with pytest.raises(DecodeError, match="no Pod: "):
        decode.read(AGENTS, json.dumps({"metadata": {"name": "x"}, "spec": spec}).encode())


def test_of_a_job_of_a_queue_only_its_group_and_a_bounded_record_are_read() -> None:
    """The server sends the metadata alone; one that cannot sends whole objects."""
    read_labels = {"vgpu.io/queue": "default", "vgpu.io/group": "g"}
    hiding = {f"vgpu.io/{number:03}": "x" for number in range(80)}
    labels = {**hiding, **read_labels, "app": "x" * 63}
    annotations = {"vgpu.io/resize": "r" * 262_144, "vgpu.io/model": "m" * 63}
    metadata = {
        "name": "train", "namespace": "team", "uid": "u", "labels": labels, "annotations": annotations,
    }  # fmt: skip
    for more in ({}, {"spec": {"suspend": True}, "status": {}}):
        found = decode.read(JOBS.metadata, json.dumps({"metadata": metadata} | more).encode())
        assert (found.namespace, found.name, found.uid) == ("team", "train", "u")
        assert found.annotations == {"vgpu.io/resize": "r" * (MAX_RECORD + 1)}
        assert len(found.labels) == 64
        assert found.labels.items() >= read_labels.items()
    bare = {"metadata": {"name": "train", "namespace": "team", "uid": "u"}}
    assert decode.read(JOBS.metadata, json.dumps(bare).encode()) == Metadata("train", "team", "u")
    assert (JOBS.metadata.partial, JOBS.partial) == (True, False)


@pytest.mark.parametrize(
    "metadata", [None, {"uid": "u"}, {"name": "t", "namespace": "n", "uid": "u", "labels": 7}]
)
def test_what_is_no_job_of_a_queue_is_an_error_and_no_exception_of_another_kind(metadata: object) -> None:
    with pytest.raises(DecodeError):
        decode.read(JOBS.metadata, json.dumps({"metadata": metadata}).encode())


def test_no_number_of_other_annotations_hides_a_grant_or_is_kept() -> None:
    others = {f"vgpu.io/{number:03}": "x" * 3000 for number in range(80)}
    labels = {f"vgpu.io/{number:03}": "x" for number in range(80)}
    metadata = {"name": "p", "annotations": {**others, GRANT: "g" * 70_000}, "labels": labels}
    found = decode.read(PODS.metadata, json.dumps({"metadata": metadata}).encode())
    assert found.annotations == {GRANT: "g" * (MAX_BYTES + 1)}
    assert len(found.labels) == 64
