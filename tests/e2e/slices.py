"""Who holds what, read from outside: the inventories of the nodes, and the config files inside the containers."""

import json
from dataclasses import dataclass
from typing import Any

from tests.e2e import nodes
from tests.e2e.kubectl import Kubectl
from vgpu_runtime import rocm


@dataclass(frozen=True)
class Held:
    """One slice as its container's own config file states it. `units` are compute units of the card."""

    pod: str
    card: str
    mem_bytes: int
    units: frozenset[int]


def inventory(node: str) -> dict[str, Any]:
    """What the node says of its cards; empty without an inventory."""
    annotations = nodes.get(node)["metadata"].get("annotations", {})
    found: dict[str, Any] = json.loads(annotations.get("vgpu.io/cards", "{}"))
    return found


def cards() -> dict[str, dict[str, Any]]:
    """Every card of the cluster by uuid, with its node's name under `node`."""
    return {
        card["uuid"]: {**card, "node": node} for node in nodes.names() for card in inventory(node)["cards"]
    }


def held(kubectl: Kubectl, pod: str, container: str = "main") -> list[Held]:
    """The slices of a running container."""
    text = kubectl.inside(pod, "cat", "/etc/vgpu/vgpu.conf", container=container)
    # An agent of the commit in hack/testbed/upgrade-from writes version 5, which does not say who sets masks.
    text = (
        text.replace("version = 5\n", "version = 6\n").replace("\nmask = ", "\nmasks = library\nmask = ")
        if (text.startswith("version = 5\n"))
        else text
    )
    parsed = rocm.parse(text)
    return [Held(pod, card.uuid, card.mem_bytes, frozenset(_bits(card.family.mask))) for card in parsed.cards]


def grant(kubectl: Kubectl, pod: str) -> dict[str, Any]:
    """The grant on a pod; empty without one."""
    annotations = kubectl.pod(pod)["metadata"].get("annotations", {})
    found: dict[str, Any] = json.loads(annotations.get("vgpu.io/grant", "{}"))
    return found


def check_disjoint(slices: list[Held]) -> None:
    """No compute unit is held twice, and no card gives more memory than it has."""
    by_card: dict[str, list[Held]] = {}
    for one in slices:
        by_card.setdefault(one.card, []).append(one)
    known = cards()
    for uuid, sharing in by_card.items():
        units = [unit for one in sharing for unit in one.units]
        assert len(units) == len(set(units)), f"units of {uuid} are held twice: {sharing}"
        assert sum(one.mem_bytes for one in sharing) <= known[uuid]["memMiB"] << 20, (
            f"{uuid} gives too much memory"
        )


def _bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]
