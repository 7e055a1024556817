"""Rates learnt from running Jobs with a goal: samples a second of a model, on a number of cards of one card model.

The program of such a Job reports its progress in a unit of its own, and the Job states its total number of samples.
Both can be false, so a learnt rate counts only for Jobs of the same namespace, and only where the operator's table of
rates has no line.
"""

from collections.abc import Collection, Mapping
from math import ceil, inf

from device_plugin.core.contract.cards import Inventory
from device_plugin.core.jobs.history import ENOUGH_S
from device_plugin.core.jobs.rates import LearntRates, Rates
from device_plugin.core.ledger import Snapshot
from device_plugin.jobs.ports import Holdings
from device_plugin.state.managed import Managed, ManagedJobs

# Seconds between two reads of the Jobs' reports.
LOOK_SECONDS = 60.0


class RateLearning:
    """Holds the operator's `table` of rates, and the rates learnt from running Jobs. One thread calls it."""

    def __init__(self, known: ManagedJobs, holdings: Holdings, table: Rates) -> None:
        self._known = known
        self._holdings = holdings
        self._table = table
        self._learnt = LearntRates()
        self._looked = -inf

    def look(self, now: float) -> bool:
        """Learn rates from the programs' reports since the previous look; true if there were any.

        `now` is the wall clock.

        Before LOOK_SECONDS have passed since the previous look, nothing is read and the answer is false.
        """
        if now < self._looked + LOOK_SECONDS:
            return False
        since, self._looked = self._looked, now
        jobs = [managed for managed in self._known.managed().values() if _told(managed, since)]
        if not jobs:
            return False
        snapshot = self._holdings.snapshot()
        inventories = snapshot.inventories()
        for managed in jobs:
            models = _card_models(managed, snapshot, inventories)
            # On cards of several models the slowest ones decide how fast all go.
            if len(models) == 1:
                self._add(managed, *models)
        return True

    def rates(self, namespace: str) -> Rates:
        """The rates for the Jobs of a namespace: the operator's table, completed by the rates learnt there."""
        return self._learnt.beside(namespace, self._table)

    def _add(self, managed: Managed, card: str) -> None:
        goal, history, spec = managed.spec.goal, managed.history, managed.spec
        if goal is None or history is None:
            return
        newest = history.measured[-1]
        samples = newest.rate * goal.samples * goal.epochs / history.progress.total
        self._learnt.add(spec.key[0], goal.model, card, newest.width * ceil(spec.cards), samples)


def _told(managed: Managed, since: float) -> bool:
    """True if the Job has a goal, and its program has reported after `since` how fast it is at its present width."""
    history = managed.history
    if managed.spec.goal is None or history is None or not history.measured or history.at <= since:
        return False
    newest = history.measured[-1]
    return newest.seconds >= ENOUGH_S and newest.width == history.width == len(managed.pods)


def _card_models(
    managed: Managed, snapshot: Snapshot, inventories: Mapping[str, Inventory]
) -> Collection[str]:
    """The models of the cards that the Job's pods hold."""
    grants = (snapshot.grant(pod.uid) for pod in managed.pods)
    held = {(grant.node, each.card) for grant in grants if grant is not None for each in grant.slices()}
    nodes = {node for node, _ in held} & inventories.keys()
    return {
        card.model for node in nodes for card in inventories[node].cards if (node, card.uuid) in held
    }  # fmt: skip
