"""List, then watch: the whole state once, then every change, for as long as we run.

The loop follows the Kubernetes API concepts ("Efficient detection of changes"): a watch starts at the list's resource
version, bookmarks move it on, 410 means list again.

Resource versions fall when etcd is restored from an older state. A watch from a version that the server has not reached
again stays silent, without bookmarks. So a silent stream is closed and the list is read again; a list of a lower
version than before shows that etcd was restored.
"""

import logging
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Generic, Protocol, TypeVar

from device_plugin.adapters.http.client import LOST, Connection
from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.structs import DecodeError
from device_plugin.kube.api import EVERYWHERE, Change, Kind, Where
from device_plugin.kube.errors import ApiError, ExpiredError

log = logging.getLogger(__name__)

Item = TypeVar("Item")
Taken = TypeVar("Taken", contravariant=True)

# Seconds of silence after which a connection counts as dead: bookmarks come about once a minute.
SILENCE_SECONDS = 120.0
FIRST_DELAY, LAST_DELAY = 0.1, 15.0


class News(Protocol[Taken]):
    """Receives the objects of one kind, from a list or from a watch."""

    def sync(self, items: Sequence[Taken]) -> None:
        """Receive the list of all objects."""

    def see(self, item: Taken) -> None:
        """Receive a new object, or a newer version of an object."""

    def forget(self, item: Taken) -> None:
        """Receive the last version of an object that is gone."""


class _SilentError(Exception):
    """A watch sent nothing, not even a bookmark, for too long."""


class ListWatch(Generic[Item]):
    """Follows the objects of one kind. An object that cannot be read is skipped and logged.

    With the `version` of a list that the caller has read, it begins with the changes after that list.
    """

    def __init__(
        self,
        client: KubeClient,
        kind: Kind[Item],
        where: Where = EVERYWHERE,
        *,
        silence: float = SILENCE_SECONDS,
        longest_pause: float = LAST_DELAY,
        rng: random.Random | None = None,
        version: str = "",
    ) -> None:
        self._client = client
        self._kind = kind
        self._where = where
        self._silence = silence
        self._longest_pause = longest_pause
        self._rng = rng or random.Random()  # noqa: S311 - jitter
        self._lock = threading.Lock()
        self._stream: Connection | None = None
        self._stopped = False
        self._version = version
        # The last version that a list or a watch showed.
        self._seen = version

    def run(
        self,
        on_sync: Callable[[Sequence[Item]], None],
        on_change: Callable[[Change, Item], None],
        stop: threading.Event,
        on_error: Callable[[ApiError], None] = lambda _: None,
        on_open: Callable[[], None] = lambda: None,
        on_restore: Callable[[], None] = lambda: None,
    ) -> None:
        """Call `on_sync` with each full list and `on_change` with each change.

        When versions have fallen, as after a restored etcd, `on_restore` is called before the list is read again: the
        objects known so far may be wrong.

        Returns once `stop` is set and the open watch has ended, or after `interrupt`. Errors of the server go to
        `on_error`, and the pause before each new try grows. `on_open` is called each time a watch is open: no change is
        missed from then on.
        """
        version = self._version
        delay = FIRST_DELAY
        while not stop.is_set() and not self._stopped:
            try:
                if not version:
                    version = self._list(on_sync, on_restore)
                before, version = version, self._watch(version, on_change, on_open)
                if version != before:
                    delay = FIRST_DELAY
                elif not stop.is_set() and not self._stopped:
                    # Backoff for a server that closes watches at once.
                    delay = self._pause(delay, stop)
            except ExpiredError:
                # Backoff for a server that expires resource versions at once.
                version = ""
                delay = self._pause(delay, stop)
            except ApiError as error:
                if stop.is_set() or self._stopped:
                    return
                log.warning("watching %s: %s; trying again", self._kind.plural, error)
                on_error(error)
                delay = self._pause(delay, stop)

    def interrupt(self) -> None:
        """Make `run` return: an open watch is closed now, and a list that is being read is finished first.

        A pause after an error ends now if the stop event is set, and otherwise when its time is over.
        """
        with self._lock:
            self._stopped = True
            if self._stream is not None:
                self._stream.interrupt()

    def _pause(self, delay: float, stop: threading.Event) -> float:
        stop.wait(delay * self._rng.uniform(0.5, 1.0))
        return min(delay * 2, self._longest_pause)

    def _list(self, on_sync: Callable[[Sequence[Item]], None], on_restore: Callable[[], None]) -> str:
        listed = self._client.list(self._kind, self._where)
        if _fell(self._seen, listed.version):
            text = "%s: the API server is at version %s and was at %s, as after a restored etcd: all is read again"
            log.warning(text, self._kind.plural, listed.version, self._seen)
            on_restore()
            # Read again, so that the list is newer than all that was learnt after `on_restore`, such as our own writes.
            listed = self._client.list(self._kind, self._where)
        self._seen = listed.version
        on_sync(listed.items)
        return listed.version

    def _watch(
        self, version: str, on_change: Callable[[Change, Item], None], on_open: Callable[[], None]
    ) -> str:
        """Follow changes after `version` until the stream ends; returns the last version, empty after a silence."""
        with closing(self._opened(version)) as stream:
            try:
                on_open()
                for line in self._lines(stream):
                    version = self._event(line, on_change) or version
                    self._seen = version
            except _SilentError:
                log.info("the watch of %s is silent: listing again", self._kind.plural)
                return ""
            finally:
                with self._lock:
                    self._stream = None
        return version

    def _lines(self, stream: Connection) -> Iterator[bytes]:
        """Yields the lines of the stream until the stream ends; raises _SilentError if nothing arrives for too long."""
        rest = b""
        try:
            for chunk in stream.body():
                *lines, rest = (rest + chunk).split(b"\n")
                yield from filter(None, lines)
        except TimeoutError as error:
            raise _SilentError from error
        except LOST as error:
            # Connections often end: continue from the last version.
            log.debug("watch of %s ended: %s", self._kind.plural, error)

    def _opened(self, version: str) -> Connection:
        stream = self._client.watch(self._kind, self._where, version, self._silence)
        with self._lock:
            self._stream = stream
            if self._stopped:
                stream.interrupt()
        return stream

    def _event(self, line: bytes, on_change: Callable[[Change, Item], None]) -> str:
        try:
            change, version, item = self._client.event(self._kind, line)
        except DecodeError as error:
            log.warning("watch of %s: an event cannot be read: %s", self._kind.plural, error)
            return ""
        if item is not None:
            on_change(Change[change], item)
        return version


def feed(
    watch: ListWatch[Item], stop: threading.Event, *news: News[Item], doubt: Callable[[], None] = lambda: None,
    on_error: Callable[[ApiError], None] = lambda _: None,
) -> None:  # fmt: skip
    """Run the watch until `stop` is set, and pass each list and each change to all `news`, in order.

    `doubt` is called when resource versions have fallen, as after a restored etcd; `on_error` for each error.
    """

    def sync(items: Sequence[Item]) -> None:
        for each in news:
            each.sync(items)

    def change(change: Change, item: Item) -> None:
        for each in news:
            if change is Change.DELETED:
                each.forget(item)
            else:
                each.see(item)

    watch.run(sync, change, stop, on_error, on_restore=doubt)


def _fell(before: str, now: str) -> bool:
    """True if the version `now` is lower than `before`; versions are numbers that grow."""
    return before.isdecimal() and now.isdecimal() and int(now) < int(before)
