"""The planners of one replica: one for all Jobs, or one for each pool whose Lease the replica holds."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from math import inf
from typing import Protocol

from device_plugin.core.jobs.job import JobKey
from device_plugin.core.jobs.pools import Pool, Pools
from device_plugin.jobs.pools.dispatcher import Dispatcher, PoolDemand
from device_plugin.jobs.pools.leases import PoolLeases
from device_plugin.jobs.pools.partition import Partition, Partitions, PoolHoldings, PoolJobs
from device_plugin.jobs.ports import Holdings
from device_plugin.jobs.round import Rounds
from device_plugin.state.jobs import KnownJobs
from device_plugin.state.managed import ManagedJobs


class MakeRounds(Protocol):
    """Makes the rounds of one planner, which writes only while `leads` is true."""

    def __call__(self, jobs: ManagedJobs, holdings: Holdings, leads: Callable[[], bool]) -> Rounds: ...


@dataclass(frozen=True, slots=True)
class PoolPlanner:
    """A planner: the rounds for the Jobs of one pool; an empty `pool` means all Jobs."""

    pool: str
    rounds: Rounds


class Planners:
    """Makes a planner for each pool (part of the cards) whose Lease this replica holds, and runs their rounds.

    One thread calls `step`; any thread may call the other methods. `clock` is a monotonic clock; `work` returns the
    processor time of the calling thread. Both are in seconds.
    """

    def __init__(
        self, known: KnownJobs, holdings: Holdings, leases: PoolLeases, dispatcher: Dispatcher, make: MakeRounds,
        clock: Callable[[], float], work: Callable[[], float],
    ) -> None:  # fmt: skip
        self._clock = clock
        self._work = work
        self._rests_until = -inf
        self._known = known
        self._holdings = holdings
        self._leases = leases
        self._dispatcher = dispatcher
        self._make = make
        self._partitions = Partitions(known, holdings)
        self._demand = PoolDemand(clock)
        self._whole = PoolPlanner("", make(known, holdings, leases.plans_all))
        self._of_pools: Mapping[Pool, PoolPlanner] = {}
        self._partition: Partition | None = None
        self._pools = Pools()

    def step(self) -> None:
        """Run the dispatcher and the planners once, unless they rest.

        After each step they rest for as long as the step used the processor. So they take at most half of a core,
        however much tenants write. A change after a rest is answered at once.
        """
        if self._clock() < self._rests_until:
            return
        began = self._work()
        try:
            self._plan()
        finally:
            self._rests_until = self._clock() + self._work() - began

    def _plan(self) -> None:
        """Run the dispatcher if this replica is the dispatcher, then a round of each planner of this replica.

        Nothing runs before all kinds of objects were listed.
        """
        if self._known.why_not_synced() or self._holdings.why_not_synced():
            return
        self._pools = self._partitions.pools()
        several = len(self._pools.nodes) > 1
        found = self._partition = self._partitions.last() if several else None
        if self._leases.dispatches():
            if found is None:
                self._leases.want(None)
            else:
                self._leases.want(self._demand.needing(found, self._leases.numbers().values()))
                self._dispatcher.step(found)
        self._renew(found)
        for planner in (self._whole, *self._of_pools.values()):
            planner.rounds.step()

    def _renew(self, found: Partition | None) -> None:
        """Make and remove planners, so that there is one for each pool whose Lease this replica holds."""
        planned = self._leases.planned() if found is not None else ()
        pools = {pool: str(pool) for pool in found.pools.nodes if str(pool) in planned} if found else {}
        if pools.keys() != self._of_pools.keys():
            self._of_pools = {
                pool: self._of_pools.get(pool) or self._planner(pool, name) for pool, name in pools.items()
            }

    def _planner(self, pool: Pool, name: str) -> PoolPlanner:
        def nodes() -> Collection[str]:
            return self._partitions.pools().nodes.get(pool, frozenset())

        def leads() -> bool:
            return self._leases.plans(name)

        jobs = PoolJobs(self._known, self._partitions, pool)
        return PoolPlanner(name, self._make(jobs, PoolHoldings(self._holdings, nodes), leads))

    # The state that is shown

    def all(self) -> Collection[PoolPlanner]:
        """The planners of this replica; if it has none, the planner of all Jobs, which does not plan then."""
        return tuple(self._of_pools.values()) or (self._whole,)

    def planning(self) -> Collection[PoolPlanner]:
        """The planners of this replica that may act now."""
        found = [planner for pool, planner in self._of_pools.items() if self._leases.plans(str(pool))]
        return [self._whole, *found] if self._leases.plans_all() else found

    def why_not(self) -> str:
        """The reason why this replica cannot show the plan, as text; empty if it can."""
        if self._partition is None:
            return self._whole.rounds.why_not()
        return "" if self._leases.dispatches() or self._of_pools else "another replica holds the Lease"

    def pools(self) -> Pools:
        """The pools of all nodes with cards, as of the latest step."""
        return self._pools

    def holders(self) -> Mapping[str, str]:
        """The name of the replica that plans each pool (part of the cards) with jobs; empty for one without a planner.

        The mapping is empty if there is only one pool.
        """
        return self._leases.planners() if self._partition is not None else {}

    def elsewhere(self, job: JobKey) -> str:
        """The name of the other replica that plans the Job; empty if this replica or none plans it."""
        pool = self._partition.pool_of(job) if self._partition is not None else None
        return "" if pool is None or pool in self._of_pools else self._leases.planners().get(str(pool), "")

    def of(self, job: JobKey) -> tuple[PoolPlanner | None, str]:
        """The planner of the Job's pool (part of the cards), and a text that says who plans it if there are several.

        The planner is None if this replica has none for the pool, or if no pool is chosen for the Job yet.
        """
        found = self._partition
        if found is None:
            return self._whole, ""
        pool = found.pool_of(job)
        if pool is None:
            return None, "waits until a pool is chosen for it"
        planner = self._of_pools.get(pool)
        holder = self._leases.planners().get(str(pool), "")
        return planner, f"pool {pool} is planned by {holder}" if holder else f"pool {pool} has no planner yet"
