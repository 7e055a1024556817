"""Reads kube-scheduler's calls to an extender, and writes the answer to /filter.

ExtenderArgs, ExtenderPreemptionArgs, ExtenderBindingArgs and ExtenderFilterResult are types of
k8s.io/kube-scheduler/extender/v1. Their JSON keys are the names of the Go fields.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Generic, TypeVar, overload

import msgspec

from device_plugin.adapters.kube import structs
from device_plugin.adapters.kube.pods import Resources, as_pod
from device_plugin.adapters.name_sums import name_sum
from device_plugin.core.placement.node_texts import NO_TEXTS, NodeTexts
from device_plugin.core.pods import Pod

# Most bytes of cached answers: one that names all nodes has 490 KB for 5,000 nodes and a long text.
MOST_KEPT = 8 << 20
# Most nodes that are named with one text, where a refusal need not name all: a person reads the number of them only,
# and kube-scheduler takes longer to read 5,000 names than for the rest of its attempt.
MOST_NAMED = 100
# Most bytes of cached calls, and most bytes of one cached call before its node names.
MOST_READ, LONGEST = 4 << 20, 64 << 10
# Most bytes of cached lists of node names. A list has 270 KB for 20,000 nodes, and five times more once its names are
# decoded, so each byte of its text counts as LIST_BYTES. The objects of a list, however short, take EMPTY_LIST bytes:
# tenants choose the nodes that their pods are offered.
MOST_LISTS, LIST_BYTES, EMPTY_LIST = 16 << 20, 6, 600
# Where the names of the nodes begin; in a string the quotes would be escaped.
_NAMES = b',"NodeNames":["'


class _FilterArgs(msgspec.Struct, rename="pascal", gc=False):
    pod: structs.RawPod
    node_names: msgspec.Raw = msgspec.Raw(b"null")


class _MetaPod(msgspec.Struct, gc=False):
    uid: str = msgspec.field(name="UID")


class _MetaVictims(msgspec.Struct, rename="pascal", gc=False):
    pods: list[_MetaPod] | None = None


class _PreemptArgs(msgspec.Struct, rename="pascal", gc=False):
    pod: structs.RawPod
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
    """Returns the pod, and by node the uids of the pods that kube-scheduler would evict there. Raises ValueError."""
    args = _read(body, _PreemptArgs)
    if args.node_name_to_meta_victims is None:
        raise ValueError("no NodeNameToMetaVictims: set nodeCacheCapable: true for this extender")
    victims = args.node_name_to_meta_victims
    found = as_pod(args.pod, resources)
    return found, {node: [pod.uid for pod in v.pods or ()] for node, v in victims.items()}


def read_bind(body: bytes) -> tuple[str, str, str, str]:
    """Returns namespace, name and uid of the pod of a /bind call, and the node's name. Raises ValueError."""
    args = _read(body, _BindArgs)
    return args.pod_namespace, args.pod_name, args.pod_uid, args.node


class Recent(Generic[Key, Value]):
    """A cache of the most recently used values, which take at most `most` bytes together. Any thread may use it."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.length = 0
        """The bytes of all values together."""
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def __len__(self) -> int:
        """Returns the number of values."""
        return len(self._kept)

    def get(self, key: Key) -> Value | None:
        """Returns the value of the key; None if it is not kept."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
        return found[0]

    def put(self, key: Key, value: Value, length: int) -> None:
        """Keep a value of `length` bytes; the least recently used values are dropped to make room."""
        with self._lock:
            _, before = self._kept.pop(key, (None, 0))
            self.length += length - before
            self._kept[key] = value, length
            while self.length > self.most:
                self.length -= self._kept.popitem(last=False)[1][1]


class FilterCalls:
    """Reads ExtenderArgs, the body of a /filter call. Any thread may read.

    kube-scheduler asks for a refused pod again and again, with the same nodes in another order. So each decoded pod is
    cached by the bytes before the node names, MOST_READ bytes together. If these bytes come again, only the names are
    read. A call with more than LONGEST bytes before the names is not cached.

    The lists of names are cached too, MOST_LISTS bytes together, and each cached pod knows its last list.
    """

    def __init__(self, resources: Resources = None) -> None:
        """`resources` are the extended resources whose limits are kept; None keeps all."""
        self._resources = resources
        self._pods = Recent[bytes, tuple[Pod, NamesKey]](MOST_READ)
        self._lists = Recent[NamesKey, Names](MOST_LISTS)

    def __call__(self, body: bytes) -> tuple[Pod, Sequence[str]]:
        """Returns the pod of a call, and the names of the nodes to choose from. Raises ValueError."""
        at = body.find(_NAMES)
        # No bracket before the last one: the rest of the body is one list.
        if not 0 < at <= LONGEST or not body.endswith(b'"]}') or body.find(b"]", at) < len(body) - 2:
            return self._read(body)
        before, names = body[:at], self._listed(body[at + len(_NAMES) - 2 : -1])
        pod, last = self._pods.get(before) or (None, None)
        if pod is None:
            # Without the names, which take as long to skip as the pod takes to read.
            pod = as_pod(_read(before + b"}", _FilterArgs).pod, self._resources)
        if last != names.key:
            self._pods.put(before, (pod, names.key), at)
        return pod, names

    def begun(self, beginning: bytes, length: int) -> tuple[Pod, Sequence[str]] | None:
        """Returns the pod of a call of which only the beginning has arrived, and the nodes of the last equal call.

        `length` is the length of the whole call in bytes. Returns None if no equal call is cached, or if the cached
        list of nodes had another length in bytes. Lists of one length are nearly always equal, but not certainly: use
        the list only where a wrong one does no harm.
        """
        at = beginning.find(_NAMES)
        pod, last = (at > 0 and self._pods.get(beginning[:at])) or (None, None)
        names = None if last is None else self._lists.get(last)
        if pod is None or names is None or names.length != length - (at + len(_NAMES) - 2) - 1:
            return None
        return pod, names

    def _listed(self, text: bytes) -> "Names":
        """Returns the list of names with this JSON text, or a cached list with the same names in any order."""
        new = Names(text)
        known = self._lists.get(new.key)
        if known is None:
            self._lists.put(new.key, new, EMPTY_LIST + LIST_BYTES * new.length)
        return known or new

    def _read(self, body: bytes) -> tuple[Pod, Sequence[str]]:
        args = _read(body, _FilterArgs)
        names = bytes(args.node_names)
        if names == b"null":
            raise ValueError("no NodeNames: set nodeCacheCapable: true for this extender")
        return as_pod(args.pod, self._resources), Names(names)


class FilterAnswers:
    """Writes ExtenderFilterResult, the answer to /filter. Any thread may write.

    A refusal has a text for each of thousands of nodes. Its JSON is cached for the next refusal with the same texts for
    the same nodes, MOST_KEPT bytes together.

    A node is hopeless if no eviction helps there (FailedAndUnresolvableNodes). While `absent_is_hopeless` returns true,
    kube-scheduler treats nodes that are absent from an answer as hopeless. The answer then shortens each text of more
    than MOST_NAMED hopeless nodes: it names one of them and counts the others, so that the event reads
    `1 and 4999 others lack memory`.
    """

    def __init__(self, absent_is_hopeless: Callable[[], bool] = lambda: False) -> None:
        self._absent_is_hopeless = absent_is_hopeless
        self._kept = Recent[Hashable, bytes](MOST_KEPT)

    def __call__(
        self, nodes: Sequence[str], failed: NodeTexts, hopeless: NodeTexts, error: str
    ) -> Sequence[bytes]:
        """Returns the answer to a /filter call as bytes, in pieces.

        `nodes` are the nodes that can take the pod. `failed` has the texts of refused nodes, and `hopeless` the texts
        of refused nodes on which no eviction helps. `error` is the error of the whole call.
        """
        names = msgspec.json.encode(tuple(nodes))
        return (
            b'{"NodeNames":', names, b',"FailedNodes":', self._texts(failed, short=False),
            b',"FailedAndUnresolvableNodes":', self._texts(hopeless, short=self._absent_is_hopeless()),
            b',"Error":', msgspec.json.encode(error), b"}",
        )  # fmt: skip

    def _texts(self, texts: NodeTexts, *, short: bool) -> bytes:
        if texts is NO_TEXTS:
            return b"{}"
        key = texts.key, short
        written = self._kept.get(key)
        if written is None:
            found = texts.nodes_by_text
            written = _written(dict(_shortened(found)) if short else found)
            self._kept.put(key, written, len(written))
        return written


def _shortened(nodes_by_text: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yields each text with the names of its nodes.

    If a text has more than MOST_NAMED nodes, only one name is given, and the text begins with the number of the others.
    """
    for text, names in nodes_by_text.items():
        many = len(names) > MOST_NAMED
        yield (f"and {len(names) - 1} others {text}", names[:1]) if many else (text, names)


def _written(nodes_by_text: Mapping[str, Sequence[str]]) -> bytes:
    """Returns a JSON object with the text of each node by the node's name."""
    parts = []
    for text, names in nodes_by_text.items():
        end = b'":' + msgspec.json.encode(text)
        # A quote within a name is written as \\", so this is only found between two names.
        listed = msgspec.json.encode(names)[1:-2]
        parts.append(listed.replace(b'","', end + b',"') + end)
    return b"{%b}" % b",".join(parts)


NamesKey = tuple[int, int]
"""A value that is equal for two lists of the same names in any order: their length in bytes, and a checksum."""


class Names(Sequence[str]):
    """Names of nodes, kept as the text of a JSON list; the operator `in` searches this text without decoding it.

    A list has thousands of names, and most callers only ask whether a certain name is in it. Names of objects have no
    characters that JSON would escape. Two lists are equal if they have the same names in any order, because
    kube-scheduler sends the same nodes in another order each time.
    """

    def __init__(self, text: bytes) -> None:
        self._text = text
        if not text.startswith(b'["'):
            # Either an empty list, or no list of names, which must be refused now.
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
        return isinstance(other, Names) and (self._text == other._text or self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)

    def __copy__(self) -> "Names":
        return self

    @property
    def length(self) -> int:
        """The length of the list's text in bytes."""
        return len(self._text)

    @cached_property
    def key(self) -> NamesKey:
        """The length of the list's text, and a hash of its names in any order: lists with equal keys count as equal."""
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
