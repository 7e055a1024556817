"""The tickets of each container, and the checkpoint that keeps them over a restart of the kubelet."""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from hack.embedded.kubelet.endpoint import Allocated


@dataclass(frozen=True, slots=True)
class HeldDevices:
    """The tickets of one resource in one container, and the answer of Allocate for them."""

    ids: frozenset[str]
    answer: Allocated


class PodDevices:
    """Holdings by pod UID, container and resource. Not safe for threads: the device manager locks."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, dict[str, HeldDevices]]] = {}

    def put(self, pod: str, container: str, resource: str, holding: HeldDevices) -> None:
        """Record the tickets of a container."""
        self._held.setdefault(pod, {}).setdefault(container, {})[resource] = holding

    def get(self, pod: str, container: str, resource: str) -> HeldDevices | None:
        """One holding, or None."""
        return self._held.get(pod, {}).get(container, {}).get(resource)

    def of(self, pod: str, container: str) -> dict[str, HeldDevices]:
        """The holdings of one container by resource."""
        return dict(self._held.get(pod, {}).get(container, {}))

    def pods(self) -> set[str]:
        """Pods that hold anything."""
        return set(self._held)

    def remove(self, pods: Collection[str]) -> None:
        """Remove pods, so that their tickets are free."""
        for pod in pods:
            self._held.pop(pod, None)

    def in_use(self) -> dict[str, set[str]]:
        """Held tickets by resource."""
        used: dict[str, set[str]] = {}
        for _, _, resource, holding in self._all():
            used.setdefault(resource, set()).update(holding.ids)
        return used

    def save(self, path: Path, registered: Collection[str]) -> None:
        """Write the checkpoint: all holdings, and the names of registered resources."""
        entries = [
            {"pod": pod, "container": container, "resource": resource, "ids": sorted(holding.ids),
             "env": dict(holding.answer.env), "cdi": list(holding.answer.cdi_devices)}
            for pod, container, resource, holding in self._all()
        ]  # fmt: skip
        partial = path.with_name(f".{path.name}")
        partial.write_text(json.dumps({"holdings": entries, "registered": sorted(registered)}))
        partial.replace(path)

    def load(self, path: Path) -> list[str]:
        """Read a checkpoint, if there is one; returns the resources that were registered."""
        if not path.exists():
            return []
        content = json.loads(path.read_text())
        for entry in content["holdings"]:
            answer = Allocated(entry["env"], tuple(entry["cdi"]))
            self.put(
                entry["pod"],
                entry["container"],
                entry["resource"],
                HeldDevices(frozenset(entry["ids"]), answer),
            )
        return list(content["registered"])

    def _all(self) -> Iterator[tuple[str, str, str, HeldDevices]]:
        for pod, containers in self._held.items():
            for container, resources in containers.items():
                for resource, holding in resources.items():
                    yield pod, container, resource, holding
