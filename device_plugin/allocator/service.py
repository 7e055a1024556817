"""The parts that the services of a process share: the view of the cluster, the allocator, leadership and the clock."""

from collections.abc import Callable
from dataclasses import dataclass

from device_plugin.allocator.allocator import Allocator
from device_plugin.state.view import ClusterView


@dataclass(frozen=True, slots=True)
class Shared:
    """The parts that all services of a process share; `clock` counts in seconds.

    `why_not_leading` returns the reason why this process must not place pods now, as text; empty if it may.
    """

    view: ClusterView
    allocator: Allocator
    why_not_leading: Callable[[], str]
    clock: Callable[[], float]


class Service:
    """A service, such as /filter or preemption, that works on the shared parts of its process."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._view = shared.view
        self._allocator = shared.allocator
        self._why_not_leading = shared.why_not_leading
        self._clock = shared.clock

    def _why_not_placing(self) -> str:
        """The reason why no pod may be placed now, as text; empty if pods may be placed. It needs no lock."""
        return self._why_not_leading() or self._view.why_not_synced()


def only_reads() -> str:
    """The reason why a process that only reads the cluster does not place pods."""
    return "this process only reads"
