"""Room: finds out whether replicas fit on the cards together, by a trial on a copy of the ledger."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Protocol

import numpy as np

from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.jobs.empty_pool import UNBOUNDED, EmptyPool
from device_plugin.core.jobs.job import JobKey, JobSpec
from device_plugin.core.jobs.promise import kept
from device_plugin.core.jobs.search import Search
from device_plugin.core.ledger import Holding, Ledger, PromiseHolder, Transaction
from device_plugin.core.node_constraints import NodeIndex, NodeSet
from device_plugin.core.placement import Placer
from device_plugin.core.placement.card_columns import Mask

Place = Grant | int
"""The place of a replica: its grant, or in a room without nodes its number of cards."""


class Site(NamedTuple):
    """A node, and for each job the number of replicas that hold cards of this node."""

    node: str
    held: Mapping[JobKey, int]


class RoomTrial(Protocol):
    """Changes to a room that are undone at the end of the block, unless `commit` is called."""

    def commit(self) -> None:
        """Keep the changes when the block ends."""


class Room(Protocol):
    """The cards of a pool (part of the cluster), and the replicas that have them in one round's plan.

    Changes stay inside the room.
    """

    def take(self, job: JobSpec, count: int) -> bool:
        """Place `count` more replicas of the job; false, without a change, if they do not all fit together."""

    def give(self, job: JobSpec, count: int) -> None:
        """Release the last `count` replicas of the job."""

    def free(self, job: JobSpec) -> int:
        """An upper bound of the number of further replicas of the job that fit."""

    def capacity(self, job: JobSpec, /, *, closed: bool = False) -> int:
        """An upper bound of the number of the job's replicas that fit if nothing holds the pool's cards.

        With `closed`, closed cards, which get no new slices now, count too.
        """

    def may_hold(self, jobs: Sequence[JobSpec], /, *, closed: bool = False) -> bool:
        """False if the pool has too few cards, even empty, for the least numbers of replicas of all jobs together.

        True does not mean that they fit, because nodes are not considered. With `closed` the closed cards count too.
        """

    def closed_cards(self, jobs: Sequence[JobSpec], /) -> str:
        """A text with the closed cards that replicas of `jobs` could use, each with the reason why it is closed."""

    def givers(self, jobs: Sequence[JobSpec], /) -> Collection[JobKey] | None:
        """The jobs that hold cards of nodes where replicas of `jobs` may go; None if the replicas may go anywhere."""

    def places(self, job: JobSpec, count: int) -> Sequence["Place"]:
        """The nodes and cards of the job's `count` replicas with the highest indexes."""

    def nodes(self, places: Sequence["Place"], /) -> tuple[str, ...]:
        """The names of the nodes of these places, sorted, each once; empty in a room that only counts cards."""

    def reserve(self, name: JobKey, places: Sequence["Place"], /) -> None:
        """Reserve these places (nodes and cards) under `name`: no job gets their part that is free now."""

    def lift(self, name: JobKey, /) -> None:
        """Release the cards that are reserved under `name`."""

    def renew(self) -> None:
        """Extend all reservations to the parts of their nodes and cards that have become free since they were made."""

    def sites(self, jobs: Sequence[JobSpec], /) -> Sequence["Site"] | None:
        """The nodes where replicas of one of `jobs` may go; None in a room without nodes."""

    def vacate(self, site: "Site", jobs: Collection[JobKey], /) -> None:
        """Release the replicas of these jobs on the node of `site`."""

    def limits(self, job: JobSpec, /) -> str:
        """A sentence about the constraints that keep replicas of the job from some nodes; empty if there are none."""

    def cards(self) -> float:
        """The number of cards that may get new slices."""

    def idle(self) -> float:
        """The number of idle cards: the smaller of the total free memory and the total free core groups, in cards."""

    def trial(self) -> AbstractContextManager[RoomTrial]:
        """A block whose changes are undone unless they are committed; blocks nest."""


class LedgerRoom:
    """The room of a ledger that only this round uses, a copy of a snapshot; `placer` must decide by this ledger.

    `replicas` are the holders of each job's replicas, in the order of their indexes. `nodes` finds the nodes that the
    jobs' constraints allow; None allows all nodes. `search` keeps its memory over several rounds; by default a new one
    is made.
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
        # By name: the reserved places, also parts that are not free yet.
        self._reserved: dict[JobKey, tuple[Grant, ...]] = {}
        self._replicas: dict[JobKey, tuple[str, ...]] = {key: tuple(held) for key, held in replicas.items()}

    def replicas(self) -> Mapping[JobKey, Sequence[str]]:
        """The holders of each job's replicas, in the order of their indexes."""
        return dict(self._replicas)

    def take(self, job: JobSpec, count: int) -> bool:
        if not job.cards:
            return True
        held = self._replicas.get(job.key, ())
        names = tuple(_replica(job.key, len(held) + number) for number in range(count))
        if self._search.take_sets(job, len(held), names, self._allowed) is None:
            return False
        self._replicas[job.key] = held + names
        return True

    def _allowed(self, job: JobSpec) -> NodeSet | None:
        """The nodes where replicas of the job may go; None if all of them."""
        return None if self._index is None else self._index.allowed(job.nodes)

    def give(self, job: JobSpec, count: int) -> None:
        if not job.cards:
            return
        held = self._replicas.get(job.key, ())
        # The job may have more replicas than these: pods that wait for other things than cards hold no cards.
        stay = max(0, len(held) - count)
        for name in held[stay:]:
            self._ledger.release(name)
        self._replicas[job.key] = held[:stay]

    def free(self, job: JobSpec) -> int:
        if not job.cards:
            return UNBOUNDED
        if job.sets:
            return sum(min(each.asked, self.free(each)) for each in job.sets)
        return self._search.free(job, self._allowed(job))

    def capacity(self, job: JobSpec, /, *, closed: bool = False) -> int:
        if job.sets:
            return sum(min(each.asked, self.capacity(each, closed=closed)) for each in job.sets)
        return self._search.capacity(job, self._empty(), closed=closed)

    def may_hold(self, jobs: Sequence[JobSpec], /, *, closed: bool = False) -> bool:
        return self._empty().may_hold(jobs, closed=closed)

    def closed_cards(self, jobs: Sequence[JobSpec], /) -> str:
        return self._empty().closed_cards(jobs)

    def _empty(self) -> EmptyPool:
        """The pool's cards as if no replica had any; the same object until its nodes change."""
        if self._emptied is None:
            self._emptied = self._search.empty_pool(self._index)
        return self._emptied

    def givers(self, jobs: Sequence[JobSpec]) -> Collection[JobKey] | None:
        sought = [self._allowed(each) for job in jobs for each in job.alike if each.cards]
        if None in sought:
            return None
        return {key for key, held in self._replicas.items() if any(map(partial(self._lies_in, sought), held))}

    def _lies_in(self, sought: Sequence[NodeSet | None], holder: str) -> bool:
        holding = self._ledger.holding(holder)
        return holding is not None and any(nodes and holding.node in nodes for nodes in sought)

    def places(self, job: JobSpec, count: int) -> Sequence[Place]:
        holdings = (self._ledger.holding(name) for name in self._replicas.get(job.key, ())[-count:])
        return [found.grant for found in holdings if found is not None and found.grant is not None]

    def nodes(self, places: Sequence[Place]) -> tuple[str, ...]:
        return tuple(sorted({place.node for place in places if isinstance(place, Grant)}))

    def reserve(self, name: JobKey, places: Sequence[Place]) -> None:
        self._reserved[name] = tuple(place for place in places if isinstance(place, Grant))
        self._close(name)

    def _close(self, name: JobKey) -> None:
        """Hold the part of the cards reserved under `name` that is free now."""
        wanted: dict[str, list[Slice]] = {}
        for grant in self._reserved[name]:
            wanted.setdefault(grant.node, []).extend(grant.slices())
        for node, slices in wanted.items():
            holder = PromiseHolder(node, "/".join(name))
            self._ledger.release(holder)
            state = self._ledger.node(node)
            cards = {card.card.uuid: card for card in state.cards} if state is not None else {}
            if free := kept(slices, (), cards):
                grant = Grant("/".join(name), node, {"": free})
                self._ledger.put(Holding(holder=holder, node=node, grant=grant))

    def lift(self, name: JobKey) -> None:
        for node in {grant.node for grant in self._reserved.pop(name, ())}:
            self._ledger.release(PromiseHolder(node, "/".join(name)))

    def renew(self) -> None:
        for name in self._reserved:
            self._close(name)

    def sites(self, jobs: Sequence[JobSpec]) -> Sequence[Site]:
        sought = [self._allowed(each) for job in jobs for each in job.alike if each.cards]
        held: dict[str, Counter[JobKey]] = {}
        for key, holders in self._replicas.items():
            for holder in holders:
                holding = self._ledger.holding(holder)
                if holding is not None:
                    held.setdefault(holding.node, Counter())[key] += 1
        return [
            Site(node, of_node)
            for node, of_node in held.items()
            if None in sought or any(nodes is not None and node in nodes for nodes in sought)
        ]

    def vacate(self, site: Site, jobs: Collection[JobKey]) -> None:
        for key in site.held:
            if key in jobs:
                held = self._replicas.get(key, ())
                leaving = {name for name in held if self._lies_on(site.node, name)}
                for name in leaving:
                    self._ledger.release(name)
                self._replicas[key] = tuple(name for name in held if name not in leaving)

    def _lies_on(self, node: str, holder: str) -> bool:
        holding = self._ledger.holding(holder)
        return holding is not None and holding.node == node

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
        return _LedgerTrial(self._ledger.transaction(), self._replicas, self._reserved)


class _LedgerTrial:
    """A trial in a LedgerRoom: undoes the changes of the ledger and of the dictionaries `noted`, unless committed."""

    def __init__(self, change: Transaction, *noted: dict[JobKey, Any]) -> None:
        self._change = change
        self._noted = noted
        self._before = [dict(each) for each in noted]
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
            for noted, before in zip(self._noted, self._before, strict=True):
                noted.clear()
                noted.update(before)


def _replica(job: JobKey, index: int) -> str:
    """The name under which a replica that has no pod yet holds slices; no pod's UID has such slashes."""
    namespace, name = job
    return f"{namespace}/{name}/{index}"
