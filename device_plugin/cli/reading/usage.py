"""Usage over a time: hours of slices and of cards that pods held and used, from a Prometheus that scrapes the agents.

A slice counts as the part of its card that nobody else could have: the larger of its shares of memory and of core
groups. So a quarter of a card for 4 hours is 1 card-hour.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from device_plugin.cli.access.prometheus import Prometheus, PrometheusSeries
from device_plugin.cli.reading.held_use import sum_if_known
from device_plugin.cli.reading.slice_use import COMPUTE, LIMIT, USED, matchers_of_agents, own_labels, query_of
from device_plugin.cli.reading.waste import Owner

HOUR = 3600.0
# The series are read at this number of moments at most, with at least LEAST_STEP seconds between two of them.
MOST_MOMENTS, LEAST_STEP = 2000, 60.0
# Seconds in which Prometheus must answer a query over a long time.
PATIENCE_SECONDS = 120.0
OWNER = "vgpu:pod_owner:info"
UNKNOWN = Owner("?", "?")
_GROUPS = "vgpu_slice_core_groups"
_MEMORY_OF_CARD, _GROUPS_OF_CARD = "vgpu_card_memory_bytes", "vgpu_card_core_groups"
_POD = "namespace, pod, exported_namespace, exported_pod"
PodName = tuple[str, str]
"""Namespace and name."""


class Usage(NamedTuple):
    """The hours of pods of one owner, or of a whole namespace (then `owner` is None).

    `slices` counts hours of slices, and `cards` hours of cards. `memory` counts only the used share of the cards'
    memory, and `busy` only the share of the cards' core groups that computed, both in hours of cards. A sum is None if
    it is not measured for one of the pods.
    """

    namespace: str
    owner: Owner | None
    slices: float
    cards: float
    memory: float | None
    busy: float | None


class UsageQueries(NamedTuple):
    """Makes the PromQL queries about the last `seconds`, for pods of `namespace` (empty: of all).

    `agents` is the namespace of the node agents. The queries are for the moment `until`, in seconds since 1970; None is
    now.
    """

    agents: str
    namespace: str
    seconds: float
    until: float | None = None

    @property
    def step(self) -> float:
        """Returns the seconds between two moments at which the series are read."""
        return max(LEAST_STEP, -(-self.seconds // MOST_MOMENTS))

    def slices(self) -> str:
        """Returns the query for the slice-hours of each pod: the hours for which it held each slice, added up."""
        return self._hours(f"{self._of(LIMIT)} ^ 0")

    def cards(self) -> str:
        """Returns the query for the card-hours of each pod.

        A slice counts as a part of a card: its share of memory or its share of core groups, whichever is larger.
        """
        memory, groups = _share(self._of(LIMIT), self._cards(_MEMORY_OF_CARD)), self._groups()
        return self._hours(f"({memory} > {groups}) or {groups}")

    def memory(self) -> str:
        """Returns the query for the card-hours of each pod.

        A slice counts as a part of a card: the share of the card's memory that the slice has in use.
        """
        return self._hours(_share(self._of(USED), self._cards(_MEMORY_OF_CARD)))

    def busy(self) -> str:
        """Returns the query for the card-hours of each pod.

        A slice counts as a part of a card: the share of the card's core groups that compute for the slice.
        """
        return self._hours(f"{self._of(COMPUTE)} * {self._groups()}")

    def owners(self) -> str:
        """Returns the query for the owners of pods."""
        where = f"{{namespace={json.dumps(self.namespace)}}}" if self.namespace else ""
        by = "namespace, pod, owner_kind, owner_name"
        return f"max by ({by}) (max_over_time({OWNER}{where}[{self.seconds:.0f}s]))"

    def _groups(self) -> str:
        """Returns the query for the share of its card's core groups that each slice holds."""
        return f"({_share(self._of(_GROUPS), self._cards(_GROUPS_OF_CARD))})"

    def _of(self, metric: str) -> str:
        return query_of(metric, self.agents, self.namespace)

    def _cards(self, metric: str) -> str:
        return f"max by (node, card) ({metric}{{{matchers_of_agents(self.agents)}}})"

    def _hours(self, values: str) -> str:
        """Returns the query for each pod's sum of `values` over the last `seconds`.

        Each value is multiplied by the hours for which it holds.
        """
        # A second less: Prometheus 2 reads the moment at the beginning too, and Prometheus 3 does not.
        over = f"sum_over_time(({values})[{self.seconds - 1:.0f}s:{self.step:.0f}s])"
        return f"sum by ({_POD}) ({over}) * {self.step:.0f} / {HOUR:.0f}"


def _share(amount: str, whole: str) -> str:
    return f"{amount} / on (node, card) group_left () {whole}"


def read_usage(prometheus: Prometheus, queries: UsageQueries) -> Sequence[Usage]:
    """Returns the usage of each pod that held slices in the time of the queries. Raises PrometheusError."""
    texts = queries.slices(), queries.cards(), queries.memory(), queries.busy()
    slices, cards, memory, busy = (_by_pod(prometheus.now(text, queries.until)) for text in texts)
    owners = {
        (each.labels.get("namespace", ""), each.labels.get("pod", "")): Owner(
            each.labels.get("owner_kind", ""), each.labels.get("owner_name", "")
        )
        for each in prometheus.now(queries.owners(), queries.until)
    }
    # Without the rule, nothing is known of owners; with it, a pod that has none is its own.
    return [
        Usage(
            pod[0], owners.get(pod, Owner("Pod", pod[1]) if owners else UNKNOWN), hours, cards.get(pod, 0.0),
            memory.get(pod), busy.get(pod),
        )
        for pod, hours in slices.items()
    ]  # fmt: skip


def _by_pod(series: Iterable[PrometheusSeries]) -> Mapping[PodName, float]:
    """Returns the sum of the values of each pod's series; negative and infinite values are left out."""
    found: dict[PodName, float] = {}
    for each in series:
        namespace, pod, _ = own_labels(each.labels)
        value = each.values[-1][1]
        if 0 <= value < float("inf"):
            found[namespace, pod] = found.get((namespace, pod), 0.0) + value
    return found


def summed(pods: Iterable[Usage], *, owners: bool) -> Sequence[Usage]:
    """Returns the pods' usage added up by namespace and owner, or by namespace alone; the most card-hours first."""
    found: dict[tuple[str, Owner | None], Usage] = {}
    for each in pods:
        key = each.namespace, each.owner if owners else None
        before = found.get(key, Usage(*key, 0.0, 0.0, 0.0, 0.0))
        found[key] = Usage(
            *key, before.slices + each.slices, before.cards + each.cards,
            sum_if_known(before.memory, each.memory), sum_if_known(before.busy, each.busy),
        )  # fmt: skip
    return sorted(found.values(), key=lambda usage: (-usage.cards, usage.namespace, usage.owner or UNKNOWN))
