"""Preemption: a pod of higher priority that finds no place gets the slices of others.

kube-scheduler preempts too, but it counts units per node and sees no card. Where a node has too few units it asks us
(/preempt) whose leaving really makes room, and evicts them. Where a node has units enough, only spread over cards, it
finds nobody whose leaving would help, and we evict. Either way the slices stay their holders' until those are really
gone, and are nominated for the waiting pod meanwhile, so that nobody else gets what they leave behind.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import product

from device_plugin.cluster.leader import Leader
from device_plugin.cluster.preemption_queue import Pending
from device_plugin.cluster.reservations import Reservations
from device_plugin.cluster.search import SearchCopy
from device_plugin.cluster.view import ClusterView
from device_plugin.core.errors import RequestError
from device_plugin.core.events import Event
from device_plugin.core.ledger import Reservation
from device_plugin.core.pods import Pod
from device_plugin.core.rearrange import Option, Plan, Planner, Ranks, ordered
from device_plugin.kube.api import PODS, Api
from device_plugin.kube.errors import ApiError, GoneError

log = logging.getLogger(__name__)

# Searches in one turn: each looks at every card of every node that was offered.
SEARCHES = 4
# A grace period of the usual 30 s and a slow node; after that kube-scheduler's next try finds new victims.
NOMINATION_SECONDS = 300.0
# Whoever has not left after so long is not waited for any longer: a pod may give itself years to end.
LEAVING_SECONDS = 900.0
# How long a pod that a PodDisruptionBudget protects is not asked to go again.
DEFERRED_SECONDS = 30.0

Held = Mapping[str, Pod]
"""Bound pods by uid."""

Candidates = Mapping[str, Sequence[str]]
"""Nodes, and on each the uids of the pods that would be evicted."""


class Victims:
    """Finds the pods that must end so that another fits, while others are placed. Call it from any thread."""

    def __init__(
        self,
        view: ClusterView,
        reservations: Reservations,
        leader: Leader,
        clock: Callable[[], float],
        search: SearchCopy,
    ) -> None:
        self._view = view
        self._reservations = reservations
        self._leader = leader
        self._clock = clock
        self._search = search
        self._deferred: dict[str, float] = {}
        self._told: frozenset[str] = frozenset()
        self._leaving_since: dict[str, float] = {}
        self._refused_before: frozenset[str] = frozenset()

    def held(self) -> Held:
        """The pods that may hold slices now."""
        held = {pod.uid: pod for pod in self._view.pods() if pod.node and not pod.ended}
        self._told &= held.keys()
        self._refused_before &= held.keys()
        now = self._clock()
        since = self._leaving_since
        self._leaving_since = {uid: since.get(uid, now) for uid in held if self._leaves(held[uid])}
        self._deferred = {uid: until for uid, until in self._deferred.items() if until > now}
        return held

    def mark_told(self, pods: Collection[str]) -> None:
        """These pods were told to end: what they hold will be free, whether the watch shows it yet or not."""
        self._told |= frozenset(pods)

    def defer(self, uid: str) -> None:
        """Do not ask the pod to go for DEFERRED_SECONDS: a PodDisruptionBudget refused its eviction."""
        self._deferred = {**self._deferred, uid: self._clock() + DEFERRED_SECONDS}
        self._refused_before |= {uid}

    def refused_before_first(self, pods: Iterable[Pod]) -> list[Pod]:
        """Pods that a budget refused before come first: a second refusal stops us before anyone is evicted."""
        return sorted(pods, key=lambda pod: pod.uid not in self._refused_before)

    def ending(self, held: Held) -> set[str]:
        """The pods that are on their way out, and may still be expected to get there."""
        now, since = self._clock(), self._leaving_since
        return {
            uid for uid, pod in held.items()
            if self._leaves(pod) and now - since.get(uid, now) < LEAVING_SECONDS
        }  # fmt: skip

    def _leaves(self, pod: Pod) -> bool:
        return pod.deleting or pod.uid in self._told

    def nominate(self, pending: Pending, held: Held, going: Collection[str] = ()) -> Plan | None:
        """The plan with the fewest victims, its place nominated for the pod; None if there is none.

        Those on their way out, and those that are `going` besides, are no victims.
        """
        gone = self.ending(held) | set(going)
        ranks = {
            uid: pod.priority
            for uid, pod in held.items()
            if pod.priority < pending.pod.priority
            and uid not in gone
            and uid not in self._deferred
            and not self._leaves(pod)
        }
        with self._search.planner() as planner:
            self._let_go(planner, gone)
            nodes = self._search.paced(pending.nodes)
            found = (planner.option(node, pending.request, ranks) for node in nodes)
            options = [option for option in found if option is not None]
            for option in self._search.paced(ordered(options, ranks)):
                # What does not fit the copy fits the ledger hardly ever: no time under the lock is spent on it.
                if planner.cleared(pending.request, option) is None:
                    continue
                plan = self._nominated(pending, option, ranks, gone)
                if plan is not None:
                    return plan
        return None

    def _let_go(self, planner: Planner, gone: Collection[str], node: str = "") -> None:
        """Within a transaction: those that are leaving anyway have left, or of them those on `node`."""
        for uid in gone:
            held = planner.ledger.holding(uid)
            if held is not None and node in ("", held.node):
                planner.ledger.release(uid)

    def _nominated(
        self, pending: Pending, before: Option, ranks: Ranks, gone: Collection[str]
    ) -> Plan | None:
        """The option of before as a plan, its place nominated for the pod; None if it would cost more by now."""
        planner, pod = self._reservations.planner, pending.pod
        with self._view.lock:
            known = self._view.pod(pod.uid)
            if known is None or known.node or known.deleting or self._leader.why_not():
                return None
            if self._view.ledger.reservation(pod.uid) is not None:
                return None
            with planner.ledger.transaction():
                self._let_go(planner, gone, before.node)
                option = planner.option(before.node, pending.request, ranks)
                if option is None or len(option.leaving) > len(before.leaving):
                    return None
                plan = planner.cleared(pending.request, option)
            if plan is not None:
                self._reservations.nominate(pending, plan.places[0], NOMINATION_SECONDS)
            return plan


class Preemption:
    """Evicts pods for others of higher priority. Call `step` about once a second, in a thread of its own.

    To search ten thousand nodes takes its time. It writes only when a pod must go.
    """

    def __init__(
        self, api: Api, view: ClusterView, reservations: Reservations, leader: Leader, victims: Victims
    ) -> None:
        self._api = api
        self._view = view
        self._reservations = reservations
        self._leader = leader
        self._victims = victims

    def step(self) -> None:
        """Serve the next pods of the queue, if this replica leads."""
        if self._leader.why_not():
            return
        held: Held | None = None
        for _ in range(SEARCHES):
            with self._view.lock:
                pending = self._reservations.preemption_queue.take()
            if pending is None:
                return
            held = held or self._victims.held()
            plan = self._victims.nominate(pending, held)
            if plan is not None:
                victims = self._victims.refused_before_first(held[move.source.pod] for move in plan.moves)
                self._evict(pending, victims, plan)

    def _evict(self, pending: Pending, victims: Sequence[Pod], plan: Plan) -> None:
        where = f"{', '.join(sorted({s.card for s in plan.places[0].slices()}))} on {plan.places[0].node}"
        waiting = _name(pending.pod)
        # Nobody goes in vain because a budget keeps the next. Each is asked about alone: of two that one budget covers
        # it may let the first go and keep the second, and it may change meanwhile. Whoever was kept once comes first.
        asked = victims if len(victims) > 1 else ()
        for victim, dry in (*product(asked, (True,)), *product(victims, (False,))):
            try:
                self._api.evict(victim, dry=dry)
            except GoneError:
                self._view.forget_pod(victim.uid)
                continue
            except ApiError as error:
                log.info("%s stays though %s waits: %s", _name(victim), waiting, error)
                self._victims.defer(victim.uid)
                self._reservations.resume(pending)
                return
            if not dry:
                self._victims.mark_told((victim.uid,))
                log.info("evicted %s for %s: %s", _name(victim), waiting, where)
                why = f"evicted: {waiting} of priority {pending.pod.priority} needs its slice of {where}"
                self._say(victim, Event.PREEMPTED, why)
        if victims:
            names = ", ".join(map(_name, victims))
            self._say(
                pending.pod, Event.PREEMPTING, f"{where} is held for it until {names} of lower priority ended"
            )

    def _say(self, pod: Pod, event: Event, text: str) -> None:
        # An event is for people; the eviction is done whether they hear of it or not.
        with suppress(ApiError):
            self._api.post_event(PODS, pod, event, text)


class Advice:
    """/preempt: of what kube-scheduler would do, what makes room on the cards too. Call it from any thread."""

    def __init__(
        self, view: ClusterView, reservations: Reservations, leader: Leader, victims: Victims
    ) -> None:
        self._view = view
        self._reservations = reservations
        self._leader = leader
        self._victims = victims

    def __call__(self, pod: Pod, candidates: Candidates) -> Candidates:
        """One node of the candidates with the pods to evict there; empty if no eviction would help.

        What kube-scheduler would evict is taken over only where the host lacks CPU or memory too: it knows why.
        """
        try:
            request = self._view.request_of(pod)
        except RequestError:
            return {}
        if request is None:
            return candidates
        if self._leader.why_not() or request.gang is not None:
            return {}
        held, pending = self._victims.held(), Pending(pod, request, tuple(candidates))
        if not self._still_wanting(pod, self._victims.ending(held)):
            return {}
        plan = self._victims.nominate(pending, held)
        theirs: tuple[str, ...] = ()
        if plan is None:
            theirs = tuple(uid for victims in candidates.values() for uid in victims)
            plan = self._victims.nominate(pending, held, theirs)
        if plan is None:
            return {}
        node, ours = plan.places[0].node, [move.source.pod for move in plan.moves]
        evicted = list(dict.fromkeys((*ours, *(candidates[node] if theirs or not ours else ()))))
        for uid in evicted:
            # A pod that is not bound yet is not deleted: kube-scheduler only takes it back.
            self._reservations.give_back(uid)
        log.info("kube-scheduler evicts %d pods on %s for %s", len(evicted), node, _name(pod))
        return {node: evicted}

    def _still_wanting(self, pod: Pod, ending: set[str]) -> bool:
        """False if the pod only has to wait for pods that are ending; what nobody leaves is not held any longer."""
        with self._view.lock:
            found = self._view.ledger.reservation(pod.uid)
            if found is None:
                return True
            if found.under_way or self._leaves(found) <= ending:
                return False
            self._reservations.release(pod.uid)
            return True

    def _leaves(self, reservation: Reservation) -> set[str]:
        return {conflict.other for conflict in self._view.ledger.in_the_way(reservation.grant)}


def _name(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"
