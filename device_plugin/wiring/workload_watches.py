"""Watches the queued workloads of each installed kind other than Job; kinds come and go with their CRDs."""

import json
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.watch import ListWatch, News, feed
from device_plugin.core.batch import Job
from device_plugin.core.contract.annotations import QUEUE
from device_plugin.core.workload_kinds import WORKLOAD_KINDS, WorkloadKind
from device_plugin.kube.api import WORKLOADS, Where
from device_plugin.kube.errors import ApiError, ForbiddenError, GoneError, UnknownError
from device_plugin.wiring.threads import Threads

log = logging.getLogger(__name__)

# Seconds between two looks for kinds that have come.
LOOK_SECONDS = 10.0
# Seconds for which the job engine leaves alone a kind that was installed while it runs. Meanwhile each allocator finds
# the kind too: without its objects the pods of a workload are no gang, and some could be placed without the others.
LATER_SECONDS = 2 * LOOK_SECONDS
# Seconds until a kind is tried again whose objects this service may not read.
FORBIDDEN_SECONDS = 300.0


class WorkloadWatches:
    """Watches the queued workloads of each installed kind other than Job.

    `news` returns the receivers of a kind's objects. `ready` returns true once the receivers may get objects. `doubt`
    is called when resource versions have fallen, as after a restored etcd. The watch of a kind that is installed after
    the first look starts `later` seconds after it was found.
    """

    def __init__(
        self, api: KubeClient, threads: Threads, stop: threading.Event,
        news: Callable[[WorkloadKind], Sequence[News[Job]]], ready: Callable[[], bool] = lambda: True,
        doubt: Callable[[], None] = lambda: None, later: float = 0.0,
    ) -> None:  # fmt: skip
        self._api = api
        self._threads = threads
        self._stop = stop
        self._news = news
        self._ready = ready
        self._doubt = doubt
        self._later = later
        # The watches of kinds that are followed, and the seconds for which others are left alone.
        self._watches: dict[WorkloadKind, ListWatch[Job]] = {}
        self._left: dict[WorkloadKind, float] = {}
        self._unlisted = set(WORKLOAD_KINDS)
        # The installed kinds by the last look; None before the first one.
        self._found: set[WorkloadKind] | None = None

    def all(self) -> Sequence[ListWatch[Any]]:
        """The watches of all kinds that are open now."""
        return list(self._watches.values())

    def why_not_synced(self) -> str:
        """The kinds whose objects were not listed yet, as text; empty once none is left.

        A kind that is not installed, or whose objects this service may not read, need not be listed.
        """
        absent = sorted(kind.plural for kind in list(self._unlisted))
        return f"{', '.join(absent)} were not listed yet" if absent else ""

    def step(self) -> float:
        """Start the watch of each installed kind that has none yet; returns the seconds until the next step."""
        if not self._ready():
            return 0.25
        try:
            served = self._served()
        except (ApiError, ValueError, LookupError, TypeError) as error:
            log.warning("the installed kinds cannot be read: %s; trying again", error)
            if not isinstance(error, UnknownError):
                # An API server that does not list its kinds keeps no Job waiting.
                self._unlisted.clear()
            return LOOK_SECONDS if self._watches or not self._unlisted else 1.0
        self._left = {kind: left - LOOK_SECONDS for kind, left in self._left.items() if left > LOOK_SECONDS}
        found = dict[tuple[str, str], WorkloadKind]()
        for kind in served:
            # Of a kind that is served in several versions, the first one in the table is watched.
            found.setdefault((kind.group, kind.plural), kind)
        if self._later and self._found is not None:
            self._left |= dict.fromkeys(set(found.values()) - self._found, self._later)
        self._found = set(found.values())
        for kind in found.values():
            if kind not in self._watches and kind not in self._left:
                self._watches[kind] = ListWatch(self._api, WORKLOADS[kind], Where(labels=QUEUE))
                self._threads.spawn(kind.plural, partial(self._follow, kind, self._watches[kind]))
        self._unlisted -= set(WORKLOAD_KINDS) - set(found.values())
        return LOOK_SECONDS

    def _served(self) -> Sequence[WorkloadKind]:
        """The kinds of WORKLOAD_KINDS that the API server has, in the same order."""
        groups = json.loads(self._api.text("/apis"))["groups"]
        versions = {version["groupVersion"] for group in groups for version in group["versions"]}
        found = list[WorkloadKind]()
        names = dict[str, set[str]]()
        for kind in WORKLOAD_KINDS:
            version = f"{kind.group}/{kind.version}"
            if version in versions and version not in names:
                resources = json.loads(self._api.text(f"/apis/{version}"))["resources"]
                names[version] = {resource["name"] for resource in resources}
            if kind.plural in names.get(version, ()):
                found.append(kind)
        return found

    def _follow(self, kind: WorkloadKind, watch: ListWatch[Job]) -> None:
        """Pass the objects of a kind on until its CRD is gone, or its objects may not be read.

        When its CRD is gone, the receivers get an empty list.
        """
        news, gone = self._news(kind), threading.Event()

        def on_error(error: ApiError) -> None:
            if isinstance(error, GoneError):
                gone.set()
                watch.interrupt()
            elif isinstance(error, ForbiddenError):
                self._left[kind] = FORBIDDEN_SECONDS
                watch.interrupt()

        feed(watch, self._stop, *news, _Listed(kind, self._unlisted), doubt=self._doubt, on_error=on_error)
        for each in news if gone.is_set() else ():
            each.sync(())
        self._unlisted.discard(kind)
        log.info("%s are watched no longer", kind.plural)
        del self._watches[kind]


class _Listed:
    """The last receiver of a kind's objects; the first list that it receives removes the kind from `unlisted`."""

    def __init__(self, kind: WorkloadKind, unlisted: set[WorkloadKind]) -> None:
        self._kind = kind
        self._unlisted = unlisted

    def sync(self, items: Sequence[Job]) -> None:
        """Remove the kind from the unlisted kinds, and log the number of objects of this kind."""
        log.info("%s are watched: %d in queues", self._kind.plural, len(items))
        self._unlisted.discard(self._kind)

    def see(self, item: Job) -> None:
        """Does nothing: only a list of all objects counts."""

    def forget(self, item: Job) -> None:
        """Does nothing: only a list of all objects counts."""
