"""Pods as the cluster service sees them, and their grants."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from device_plugin.core.contract import annotations
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.pods import Container, ContainerKind, Pod
from tests.builders.cards import CORES, MEM

HALF = 8184


def pod(name: str, mem: int = 8, cores: int | None = 30, **more: object) -> Pod:
    """An unbound pod with one container that asks for a slice; its uid is `uid-NAME` unless told."""
    limits = {MEM: str(mem)}
    if cores is not None:
        limits[CORES] = str(cores)
    fields = {
        "namespace": "default",
        "name": name,
        "uid": f"uid-{name}",
        "scheduler": "vgpu-scheduler",
        "created": "2026-11-21T07:00:00Z",
        "containers": (main(limits),),
        **more,
    }
    return Pod(**fields)  # type: ignore[arg-type]


def main(limits: Mapping[str, str], name: str = "main") -> Container:
    """A container with these limits."""
    return Container(name, ContainerKind.MAIN, limits)


def grant(made: Pod, card: str = "n1-0", cores: Sequence[int] = range(30), mem: int = HALF) -> Grant:
    """A grant of one slice for the pod's container."""
    return Grant(made.uid, "n1", {"main": (Slice(card, mem, tuple(cores)),)})


def with_grant(made: Pod, text: str, node: str = "n1", bound: str = "2026-11-21T08:59:59Z") -> Pod:
    """The pod as bound with this grant annotation."""
    carried = {**(made.annotations or {}), annotations.GRANT: text}
    return replace(made, node=node, annotations=carried, bound=bound)
