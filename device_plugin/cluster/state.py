"""All that the cluster service knows, under one lock: pods, inventories, the ledger, reservations, faults.

The ledger holds the grant of every bound pod that has not ended, every reservation, and what containers hold that
outlive their pod. What is known of a pod only
moves forward (unbound, bound, ended, gone), so watch events, lists, reads and our own bindings may come in any order.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from device_plugin.cluster import learning, preemption_queue, refusals, reports
from device_plugin.cluster.faults import Fault, Faults
from device_plugin.cluster.gang_members import Name
from device_plugin.cluster.gangs import Gangs
from device_plugin.cluster.groups import Groups
from device_plugin.cluster.learning import Learning
from device_plugin.cluster.loads import Measured
from device_plugin.cluster.node_lists import NodeLists
from device_plugin.cluster.pods import KnownPods, alike, concerns_us, sound_grant, taken_back
from device_plugin.cluster.preemption_queue import Pending, PreemptionQueue
from device_plugin.cluster.refusal_budget import RefusalBudget
from device_plugin.cluster.refusals import Refusals, WaitingPods
from device_plugin.cluster.reports import CardChanges, Reports
from device_plugin.core.annotations import GROUP
from device_plugin.core.app_types import Scoring
from device_plugin.core.cards import Inventory
from device_plugin.core.errors import AnnotationError, RequestError
from device_plugin.core.grants import Grant
from device_plugin.core.hosts import NOTHING, HostAmounts
from device_plugin.core.ledger import Holding, Ledger, Reservation, Snapshot, Stage
from device_plugin.core.placement import Placer, Refusal, Refused, workload
from device_plugin.core.placement.place import BY_DEFAULT
from device_plugin.core.placement.policies import NODE_SCORE
from device_plugin.core.pods import Node, Pod
from device_plugin.core.rearrange import Planner
from device_plugin.core.reasons import Reason
from device_plugin.core.requests import PodRequest, pod_request, resource_names

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Bound:
    """How much is kept of what grows with pods, the most that is, and how much was left out so far."""

    count: int
    most: int
    left_out: int


class State:
    """Take `lock` around several calls that belong together; each call takes it too."""

    def __init__(
        self, prefixes: Sequence[str], reservation_seconds: float, clock: Callable[[], float],
        scoring: Scoring = BY_DEFAULT, stale_seconds: float = 60.0,
    ) -> None:  # fmt: skip
        self.lock = threading.RLock()
        self.prefixes = tuple(prefixes)
        self.ledger = Ledger()
        self.measured = Measured(self.ledger, stale_seconds, clock)
        self.groups = Groups(self.ledger)
        self.faults = Faults()
        self.reports = Reports()
        self._card_changes = CardChanges()
        self.pods_listed = False
        self.nodes_listed = False
        self._clock = clock
        self._reservation_seconds = reservation_seconds
        self.placer = Placer(self.ledger, loads=self.measured.loads, scoring=scoring)
        self.budget = RefusalBudget()
        node_lists = NodeLists(self.placer.table)
        self.preemption_queue = PreemptionQueue(node_lists)
        self.refusals = Refusals(self.ledger, self.placer)
        self.waiting = WaitingPods(self.ledger, node_lists)
        self.planner = Planner(self.ledger, self.placer)
        self.gangs = Gangs(
            self.ledger,
            self.placer,
            self.groups,
            reservation_seconds,
            self.request_of,
            node_lists,
            self.budget,
            clock,
        )
        self._resources = {name for prefix in prefixes for name in resource_names(prefix)}
        self._known = KnownPods()
        self.learning = Learning(self.request_of, self._known.get)
        self._suspects: set[str] = set()

    def why_not_synced(self) -> str:
        """What was not listed yet, in words; empty if all was."""
        missing = [("nodes", self.nodes_listed), ("pods", self.pods_listed)]
        absent = " and ".join(what for what, listed in missing if not listed)
        return f"{absent} were not listed yet" if absent else ""

    # Pods

    def pod(self, uid: str) -> Pod | None:
        """The pod with this uid, if it asks for slices or holds some. Nobody waits for it."""
        return self._known.get(uid)

    def pods(self) -> list[Pod]:
        """All pods that ask for slices or hold some, ended ones that still exist included. Nobody waits for it."""
        return self._known.all()

    def is_gone(self, uid: str) -> bool:
        """True if the pod existed and was seen to be gone."""
        with self.lock:
            return self._known.is_gone(uid)

    def unconfirmed(self, before: float) -> list[Pod]:
        """Pods that the watch has not shown, without news since `before`: they may be gone unheard of."""
        with self.lock:
            return self._known.unconfirmed(before)

    def see_pod(self, pod: Pod, *, watched: bool) -> None:
        """Take news of a pod, from the watch or from elsewhere."""
        with self.lock:
            before = self._known.get(pod.uid)
            if self._known.is_gone(pod.uid):
                return
            if before is None and not concerns_us(pod, self._resources):
                self._note_host(pod)
                return
            if before is None:
                self.learning.arrived(pod, self._clock() if self.pods_listed else float("-inf"))
            now = self._known.see(pod, self._clock(), watched=watched)
            self.groups.see(now)
            gang = self.gangs.see(now, self._clock())
            if before is None or not alike(before, now):
                self._account(now, before)
            self._release_incomplete(gang)

    def forget_pod(self, uid: str, *, ended: bool = False) -> None:
        """The pod object is gone. Its slices are free, unless it was bound and neither we nor the caller saw it end."""
        with self.lock:
            self._leave(uid)
            pod, grant = self._known.get(uid), self.ledger.grant(uid)
            reservation = self.ledger.reservation(uid)
            unknown = reservation is not None and reservation.stage is Stage.UNKNOWN
            if pod is not None and grant is not None and (pod.node or unknown) and not (pod.ended or ended):
                self.reports.vanish(pod, grant, self._clock())
            self.groups.forget(uid)
            gang = self.gangs.forget(uid)
            if self._known.get(uid) is None and self.ledger.reservation(uid) is None:
                return
            self._known.forget(uid)
            self.faults.clear("grant", uid)
            self.preemption_queue.drop(uid)
            self.waiting.drop(uid)
            self.learning.forget(uid)
            self.release(uid)
            self._release_incomplete(gang)

    def sync_pods(self, pods: Iterable[Pod]) -> None:
        """Take a list of all pods from the watch; what it had shown before and shows no more is gone."""
        with self.lock:
            listed = set()
            # In the order of their arrival: the newer count more for what is to be expected.
            for pod in sorted(pods, key=lambda pod: pod.created):
                listed.add(pod.uid)
                self.see_pod(pod, watched=True)
            for uid in self._known.vanished(listed):
                self.forget_pod(uid)
            for holder in self.ledger.holdings().keys() - listed:
                if self._known.get(holder) is None:
                    self._leave(holder)
            self.pods_listed = True

    # Nodes

    def see_node(self, node: Node) -> None:
        """Take a node's inventory; an unusable one counts as none, and the grants on the node stay held."""
        with self.lock:
            fault, inventory = "", None
            try:
                inventory = node.shared()
            except AnnotationError as error:
                fault = str(error)
            taken = self._card_changes.taken(node, self.inventory(node.name), inventory, self._clock())
            if self._card_changes.waits(node.name):
                fault = fault or "its cards change too often"
            if fault:
                self.faults.put(node.name, Fault("inventory", node.name, fault))
            else:
                self.faults.clear("inventory", node.name)
            # Of the thousands of nodes without cards nothing need be known.
            self._set_inventory(node.name, taken, node.room)

    def forget_node(self, name: str) -> None:
        """The node object is gone; the grants of its pods stay held until the pods are gone."""
        with self.lock:
            self.faults.clear("inventory", name)
            self._card_changes.forget(name)
            self._set_inventory(name, None)

    def sync_nodes(self, nodes: Iterable[Node]) -> None:
        """Take a list of all nodes."""
        with self.lock:
            listed = set()
            for node in nodes:
                listed.add(node.name)
                self.see_node(node)
            for name in (set(self.ledger.nodes()) | self.faults.keys("inventory")) - listed:
                self.forget_node(name)
            self.nodes_listed = True

    def suspects(self) -> set[str]:
        """Nodes where grants may overlap, each told once."""
        with self.lock:
            suspects, self._suspects = self._suspects, set()
            return suspects

    def suspect(self, node: str) -> None:
        """Look at the node's grants again later."""
        with self.lock:
            self._suspects.add(node)

    def written(self, grant: Grant) -> str:
        """The grant's annotation, with the names that the agent of its node has for the cards."""
        inventory = self.inventory(grant.node)
        cards = inventory.cards if inventory is not None else ()
        return grant.renamed({card.uuid: card.known_as for card in cards if card.known_as}).encode()

    def inventory(self, node: str) -> Inventory | None:
        """The node's inventory, if its agent publishes one."""
        with self.lock:
            known = self.ledger.node(node)
        return known.inventory if known is not None else None

    def grants_on(self, node: str) -> list[tuple[Pod, Grant]]:
        """Bound pods that hold slices on a node."""
        with self.lock:
            held = [(pod, self.ledger.grant(pod.uid)) for pod in self._known.on(node)]
            return [(pod, grant) for pod, grant in held if grant is not None]

    # Reservations

    def reserve(
        self, pod: Pod, request: PodRequest, nodes: Sequence[str], *, named: bool = False
    ) -> Reservation | Refused:
        """Place on one of `nodes` and hold it, in place of what the pod had reserved before.

        A pod of a gang keeps what it had if that is there, and if it had nothing, all of its gang are placed, or none:
        on `nodes`, unless the one node is `named` for this pod.
        """
        with self.lock:
            self.expire()
            if not named and (wrong := self.groups.problem((pod.namespace, pod.label(GROUP)))):
                refused = Refused(partial(Refusal, {}, {Reason.MALFORMED: 1}, said=wrong))
                known = self._known.get(pod.uid) or pod
                self.waiting.note(known, nodes, refused, gang=request.gang is not None, by_cards=False)
                return refused
            if request.gang is not None:
                if self._known.get(pod.uid) is None:
                    self.see_pod(pod, watched=False)
                found = self.gangs.reserve(pod, request, nodes, self._clock(), named=named)
                if isinstance(found, Reservation):
                    self.waiting.drop(pod.uid)
                    return found
                refused = Refused(lambda: found)
                if not named:
                    known = self._known.get(pod.uid) or pod
                    self.waiting.note(known, nodes, refused, gang=True, by_cards=False)
                return refused
            before = self.ledger.reservation(pod.uid)
            self.release(pod.uid)
            request, answer = self._decided(pod, request, nodes)
            if isinstance(answer, Refused):
                # What is kept for long is the pod that is known anyway.
                pod = self._known.get(pod.uid) or pod
                self._queue_preemption(Pending(pod, request, nodes), before)
                if not named:
                    self.waiting.note(pod, nodes, answer, gang=False)
                return answer
            made = Reservation.for_pod(pod, request, answer, self._clock() + self._reservation_seconds)
            self.ledger.put(made)
            self.preemption_queue.drop(pod.uid)
            self.waiting.drop(pod.uid)
            return made

    def news(self) -> object:
        """A value that changes whenever a refused pod may fit again."""
        return self.ledger.freed, self.gangs.news, self.groups.news

    def bounds(self) -> Mapping[str, Bound]:
        """All that grows with pods that wait, beside the pods themselves."""
        scores, learnt = self.placer.scores, self.learning
        return {
            "refusals": Bound(len(self.refusals), refusals.MOST, self.refusals.left_out),
            "refused": Bound(len(self.waiting), refusals.MOST_WAITING, self.waiting.left_out),
            "preempting": Bound(
                len(self.preemption_queue), preemption_queue.MOST, self.preemption_queue.left_out
            ),
            "scores": Bound(len(scores), scores.most, scores.left_out),
            "asks": Bound(len(learnt.target), workload.MOST_COUNTED, learnt.target.left_out),
            "arriving": Bound(len(learnt), learning.MOST_NEW, learnt.left_out),
        }

    def prepare(self, request: PodRequest, nodes: Sequence[str]) -> None:
        """Do before the lock is taken what a decision for the request would else do behind it."""
        if request.gang is not None:
            return
        if self.refusals.knows(request):
            # The nodes of a refused pod are remembered.
            self.placer.table.chosen(nodes)
        else:
            self.placer.prepare(request, nodes)

    def resume(self, pending: Pending) -> None:
        """What the pod was nominated for did not come free: it waits to preempt again."""
        with self.lock:
            found = self.ledger.reservation(pending.pod.uid)
            if found is not None and found.stage is Stage.NOMINATED:
                self.release(pending.pod.uid)
                self.preemption_queue.add(pending)

    def nominate(self, pending: Pending, grant: Grant, seconds: float) -> None:
        """Hold `grant` for the pending pod for `seconds`.

        Until the evicted pods have ended it counts beside theirs.
        """
        with self.lock:
            until = self._clock() + seconds
            self.ledger.put(Reservation.for_pod(pending.pod, pending.request, grant, until, Stage.NOMINATED))

    def claim(self, uid: str, node: str) -> Reservation | None:
        """The pod's waiting reservation on `node`, which is BINDING from now on; None if it has none."""
        with self.lock:
            self.expire()
            found = self.ledger.reservation(uid)
            if found is None or found.stage is not Stage.WAITING or found.grant.node != node:
                return None
            if not self.ledger.fits_still(found.grant):
                # Since it was chosen the card was cordoned, fell sick or reports less: nothing new is bound to it.
                self.release(uid)
                return None
            claimed = replace(found, stage=Stage.BINDING, sent=self._clock(), expires=inf)
            self.ledger.put(claimed)
            return claimed

    def unknown(self, reservation: Reservation) -> Reservation | None:
        """Nobody knows what became of its Binding; None if the reservation ended meanwhile."""
        with self.lock:
            found = self.ledger.reservation(reservation.pod.uid)
            if found is None:
                return None
            unknown = replace(found, stage=Stage.UNKNOWN)
            self.ledger.put(unknown)
            return unknown

    def snapshot(self) -> Snapshot:
        """What is held now, to be read without the lock."""
        with self.lock:
            return self.ledger.snapshot()

    def notes(self, nodes: Iterable[str]) -> Mapping[str, str]:
        """What a refusal says of those nodes where slices outlive their pod."""
        with self.lock:
            return self.reports.notes(nodes)

    def release(self, uid: str) -> None:
        """End the pod's reservation and grant, and the reservations of its gang as long as nobody of it is bound."""
        with self.lock:
            self._free(uid)
            self._release_incomplete(self.gangs.name(uid))

    def give_back(self, uid: str) -> None:
        """The pod was preempted or refused before it was bound: what is reserved for it is free."""
        with self.lock:
            found = self.ledger.reservation(uid)
            if found is not None and found.stage is Stage.WAITING:
                log.info("reservation given back pod=%s/%s", found.pod.namespace, found.pod.name)
                self.release(uid)

    def release_unbound(self, uid: str) -> None:
        """End the pod's reservation, or in a gang let it wait again; what a binding that became known holds stays."""
        with self.lock:
            found = self.ledger.reservation(uid)
            if found is not None and not self.gangs.put_back(found, self._clock()):
                self._free(uid)

    def expire(self) -> None:
        """Release the reservations that nobody came to bind."""
        with self.lock:
            self.measured.expire()
            now = self._clock()
            for uid in self.reports.expired(now):
                self._expire_vanished(uid)
            for node in self._card_changes.due(now):
                self.see_node(node)
            for uid in (*self.ledger.expired(now), *self.gangs.expired(now)):
                log.info("reservation expired pod=%s", uid)
                self.release(uid)

    def drop_reservations(self) -> None:
        """Release all but those whose Binding is on its way: what becomes of these is still to be learnt."""
        with self.lock:
            for reservation in self.ledger.reservations():
                if not reservation.under_way:
                    self.release(reservation.pod.uid)
            self.preemption_queue.clear()
            self.waiting.clear()

    def in_group(self, pod: Pod, request: PodRequest) -> PodRequest:
        """The request, with the pod's rank in its group where its placement policy looks at that."""
        if request.policy != NODE_SCORE:
            return request
        with self.lock:
            return replace(request, rank=self.groups.rank(pod))

    def request_of(self, pod: Pod) -> PodRequest | None:
        """What the pod asks for, or None. Raises RequestError."""
        return pod_request(pod, self.prefixes)

    # Behind the lock

    def _decided(
        self, pod: Pod, request: PodRequest, nodes: Sequence[str]
    ) -> tuple[PodRequest, Grant | Refused]:
        """What is decided for a pod, and the request with the pod's rank in its group.

        Most pods are refused by the cards alone, and most of these refusals are remembered: the rank of such a pod is
        not computed.
        """
        answer: Grant | Refused | None = self.refusals.get(pod, request, nodes)
        if answer is not None:
            return request, answer
        if request.policy == NODE_SCORE and pod.label(GROUP):
            answer = self.placer.hopeless(request, nodes, vetted=True)
            if answer is None:
                request = self.in_group(pod, request)
                answer = self.refusals.get(pod, request, nodes)
                if answer is not None:
                    return request, answer
        answer = answer or self.placer.decide(request, nodes, vetted=True)
        if isinstance(answer, Refused):
            self.refusals.note(pod, request, nodes, answer)
        return request, answer

    def _queue_preemption(self, pending: Pending, before: Reservation | None) -> None:
        """A refused pod keeps what it is nominated for; otherwise it is known where it could go."""
        if before is not None and before.stage is Stage.NOMINATED and before.request == pending.request:
            self.ledger.put(before)
        else:
            if self.preemption_queue.may_win(pending.pod):
                pending = replace(pending, request=self.in_group(pending.pod, pending.request))
            self.preemption_queue.add(pending)

    def _release_incomplete(self, gang: Name | None) -> None:
        """A gang that has not got a place for everybody gets none for anybody."""
        for uid in self.gangs.release_incomplete(gang) if gang is not None else ():
            self._free(uid)

    def _free(self, uid: str) -> None:
        """Free what the pod had, except slices that its processes still hold."""
        before, vanished = self.ledger.holding(uid), self.reports.vanished(uid)
        if vanished is not None:
            self._keep(Holding.of(vanished.grant))
        else:
            self.ledger.release(uid)
        if before is not None:
            self._hold_reported(before.node, uid)

    def _keep(self, left: Holding) -> None:
        """Hold what outlives a pod. Reservations that are in its way are made anew elsewhere."""
        if left.grant is None or self.ledger.holding(left.holder) == left:
            return
        self.ledger.put(left)
        for conflict in self.ledger.in_the_way(left.grant):
            reservation = self.ledger.reservation(conflict.other)
            if reservation is not None and reservation.stage is Stage.WAITING:
                self.release(conflict.other)

    def _reported(self, node: str, uid: str) -> None:
        """The agent of a node reports a pod's slices, or does so no more."""
        self._expire_vanished(uid)
        self._hold_reported(node, uid)

    def _expire_vanished(self, uid: str) -> None:
        if not self._lives(uid) and self.ledger.reservation(uid) is None:
            self._free(uid)

    def _hold_reported(self, node: str, uid: str) -> None:
        """Hold what the agent of a node reports of a pod now, unless the pod itself holds slices there."""
        own, left = self.ledger.holding(uid), self.reports.reported(node, uid)
        if left is not None and (own is None or own.node != node):
            self._keep(Holding.of(left.grant))
        else:
            self.ledger.release(reports.holder(node, uid))

    def _lives(self, uid: str) -> bool:
        """True if the pod exists and has not ended, as far as we know."""
        pod = self._known.get(uid)
        return pod is not None and not pod.ended

    def _leave(self, uid: str) -> None:
        """The pod, which holds no slice, is not on its node any more."""
        held = self.ledger.holding(uid)
        if held is not None and held.grant is None:
            self.ledger.release(uid)

    def _note_host(self, pod: Pod) -> None:
        """Note what a pod that asks for no slice takes of its host."""
        if pod.ended or not pod.node:
            self._leave(pod.uid)
        else:
            self.ledger.put(Holding(holder=pod.uid, node=pod.node, host=pod.host))

    def _account(self, pod: Pod, before: Pod | None) -> None:
        if pod.ended:
            self.faults.clear("grant", pod.uid)
            self.release(pod.uid)
        elif pod.node:
            self.preemption_queue.held(pod.priority)
            self.waiting.drop(pod.uid)
            self._account_bound(pod)
        else:
            self._account_unbound(pod, before)

    def _account_bound(self, pod: Pod) -> None:
        try:
            grant = sound_grant(pod, self.ledger.reservation(pod.uid))
            self.faults.clear("grant", pod.uid)
        except AnnotationError as error:
            grant = None
            self.faults.put(pod.uid, Fault("grant", f"{pod.namespace}/{pod.name}", str(error)))
        held = Holding(holder=pod.uid, node=pod.node, grant=grant, host=pod.host)
        for conflict in self.ledger.put(held):
            other = self.ledger.reservation(conflict.other)
            if other is not None and other.stage is Stage.WAITING:
                self.release(conflict.other)
            elif other is None and self._lives(conflict.other):
                # Nobody is judged for what outlives its pod: the agent keeps the later one waiting.
                self._suspects.add(pod.node)
        self._hold_reported(pod.node, pod.uid)

    def _account_unbound(self, pod: Pod, before: Pod | None) -> None:
        reservation = self.ledger.reservation(pod.uid)
        if reservation is None or reservation.under_way:
            return
        try:
            request = self.request_of(pod)
        except RequestError:
            request = None
        # A pod that is being deleted is never bound, and a finalizer may keep it for ever.
        if pod.deleting or request != reservation.request:
            log.info("reservation released: deleted or changed pod=%s/%s", pod.namespace, pod.name)
            self.release(pod.uid)
        elif taken_back(before, pod, reservation) and not self.gangs.under_way(pod.uid):
            # Once somebody of a gang is bound the rest keep their places: a Binding that failed is tried again.
            self.give_back(pod.uid)

    def _set_inventory(self, name: str, inventory: Inventory | None, whole: HostAmounts = NOTHING) -> None:
        known = self.ledger.node(name)
        if inventory is None:
            self.ledger.drop_node(name)
        else:
            self.ledger.set_node(name, inventory, whole)
        if inventory != (known.inventory if known is not None else None):
            for uid in self.reports.report(name, inventory):
                self._reported(name, uid)
