"""Pods that wait to be scheduled: active, backing off, or unschedulable until something in the cluster changes."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from hack.embedded.scheduler.fit import Pod
from hack.embedded.scheduler.timing import SchedulerTiming

# Seconds between checks of waiting pods for the end of their backoff.
LOOK_SECONDS = 0.1


class Place(Enum):
    """The states of a pod in the queue. FAILED pods always wait until their backoff ends."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    FAILED = "failed"
    UNSCHEDULABLE = "unschedulable"


@dataclass(slots=True)
class Queued:
    """A pod in the queue. `extender`: the extender has refused it, so that any change may let it fit.

    `moves` and `bindings` are the queue's counts of changes at the time when the pod was last taken out.
    """

    pod: Pod
    order: int
    place: Place = Place.ACTIVE
    attempts: int = 0
    tried: float = 0.0
    moves: int = 0
    bindings: int = 0
    extender: bool = False

    @property
    def uid(self) -> str:
        """The UID of the pod."""
        uid: str = self.pod["metadata"]["uid"]
        return uid


class SchedulingQueue:
    """Waiting pods: higher priority first, then the order of arrival. Safe from any thread."""

    def __init__(self, timing: SchedulerTiming, clock: Callable[[], float]) -> None:
        self._timing = timing
        self._clock = clock
        self._changed = threading.Condition()
        self._entries: dict[str, Queued] = {}
        self._order = 0
        self._moves = 0
        self._bindings = 0
        self._closed = False

    def put(self, pod: Pod) -> None:
        """Add a pod to schedule, or a newer version of it, which may fit now."""
        with self._changed:
            entry = self._entries.get(pod["metadata"]["uid"])
            if entry is None:
                self._entries[pod["metadata"]["uid"]] = Queued(pod, self._order)
                self._order += 1
            else:
                changed = _matters(entry, pod)
                entry.pod = pod
                if changed and entry.place is Place.UNSCHEDULABLE:
                    entry.place = Place.BACKOFF
            self._changed.notify_all()

    def drop(self, uid: str) -> None:
        """Remove a pod that is gone or bound."""
        with self._changed:
            self._entries.pop(uid, None)

    def take(self) -> Queued | None:
        """Wait for the next pod, remove it, and return it; None when the queue is closed."""
        with self._changed:
            while not self._closed:
                entry = self._next()
                if entry is not None:
                    del self._entries[entry.uid]
                    entry.attempts += 1
                    entry.moves, entry.bindings = self._moves, self._bindings
                    return entry
                self._changed.wait(LOOK_SECONDS)
            return None

    def give_back(self, entry: Queued, *, unschedulable: bool) -> None:
        """Return a pod after a failed attempt: an `unschedulable` one waits for events, others for their backoff."""
        with self._changed:
            entry.tried = self._clock()
            missed = entry.moves != self._moves or (entry.extender and entry.bindings != self._bindings)
            if not unschedulable:
                entry.place = Place.FAILED
            else:
                entry.place = Place.BACKOFF if missed else Place.UNSCHEDULABLE
            newer = self._entries.get(entry.uid)
            if newer is not None:
                # A change of the pod during its attempt counts too.
                if _matters(entry, newer.pod) and entry.place is Place.UNSCHEDULABLE:
                    entry.place = Place.BACKOFF
                entry.pod = newer.pod
            self._entries[entry.uid] = entry

    def move(self, *, binding: bool = False) -> None:
        """Let unschedulable pods be tried again, after a change in the cluster.

        After the binding of a pod (`binding`, EventAssignedPodAdd), only pods that the extender refused are tried.
        """
        with self._changed:
            if binding:
                self._bindings += 1
            else:
                self._moves += 1
            for entry in self._entries.values():
                if entry.place is Place.UNSCHEDULABLE and (entry.extender or not binding):
                    entry.place = Place.BACKOFF
            self._changed.notify_all()

    def close(self) -> None:
        """Close the queue: `take` returns None from now on."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _next(self) -> Queued | None:
        now = self._clock()
        for entry in self._entries.values():
            if entry.place is Place.UNSCHEDULABLE and now - entry.tried >= self._timing.unschedulable:
                entry.place = Place.BACKOFF
            if entry.place in (Place.BACKOFF, Place.FAILED) and now >= self._due(entry):
                entry.place = Place.ACTIVE
        # If no pod is active, pods do not wait for the end of their backoff (SchedulerPopFromBackoffQ).
        for place in (Place.ACTIVE, Place.BACKOFF):
            ready = [entry for entry in self._entries.values() if entry.place is place]
            if ready:
                return min(ready, key=lambda entry: (-_priority(entry.pod), entry.order))
        return None

    def _due(self, entry: Queued) -> float:
        delay: float = self._timing.backoff * 2 ** min(entry.attempts - 1, 30)
        return entry.tried + min(delay, self._timing.backoff_limit)


def _priority(pod: Pod) -> int:
    priority: int = pod["spec"].get("priority") or 0
    return priority


def _matters(entry: Queued, pod: Pod) -> bool:
    """True if the change of a pod may let it fit; a change of its status counts only if the extender refused it."""
    told = entry.extender and (entry.pod.get("status") or {}) != (pod.get("status") or {})
    return told or _written(entry.pod) != _written(pod)


def _written(pod: Pod) -> object:
    """The parts of a pod that people write: its spec, labels and annotations."""
    metadata = pod["metadata"]
    return pod["spec"], metadata.get("labels"), metadata.get("annotations"), metadata.get("deletionTimestamp")
