"""Preemption: a pod of higher priority that finds no place gets the slices of others.

kube-scheduler preempts too, but it counts units per node and sees no card. Where a node has too few units it asks us
(/preempt) whose leaving really makes room, and evicts them. Where a node has units enough, only spread over cards, it
finds nobody whose leaving would help, and we evict. Either way the slices stay their holders' until those are really
gone, and are nominated for the waiting pod meanwhile, so that nobody else gets what they leave behind.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import product

from device_plugin.cluster.leader import Leader
from device_plugin.cluster.state import State
from device_plugin.cluster.victims import Held, Victims
from device_plugin.cluster.wishes import Wish
from device_plugin.core.errors import RequestError
from device_plugin.core.events import Event
from device_plugin.core.ledger import Reservation
from device_plugin.core.pods import Pod
from device_plugin.core.rearrange import Plan
from device_plugin.kube.api import PODS, Api
from device_plugin.kube.errors import ApiError, GoneError

log = logging.getLogger(__name__)

# Wishes looked at in one turn: each looks at every card of every node that was offered.
WISHES = 4

Candidates = Mapping[str, Sequence[str]]
"""Nodes, and on each the uids of the pods that would be evicted."""


class Preemption:
    """Our own: call `step` about once a second, in a thread of its own: to look at ten thousand nodes takes its time.

    It writes only when somebody must go.
    """

    def __init__(self, api: Api, state: State, leader: Leader, victims: Victims) -> None:
        self._api = api
        self._state = state
        self._leader = leader
        self._victims = victims

    def step(self) -> None:
        """Serve the foremost wishes, if this replica leads."""
        if self._leader.why_not():
            return
        held: Held | None = None
        for _ in range(WISHES):
            with self._state.lock:
                wish = self._state.wishes.take()
            if wish is None:
                return
            held = held or self._victims.held()
            plan = self._victims.nominate(wish, held)
            if plan is not None:
                victims = self._victims.stubborn_first(held[move.source.pod] for move in plan.moves)
                self._evict(wish, victims, plan)

    def _evict(self, wish: Wish, victims: Sequence[Pod], plan: Plan) -> None:
        where = f"{', '.join(sorted({s.card for s in plan.places[0].slices()}))} on {plan.places[0].node}"
        waiting = _name(wish.pod)
        # Nobody goes in vain because a budget keeps the next. Each is asked about alone: of two that one budget covers
        # it may let the first go and keep the second, and it may change meanwhile. Whoever was kept once comes first.
        asked = victims if len(victims) > 1 else ()
        for victim, dry in (*product(asked, (True,)), *product(victims, (False,))):
            try:
                self._api.evict(victim, dry=dry)
            except GoneError:
                self._state.forget_pod(victim.uid)
                continue
            except ApiError as error:
                log.info("%s stays though %s waits: %s", _name(victim), waiting, error)
                self._victims.protect(victim.uid)
                self._state.resume(wish)
                return
            if not dry:
                self._victims.tell((victim.uid,))
                log.info("evicted %s for %s: %s", _name(victim), waiting, where)
                why = f"evicted: {waiting} of priority {wish.pod.priority} needs its slice of {where}"
                self._say(victim, Event.PREEMPTED, why)
        if victims:
            names = ", ".join(map(_name, victims))
            self._say(
                wish.pod, Event.PREEMPTING, f"{where} is held for it until {names} of lower priority ended"
            )

    def _say(self, pod: Pod, event: Event, text: str) -> None:
        # An event is for people; the eviction is done whether they hear of it or not.
        with suppress(ApiError):
            self._api.post_event(PODS, pod, event, text)


class Advice:
    """/preempt: of what kube-scheduler would do, what makes room on the cards too. Call it from any thread."""

    def __init__(self, state: State, leader: Leader, victims: Victims) -> None:
        self._state = state
        self._leader = leader
        self._victims = victims

    def __call__(self, pod: Pod, candidates: Candidates) -> Candidates:
        """One node of the candidates with the pods to evict there, or nothing where nobody's leaving would help.

        What kube-scheduler would evict is taken over only where the host lacks CPU or memory too: it knows why.
        """
        try:
            request = self._state.request_of(pod)
        except RequestError:
            return {}
        if request is None:
            return candidates
        if self._leader.why_not() or request.gang is not None:
            return {}
        held, wish = self._victims.held(), Wish(pod, request, tuple(candidates))
        if not self._still_wanting(pod, self._victims.ending(held)):
            return {}
        plan = self._victims.nominate(wish, held)
        theirs: tuple[str, ...] = ()
        if plan is None:
            theirs = tuple(uid for victims in candidates.values() for uid in victims)
            plan = self._victims.nominate(wish, held, theirs)
        if plan is None:
            return {}
        node, ours = plan.places[0].node, [move.source.pod for move in plan.moves]
        evicted = list(dict.fromkeys((*ours, *(candidates[node] if theirs or not ours else ()))))
        for uid in evicted:
            # A pod that is not bound yet is not deleted: kube-scheduler only takes it back.
            self._state.give_back(uid)
        log.info("kube-scheduler evicts %d pods on %s for %s", len(evicted), node, _name(pod))
        return {node: evicted}

    def _still_wanting(self, pod: Pod, ending: set[str]) -> bool:
        """False if the pod only has to wait for pods that are ending; what nobody leaves is not held any longer."""
        with self._state.lock:
            found = self._state.ledger.reservation(pod.uid)
            if found is None:
                return True
            if found.under_way or self._leaves(found) <= ending:
                return False
            self._state.release(pod.uid)
            return True

    def _leaves(self, reservation: Reservation) -> set[str]:
        return {conflict.other for conflict in self._state.ledger.in_the_way(reservation.grant)}


def _name(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"
