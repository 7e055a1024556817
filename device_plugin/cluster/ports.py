"""Protocols of the services that the cluster service uses besides the API server; `wiring` connects the adapters."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from device_plugin.core.placement.node_texts import NodeTexts
from device_plugin.core.pods import Pod


@dataclass(frozen=True, slots=True)
class BindCall:
    """The arguments of /bind: this pod onto this node."""

    namespace: str
    name: str
    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class Calls:
    """Decoders of kube-scheduler's calls, which raise ValueError, and the writer of its answers to /filter, in pieces.

    `filter` gives the pod and the nodes to choose from, `bind` namespace, name and uid of the pod, and the node,
    `preempt` the pod, and nodes with the uids of pods to evict there.
    """

    filter: Callable[[bytes], tuple[Pod, Sequence[str]]]
    bind: Callable[[bytes], tuple[str, str, str, str]]
    preempt: Callable[[bytes], tuple[Pod, Mapping[str, Sequence[str]]]]
    answer_filter: Callable[[Sequence[str], NodeTexts, NodeTexts, str], Sequence[bytes]]
