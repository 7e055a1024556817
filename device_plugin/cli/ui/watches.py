"""Watches of the cluster with the caller's rights: what may not be read, or may be out of date, the page says."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.watch import ListWatch, News
from device_plugin.cli.access.caller import may_follow
from device_plugin.cli.reading.cluster import MissingRight
from device_plugin.cli.reading.reader import rule_to_list
from device_plugin.cli.ui.entries import PageEntries
from device_plugin.kube.api import NODES, Change, Kind, Where
from device_plugin.kube.errors import ApiError, ForbiddenError

# Seconds after which what the caller might not read is asked for again.
RIGHTS_SECONDS = 30.0
Item = TypeVar("Item")


def _nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class Watched(Generic[Item]):
    """A kind of objects to watch, with a label if only those that have it count, and the parts that take its news.

    `opened` is called once a watch is open, `lost` once the caller may not read the kind any more, and `doubt` after a
    restored etcd.
    """

    kind: Kind[Item]
    news: Sequence[News[Item]]
    lost: Callable[[], None]
    opened: Callable[[], None] = _nothing
    doubt: Callable[[], None] = _nothing
    label: str = ""


class Watches:
    """Watches until `close`. `changed` is called after each change.

    `namespace` is watched alone if `only_namespace` is true, or the caller may not read all.
    """

    def __init__(
        self, client: KubeClient, entries: PageEntries, namespace: str, stop: threading.Event,
        changed: Callable[[], None], *, only_namespace: bool,
    ) -> None:  # fmt: skip
        self._client = client
        self._entries = entries
        self._namespace = namespace
        self._widest = namespace if only_namespace else ""
        self._stop = stop
        self._changed = changed
        # By kind, the time of day at which its watch failed first, as text.
        self._late: dict[str, str] = {}
        self._open: list[ListWatch[Any]] = []
        self._lock = threading.Lock()

    def start(self, watched: Watched[Any]) -> None:
        """Watch a kind in a thread of its own."""
        self.start_thread(watched.kind.plural, partial(self._again, watched))

    def start_thread(self, name: str, work: Callable[[], None]) -> None:
        """Start a thread that does `work`; the page says so if an error ends it."""
        threading.Thread(target=self._guarded, args=(work,), name=f"ui-{name}", daemon=True).start()

    def close(self) -> None:
        """End all watches."""
        with self._lock:
            for watch in self._open:
                watch.interrupt()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            self._note("broken", f"a part of this page stands still ({said}): start `vgpu ui` again")
            raise

    def _again(self, watched: Watched[Any]) -> None:
        """Watch again whenever a watch returns, until the end.

        It returns true where the caller may read more than was watched, and is opened at once; false where the caller
        may not read anything, and is opened after RIGHTS_SECONDS, since rights come and go.
        """
        while not self._stop.is_set():
            if not self._follow_widest(watched):
                self._stop.wait(RIGHTS_SECONDS)

    def _follow_widest(self, watched: Watched[Any]) -> bool:
        """Watch all objects that the caller asked for; without the right to, those of the namespace."""
        if watched.kind is NODES:
            return self._follow(watched, Where())
        where = Where(self._widest, watched.label)
        if self._follow(watched, where):
            return True
        return not self._widest and self._follow(watched, Where(self._namespace, watched.label), wider=where)

    def _follow(self, watched: Watched[Any], where: Where, *, wider: Where | None = None) -> bool:
        """Watch a kind until the end, or until the caller may read it in `wider` too, which holds `where`.

        Returns true then. Once the caller may not read the kind there it calls `lost`, since what was read before is
        not known any more, and returns false. A list is taken once its watch is open: who may only list would see it
        come and go.
        """
        kind, news = watched.kind, watched.news
        watch: ListWatch[Any] = ListWatch(self._client, kind, where)
        ended = threading.Event()
        with self._lock:
            self._open.append(watch)
        listed: list[Sequence[Any]] = []

        def synced(items: Sequence[Any]) -> None:
            listed[:] = [items]

        def opened() -> None:
            if listed:
                items = listed.pop()
                for each in news:
                    each.sync(items)
                self._changed()
            self._on_open(watched, where)

        def changed(change: Change, item: Any) -> None:
            for each in news:
                if change is Change.DELETED:
                    each.forget(item)
                else:
                    each.see(item)
            self._changed()

        if wider is not None:
            self.start_thread(f"rights-{kind.plural}", partial(self._widen, kind, wider, watch, ended))
        try:
            watch.run(synced, changed, self._stop, partial(self._on_error, kind), opened, watched.doubt)
        except ForbiddenError:
            self._on_forbidden(watched, where)
            return False
        finally:
            ended.set()
            with self._lock:
                self._open.remove(watch)
        return True

    def _widen(self, kind: Kind[Any], wider: Where, watch: ListWatch[Any], ended: threading.Event) -> None:
        """End a watch of one namespace once the caller may read the objects of `wider`; `ended` ends the looking."""
        while not ended.wait(RIGHTS_SECONDS):
            # Without an answer the next look asks again.
            with suppress(ApiError):
                if may_follow(self._client, kind, wider.namespace):
                    watch.interrupt()
                    return

    def _on_open(self, watched: Watched[Any], where: Where) -> None:
        """Take back the notice that the rows of a kind may be out of date: its watch is open again."""
        plural = watched.kind.plural
        self._late.pop(plural, None)
        self._entries.put("notice", {f"late-{plural}": None})
        if where.namespace == self._widest:
            self._entries.put("notice", {f"read-{plural}": None})
        watched.opened()

    def _on_forbidden(self, watched: Watched[Any], where: Where) -> None:
        kind = watched.kind
        self._late.pop(kind.plural, None)
        self._entries.put("notice", {f"late-{kind.plural}": None})
        self._note(f"read-{kind.plural}", self._missing(kind, where))
        watched.lost()
        self._changed()

    def _missing(self, kind: Kind[Any], where: Where) -> str:
        """The right that the caller lacks, what is unknown without it, and what allows it, as text."""
        unknown = "cards are known only as grants name them"
        if where.namespace:
            unknown = "none are shown"
        elif kind is not NODES:
            unknown = f"those of namespace {self._namespace} are shown"
        rule = rule_to_list(kind.plural, where.namespace, kind.group)
        of = f"in namespace {where.namespace}" if where.namespace else "of the cluster"
        return str(MissingRight(f"list the {kind.plural} {of}", unknown, rule))

    def _on_error(self, kind: Kind[Any], error: ApiError) -> None:
        """Note that the rows of a kind may be out of date. Raises ForbiddenError if the caller may not read them."""
        if isinstance(error, ForbiddenError):
            raise error
        since = self._late.setdefault(kind.plural, time.strftime("%H:%M:%S"))
        self._note(f"late-{kind.plural}", f"{kind.plural} may be out of date since {since}: {error}")

    def _note(self, key: str, text: str) -> None:
        self._entries.put("notice", {key: {"text": text}})
