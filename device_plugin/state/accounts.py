"""Keeps the ledger's holdings (its entries) in agreement with the known pods, nodes and reports of agents.

The ledger holds the grant of every bound pod that has not ended, every reservation, the slices of containers that
outlive their pod, and the slices that are kept for jobs. Callers hold the cluster view's lock.
"""

from collections.abc import Collection
from typing import Protocol

from device_plugin.core.contract.cards import Inventory
from device_plugin.core.errors import AnnotationError
from device_plugin.core.hosts import NOTHING, HostAmounts
from device_plugin.core.ledger import Holder, Holding, Ledger, ReportHolder, ReservationStage
from device_plugin.core.pods import Pod
from device_plugin.state.faults import Fault, Faults
from device_plugin.state.pods import KnownPods, sound_grant
from device_plugin.state.promises import Promises
from device_plugin.state.reports import Outliving, Reports


class Follower(Protocol):
    """Receives each change of a pod that asks for slices or holds some. The cluster view's lock is held."""

    def see(self, pod: Pod, before: Pod | None) -> None:
        """Receive a pod's new state before the ledger shows it; `before` is the earlier state, None for a new pod."""

    def account(self, pod: Pod, before: Pod | None, *, changed: bool) -> None:
        """Receive a pod's new state after the ledger shows it; `before` is the earlier state, None for a new pod.

        `changed` is true for a new pod, and if the two states differ in something that concerns slices or waiting pods.
        """

    def claim_changed(self, pod: Pod) -> None:
        """Receive an unbound pod of which a ResourceClaim was created, changed or deleted."""

    def forget_pod(self, uid: str) -> None:
        """Remove a pod that is gone, or that cannot be read any more."""

    def give_back(self, holder: Holder) -> None:
        """Release the holder's reservation, because it overlaps with slices of other holders.

        Only a reservation that waits for its Binding is released.
        """


class Accounts:
    """Writes holdings to the ledger, and reports each change of a pod to the followers."""

    def __init__(
        self, ledger: Ledger, pods: KnownPods, reports: Reports, promises: Promises, faults: Faults
    ) -> None:
        self._ledger = ledger
        self._pods = pods
        self._reports = reports
        self._promises = promises
        self._faults = faults
        self._suspects: set[str] = set()
        self.followers: list[Follower] = []

    def take_suspects(self) -> set[str]:
        """Return the set of nodes whose grants may overlap, and empty it."""
        suspects, self._suspects = self._suspects, set()
        return suspects

    def suspect(self, node: str) -> None:
        """Add a node whose grants may overlap, so that they are checked later."""
        self._suspects.add(node)

    # Pods

    def account(self, pod: Pod) -> None:
        """Write the pod's present slices to the ledger: hold the slices of a bound pod, free those of an ended pod.

        Nothing changes for an unbound pod. A fault of the pod's grant is recorded, or cleared.
        """
        if pod.ended:
            self._faults.clear("grant", pod.uid)
            self.free(pod.uid)
        elif pod.node:
            self._account_bound(pod)

    def account_host(self, pod: Pod) -> None:
        """Hold the CPU, memory and disk of a pod that asks for no slice; free them if it has ended or has no node."""
        if pod.ended or not pod.node:
            self.free(pod.uid)
        else:
            self._ledger.put(Holding(holder=pod.uid, node=pod.node, host=pod.host))

    def reserves(self, uid: str) -> bool:
        """True if the pod has a reservation."""
        return self._ledger.reservation(uid) is not None

    def vanish(self, uid: str, now: float) -> None:
        """Record at the time `now` that a bound pod is gone and was not seen to end: its slices stay held.

        They stay held for some seconds, in which its node's agent can report them. A pod whose Binding got no clear
        answer counts as bound.
        """
        pod, grant, reservation = self._pods.get(uid), self._ledger.grant(uid), self._ledger.reservation(uid)
        unknown = reservation is not None and reservation.stage is ReservationStage.UNKNOWN
        if pod is not None and grant is not None and (pod.node or unknown) and not pod.ended:
            self._reports.vanish(pod, grant, now)

    def forget_pod(self, uid: str) -> None:
        """Remove a pod that is not known any more: its faults, what the followers keep about it, and its slices."""
        self._faults.clear("grant", uid)
        for follower in self.followers:
            follower.forget_pod(uid)
        self.free(uid)

    def free(self, uid: str) -> None:
        """Free the pod's slices in the ledger, and its CPU, memory and disk of the host.

        Slices that the pod's processes may still use stay held: the slices of a pod that vanished (it is gone, but was
        not seen to end), and slices that an agent reports.
        """
        before, vanished = self._ledger.holding(uid), self._reports.vanished(uid)
        if vanished is not None:
            self._keep(vanished)
        else:
            self._ledger.release(uid)
        if before is not None:
            self._hold_reported(before.node, uid)

    def free_ended(self, uid: str) -> None:
        """Free the slices of a pod that has ended or is not known; slices that are only reserved stay held."""
        if not self._lives(uid) and self._ledger.reservation(uid) is None:
            self.free(uid)

    def free_hosts(self, listed: Collection[str]) -> None:
        """Free the CPU, memory and disk of each pod that has no slices, is not known, and whose UID is not `listed`."""
        hosts = [holder for holder, held in self._ledger.holdings().items() if held.grant is None]
        for holder in hosts:
            if isinstance(holder, str) and holder not in listed and self._pods.get(holder) is None:
                self.free(holder)

    # Nodes

    def set_inventory(self, name: str, inventory: Inventory | None, whole: HostAmounts = NOTHING) -> None:
        """Record the cards of a node (None: it has none); `whole` is all CPU, memory and disk of its host.

        If the inventory has changed, the slices that its agent reports are held, and slices that it no longer reports
        are freed. The promises on the node (slices kept for jobs) are updated.
        """
        known = self._ledger.node(name)
        if inventory is None:
            self._ledger.drop_node(name)
        else:
            self._ledger.set_node(name, inventory, whole)
        if inventory != (known.inventory if known is not None else None):
            for uid in self._reports.report(name, inventory):
                own = self._ledger.grant(uid)
                if own is not None and own.node == name:
                    self.free_ended(uid)
                self._hold_reported(name, uid)
            self._promises.changed(name)

    def _account_bound(self, pod: Pod) -> None:
        try:
            grant = sound_grant(pod, self._ledger.reservation(pod.uid))
            self._faults.clear("grant", pod.uid)
        except AnnotationError as error:
            grant = None
            self._faults.put(pod.uid, Fault("grant", f"{pod.namespace}/{pod.name}", str(error)))
        held = Holding(holder=pod.uid, node=pod.node, grant=grant, host=pod.host)
        for conflict in self._ledger.put(held):
            reserved = self._ledger.reservation(conflict.other) is not None
            self._give_back(conflict.other)
            if not reserved and self._lives(conflict.other):
                # A pod that overlaps with an ended pod's slice is not deleted: the agent makes it wait.
                self._suspects.add(pod.node)
        self._hold_reported(pod.node, pod.uid)

    def _hold_reported(self, node: str, uid: str) -> None:
        """Hold the slices that a node's agent reports for a pod, unless the ledger has the pod's own entry there.

        If there are no such slices to hold, the entry of an earlier report is released. The promises on the node
        (slices kept for jobs) are updated.
        """
        own, left = self._ledger.holding(uid), self._reports.reported(node, uid)
        if left is not None and (own is None or own.node != node):
            self._keep(left)
        else:
            self._ledger.release(ReportHolder(node, uid))
        self._promises.changed(node, uid)

    def _keep(self, left: Outliving) -> None:
        """Hold the slices in `left`, which outlive their pod, and end the reservations that overlap with them."""
        holding = Holding(holder=left.holder, node=left.grant.node, grant=left.grant)
        if self._ledger.holding(left.holder) == holding:
            return
        self._ledger.put(holding)
        for conflict in self._ledger.in_the_way(left.grant, left.holder):
            self._give_back(conflict.other)

    def _give_back(self, holder: Holder) -> None:
        for follower in self.followers:
            follower.give_back(holder)

    def _lives(self, holder: Holder) -> bool:
        """True if the holder is a known pod that has not ended."""
        pod = self._pods.get(holder)
        return pod is not None and not pod.ended
