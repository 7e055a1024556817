"""Room: whether replicas fit together, answered by a trial on a copy of the ledger."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import Protocol

import numpy as np

from device_plugin.core.jobs.empty_pool import UNBOUNDED, EmptyPool
from device_plugin.core.jobs.job import JobKey, JobSpec
from device_plugin.core.jobs.search import Search
from device_plugin.core.ledger import Ledger, Transaction
from device_plugin.core.node_constraints import NodeIndex, NodeSet
from device_plugin.core.placement import Placer
from device_plugin.core.placement.card_columns import Mask


class RoomTrial(Protocol):
    """Changes to a room that are undone at the end of the block, unless `commit` is called."""

    def commit(self) -> None:
        """Keep the changes."""


class Room(Protocol):
    """The cards of a pool, and the replicas that hold them in one round's plan. Nothing outside changes."""

    def take(self, job: JobSpec, count: int) -> bool:
        """Hold `count` more replicas of the job; false, and nothing changes, if they do not all fit together."""

    def give(self, job: JobSpec, count: int) -> None:
        """Release the last `count` replicas of the job."""

    def free(self, job: JobSpec) -> int:
        """The number of further replicas of the job for which there is room; fewer may fit together."""

    def capacity(self, job: JobSpec, /, *, closed: bool = False) -> int:
        """The number of replicas of the job for which an empty pool has room; fewer may fit together.

        With `closed` the cards count too that get no new slices now.
        """

    def may_hold(self, jobs: Sequence[JobSpec], /, *, closed: bool = False) -> bool:
        """False if an empty pool has too few cards for the least widths of all jobs together.

        True does not say that they fit: how the replicas lie on the nodes is not looked at. `closed` is as before.
        """

    def closed_cards(self, jobs: Sequence[JobSpec], /) -> str:
        """The closed cards that replicas of `jobs` could use, with the reason of each, for people."""

    def givers(self, jobs: Sequence[JobSpec], /) -> Collection[JobKey] | None:
        """The jobs that hold cards where replicas of one of `jobs` may go; None if these may go anywhere."""

    def keep(self, jobs: Sequence[JobSpec], /) -> bool:
        """Close all cards where replicas of `jobs` may go to other jobs; false if these may go anywhere."""

    def limits(self, job: JobSpec, /) -> str:
        """What keeps replicas of the job from some of the nodes, as a sentence; empty if nothing does."""

    def cards(self) -> float:
        """The number of cards."""

    def idle(self) -> float:
        """The cards that are idle, by the resource of which the least is left."""

    def trial(self) -> AbstractContextManager[RoomTrial]:
        """A block whose changes are undone unless they are committed; blocks nest."""


class LedgerRoom:
    """The room of a ledger that belongs to the caller's round, a fork of a snapshot; `placer` decides by it.

    `replicas` are the holders of each job's replicas in the order of their indexes, and `nodes` what the jobs'
    constraints are compared with; without it replicas may go anywhere. `search` is what searches the ledger, if it is
    to remember something for the next round.
    """

    def __init__(
        self, ledger: Ledger, placer: Placer, replicas: Mapping[JobKey, Sequence[str]],
        nodes: NodeIndex | None = None, search: Search | None = None,
    ) -> None:  # fmt: skip
        self._search = search or Search(ledger, placer)
        self._emptied: EmptyPool | None = None
        self._ledger = ledger
        self._placer = placer
        self._index = nodes
        # The nodes, as bits of the index, whose cards are closed to other jobs.
        self._kept = 0
        self._replicas: dict[JobKey, tuple[str, ...]] = {key: tuple(held) for key, held in replicas.items()}

    def replicas(self) -> Mapping[JobKey, Sequence[str]]:
        """The holders of each job's replicas, in the order of their indexes."""
        return dict(self._replicas)

    def take(self, job: JobSpec, count: int) -> bool:
        if not job.cards:
            return True
        held = self._replicas.get(job.key, ())
        names = tuple(_replica(job.key, len(held) + number) for number in range(count))
        if self._search.take(job, names, self._nodes(job)) is None:
            return False
        self._replicas[job.key] = held + names
        return True

    def _allowed(self, job: JobSpec) -> NodeSet | None:
        """The nodes where replicas of the job may go; None if all of them."""
        return None if self._index is None else self._index.allowed(job.nodes)

    def _nodes(self, job: JobSpec) -> NodeSet | None:
        """The nodes of which replicas of the job may take cards now; None if all of them."""
        if self._index is None or not self._kept:
            return self._allowed(job)
        return self._index.without(self._kept, self._allowed(job))

    def keep(self, jobs: Sequence[JobSpec]) -> bool:
        sought = [self._allowed(job) for job in jobs if job.cards]
        for nodes in sought:
            self._kept |= nodes.bits if nodes is not None else 0
        return None not in sought

    def give(self, job: JobSpec, count: int) -> None:
        if not job.cards:
            return
        held = self._replicas.get(job.key, ())
        # Fewer may hold cards than the job has: pods that wait for something else hold none.
        stay = max(0, len(held) - count)
        for name in held[stay:]:
            self._ledger.release(name)
        self._replicas[job.key] = held[:stay]

    def free(self, job: JobSpec) -> int:
        if not job.cards:
            return UNBOUNDED
        return self._search.free(job, self._nodes(job))

    def capacity(self, job: JobSpec, /, *, closed: bool = False) -> int:
        return self._search.capacity(job, self._empty(), closed=closed)

    def may_hold(self, jobs: Sequence[JobSpec], /, *, closed: bool = False) -> bool:
        return self._empty().may_hold(jobs, closed=closed)

    def closed_cards(self, jobs: Sequence[JobSpec], /) -> str:
        return self._empty().closed_cards(jobs)

    def _empty(self) -> EmptyPool:
        """The pool without any holding."""
        if self._emptied is None:
            self._emptied = self._search.empty_pool(self._index)
        return self._emptied

    def givers(self, jobs: Sequence[JobSpec]) -> Collection[JobKey] | None:
        sought = [self._allowed(job) for job in jobs if job.cards]
        if None in sought:
            return None
        return {key for key, held in self._replicas.items() if any(map(partial(self._lies_in, sought), held))}

    def _lies_in(self, sought: Sequence[NodeSet | None], holder: str) -> bool:
        holding = self._ledger.holding(holder)
        return holding is not None and any(nodes and holding.node in nodes for nodes in sought)

    def limits(self, job: JobSpec) -> str:
        return "" if self._index is None else self._index.limits(job.nodes)

    def cards(self) -> float:
        self._placer.table.refresh()
        return float(np.count_nonzero(self._usable()))

    def idle(self) -> float:
        table = self._placer.table
        table.refresh()
        usable = self._usable()
        memory = (table.free_mib[usable] / table.mib[usable]).sum()
        cores = (table.free_cores[usable] / table.groups[usable]).sum()
        return float(min(memory, cores))

    def _usable(self) -> Mask:
        return self._placer.table.usable & self._placer.table.there

    def trial(self) -> "_LedgerTrial":
        return _LedgerTrial(self._ledger.transaction(), self._replicas)


class _LedgerTrial:
    def __init__(self, change: Transaction, replicas: dict[JobKey, tuple[str, ...]]) -> None:
        self._change = change
        self._replicas = replicas
        self._before = dict(replicas)
        self._committed = False

    def commit(self) -> None:
        self._committed = True
        self._change.commit()

    def __enter__(self) -> "_LedgerTrial":
        self._change.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._change.__exit__(kind, error, trace)
        if not self._committed or error is not None:
            self._replicas.clear()
            self._replicas.update(self._before)


def _replica(job: JobKey, index: int) -> str:
    """The holder's name of a replica that does not exist yet; no pod's UID has a slash."""
    namespace, name = job
    return f"{namespace}/{name}/{index}"
