"""Slices that are held though their pod's object no longer holds them, and pods whose mounted files are covered.

Both are learnt from the agents, which report them in their node's inventory; what one says is believed of its own
node's cards and of nothing else, whatever pods it names. A pod that is force-deleted leaves no word
on whether its containers have ended. Its agent looks, and reports those that still run; so what it was granted stays
held for REPORT_SECONDS, and after that for as long as a report names it. If the agent or the API server are down in
that time the slices are free here, and the agent's PreStartContainer keeps a successor waiting.

Reports can be read again after a restart. What vanished less than REPORT_SECONDS before one is not known then, but no
replica places in its first seconds: its term begins 5 s after it took the Lease.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile

from device_plugin.core.cards import REPORT_SECONDS, Card, Inventory, ReportedSlice, SliceState
from device_plugin.core.grants import Grant, Slice
from device_plugin.core.pods import Node, Pod

# Slices are free within REPORT_SECONDS, and somebody looks once a second.
VANISHED_SECONDS = REPORT_SECONDS - 1.0
# The cards of a node may change CHANGES times at once, and then once in CHANGE_SECONDS.
CHANGES, CHANGE_SECONDS = 4, 10.0
# Nodes and pods of a node that a text names; a tenant may leave any number behind.
MOST_NAMED = 3


class CardChanges:
    """Bounds how often a node's cards may be others: each time the cards of all nodes are laid out anew for placement.

    That takes 0.2 s at 5,000 nodes, under the lock, and an agent may write its inventory at any rate. What changes too
    often counts as before, but gets nothing new, until its turn has come. Callers hold the view's lock.
    """

    def __init__(self) -> None:
        # By node: when all of its changes are paid off, and what waits for its turn.
        self._paid: dict[str, float] = {}
        self._waiting: dict[str, Node] = {}
        self._tidied = float("-inf")

    def taken(
        self, node: Node, before: Inventory | None, inventory: Inventory | None, now: float
    ) -> Inventory | None:
        """The part of the node's new inventory that counts from now on: health, reports and loads always do."""
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
        return replace(before, serving=False, slices=inventory.slices)

    def waits(self, node: str) -> bool:
        """True while the node's cards count as before."""
        return node in self._waiting

    def forget(self, node: str) -> None:
        """The node is gone."""
        self._waiting.pop(node, None)

    def due(self, now: float) -> list[Node]:
        """The nodes whose cards may change now."""
        # Every decision asks: nodes are gone through where one waits, and now and then to forget what is paid off.
        if now >= self._tidied + CHANGE_SECONDS:
            self._tidied = now
            self._paid = {name: paid for name, paid in self._paid.items() if paid > now}
        latest = now + (CHANGES - 1) * CHANGE_SECONDS
        return [node for name, node in self._waiting.items() if self._paid.get(name, now) <= latest]


def _shape(inventory: Inventory | None) -> tuple[Card, ...]:
    """What is laid out of the cards: all that stays while they are healthy or not, cordoned or not."""
    cards = inventory.cards if inventory is not None else ()
    return tuple(replace(card, healthy=True, cordoned=False) for card in cards)


@dataclass(frozen=True, slots=True)
class Outliving:
    """Slices of one node that are held after the pod of this `uid` ended or was deleted.

    Until an agent has named them their holder in the ledger is the pod; from then on it is `holder` of node and pod,
    because other nodes may name the same pod.
    """

    namespace: str
    name: str
    uid: str
    grant: Grant


class Reports:
    """The slices that agents report, and the pods that vanished just now. Callers hold the view's lock."""

    def __init__(self) -> None:
        # By node, then by pod.
        self._reported: dict[str, dict[str, Outliving]] = {}
        self._covered: dict[str, Sequence[ReportedSlice]] = {}
        self._vanished: dict[str, tuple[Outliving, float]] = {}

    def outliving(self, holder: str) -> Outliving | None:
        """The grant that this holder has in the ledger although its pod has ended."""
        uid, _, node = holder.partition("@")
        return self.reported(node, uid) if node else self.vanished(uid)

    def reported(self, node: str, uid: str) -> Outliving | None:
        """The slices that the agent of a node reports of a pod."""
        return self._reported.get(node, {}).get(uid)

    def vanished(self, uid: str) -> Outliving | None:
        """The grant of a pod when it vanished, for as long as its agent may still report it."""
        found, _ = self._vanished.get(uid, (None, 0.0))
        return found

    def covered(self, node: str) -> Sequence[ReportedSlice]:
        """The containers on a node in which a mount hides our files."""
        return self._covered.get(node, ())

    def nodes_with_covered(self) -> list[str]:
        """The nodes that report such containers, in order."""
        return sorted(self._covered)

    def vanish(self, pod: Pod, grant: Grant, now: float) -> None:
        """Note that a bound pod is gone without a terminal phase."""
        if self.reported(grant.node, pod.uid) is None:
            found = Outliving(pod.namespace, pod.name, pod.uid, grant)
            self._vanished[pod.uid] = found, now + VANISHED_SECONDS

    def expired(self, now: float) -> list[str]:
        """Pods that vanished and that no agent has named in time; they are forgotten here."""
        # The longest gone come first, and ten thousand may vanish with their namespace.
        expired = [uid for uid, _ in takewhile(lambda item: item[1][1] <= now, self._vanished.items())]
        for uid in expired:
            del self._vanished[uid]
        return expired

    def report(self, node: str, inventory: Inventory | None) -> frozenset[str]:
        """Take a node's reports in place of those of before; returns the uids of the pods that they may concern."""
        reports = inventory.slices if inventory is not None else ()
        covered = tuple(each for each in reports if each.state is SliceState.COVERED)
        self._covered.pop(node, None)
        if covered:
            self._covered[node] = covered
        before = self._reported.pop(node, {})
        named = _outliving(node, reports)
        if named:
            self._reported[node] = named
        for uid in named:
            found = self.vanished(uid)
            if found is not None and found.grant.node == node:
                del self._vanished[uid]
        return frozenset(before).union(named)

    def notes(self, nodes: Iterable[str]) -> dict[str, str]:
        """For each of `nodes` with slices of ended pods, a text that names these pods.

        It has no counts, so it seldom changes.
        """
        if not self._reported:
            return {}
        return {node: self._text(node) for node in nodes if node in self._reported}

    def summary(self) -> list[str]:
        """Those texts of the first MOST_NAMED such nodes."""
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
        uid: Outliving(*names[uid], uid, Grant(holder(node, uid), node, held))
        for uid, held in containers.items()
    }


def holder(node: str, uid: str) -> str:
    """The holder in the ledger of the slices that a node's agent reports of a pod."""
    return f"{uid}@{node}"
