"""Watches the cluster with the caller's rights; notices on the page say what is missing or may be out of date."""

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
from device_plugin.kube.errors import ApiError, ForbiddenError, GoneError

# Seconds after which a refused read is tried again.
RIGHTS_SECONDS = 30.0
# Seconds after which the read of an optional kind is tried again.
OPTIONAL_SECONDS = 600.0
Item = TypeVar("Item")


def _nothing(_namespace: str = "") -> None:
    """Does nothing: the default for functions that a watch calls."""


@dataclass(frozen=True, slots=True)
class Watched(Generic[Item]):
    """A kind of objects to watch, and the receivers of its news. With `label`, only objects with this label count.

    `opened` is called with the namespace (empty: all) each time a watch opens. `doubt` is called after etcd was
    restored. `lost` is called when the caller may not read the kind any more; a notice on the page then says so. For an
    `optional` kind there is no notice, and `lost` is also called if the API server does not have the kind.
    """

    kind: Kind[Item]
    news: Sequence[News[Item]]
    lost: Callable[[], None]
    opened: Callable[[str], None] = _nothing
    doubt: Callable[[], None] = _nothing
    label: str = ""
    optional: bool = False


class Watches:
    """Watches kinds of objects until `close`. `changed` is called after each change.

    Only `namespace` is watched if `only_namespace` is true, or if the caller may not read all namespaces.
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
        # By kind, the time of day since which its watch has failed, as text.
        self._late: dict[str, str] = {}
        self._open: list[ListWatch[Any]] = []
        self._lock = threading.Lock()

    def start(self, watched: Watched[Any]) -> None:
        """Watch a kind in a thread of its own."""
        self.start_thread(watched.kind.plural, partial(self._again, watched))

    def start_thread(self, name: str, work: Callable[[], None]) -> None:
        """Start a thread that does `work`; a notice on the page says if an error has ended it."""
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
            self._note(
                "broken", f"a part of this page is not updated any more ({said}): start `vgpu ui` again"
            )
            raise

    def _again(self, watched: Watched[Any]) -> None:
        """Watch a kind, and start the watch again whenever it returns, until the page ends.

        If the caller may now read more than was watched, the next watch starts without a pause. If the caller may read
        nothing, it starts after a pause, because rights may be granted later: OPTIONAL_SECONDS for a kind that the page
        can do without, else RIGHTS_SECONDS.
        """
        pause = OPTIONAL_SECONDS if watched.optional else RIGHTS_SECONDS
        while not self._stop.is_set():
            if not self._follow_widest(watched):
                self._stop.wait(pause)

    def _follow_widest(self, watched: Watched[Any]) -> bool:
        """Watch all namespaces, or else the caller's own; returns true if more may be watched now."""
        if watched.kind is NODES:
            return self._follow(watched, Where())
        where = Where(self._widest, watched.label)
        if self._follow(watched, where):
            return True
        return not self._widest and self._follow(watched, Where(self._namespace, watched.label), wider=where)

    def _follow(self, watched: Watched[Any], where: Where, *, wider: Where | None = None) -> bool:
        """Watch a kind in the selection `where`; returns true at the end, or once the caller may read `wider` too.

        `wider` is a larger selection. If the caller may not read `where`, returns false and calls `lost`, because the
        objects are not known any more. A list is shown only once its watch is open: otherwise the rows of a caller who
        may list but not watch would appear and disappear again and again.
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
            watch.run(synced, changed, self._stop, partial(self._on_error, watched), opened, watched.doubt)
        except (ForbiddenError, GoneError):
            self._on_forbidden(watched, where)
            return False
        finally:
            ended.set()
            with self._lock:
                self._open.remove(watch)
        return True

    def _widen(self, kind: Kind[Any], wider: Where, watch: ListWatch[Any], ended: threading.Event) -> None:
        """End `watch` once the caller may read `wider`; this is checked every RIGHTS_SECONDS until `ended` is set."""
        while not ended.wait(RIGHTS_SECONDS):
            # After an error, the next turn asks again.
            with suppress(ApiError):
                if may_follow(self._client, kind, wider.namespace):
                    watch.interrupt()
                    return

    def _on_open(self, watched: Watched[Any], where: Where) -> None:
        """Remove the notices about a kind whose watch is open again, and call `opened`."""
        plural = watched.kind.plural
        self._no_longer_late(plural)
        if where.namespace == self._widest:
            self._entries.put("notice", {f"read-{plural}": None})
        watched.opened(where.namespace)

    def _on_forbidden(self, watched: Watched[Any], where: Where) -> None:
        kind = watched.kind
        self._no_longer_late(kind.plural)
        if not watched.optional:
            self._note(f"read-{kind.plural}", self._missing(kind, where))
        watched.lost()
        self._changed()

    def _missing(self, kind: Kind[Any], where: Where) -> str:
        """Returns text about the missing right, the data that is unknown without it, and the rule that grants it."""
        unknown = "cards are known only as grants name them"
        if where.namespace:
            unknown = "none are shown"
        elif kind is not NODES:
            unknown = f"those of namespace {self._namespace} are shown"
        rule = rule_to_list(kind.plural, where.namespace, kind.group)
        of = f"in namespace {where.namespace}" if where.namespace else "of the cluster"
        return str(MissingRight(f"list the {kind.plural} {of}", unknown, rule))

    def _on_error(self, watched: Watched[Any], error: ApiError) -> None:
        """Show a notice that rows of a kind may be out of date.

        A ForbiddenError is raised again instead, and for an optional kind a GoneError too.
        """
        kind = watched.kind
        if isinstance(error, ForbiddenError) or (watched.optional and isinstance(error, GoneError)):
            raise error
        since = self._late.setdefault(kind.plural, time.strftime("%H:%M:%S"))
        self._put_late()
        self._note(f"late-{kind.plural}", f"{kind.plural} may be out of date since {since}: {error}")

    def _no_longer_late(self, plural: str) -> None:
        """Remove the notice that rows of a kind may be out of date."""
        self._late.pop(plural, None)
        self._entries.put("notice", {f"late-{plural}": None})
        self._put_late()

    def _put_late(self) -> None:
        """Set the page's entry with the time since which a watch has failed; the time is empty if none fails."""
        first = next(iter([*self._late.values()]), "")
        self._entries.put("about", {"watch": {"late": first}})

    def _note(self, key: str, text: str) -> None:
        self._entries.put("notice", {key: {"text": text}})
