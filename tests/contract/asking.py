"""Pods that ask for slices, and how the admission policies refuse them."""

from collections.abc import Mapping
from typing import Any

from tests.builders import objects
from tests.builders.cards import CORES, MEM
from tests.contract.cluster import Answer
from tests.release import NAMED

SLICE = {MEM: "4", CORES: "15"}


def container(name: str = "main", limits: Mapping[str, object] = SLICE, **more: object) -> dict[str, Any]:
    """A container that asks for a slice."""
    return objects.container(name, limits, **more)


def asking(name: str, **spec: Any) -> dict[str, Any]:
    """A pod that asks for a slice in container `main`, with parts of its spec replaced."""
    return objects.pod(name, containers=spec.pop("containers", [container()]), **{**NAMED, **spec})


def refused(answer: Answer, policy: str, *words: str) -> None:
    assert answer.refusal == (422, "Invalid"), answer.body
    assert f"ValidatingAdmissionPolicy '{policy}'" in answer.message
    for word in words:
        assert word in answer.message
