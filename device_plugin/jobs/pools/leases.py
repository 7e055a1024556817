"""Leases that decide which replica plans which pool.

The holder of the engine's own Lease is the dispatcher. If there is one pool, the dispatcher plans it, and there is no
other Lease. If there are several, the dispatcher gives each pool that has jobs a number, in a note on its own Lease;
the holder of the Lease with that number plans the pool. All replicas read the note with the Lease, and a planner acts
only by a note that it has read in the last NOTED_SECONDS: so all replicas agree on what the pools are.

The Leases of a dead replica are taken over within LEASE_SECONDS. Two replicas never act by one Lease, whatever their
clocks show. If the holder sends its last renewal at the time R:

- The holder acts until R + 7 s (fence), and a request that it sent at that moment ends by R + 10 s (each request takes
  3 s at most).
- Another replica counts 10.5 s from the moment at which it saw this renewal, which is after R. The half second between
  covers clocks that do not run at the same rate.
- A watch shows the other replica each renewal at once, and the replica asks for the Lease as soon as the 10.5 s are
  over: so it holds the Lease by R + 11 s. If the watch lags or is broken, the replica counts from a later moment. A
  replica never takes the Lease by the watch alone: it reads the Lease, and its write names the version that it read.
"""

import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from math import ceil

from device_plugin.core.contract.codec import write_object
from device_plugin.core.jobs.pools import MOST_POOLS
from device_plugin.kube.api import Api, Ref
from device_plugin.kube.errors import ApiError
from device_plugin.kube.leases import Candidate, Election, Lease

log = logging.getLogger(__name__)

# Seconds between two renewals, and seconds that a Lease lasts. Seconds for which its holder acts after a renewal, and
# seconds before its end from which another replica may take it.
RENEW_SECONDS, LEASE_SECONDS = 2.0, 11.0
FENCE_SECONDS, EARLY_SECONDS = 7.0, 0.5
# Seconds for which a note counts after it was read. Seconds after which no replica acts by a replaced note:
# NOTED_SECONDS and the time of one write.
NOTED_SECONDS, REPLACED_SECONDS = 10.0, 15.0
# Seconds for which a free Lease is left to replicas that hold fewer than their share.
LEFT_SECONDS = 6.0
Numbers = Mapping[int, str]
"""Pools by the numbers of their Leases."""


class PoolLeases:
    """The Leases that one replica holds or tries to get.

    One thread calls `renew`; any thread may call the other methods. `replicas` returns the names of the live replicas,
    this replica among them if they are known.
    """

    def __init__(
        self, api: Api, lease: Ref, identity: str, clock: Callable[[], float], time: Callable[[], str],
        replicas: Callable[[], frozenset[str]] = frozenset,
    ) -> None:  # fmt: skip
        self._api = api
        self._lease = lease
        self._identity = identity
        self._clock = clock
        self._time = time
        self._replicas = replicas
        self._dispatcher = Candidate(api, lease, self._election(), clock, time, self._note)
        self._candidates: dict[int, Candidate] = {}
        # By number of a Lease: the time since when nobody holds it.
        self._free_since: dict[int, float] = {}
        self._shared_among: frozenset[str] = frozenset()
        # The time since when the note says that there are several pools and none has a planner.
        self._empty_since: float | None = None
        # Whether this replica was the dispatcher before it wrote its Lease.
        self._was_dispatcher = False
        # By number: its pool by a note, and the time until which planners may act by that note.
        self._noted: dict[int, tuple[str, float]] = {}
        self.problem = "the Lease was not read yet"
        """The reason why the Leases are not renewed, as text; empty if they are."""
        self._wanted: Collection[str] | None = None
        self._decided = False

    def want(self, pools: Collection[str] | None) -> None:
        """Set the pools (parts of the cards) that need a planner each; None if one planner is enough for all."""
        self._wanted, self._decided = pools, True

    # The rights of this replica

    def dispatches(self) -> bool:
        """True if this replica is the dispatcher: then no other replica can be it."""
        return self._dispatcher.leads()

    def plans_all(self) -> bool:
        """True if this replica is the only planner, for all pools."""
        found = self._dispatcher.found
        alone = self._decided and self._wanted is None
        return alone and self.dispatches() and found is not None and not found.note

    def plans(self, pool: str) -> bool:
        """True if this replica plans the pool: then no other replica can plan it."""
        return any(name == pool and self._leads(number) for number, name in self.numbers().items())

    def planned(self) -> Collection[str]:
        """The names of the pools that this replica plans."""
        return {name for number, name in self.numbers().items() if self._leads(number)}

    def planners(self) -> Mapping[str, str]:
        """The name of the replica that plans each pool that has jobs; empty for a pool without a planner."""
        leases = ((name, self._candidates.get(number)) for number, name in self.numbers().items())
        return {
            name: found.found.holder if found is not None and found.found is not None else ""
            for name, found in leases
        }

    def numbers(self) -> Numbers:
        """The pools that have jobs, by the numbers of their Leases.

        Empty if the note on the dispatcher's Lease, which lists them, was read too long ago.
        """
        lease = self._dispatcher
        if lease.found is None or self._clock() - lease.read_at >= NOTED_SECONDS:
            return {}
        return _decoded(lease.found.note)

    def _leads(self, number: int) -> bool:
        candidate = self._candidates.get(number)
        return candidate is not None and candidate.leads()

    def plans_any(self) -> bool:
        """True if this replica plans a pool, or is the dispatcher."""
        return self.dispatches() or bool(self.planned())

    # Leases

    def keep(self) -> float:
        """Renew the Leases (`renew`), and store an ApiError as `problem`; returns the seconds until the next call."""
        try:
            pause = self.renew()
        except ApiError as error:
            self.problem = f"the Lease cannot be renewed: {error}"
            log.warning("%s", self.problem)
            return RENEW_SECONDS
        self.problem = ""
        return pause

    def renew(self) -> float:
        """Renew the Leases of this replica and take its share of free Leases; returns the seconds until the next call.

        The next call is due after RENEW_SECONDS, or as soon as another replica's Lease may be taken. Leases of pools
        that need no planner any more are given up. Raises ApiError.
        """
        self._was_dispatcher = self.dispatches()
        self._dispatcher.attempt()
        if not self.dispatches():
            self._empty_since = None
        numbers = self.numbers()
        for number in [number for number in self._candidates if number not in numbers]:
            self._give_up(number)
        self._share_out(numbers)
        for number in numbers:
            self._attempt(number, len(numbers))
        return min(candidate.due(RENEW_SECONDS) for candidate in self._all())

    def see(self, lease: Lease) -> None:
        """Record a Lease that a watch shows, perhaps late; a Lease that is not the engine's is ignored."""
        for candidate in self._all():
            candidate.see(lease)

    def sync(self, leases: Iterable[Lease]) -> None:
        """Record the Leases of a list."""
        for lease in leases:
            self.see(lease)

    def forget(self, lease: Lease) -> None:
        """Do nothing after a Lease was deleted: the next renewal creates the Lease again."""

    def release(self) -> None:
        """Give up all Leases. Raises ApiError if the dispatcher's Lease cannot be given up.

        A failure to give up the Lease of a pool is only logged.
        """
        for number in list(self._candidates):
            self._give_up(number)
        self._dispatcher.release()

    def _all(self) -> list[Candidate]:
        # Copied in one step of the interpreter, because another thread may add candidates.
        return [self._dispatcher, *self._candidates.values()]

    def _election(self) -> Election:
        return Election(self._identity, LEASE_SECONDS, FENCE_SECONDS, EARLY_SECONDS)

    def _attempt(self, number: int, count: int) -> None:
        candidate = self._candidates.get(number)
        if candidate is None:
            of = Ref(f"{self._lease.name}-{number}", self._lease.namespace)
            candidate = Candidate(self._api, of, self._election(), self._clock, self._time)
            self._candidates[number] = candidate
        try:
            candidate.attempt(takes_free=self._may_take(number, count))
        except ApiError as error:
            log.info("the Lease of pool %d is not renewed: %s", number, error)
            return
        free = candidate.found is None or not candidate.found.holder
        if free:
            self._free_since.setdefault(number, self._clock())
        else:
            self._free_since.pop(number, None)

    def _may_take(self, number: int, count: int) -> bool:
        """True if this replica may hold the Lease with this number.

        It holds the Lease already, holds fewer than its share of `count` Leases, or nobody took the free Lease for
        LEFT_SECONDS.
        """
        held = sum(self._leads(each) for each in self._candidates)
        free_for = self._clock() - self._free_since.get(number, self._clock())
        return self._leads(number) or held < self._share(count) or free_for >= LEFT_SECONDS

    def _share(self, count: int) -> int:
        return ceil(count / max(1, len(self._replicas())))

    def _share_out(self, numbers: Numbers) -> None:
        """Give up the Leases beyond this replica's share, each time the set of live replicas has changed."""
        replicas = self._replicas()
        if replicas == self._shared_among:
            return
        self._shared_among = replicas
        held = sorted(number for number in numbers if self._leads(number))
        for number in held[self._share(len(numbers)) :]:
            self._give_up(number)

    def _give_up(self, number: int) -> None:
        candidate = self._candidates.pop(number)
        self._free_since.pop(number, None)
        try:
            candidate.release()
        except ApiError as error:
            log.info("the Lease of pool %d is not given up: %s", number, error)

    # The note

    def _note(self, before: str) -> str:
        """The new note (text) on the dispatcher's Lease, which numbers the wanted pools; `before` is the present one.

        If one planner is enough, the new note is a list of no pools for REPLACED_SECONDS, as long as planners may still
        act by an earlier note, and then an empty text.
        """
        now, wanted = self._clock(), self._wanted
        if not self._was_dispatcher:
            # The pools of earlier notes are not known.
            unknown = set(range(1, MOST_POOLS + 1)) if before else set()
            self._noted = dict.fromkeys(unknown, ("", now + REPLACED_SECONDS))
        self._noted = {number: noted for number, noted in self._noted.items() if noted[1] > now}
        self._noted |= {number: (name, now + REPLACED_SECONDS) for number, name in _decoded(before).items()}
        if wanted is not None:
            self._empty_since = None
            return _encoded(self._numbered(wanted))
        if not before or not self._decided:
            return before
        # Planners may act by the earlier note for a while; one planner for all may begin only afterwards.
        if _decoded(before) or self._empty_since is None:
            self._empty_since = now
        return _encoded({}) if now - self._empty_since < REPLACED_SECONDS else ""

    def _numbered(self, wanted: Collection[str]) -> Numbers:
        """The wanted pools (parts of the cards) by the numbers of their Leases.

        As long as a planner may act by an earlier note, a pool keeps its number, and a number keeps its pool.
        """
        kept = {number: name for number, (name, _) in self._noted.items() if name in wanted}
        free = (number for number in range(1, MOST_POOLS + 1) if number not in self._noted)
        new = sorted(set(wanted) - set(kept.values()))
        return dict(sorted({**kept, **dict(zip(free, new, strict=False))}.items()))


def _encoded(numbers: Numbers) -> str:
    return write_object({"pools": {str(number): name for number, name in numbers.items()}})


def _decoded(note: str) -> Numbers:
    """The pools that a note on the dispatcher's Lease names, by number; none if the note is malformed.

    The dispatcher then replaces it.
    """
    return dict(_pools(note)) if note else {}


def _pools(note: str) -> Iterator[tuple[int, str]]:
    try:
        pools = json.loads(note)["pools"].items()
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return
    for number, name in pools:
        if number.isdecimal() and 1 <= int(number) <= MOST_POOLS and isinstance(name, str):
            yield int(number), name
