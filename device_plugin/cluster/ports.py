"""Protocols of the services that the cluster service uses besides the API server; `wiring` connects the adapters."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from device_plugin.core.placement.node_texts import NodeTexts
from device_plugin.core.pods import Pod
from device_plugin.kube.api import Api


class TimedApi(Api, Protocol):
    """The API server, with calls that are given up at a set time."""

    def until(self, deadline: float) -> Api:
        """Returns the same API, whose calls fail if they have no answer by `deadline` on the monotonic clock."""


@dataclass(frozen=True, slots=True)
class BindCall:
    """The arguments of /bind: a pod, and the node to bind it to."""

    namespace: str
    name: str
    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class Calls:
    """Decoders of kube-scheduler's calls, which raise ValueError, and the encoder of the answer to /filter.

    `filter` returns the pod and the nodes to choose from. `begun` returns the same from the beginning of a call of
    /filter and the length of the whole call in bytes. It knows the nodes if an earlier call was equal, with a list of
    nodes of the same length; otherwise it returns None. `bind` returns the pod's namespace, name and uid, and the node.
    `preempt` returns the pod, and by node the uids of the pods to evict there. `answer_filter` returns the answer in
    pieces.
    """

    filter: Callable[[bytes], tuple[Pod, Sequence[str]]]
    bind: Callable[[bytes], tuple[str, str, str, str]]
    preempt: Callable[[bytes], tuple[Pod, Mapping[str, Sequence[str]]]]
    begun: Callable[[bytes, int], tuple[Pod, Sequence[str]] | None]
    answer_filter: Callable[[Sequence[str], NodeTexts, NodeTexts, str], Sequence[bytes]]
