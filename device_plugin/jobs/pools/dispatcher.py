"""The dispatcher: it decides which pools need a planner, and chooses a pool for each job that fits several.

A job goes to the pool that would start it first: a pool where it fits now, else any pool that it fits. Among several,
it goes to the pool with the least waiting work for its cards. The choice is written on the Job, and may change until
the Job has run.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import inf

from device_plugin.core.jobs.job import JobKey
from device_plugin.core.jobs.pools import Pool, UnitKey
from device_plugin.core.jobs.room import LedgerRoom
from device_plugin.jobs.execute.sender import Sender
from device_plugin.jobs.execute.writes import Action, Write
from device_plugin.jobs.plan.fork import Fork
from device_plugin.jobs.pools.partition import Partition, PoolChoice, PoolHoldings
from device_plugin.jobs.ports import Holdings
from device_plugin.state.managed import Managed

# Seconds without jobs after which a pool needs no planner any more.
QUIET_SECONDS = 600.0
# Seconds for which a job waits in its pool before another one is looked for.
SETTLED_SECONDS = 5.0
# Seconds between two choices for jobs that have a pool already.
LOOK_SECONDS = 5.0
# Choices that one step makes: each takes about a millisecond, and a write.
MOST_CHOICES = 100


class PoolDemand:
    """Finds the pools (parts of the cards) that need a planner: they had jobs in the last QUIET_SECONDS."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: dict[Pool, float] = {}

    def needing(self, found: Partition, planned: Collection[str]) -> Collection[str]:
        """The names of the pools (parts of the cards) that had jobs in the last QUIET_SECONDS.

        `found` has the pools with their present jobs. `planned` are the pools that have a planner. A pool of `planned`
        that is new to this object counts as if it had jobs until now.
        """
        now = self._clock()
        for pool in found.pools.nodes:
            if any(job.lives for job in found.jobs.get(pool, {}).values()):
                self._last[pool] = now
            elif str(pool) in planned:
                self._last.setdefault(pool, now)
        self._last = {pool: at for pool, at in self._last.items() if pool in found.pools.nodes}
        return [str(pool) for pool, at in self._last.items() if now - at < QUIET_SECONDS]


class Dispatcher:
    """Assigns jobs to pools, the parts of the cards that are planned separately. One thread calls `step`.

    `clock` is a monotonic clock, in seconds; `wall` returns the seconds since 1970, as the times of pods are.
    """

    def __init__(
        self, holdings: Holdings, sender: Sender, clock: Callable[[], float], wall: Callable[[], float]
    ) -> None:
        self._holdings = holdings
        self._sender = sender
        self._clock = clock
        self._wall = wall
        # The pool of waiting Jobs, and the time since when they have it.
        self._since: dict[UnitKey, tuple[Pool, float]] = {}
        self._forks: dict[Pool, Fork] = {}
        self._found = Partition()
        self._next = -inf

    def step(self, found: Partition) -> None:
        """If a choice is due, choose pools for the jobs in `found`, and write each new choice on its Job.

        A pool is a part of the cards.
        """
        now = self._clock()
        new = any(choice.pool not in choice.fitting for choice in found.choices)
        if not found.choices or not (new or now >= self._next) or not self._sender.certain():
            return
        self._found, self._next = found, now + LOOK_SECONDS
        before, self._since = self._since, {}
        for choice in found.choices:
            if choice.pool is not None:
                known = before.get(choice.unit)
                self._since[choice.unit] = (
                    known if known is not None and known[0] == choice.pool else (choice.pool, now)
                )
        writes = [
            Write(Action.POOL, choice.jobs[0], pool=str(pool))
            for choice, pool in self._chosen(found)
            if pool != choice.pool
        ]
        self._sender.send([write for write in writes if self._sender.may(write)], now)

    def _chosen(self, found: Partition) -> Iterator[tuple[PoolChoice, Pool]]:
        due = [choice for choice in found.choices if self._due(choice)]
        if not due:
            return
        records = (job.record for jobs in found.jobs.values() for job in jobs.values())
        helped = {record.beneficiary for record in records if record is not None}
        rooms: dict[Pool, _PoolRoom] = {}
        for choice in sorted(due, key=_order)[:MOST_CHOICES]:
            for pool in choice.fitting:
                if pool not in rooms:
                    rooms[pool] = _PoolRoom(self._fork(pool), found.jobs[pool].values(), self._wall())
            # A job that others give way to stays in its pool.
            if not any(job.key in helped for job in choice.jobs):
                yield choice, _best(choice, rooms)

    def _fork(self, pool: Pool) -> Fork:
        """The copy (fork) of the ledger of a pool's nodes, made at the first call for that pool.

        It is kept, because an update of an existing fork copies only changed nodes.
        """
        if pool not in self._forks:
            self._forks[pool] = Fork(
                PoolHoldings(self._holdings, lambda: self._found.pools.nodes.get(pool, frozenset()))
            )
        return self._forks[pool]

    def _due(self, choice: PoolChoice) -> bool:
        if choice.pool not in choice.fitting:
            return True
        _, since = self._since[choice.unit]
        return self._clock() - since >= SETTLED_SECONDS


def _order(choice: PoolChoice) -> tuple[object, ...]:
    specs = [job.spec for job in choice.jobs]
    return -min(spec.priority for spec in specs), min(spec.created for spec in specs), choice.unit


def _best(choice: PoolChoice, rooms: Mapping[Pool, "_PoolRoom"]) -> Pool:
    """The pool that would start the jobs of `choice` first, among the pools that they fit.

    In the room of this pool (`rooms`), the jobs then hold cards, or count as waiting.
    """

    def rank(pool: Pool) -> tuple[object, ...]:
        room = rooms[pool]
        fits = room.fits(choice.jobs)
        # A waiting job keeps its pool, unless it fits in another one now.
        stays = pool == choice.pool and not fits
        holds = (room.may_hold(choice.jobs, closed=closed) for closed in (True, False))
        return *(not each for each in holds), not fits, not stays, room.load(choice.jobs), pool

    best = min(choice.fitting, key=rank)
    rooms[best].add(choice)
    return best


class _PoolRoom:
    """The free cards of a pool, and the number of cards that its waiting jobs need."""

    def __init__(self, fork: Fork, jobs: Collection[Managed], now: float) -> None:
        self._fork = fork
        fork.begin(jobs)
        fork.renew(jobs, now)
        self._room: LedgerRoom = fork.room()
        self._cards = max(1.0, self._room.cards())
        self._waiting: dict[JobKey, float] = {
            job.key: job.spec.least_cards for job in jobs if job.waits and not job.spec.on_hold
        }
        self._needed = sum(self._waiting.values())

    def may_hold(self, jobs: Sequence[Managed], *, closed: bool) -> bool:
        """False if one of the jobs would not fit an empty pool; with `closed`, cards that are closed now count too."""
        return all(self._room.capacity(job.spec, closed=closed) >= job.spec.least for job in jobs)

    def fits(self, jobs: Sequence[Managed]) -> bool:
        """True if the pool may have free cards for each of the jobs alone."""
        return all(self._room.free(job.spec) >= job.spec.least for job in jobs)

    def load(self, jobs: Sequence[Managed]) -> float:
        """The pool's load with these jobs: cards that waiting jobs need, less idle cards, divided by all cards."""
        own = sum(self._waiting.get(job.key, 0.0) for job in jobs)
        return (
            self._needed - own + sum(job.spec.least_cards for job in jobs) - self._room.idle()
        ) / self._cards

    def add(self, choice: PoolChoice) -> None:
        """Add the jobs to the pool: each job takes free cards for its least width, or is counted as waiting."""
        for job in choice.jobs:
            left = 0.0 if self._fork.take(job, job.spec.least) else job.spec.least_cards
            self._needed += left - self._waiting.get(job.key, 0.0)
            self._waiting[job.key] = left
