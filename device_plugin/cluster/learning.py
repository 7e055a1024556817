"""What pods ask for, learnt from those that come and stay."""

from collections.abc import Callable

from device_plugin.core.errors import RequestError
from device_plugin.core.placement.ask import Ask
from device_plugin.core.placement.target import Target
from device_plugin.core.pods import Pod
from device_plugin.core.requests import PodRequest

# A pod counts, once, when it has been there for so long, bound or waiting. How many a tenant has at a time is bounded
# by quotas and cards; how many it creates and deletes is bounded by nothing, and must not decide what everybody's pods
# are placed for. Whoever stays for less hardly matters to what else fits.
STAY_SECONDS = 60.0


class Learning:
    """`target` is what is to be expected. Callers hold the state's lock. Times are of its clock, in seconds."""

    def __init__(
        self, request_of: Callable[[Pod], PodRequest | None], known: Callable[[str], Pod | None]
    ) -> None:
        self.target = Target()
        self._request_of = request_of
        self._known = known
        # What those ask for that are not counted yet, and since when they are there, the oldest first.
        self._new: dict[str, tuple[Ask, float]] = {}

    def arrived(self, pod: Pod, since: float) -> None:
        """A pod that was not known before; it counts at once where `since` is minus infinity: unknown."""
        try:
            request = self._request_of(pod)
        except RequestError:
            return
        if request is None or (ask := Ask.of(request)) is None or pod.ended or pod.deleting:
            return
        if since == float("-inf"):
            self.target.add(ask)
        else:
            self._new[pod.uid] = ask, since

    def count(self, now: float) -> None:
        """What those ask for that have stayed is what others like them will ask for."""
        while self._new:
            uid, (ask, since) = next(iter(self._new.items()))
            if since > now - STAY_SECONDS:
                return
            del self._new[uid]
            pod = self._known(uid)
            if pod is not None and not pod.ended and not pod.deleting:
                self.target.add(ask)
