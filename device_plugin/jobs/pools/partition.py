"""The Jobs of each pool, and the Jobs whose pool may still be chosen."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from device_plugin.core.contract.annotations import POOL
from device_plugin.core.contract.cards import Inventory
from device_plugin.core.jobs.job import JobKey
from device_plugin.core.jobs.pools import (
    Fitting,
    Pool,
    Pools,
    UnitKey,
    pinned,
    pool_label,
    pools_of,
    unit_key,
)
from device_plugin.core.ledger import Snapshot
from device_plugin.core.node_constraints import NodeIndex
from device_plugin.jobs.ports import Holdings
from device_plugin.state.jobs import KnownJobs
from device_plugin.state.managed import Managed


@dataclass(frozen=True, slots=True)
class PoolChoice:
    """Waiting Jobs that are planned together, and the pools (parts of the cards) that they fit.

    `pool` is the present pool of the Jobs, None until one is chosen. The pool may change until one of the Jobs has run.
    """

    unit: UnitKey
    jobs: tuple[Managed, ...]
    fitting: tuple[Pool, ...]
    pool: Pool | None


@dataclass(frozen=True, slots=True)
class Partition:
    """The pools (parts of the cards) at one time with their Jobs, and the Jobs whose pool may still be chosen."""

    pools: Pools = field(default_factory=Pools)
    jobs: Mapping[Pool, Mapping[JobKey, Managed]] = field(default_factory=dict)
    choices: Sequence[PoolChoice] = ()

    def pool_of(self, job: JobKey) -> Pool | None:
        """The pool of the Job; None until a pool is chosen for it."""
        return next((pool for pool, jobs in self.jobs.items() if job in jobs), None)


def partition(jobs: Mapping[JobKey, Managed], fitting: Fitting) -> Partition:
    """The Jobs by pool (part of the cards), and the choices that are still open; all Jobs of a group have one pool."""
    units: dict[UnitKey, list[Managed]] = {}
    for key in sorted(jobs):
        units.setdefault(unit_key(jobs[key].spec), []).append(jobs[key])
    found: dict[Pool, dict[JobKey, Managed]] = {pool: {} for pool in fitting.pools.nodes}
    by_name, choices = {str(pool): pool for pool in found}, list[PoolChoice]()
    for unit, members in units.items():
        live = tuple(job for job in members if job.lives)
        fits = fitting.of(job.spec for job in live)
        pool = _settled(members, by_name, fitting.pools)
        # Kueue starts its Jobs wherever there is room.
        several = len(fits) > 1 and any(job.spec.cards and not job.spec.kueue for job in members)
        if pool is None and not several:
            pool = fits[0] if fits else _any_of(members, fitting.pools)
        waits = bool(live) and all(job.waits and not job.spec.on_hold for job in live)
        movable = all(map(_fresh, members)) and (several or (fits and pool not in fits))
        if waits and (pool is None or movable):
            choices.append(PoolChoice(unit, live, fits, pool))
        if pool is not None:
            found[pool].update((job.key, _pinned(job, pool, fitting.pools.key)) for job in members)
    return Partition(fitting.pools, found, choices)


def _settled(members: Iterable[Managed], by_name: Mapping[str, Pool], pools: Pools) -> Pool | None:
    """The pool that is written on one of the Jobs, or else the pool of a node where a pod of the Jobs runs or ran.

    None if there is no such pool.
    """
    for name in (job.job.annotations.get(POOL, "") for job in members):
        if name in by_name:
            return by_name[name]
    nodes = (node for job in members for node in _nodes(job))
    return next((pool for node in nodes if (pool := pools.of_node(node)) is not None), None)


def _nodes(job: Managed) -> Iterator[str]:
    yield from (pod.node for pod in job.pods if pod.node)
    if job.record is not None:
        yield from (grant.node for grant in job.record.grants)


def _any_of(members: Iterable[Managed], pools: Pools) -> Pool | None:
    """The pool (part of the cards) for Jobs that fit no pool; None if there is no pool.

    A pool with cards of the Jobs' families is preferred. The planner of the returned pool reports that the Jobs fit
    nowhere.
    """
    alike_sets = (each for job in members for each in job.spec.alike)
    families = {asked.family for each in alike_sets for _, asked in each.request.containers}
    alike = (pool for pool, kinds in pools.kinds.items() if any(family in families for family, _ in kinds))
    return next(alike, next(iter(pools.nodes), None))


def _fresh(job: Managed) -> bool:
    """True if the Job waits and has never run, so that its pods may still be bound to any nodes."""
    return job.waits and not job.ran and not job.pods


def _pinned(job: Managed, pool: Pool, key: str) -> Managed:
    """The Job, with a node selector for the nodes of its pool (part of the cards) if it has never run; else as it is.

    A Job without cards, a workload of another kind with sets of pods, and a Job that names the pool itself stay
    unchanged too.
    """
    if not pool.label or not job.spec.cards or job.job.sets or not _fresh(job) or pinned(job.spec.nodes, key):
        return job
    return replace(job, pin=(key, pool.label))


class Partitions:
    """Holds the newest partition of all Jobs by pool, and computes it again after changes."""

    def __init__(self, known: KnownJobs, holdings: Holdings) -> None:
        self._known = known
        self._holdings = holdings
        self._index: NodeIndex | None = None
        self._snapshot: Snapshot | None = None
        self._inventories: Mapping[str, Inventory] = {}
        self._fitting = Fitting(Pools(), NodeIndex())
        self._seen = (-1, -1)
        self._last = Partition()

    def pools(self) -> Pools:
        """The pools of all nodes with cards."""
        return self._renewed().pools

    def last(self) -> Partition:
        """The partition of the present Jobs; the same object until something changes."""
        fitting, seen = self._renewed(), (self._known.changes, self._known.unplanned)
        if seen != self._seen or fitting.pools is not self._last.pools:
            self._last, self._seen = partition(self._known.managed(), fitting), seen
        return self._last

    def _renewed(self) -> Fitting:
        index, snapshot = self._holdings.nodes(), self._holdings.snapshot()
        if index is self._index and snapshot is self._snapshot:
            return self._fitting
        inventories = snapshot.inventories()
        if index is not self._index or not _same(inventories, self._inventories):
            key = pool_label(index)
            self._fitting = Fitting(pools_of(inventories, index.values_of(key), key), index)
        self._index, self._snapshot, self._inventories = index, snapshot, inventories
        return self._fitting


def _same(ones: Mapping[str, Inventory], others: Mapping[str, Inventory]) -> bool:
    """True if both mappings have the same nodes, and for each node the same inventory object.

    Most changes of a ledger replace no inventory.
    """
    return ones.keys() == others.keys() and all(others[name] is ones[name] for name in ones)


class PoolJobs:
    """The Jobs of one pool, as the pool's planner reads them."""

    def __init__(self, known: KnownJobs, partitions: Partitions, pool: Pool) -> None:
        self._known = known
        self._partitions = partitions
        self._pool = pool
        self._seen: Mapping[JobKey, Managed] = {}
        self._changes = 0

    def why_not_synced(self) -> str:
        """The kinds of objects that were not listed yet, as text; empty if all were."""
        return self._known.why_not_synced()

    @property
    def changes(self) -> int:
        """A number that grows whenever one of the pool's Jobs changes in something that a plan depends on."""
        jobs = self.managed()
        if jobs is not self._seen and not _planned_alike(jobs, self._seen):
            self._changes += 1
        self._seen = jobs
        return self._changes

    def managed(self) -> Mapping[JobKey, Managed]:
        """The pool's Jobs that can be read, by namespace and name."""
        return self._partitions.last().jobs.get(self._pool, {})


def _planned_alike(ones: Mapping[JobKey, Managed], others: Mapping[JobKey, Managed]) -> bool:
    """True if the two mappings have the same Jobs, equal in all that a plan depends on."""
    return ones.keys() == others.keys() and all(one.planned_like(others[key]) for key, one in ones.items())


class PoolHoldings:
    """The part of the ledger that belongs to the nodes of one pool."""

    def __init__(self, holdings: Holdings, nodes: Callable[[], Collection[str]]) -> None:
        self._holdings = holdings
        self._nodes = nodes
        self.why_not_synced = holdings.why_not_synced
        self.nodes = holdings.nodes
        self.release_promised = holdings.release_promised
        self._whole: Snapshot | None = None
        self._names: Collection[str] = ()
        self._part = Snapshot({}, {})

    def snapshot(self) -> Snapshot:
        """A snapshot of the ledger of the pool's nodes; the same object until something changes there."""
        whole, names = self._holdings.snapshot(), self._nodes()
        if whole is not self._whole or names is not self._names:
            self._whole, self._names = whole, names
            part = whole.of(names)
            before, now = self._part.records(), part.records()
            if before.keys() != now.keys() or any(now[name] is not before[name] for name in now):
                self._part = part
        return self._part
