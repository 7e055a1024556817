"""Pods that /filter refused though they may preempt others: what they ask for, and where they could run."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from device_plugin.cluster.offers import Offers
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

    Only a pod of a priority above the least that anybody held slices with can get anything by it: nobody else's wish is
    noted.
    """

    def __init__(self, offers: Offers) -> None:
        self._offers = offers
        self._least = float("inf")
        self._by_pod: dict[str, Wish] = {}

    def held(self, priority: int) -> None:
        """A pod of this priority holds slices."""
        self._least = min(self._least, priority)

    def note(self, wish: Wish) -> None:
        """The pod was refused just now."""
        self.drop(wish.pod.uid)
        if wish.pod.preempts and wish.pod.priority > self._least:
            self._by_pod[wish.pod.uid] = replace(wish, nodes=self._offers.shared(wish.nodes))

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
