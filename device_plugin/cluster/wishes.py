"""Pods that /filter refused though they may preempt others: what they ask for, and where they could run."""

from collections.abc import Sequence
from dataclasses import dataclass

from device_plugin.core.pods import Pod
from device_plugin.core.requests import PodRequest


@dataclass(frozen=True, slots=True)
class Wish:
    """A pod that was refused on all of `nodes`, which lack nothing else for it."""

    pod: Pod
    request: PodRequest
    nodes: Sequence[str]


class Wishes:
    """By pod uid, the newest of each. Callers hold the state's lock.

    Only pods of a priority above `least`, that of the least important holder, can get anything by it: nobody else's
    wish is noted, for ten thousand names of nodes are a lot to remember.
    """

    def __init__(self) -> None:
        self.least = float("inf")
        self._by_pod: dict[str, Wish] = {}

    def note(self, wish: Wish) -> None:
        """The pod was refused just now."""
        self.drop(wish.pod.uid)
        if wish.pod.preempts and wish.pod.priority > self.least:
            self._by_pod[wish.pod.uid] = wish

    def drop(self, uid: str) -> None:
        """The pod is gone, or has what it wants."""
        self._by_pod.pop(uid, None)

    def clear(self) -> None:
        """Others decide now."""
        self._by_pod.clear()

    def take(self) -> Wish | None:
        """The foremost wish, forgotten here: the highest priority, then the oldest pod. None if there is none."""
        if not self._by_pod:
            return None
        wish = min(self._by_pod.values(), key=lambda w: (-w.pod.priority, w.pod.created, w.pod.uid))
        return self._by_pod.pop(wish.pod.uid)
