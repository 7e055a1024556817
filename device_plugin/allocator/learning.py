"""Learning: counts the requests of pods that come and stay.

The counted requests are the target workload: a mix by which placement knows which requests will probably come.
"""

from collections import OrderedDict
from collections.abc import Callable

from msgspec.structs import replace

from device_plugin.core.errors import RequestError
from device_plugin.core.placement.workload import TargetWorkload
from device_plugin.core.pods import Pod
from device_plugin.core.requests import ANYTHING, PodRequest, Shape

# Seconds that a pod must exist, bound or waiting, before it counts. A tenant may create and delete any number of pods;
# these must not decide how all pods are placed. Pods that end sooner matter little to other pods.
STAY_SECONDS = 60.0
# Most distinct shapes counted for one namespace; most namespaces; number of counted pods after which an unused shape
# may be replaced.
MOST_OF_NAMESPACE, NAMESPACES, STALE = 64, 1024, 4096
# Most words in a list of card models, and most pods that wait to be counted.
MOST_MODELS, MOST_NEW = 8, 16_384


class Learning:
    """Counts the requests of pods in `target`, the mix of requests expected later.

    A pod's request counts once the pod has existed for STAY_SECONDS. Callers hold the cluster view's lock. Times are in
    seconds of the cluster view's clock.
    """

    def __init__(
        self, request_of: Callable[[Pod], PodRequest | None], known: Callable[[str], Pod | None]
    ) -> None:
        self.target = TargetWorkload()
        self.left_out = 0
        """Number of pods that do not count because their namespace has too many distinct shapes."""
        self._request_of = request_of
        self._known = known
        # By UID: the shape of each pod that waits to be counted, and the time when it came; the oldest first.
        self._new: dict[str, tuple[Shape, float]] = {}
        # By namespace: each shape, with the number of pods counted when it was last used; the oldest first.
        self._shapes: OrderedDict[str, OrderedDict[Shape, int]] = OrderedDict()

    def __len__(self) -> int:
        """Number of new pods that the target workload, the learnt mix of requests, does not count yet."""
        return len(self._new)

    def arrived(self, pod: Pod, since: float) -> None:
        """Record a new pod that came at `since`, so that `count` counts it later.

        If the time is unknown (minus infinity), the pod counts immediately. A pod does not count if it asks for no
        slice, or if several of its containers ask.
        """
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

    def forget_pod(self, uid: str) -> None:
        """Remove a new pod that is gone, so that it is not counted."""
        self._new.pop(uid, None)

    def count(self, now: float) -> None:
        """Count the request of each pod that has existed for STAY_SECONDS by now, in `target`, the learnt mix."""
        while self._new:
            uid, (shape, since) = next(iter(self._new.items()))
            if since > now - STAY_SECONDS:
                return
            del self._new[uid]
            pod = self._known(uid)
            if pod is not None and not pod.ended and not pod.deleting:
                self.target.add(shape)

    def _learnt(self, namespace: str, shape: Shape) -> Shape | None:
        """The `shape` to count for a pod's request; None if the request does not count.

        A shape is the parts of a request that decide where it fits best; card uuids are left out. A shape does not
        count if it names too many card models, or if its namespace has too many shapes.
        """
        # The uuids only choose among equal cards, which says nothing about later requests.
        if shape.uuids != ANYTHING:
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
