"""Reports of agents: slices that outlive their pod and stay held, faults of living pods, and idle pods.

An agent writes reports into its node's inventory; a report counts only for the cards of its own node, whatever pods it
names. The API server does not show whether the containers of a force-deleted pod have ended. The agent sees which of
them still run, and reports them. So the grant stays held for VANISHED_SECONDS, then for as long as a report names the
pod. If the agent or the API server is down in that time, the slices become free here, and the agent's PreStartContainer
makes a successor wait.

Reports are read again after a restart of this process. Pods that vanished less than REPORT_SECONDS before the restart
are not known then, but no replica places pods in its first seconds: its term begins 5 s after it took the Lease.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile

import msgspec

from device_plugin.core.contract.cards import (
    REPORT_SECONDS,
    Card,
    IdlePod,
    Inventory,
    ReportedSlice,
    SliceState,
)
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.ledger import Holder, ReportHolder
from device_plugin.core.pods import Node, Pod

# Seconds until an unreported slice is released: REPORT_SECONDS less the second between two looks.
VANISHED_SECONDS = REPORT_SECONDS - 1.0
# The cards of a node may change CHANGES times at once, and then once every CHANGE_SECONDS.
CHANGES, CHANGE_SECONDS = 4, 10.0
# Most nodes, and pods of a node, that a text names; a tenant may cause any number of reports.
MOST_NAMED = 3


class CardChanges:
    """Limits how often the cards of a node may change, because each change builds the arrays of cards again.

    Building these arrays (the node table) takes 0.2 s at 5,000 nodes, with the lock held, and an agent may write its
    inventory at any rate. Changes that come too often wait; until then the node keeps its old cards and gets no new
    slices. Callers hold the cluster view's lock.
    """

    def __init__(self) -> None:
        # By node: the time when all of its changes are paid off, and the change that waits.
        self._paid: dict[str, float] = {}
        self._waiting: dict[str, Node] = {}
        self._tidied = float("-inf")

    def taken(
        self, node: Node, before: Inventory | None, inventory: Inventory | None, now: float
    ) -> Inventory | None:
        """The inventory of the node to use from now on: the new one, unless its change of the cards must wait.

        While the change waits, the inventory has the old cards with the new reports, and says that the agent does not
        serve. It is None if the node had no inventory before.
        """
        self._waiting.pop(node.name, None)
        if inventory == before or _shape(inventory) == _shape(before):
            return inventory
        paid = max(now, self._paid.get(node.name, now))
        if paid - now <= (CHANGES - 1) * CHANGE_SECONDS:
            self._paid[node.name] = paid + CHANGE_SECONDS
            return inventory
        self._waiting[node.name] = node
        if before is None or inventory is None:
            return before and replace(before, serving=False)
        return replace(inventory, cards=before.cards, serving=False)

    def waits(self, node: str) -> bool:
        """True while a change of the node's cards must wait."""
        return node in self._waiting

    def forget_node(self, node: str) -> None:
        """Drop the waiting change of a node that is gone."""
        self._waiting.pop(node, None)

    def due(self, now: float) -> list[Node]:
        """The nodes whose change of cards has waited long enough to be applied now."""
        # Every decision calls this: all entries are read only every CHANGE_SECONDS, to drop old ones.
        if now >= self._tidied + CHANGE_SECONDS:
            self._tidied = now
            self._paid = {name: paid for name, paid in self._paid.items() if paid > now}
        latest = now + (CHANGES - 1) * CHANGE_SECONDS
        return [node for name, node in self._waiting.items() if self._paid.get(name, now) <= latest]


def _shape(inventory: Inventory | None) -> tuple[Card, ...]:
    """The cards of an inventory without their health and cordon, which do not change the node table."""
    cards = inventory.cards if inventory is not None else ()
    return tuple(msgspec.structs.replace(card, healthy=True, cordoned=False) for card in cards)


@dataclass(frozen=True, slots=True)
class Outliving:
    """Slices of one node that are held after the pod with this `uid` ended or was deleted.

    In the ledger, `holder` holds them: the pod until an agent reports the slices, then a ReportHolder.
    """

    namespace: str
    name: str
    uid: str
    grant: Grant
    holder: Holder


class Reports:
    """Holds the slices that agents report, and pods that vanished recently. Callers hold the cluster view's lock."""

    def __init__(self) -> None:
        # By node, then by pod UID.
        self._reported: dict[str, dict[str, Outliving]] = {}
        self._of_living: dict[str, Sequence[ReportedSlice]] = {}
        # By node, its idle pods, and the UIDs of its pods with an idle limit for which computing is not measured.
        self._idle: dict[str, Sequence[IdlePod]] = {}
        self._unmeasured: dict[str, frozenset[str]] = {}
        self._vanished: dict[str, tuple[Outliving, float]] = {}

    def outliving(self, holder: Holder) -> Outliving | None:
        """The slices that this holder has in the ledger though its pod has ended; None without any."""
        if isinstance(holder, ReportHolder):
            return self.reported(*holder)
        return self.vanished(holder) if isinstance(holder, str) else None

    def reported(self, node: str, uid: str) -> Outliving | None:
        """The slices that outlive the pod, as the agent of `node` reports; None if the agent reports none."""
        return self._reported.get(node, {}).get(uid)

    def vanished(self, uid: str) -> Outliving | None:
        """The grant of a vanished pod (gone, not seen to end, not reported by its agent); None if it is not vanished.

        A pod counts as vanished for VANISHED_SECONDS.
        """
        found, _ = self._vanished.get(uid, (None, 0.0))
        return found

    def of_living(self, node: str) -> Sequence[ReportedSlice]:
        """The agent's reports about pods that have not ended: pods whose limits may not hold, or that cannot start."""
        return self._of_living.get(node, ())

    def nodes_with_living(self) -> list[str]:
        """The names of the nodes with reports about pods that have not ended, in order."""
        return sorted(self._of_living)

    def idle(self) -> list[tuple[str, IdlePod]]:
        """The pods that their agents report as idle for their whole idle limit, each with its node, sorted by node."""
        return [(node, pod) for node, pods in sorted(self._idle.items()) for pod in pods]

    def unmeasured(self, node: str, uid: str) -> bool:
        """True if the agent of the node reports that computing is not measured for a slice of the pod."""
        return uid in self._unmeasured.get(node, ())

    def vanish(self, pod: Pod, grant: Grant, now: float) -> None:
        """Keep the grant of a bound pod that is gone and was not seen to end, unless its agent reports it already."""
        if self.reported(grant.node, pod.uid) is None:
            found = Outliving(pod.namespace, pod.name, pod.uid, grant, pod.uid)
            self._vanished[pod.uid] = found, now + VANISHED_SECONDS

    def expired(self, now: float) -> list[str]:
        """Remove and return the UIDs of pods that vanished and that no agent reported in time."""
        # The earliest come first, and 10,000 pods may vanish with their namespace.
        expired = [uid for uid, _ in takewhile(lambda item: item[1][1] <= now, self._vanished.items())]
        for uid in expired:
            del self._vanished[uid]
        return expired

    def report(self, node: str, inventory: Inventory | None) -> frozenset[str]:
        """Replace the reports of a node; returns the UIDs of pods whose slices outlive the pods, by old or new reports.

        If the new reports name a vanished pod of this node, the pod no longer counts as vanished: the report takes
        over.
        """
        reports = inventory.slices if inventory is not None else ()
        of_living = tuple(each for each in reports if each.state is not SliceState.OUTLIVING)
        self._of_living.pop(node, None)
        if of_living:
            self._of_living[node] = of_living
        self._idle.pop(node, None)
        if inventory is not None and inventory.idle:
            self._idle[node] = inventory.idle
        self._unmeasured.pop(node, None)
        if inventory is not None and inventory.unmeasured:
            self._unmeasured[node] = frozenset(inventory.unmeasured)
        before = self._reported.pop(node, {})
        named = _outliving(node, reports)
        if named:
            self._reported[node] = named
        for uid in named:
            found = self.vanished(uid)
            if found is not None and found.grant.node == node:
                del self._vanished[uid]
        return frozenset(before).union(named)

    def notes(self, nodes: Container[str]) -> dict[str, str]:
        """A text for each of `nodes` where ended pods still hold slices; the text names the pods.

        It has no counts, so it seldom changes.
        """
        return {node: self._text(node) for node in self._reported if node in nodes}

    def summary(self) -> list[str]:
        """A text for each of the first MOST_NAMED nodes, by name: which ended pods still hold slices there."""
        return [self._text(node) for node in islice(sorted(self._reported), MOST_NAMED)]

    def _text(self, node: str) -> str:
        names = sorted({f"{left.namespace}/{left.name}" for left in self._reported[node].values()})
        more = ", and others" if len(names) > MOST_NAMED else ""
        pods, its = ("pod", "its") if len(names) == 1 else ("pods", "their")
        return (
            f"slices of ended {pods} {', '.join(names[:MOST_NAMED])}{more} still run on {node}:"
            f" {its} processes have not ended"
        )


def _outliving(node: str, reports: Iterable[ReportedSlice]) -> dict[str, Outliving]:
    containers: dict[str, dict[str, tuple[Slice, ...]]] = defaultdict(dict)
    names: dict[str, tuple[str, str]] = {}
    for report in reports:
        if report.state is SliceState.OUTLIVING:
            containers[report.pod][report.container] = report.slices
            names[report.pod] = report.namespace, report.pod_name
    return {
        uid: Outliving(*names[uid], uid, Grant(uid, node, held), ReportHolder(node, uid))
        for uid, held in containers.items()
    }
