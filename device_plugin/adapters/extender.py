"""kube-scheduler's calls to an extender, ExtenderArgs, ExtenderPreemptionArgs and ExtenderBindingArgs, and an answer.

They are of k8s.io/kube-scheduler/extender/v1. Their Go fields carry no JSON names, so the keys are spelled as the
fields are.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from typing import TypeVar, overload

import msgspec

from device_plugin.adapters.kube.pods import Resources, read_pod
from device_plugin.adapters.name_sums import name_sum
from device_plugin.core.placement.node_texts import NodeTexts
from device_plugin.core.pods import Pod

# Bytes of answers that are kept: 490 KB for 5,000 nodes and a long text.
MOST_KEPT = 8 << 20


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


class FilterAnswers:
    """Writes ExtenderFilterResult, the answer to /filter. Any thread may write.

    A refusal has a text for each of thousands of nodes. Its JSON is kept for the next refusal with these texts of these
    nodes: MOST_KEPT bytes in all, those of the most recent refusals.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self._length = 0

    def __call__(
        self, nodes: Sequence[str], failed: NodeTexts, hopeless: NodeTexts, error: str
    ) -> Sequence[bytes]:
        """The answer in pieces."""
        names = msgspec.json.encode(tuple(nodes))
        return (
            b'{"NodeNames":', names, b',"FailedNodes":', self._texts(failed),
            b',"FailedAndUnresolvableNodes":', self._texts(hopeless), b',"Error":', msgspec.json.encode(error), b"}",
        )  # fmt: skip

    def _texts(self, texts: NodeTexts) -> bytes:
        key = texts.key
        with self._lock:
            known = self._kept.get(key)
            if known is not None:
                self._kept.move_to_end(key)
                return known
        written = _written(texts)
        with self._lock:
            self._length += len(written) - len(self._kept.pop(key, b""))
            self._kept[key] = written
            while self._length > MOST_KEPT:
                self._length -= len(self._kept.popitem(last=False)[1])
        return written


def _written(texts: NodeTexts) -> bytes:
    """The JSON object with the text of each node."""
    parts = []
    for text, names in texts.nodes_by_text.items():
        end = b'":' + msgspec.json.encode(text)
        # A quote within a name is written as \\", so this is only found between two names.
        listed = msgspec.json.encode(names)[1:-2]
        parts.append(listed.replace(b'","', end + b',"') + end)
    return b"{%b}" % b",".join(parts)


class Names(Sequence[str]):
    """Names of nodes, read from a JSON list only when more is asked than whether one is among them.

    There are thousands, and mostly that one is. Names of objects have no character that JSON would escape. Two lists
    are equal if they have equal names in any order: kube-scheduler sends the same nodes in another order each time.
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
        return isinstance(other, Names) and (self._text == other._text or self._sum == other._sum)

    def __hash__(self) -> int:
        return hash(self._sum)

    @cached_property
    def _sum(self) -> tuple[int, int]:
        """The length of the text, and a sum over all names; two lists of other names have one sum by chance only."""
        summed = name_sum(self._text)
        return len(self._text), hash(frozenset(self._read)) if summed is None else summed

    @cached_property
    def _read(self) -> tuple[str, ...]:
        return _read(self._text, tuple[str, ...])


def _read(body: bytes, kind: type[Args]) -> Args:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise ValueError(f"the call cannot be read: {error}") from error
