"""Pods that /filter refused though they may preempt others: what they ask for, and where they could run."""

from collections import Counter
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
    noted. Of one priority those that were tried least come first: a thousand that nothing helps would else stand before
    all that are younger, again and again.
    """

    def __init__(self, offers: Offers) -> None:
        self._offers = offers
        self._least = float("inf")
        self._by_pod: dict[str, Wish] = {}
        self._tries: Counter[str] = Counter()

    def held(self, priority: int) -> None:
        """A pod of this priority holds slices."""
        self._least = min(self._least, priority)

    def note(self, wish: Wish) -> None:
        """The pod was refused just now."""
        self._by_pod.pop(wish.pod.uid, None)
        if wish.pod.preempts and wish.pod.priority > self._least:
            self._by_pod[wish.pod.uid] = replace(wish, nodes=self._offers.shared(wish.nodes))

    def drop(self, uid: str) -> None:
        """The pod is gone, or has what it wants."""
        self._by_pod.pop(uid, None)
        self._tries.pop(uid, None)

    def clear(self) -> None:
        """Others decide now."""
        self._by_pod.clear()
        self._tries.clear()

    def take(self) -> Wish | None:
        """The foremost wish, forgotten here: highest priority, least tried, oldest pod. None if there is none."""
        if not self._by_pod:
            return None
        wish = min(self._by_pod.values(), key=self._order)
        self._tries[wish.pod.uid] += 1
        return self._by_pod.pop(wish.pod.uid)

    def _order(self, wish: Wish) -> tuple[int, int, str, str]:
        pod = wish.pod
        return -pod.priority, self._tries[pod.uid], pod.created, pod.uid
