"""Trials: changes to a ledger and its hosts that are taken back unless they are kept."""

from collections.abc import Iterator
from contextlib import contextmanager

from device_plugin.core.grants import Grant
from device_plugin.core.hosts import Hosts, Room
from device_plugin.core.ledger import Ledger


class Attempt:
    """One part of a trial. It counts for the parts around it once it is `kept`."""

    kept = False

    def keep(self) -> None:
        """Let it stand."""
        self.kept = True


class Trial:
    """Attempts may be nested; what is not kept is taken back when its attempt ends."""

    def __init__(self, ledger: Ledger, hosts: Hosts) -> None:
        self._ledger = ledger
        self._hosts = hosts
        self._before: list[tuple[str, tuple[str, Room] | None]] = []

    @contextmanager
    def attempt(self) -> Iterator[Attempt]:
        """Try something."""
        attempt, mark, known = Attempt(), self._ledger.checkpoint(), len(self._before)
        try:
            yield attempt
        finally:
            if attempt.kept:
                self._ledger.commit()
            else:
                self._ledger.rollback(mark)
                while len(self._before) > known:
                    self._restore(*self._before.pop())

    def leave(self, pod: str) -> Grant | None:
        """A pod leaves; returns what it held of cards."""
        self._before.append((pod, self._hosts.held(pod)))
        self._hosts.release(pod)
        return self._ledger.release(pod)

    def release(self, pod: str) -> Grant:
        """A pod leaves what it holds of cards. Raises KeyError if it holds nothing."""
        grant = self.leave(pod)
        if grant is None:
            raise KeyError(pod)
        return grant

    def hold(self, grant: Grant, room: Room) -> None:
        """A pod gets a grant, and `room` beside it."""
        self._before.append((grant.pod, self._hosts.held(grant.pod)))
        self._hosts.hold(grant.pod, grant.node, room)
        self._ledger.hold(grant)

    def _restore(self, pod: str, held: tuple[str, Room] | None) -> None:
        if held is None:
            self._hosts.release(pod)
        else:
            self._hosts.hold(pod, *held)
