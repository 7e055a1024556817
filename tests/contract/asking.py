"""Pods that ask for slices, and how the admission policies refuse them."""

from typing import Any

from tests.contract.cluster import Answer, pod
from tests.release import NAMED

MEM, CORES, WHOLE = "hygon.com/dcu-mem", "hygon.com/dcu-cores", "hygon.com/dcu"
SLICE = {MEM: "4", CORES: "15"}


def container(name: str = "main", limits: object = None, **more: object) -> dict[str, Any]:
    return {"name": name, "image": "i", "resources": {"limits": SLICE if limits is None else limits}, **more}


def asking(name: str, **spec: Any) -> dict[str, Any]:
    """A pod that asks for a slice in container `main`, with parts of its spec replaced."""
    return pod(name, containers=spec.pop("containers", [container()]), **{**NAMED, **spec})


def refused(answer: Answer, policy: str, *words: str) -> None:
    assert answer.refusal == (422, "Invalid"), answer.body
    assert f"ValidatingAdmissionPolicy '{policy}'" in answer.message
    for word in words:
        assert word in answer.message
