"""Learns which requests to expect, from the pods that come and stay."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

from device_plugin.core.errors import RequestError
from device_plugin.core.placement.workload import Target
from device_plugin.core.pods import Pod
from device_plugin.core.requests import ANYTHING, PodRequest, Shape

# A pod counts, once, when it has been there for so long, bound or waiting. How many a tenant has at a time is bounded
# by quotas and cards; how many it creates and deletes is bounded by nothing, and must not decide what everybody's pods
# are placed for. Whoever stays for less hardly matters to what else fits.
STAY_SECONDS = 60.0
# Most different shapes learnt for one namespace; most namespaces remembered; pods after which an unused shape may be
# replaced.
MOST_OF_NAMESPACE, NAMESPACES, STALE = 64, 1024, 4096
# Words of a list of card models that is learnt, and pods that have not stayed for long enough yet.
MOST_MODELS, MOST_NEW = 8, 16_384


class Learning:
    """Keeps `target`, the requests to be expected. Callers hold the view's lock. Times are in seconds of its clock."""

    def __init__(
        self, request_of: Callable[[Pod], PodRequest | None], known: Callable[[str], Pod | None]
    ) -> None:
        self.target = Target()
        self.left_out = 0
        """Pods that do not count because their namespace asks for too many different things."""
        self._request_of = request_of
        self._known = known
        # Shapes of pods that are not counted yet, and since when these are there, the oldest first.
        self._new: dict[str, tuple[Shape, float]] = {}
        # What is learnt of each namespace, and how many pods had counted when it was asked for last; the oldest first.
        self._shapes: OrderedDict[str, OrderedDict[Shape, int]] = OrderedDict()

    def __len__(self) -> int:
        """Pods that have not stayed for long enough yet."""
        return len(self._new)

    def arrived(self, pod: Pod, since: float) -> None:
        """A pod that was not known before; it counts at once where `since` is minus infinity: unknown."""
        try:
            request = self._request_of(pod)
        except RequestError:
            return
        if request is None or (shape := Shape.of(request)) is None or pod.ended or pod.deleting:
            return
        learnt = self._learnt(pod.namespace, shape)
        if learnt is None or len(self._new) >= MOST_NEW:
            self.left_out += 1
        elif since == float("-inf"):
            self.target.add(learnt)
        else:
            self._new[pod.uid] = learnt, since

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._new.pop(uid, None)

    def count(self, now: float) -> None:
        """Add the requests of pods that have stayed to the expected ones."""
        while self._new:
            uid, (shape, since) = next(iter(self._new.items()))
            if since > now - STAY_SECONDS:
                return
            del self._new[uid]
            pod = self._known(uid)
            if pod is not None and not pod.ended and not pod.deleting:
                self.target.add(shape)

    def _learnt(self, namespace: str, shape: Shape) -> Shape | None:
        """The shape as it is learnt; None if its namespace asks for too many."""
        # Which of several like cards somebody wants says nothing of what others will ask for.
        shape = replace(shape, uuids=ANYTHING)
        if len(shape.models.include) + len(shape.models.exclude) > MOST_MODELS:
            return None
        shapes = self._shapes.setdefault(namespace, OrderedDict())
        self._shapes.move_to_end(namespace)
        if len(self._shapes) > NAMESPACES:
            self._shapes.popitem(last=False)
        if shape not in shapes and len(shapes) >= MOST_OF_NAMESPACE:
            oldest, counted = next(iter(shapes.items()))
            if counted + STALE > self.target.arrivals:
                return None
            del shapes[oldest]
        shapes[shape] = self.target.arrivals
        shapes.move_to_end(shape)
        return shape
