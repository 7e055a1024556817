"""What pods ask for, learnt from those that come."""

from collections.abc import Callable

from device_plugin.core.errors import RequestError
from device_plugin.core.placement.ask import Ask
from device_plugin.core.placement.target import Target
from device_plugin.core.pods import Pod
from device_plugin.core.requests import PodRequest


class Learning:
    """`target` is what is to be expected. Callers hold the state's lock."""

    def __init__(self, request_of: Callable[[Pod], PodRequest | None]) -> None:
        self.target = Target()
        self._request_of = request_of

    def arrived(self, pod: Pod) -> None:
        """A pod that was not known before: what it asks for is what others like it will ask for."""
        try:
            request = self._request_of(pod)
        except RequestError:
            return
        if request is not None and (ask := Ask.of(request)) is not None:
            self.target.add(ask)
