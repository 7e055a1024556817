"""Preemption: a pod of higher priority that /filter refused gets the slices of others.

kube-scheduler preempts too, but it counts units per node and sees no card: where a node has units enough, only spread
over cards, it finds nobody whose leaving would help. So the victims are planned here. Their slices stay theirs until
they are really gone, and are nominated for the waiting pod meanwhile, so that nobody else gets what they leave behind.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from device_plugin.cluster.leader import Leader
from device_plugin.cluster.ports import Api, ApiError, GoneError
from device_plugin.cluster.state import State
from device_plugin.cluster.wishes import Wish
from device_plugin.core.pods import Pod
from device_plugin.core.room import Option, Plan, Ranks, ordered

log = logging.getLogger(__name__)

# A grace period of the usual 30 s and a slow node; after that kube-scheduler's next try finds new victims.
NOMINATION_SECONDS = 300.0
# How long a pod that a PodDisruptionBudget protects is not asked to go again.
PROTECTED_SECONDS = 30.0
# Wishes looked at in one turn: each looks at every card of every node that was offered.
WISHES = 4
# Nodes looked at while the lock is held: /filter waits for no longer than one of its own decisions.
NODES = 16


class Preemption:
    """Call `step` about once a second; it writes only when somebody must go."""

    def __init__(self, api: Api, state: State, leader: Leader, clock: Callable[[], float]) -> None:
        self._api = api
        self._state = state
        self._leader = leader
        self._clock = clock
        self._protected: dict[str, float] = {}
        self._evicted: set[str] = set()

    def step(self) -> None:
        """Serve the foremost wishes, if this replica leads."""
        if self._leader.why_not():
            return
        held = {pod.uid: pod for pod in self._state.pods() if pod.node and not pod.ended}
        self._evicted &= held.keys()
        now = self._clock()
        self._protected = {uid: until for uid, until in self._protected.items() if until > now}
        self._state.wishes.least = min((pod.priority for pod in held.values()), default=float("inf"))
        for _ in range(WISHES):
            wish = self._state.wish()
            if wish is None:
                return
            self._serve(wish, held)

    def _serve(self, wish: Wish, held: Mapping[str, Pod]) -> None:
        ending = {uid for uid, pod in held.items() if pod.deleting or uid in self._evicted}
        ranks = {
            uid: pod.priority
            for uid, pod in held.items()
            if pod.priority < wish.pod.priority and uid not in ending and uid not in self._protected
        }
        options = [
            option
            for start in range(0, len(wish.nodes), NODES)
            for option in self._options(wish, wish.nodes[start : start + NODES], ranks, ending)
        ]
        for option in ordered(options, ranks):
            plan = self._nominated(wish, option, ranks, ending)
            if plan is not None:
                self._evict(wish, [held[move.source.pod] for move in plan.moves], plan)
                return

    def _options(
        self, wish: Wish, nodes: Sequence[str], ranks: Ranks, ending: Collection[str]
    ) -> list[Option]:
        with self._state.lock:
            found = [self._option(wish, node, ranks, ending) for node in nodes]
        return [option for option in found if option is not None]

    def _option(self, wish: Wish, node: str, ranks: Ranks, ending: Collection[str]) -> Option | None:
        planner = self._state.planner
        with planner.trial.attempt():
            self._let_go(node, ending)
            return planner.option(node, wish.request, ranks)

    def _let_go(self, node: str, ending: Collection[str]) -> None:
        """Within a trial: those that are leaving anyway have left."""
        for _, grant in self._state.grants_on(node):
            if grant.pod in ending:
                self._state.planner.trial.release(grant.pod)

    def _nominated(self, wish: Wish, before: Option, ranks: Ranks, ending: Collection[str]) -> Plan | None:
        """The option of before as a plan, its place nominated for the pod; None if it would cost more by now."""
        planner, pod = self._state.planner, wish.pod
        with self._state.lock:
            known = self._state.pod(pod.uid)
            if known is None or known.node or known.deleting or self._leader.why_not():
                return None
            if self._state.reservations.get(pod.uid) is not None:
                return None
            option = self._option(wish, before.node, ranks, ending)
            if option is None or len(option.leaving) > len(before.leaving):
                return None
            with planner.trial.attempt():
                self._let_go(option.node, ending)
                plan = planner.cleared(wish.request, option)
            if plan is not None:
                self._state.nominate(wish, plan.places[0], NOMINATION_SECONDS)
            return plan

    def _evict(self, wish: Wish, victims: list[Pod], plan: Plan) -> None:
        where = f"{', '.join(sorted({s.card for s in plan.places[0].slices()}))} on {plan.places[0].node}"
        waiting = f"{wish.pod.namespace}/{wish.pod.name}"
        for victim in victims:
            try:
                self._api.evict(victim)
            except GoneError:
                self._state.forget_pod(victim.uid)
                continue
            except ApiError as error:
                log.info("%s stays though %s waits: %s", _name(victim), waiting, error)
                self._protected[victim.uid] = self._clock() + PROTECTED_SECONDS
                self._state.resume(wish)
                return
            self._evicted.add(victim.uid)
            log.info("evicted %s for %s: %s", _name(victim), waiting, where)
            self._tell(
                victim,
                "Preempted",
                f"evicted: {waiting} of priority {wish.pod.priority} needs its slice of {where}",
            )
        if victims:
            names = ", ".join(map(_name, victims))
            self._tell(
                wish.pod, "Preempting", f"{where} is held for it until {names} of lower priority ended"
            )

    def _tell(self, pod: Pod, reason: str, text: str) -> None:
        # An event is for people; the eviction is done whether they hear of it or not.
        with suppress(ApiError):
            self._api.warn(pod, reason, text)


def _name(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"
