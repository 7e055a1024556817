"""kube-scheduler's calls to an extender: ExtenderArgs, ExtenderPreemptionArgs and ExtenderBindingArgs.

They are of k8s.io/kube-scheduler/extender/v1. Their Go fields carry no JSON names, so the keys are spelled as the
fields are.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TypeVar, overload

import msgspec

from device_plugin.adapters.kube.pods import Resources, read_pod
from device_plugin.core.pods import Pod


class _FilterArgs(msgspec.Struct, rename="pascal", gc=False):
    pod: msgspec.Raw
    node_names: msgspec.Raw = msgspec.Raw(b"null")


class _MetaPod(msgspec.Struct, gc=False):
    uid: str = msgspec.field(name="UID")


class _MetaVictims(msgspec.Struct, rename="pascal", gc=False):
    pods: list[_MetaPod] | None = None


class _PreemptArgs(msgspec.Struct, rename="pascal", gc=False):
    pod: msgspec.Raw
    node_name_to_meta_victims: dict[str, _MetaVictims] | None = None


class _BindArgs(msgspec.Struct, gc=False):
    pod_name: str = msgspec.field(name="PodName")
    pod_namespace: str = msgspec.field(name="PodNamespace")
    pod_uid: str = msgspec.field(name="PodUID")
    node: str = msgspec.field(name="Node")


Args = TypeVar("Args")


def read_filter(body: bytes, resources: Resources = None) -> tuple[Pod, Sequence[str]]:
    """The pod with its limits of `resources`, and the names of the nodes to choose from. Raises ValueError."""
    args = _read(body, _FilterArgs)
    names = bytes(args.node_names)
    if names == b"null":
        raise ValueError("no NodeNames: set nodeCacheCapable: true for this extender")
    return read_pod(args.pod, resources), Names(names)


def read_preempt(body: bytes, resources: Resources = None) -> tuple[Pod, dict[str, list[str]]]:
    """The pod, and of each node the uids of the pods that kube-scheduler would evict there. Raises ValueError."""
    args = _read(body, _PreemptArgs)
    if args.node_name_to_meta_victims is None:
        raise ValueError("no NodeNameToMetaVictims: set nodeCacheCapable: true for this extender")
    victims = args.node_name_to_meta_victims
    found = read_pod(args.pod, resources)
    return found, {node: [pod.uid for pod in v.pods or ()] for node, v in victims.items()}


def read_bind(body: bytes) -> tuple[str, str, str, str]:
    """Namespace, name and uid of the pod, and the node. Raises ValueError."""
    args = _read(body, _BindArgs)
    return args.pod_namespace, args.pod_name, args.pod_uid, args.node


class Names(Sequence[str]):
    """Names of nodes, read from a JSON list only when more is asked than whether one is among them.

    There are thousands, and mostly that one is. Names of objects have no character that JSON would escape.
    """

    def __init__(self, text: bytes) -> None:
        self._text = text
        if not text.startswith(b'["'):
            # Not a list of names, which must be refused at once, or an empty list.
            self._read = _read(text, tuple[str, ...])

    def __contains__(self, name: object) -> bool:
        return f'"{name}"'.encode() in self._text

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __len__(self) -> int:
        return len(self._read)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self._read[index]

    def __eq__(self, other: object) -> bool:
        """True if both have equal JSON text, and so equal nodes in equal order."""
        return isinstance(other, Names) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    @cached_property
    def _read(self) -> tuple[str, ...]:
        return _read(self._text, tuple[str, ...])


def _read(body: bytes, kind: type[Args]) -> Args:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise ValueError(f"the call cannot be read: {error}") from error
