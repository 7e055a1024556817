"""kube-scheduler's calls to an extender, ExtenderArgs, ExtenderPreemptionArgs and ExtenderBindingArgs, and an answer.

They are of k8s.io/kube-scheduler/extender/v1. Their Go fields carry no JSON names, so the keys are spelled as the
fields are.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from typing import Generic, TypeVar, overload

import msgspec

from device_plugin.adapters.kube.pods import Resources, read_pod
from device_plugin.adapters.name_sums import name_sum
from device_plugin.core.placement.node_texts import NodeTexts
from device_plugin.core.pods import Pod

# Bytes of answers that are kept: 490 KB for 5,000 nodes and a long text.
MOST_KEPT = 8 << 20
# Bytes of calls that are kept with the pods in them, and the most of one call.
MOST_READ, LONGEST = 4 << 20, 64 << 10
# Where the names of the nodes begin; in a string the quotes would be escaped.
_NAMES = b',"NodeNames":["'


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
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


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


class Recent(Generic[Key, Value]):
    """The most recently used values by key, of which `most` bytes are kept in all. Any thread may use it."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.length = 0
        """Bytes that are kept."""
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def __len__(self) -> int:
        """Number of values."""
        return len(self._kept)

    def get(self, key: Key) -> Value | None:
        """The value; None without one."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
        return found[0]

    def put(self, key: Key, value: Value, length: int) -> None:
        """Keep a value that takes `length` bytes; those that were not used for the longest time are lost for it."""
        with self._lock:
            _, before = self._kept.pop(key, (None, 0))
            self.length += length - before
            self._kept[key] = value, length
            while self.length > self.most:
                self.length -= self._kept.popitem(last=False)[1][1]


class FilterCalls:
    """Reads ExtenderArgs, the call of /filter. Any thread may read.

    kube-scheduler asks for a refused pod again and again, and offers the same nodes in another order. So the bytes
    before the names of the nodes are kept with the pod in them, and where they come again only the names are read:
    MOST_READ bytes in all, those of the most recent calls, without calls that are longer than LONGEST before the names.
    """

    def __init__(self, resources: Resources = None) -> None:
        """`resources` are those whose limits are read."""
        self._resources = resources
        self._pods = Recent[bytes, Pod](MOST_READ)

    def __call__(self, body: bytes) -> tuple[Pod, Sequence[str]]:
        """The pod with its limits of the resources, and the names of the nodes to choose from. Raises ValueError."""
        at = body.find(_NAMES)
        # No bracket before the last one: what follows is one list, and nothing after it.
        if not 0 < at <= LONGEST or not body.endswith(b'"]}') or body.find(b"]", at) < len(body) - 2:
            return self._read(body)
        before = body[:at]
        pod = self._pods.get(before)
        if pod is not None:
            return pod, Names(body[at + len(_NAMES) - 2 : -1])
        pod, names = self._read(body)
        self._pods.put(before, pod, at)
        return pod, names

    def _read(self, body: bytes) -> tuple[Pod, Sequence[str]]:
        args = _read(body, _FilterArgs)
        names = bytes(args.node_names)
        if names == b"null":
            raise ValueError("no NodeNames: set nodeCacheCapable: true for this extender")
        return read_pod(args.pod, self._resources), Names(names)


class FilterAnswers:
    """Writes ExtenderFilterResult, the answer to /filter. Any thread may write.

    A refusal has a text for each of thousands of nodes. Its JSON is kept for the next refusal with these texts of these
    nodes: MOST_KEPT bytes in all, those of the most recent refusals.
    """

    def __init__(self) -> None:
        self._kept = Recent[Hashable, bytes](MOST_KEPT)

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
        written = self._kept.get(key)
        if written is None:
            written = _written(texts)
            self._kept.put(key, written, len(written))
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
