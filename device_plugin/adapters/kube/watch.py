"""List, then watch: the whole state once, then every change, for as long as we run.

The loop follows the Kubernetes API concepts ("Efficient detection of changes"): a watch starts at the list's resource
version, bookmarks move it on, 410 means list again.

The versions of a cluster fall when its etcd is restored from an older state. A watch from a version that is not reached
again yet is silent then, bookmarks included, so a silent stream is closed and the list is read again; and a list of a
lower version than was seen before shows what has happened.
"""

import logging
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Generic, Protocol, TypeVar

from device_plugin.adapters.http.client import LOST, Connection
from device_plugin.adapters.kube import decode
from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.structs import DecodeError
from device_plugin.kube.api import EVERYWHERE, Change, Kind, Where
from device_plugin.kube.errors import ApiError, ExpiredError, from_status

log = logging.getLogger(__name__)

Item = TypeVar("Item")
Taken = TypeVar("Taken", contravariant=True)

# Seconds of silence after which a connection counts as dead: bookmarks come about once a minute.
SILENCE_SECONDS = 120.0
FIRST_DELAY, LAST_DELAY = 0.1, 15.0


class News(Protocol[Taken]):
    """Receives the objects of one kind, from a list or from a watch."""

    def sync(self, items: Sequence[Taken]) -> None:
        """Take a list of all objects."""

    def see(self, item: Taken) -> None:
        """Take a new object, or a newer version of one."""

    def forget(self, item: Taken) -> None:
        """The object is gone; this is its last version."""


class _SilentError(Exception):
    """A stream showed nothing for longer than bookmarks take."""


class ListWatch(Generic[Item]):
    """Follows the objects of one kind. An object that cannot be read is skipped and logged.

    With `version`, that of a list that the caller has read, it begins with the changes after that list.
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

        `on_restore` is called when versions have fallen, as after a restored etcd, and before the next list is read:
        what is known until then may not hold any more.

        Returns once `stop` is set and the open watch has ended, or after `interrupt`. Errors of the server go to
        `on_error`; each try after one waits longer. `on_open` is called whenever a watch is open: no change is missed
        from then on.
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
        """Make `run` return, now or later: an open watch is closed at once, a list is read to its end first.

        A pause after an error ends at once where the stop event is set before, and otherwise after its time.
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
            # Read again: whatever anybody learns after `on_restore`, by a write of his own for instance, stays.
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
        """The lines of the stream until it ends. Raises _SilentError."""
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
            kind, body = decode.event(line)
            if kind == "ERROR":
                code, reason, message = decode.status(body)
                raise from_status(code, reason, message)
            version = decode.version(body)
        except DecodeError as error:
            log.warning("watch of %s: an event cannot be read: %s", self._kind.plural, error)
            return ""
        if kind in Change.__members__ and (item := self._client.read(self._kind, body)) is not None:
            on_change(Change[kind], item)
        return version


def feed(
    watch: ListWatch[Item], stop: threading.Event, *news: News[Item], doubt: Callable[[], None] = lambda: None
) -> None:
    """Run the watch until `stop`, and give what it shows to each of `news`, in their order.

    `doubt` is called when versions have fallen.
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

    watch.run(sync, change, stop, on_restore=doubt)


def _fell(before: str, now: str) -> bool:
    """True if the version `now` is lower than `before`; versions are numbers that grow."""
    return before.isdecimal() and now.isdecimal() and int(now) < int(before)
