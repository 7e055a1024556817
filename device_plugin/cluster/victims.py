"""Who must end so that a pod of higher priority fits: found while others are placed, and the place kept for it."""

from collections.abc import Callable, Collection, Iterable, Mapping

from device_plugin.cluster.leader import Leader
from device_plugin.cluster.search import SearchCopy
from device_plugin.cluster.state import State
from device_plugin.cluster.wishes import Wish
from device_plugin.core.pods import Pod
from device_plugin.core.rearrange import Option, Plan, Planner, Ranks, ordered

# A grace period of the usual 30 s and a slow node; after that kube-scheduler's next try finds new victims.
NOMINATION_SECONDS = 300.0
# Whoever has not left after so long is not waited for any longer: a pod may give itself years to end.
LEAVING_SECONDS = 900.0
# How long a pod that a PodDisruptionBudget protects is not asked to go again.
PROTECTED_SECONDS = 30.0

Held = Mapping[str, Pod]
"""Bound pods by uid."""


class Victims:
    """Call it from any thread; one search at a time."""

    def __init__(self, state: State, leader: Leader, clock: Callable[[], float], search: SearchCopy) -> None:
        self._state = state
        self._leader = leader
        self._clock = clock
        self._search = search
        self._protected: dict[str, float] = {}
        self._told: frozenset[str] = frozenset()
        self._leaving_since: dict[str, float] = {}
        self._stubborn: frozenset[str] = frozenset()

    def held(self) -> Held:
        """The pods that may hold slices now."""
        held = {pod.uid: pod for pod in self._state.pods() if pod.node and not pod.ended}
        self._told &= held.keys()
        self._stubborn &= held.keys()
        now = self._clock()
        since = self._leaving_since
        self._leaving_since = {uid: since.get(uid, now) for uid in held if self._leaves(held[uid])}
        self._protected = {uid: until for uid, until in self._protected.items() if until > now}
        return held

    def tell(self, pods: Collection[str]) -> None:
        """These pods were told to end: what they hold will be free, whether the watch shows it yet or not."""
        self._told |= frozenset(pods)

    def protect(self, uid: str) -> None:
        """The pod may not go for now."""
        self._protected = {**self._protected, uid: self._clock() + PROTECTED_SECONDS}
        self._stubborn |= {uid}

    def stubborn_first(self, pods: Iterable[Pod]) -> list[Pod]:
        """Those that were protected once come first: where they still are, nobody else has gone in vain."""
        return sorted(pods, key=lambda pod: pod.uid not in self._stubborn)

    def ending(self, held: Held) -> set[str]:
        """The pods that are on their way out, and may still be expected to get there."""
        now, since = self._clock(), self._leaving_since
        return {
            uid for uid, pod in held.items()
            if self._leaves(pod) and now - since.get(uid, now) < LEAVING_SECONDS
        }  # fmt: skip

    def _leaves(self, pod: Pod) -> bool:
        return pod.deleting or pod.uid in self._told

    def nominate(self, wish: Wish, held: Held, going: Collection[str] = ()) -> Plan | None:
        """The plan with the fewest victims, its place nominated for the pod; None if there is none.

        Those on their way out, and those that are `going` besides, are no victims.
        """
        gone = self.ending(held) | set(going)
        ranks = {
            uid: pod.priority
            for uid, pod in held.items()
            if pod.priority < wish.pod.priority
            and uid not in gone
            and uid not in self._protected
            and not self._leaves(pod)
        }
        with self._search.planner() as planner:
            self._let_go(planner, gone)
            nodes = self._search.paced(wish.nodes)
            found = (planner.option(node, wish.request, ranks) for node in nodes)
            options = [option for option in found if option is not None]
            for option in self._search.paced(ordered(options, ranks)):
                # What does not fit the copy fits the ledger hardly ever: no time under the lock is spent on it.
                if planner.cleared(wish.request, option) is None:
                    continue
                plan = self._nominated(wish, option, ranks, gone)
                if plan is not None:
                    return plan
        return None

    def _let_go(self, planner: Planner, gone: Collection[str], node: str = "") -> None:
        """Within a transaction: those that are leaving anyway have left, or of them those on `node`."""
        for uid in gone:
            held = planner.ledger.holding(uid)
            if held is not None and node in ("", held.node):
                planner.ledger.release(uid)

    def _nominated(self, wish: Wish, before: Option, ranks: Ranks, gone: Collection[str]) -> Plan | None:
        """The option of before as a plan, its place nominated for the pod; None if it would cost more by now."""
        planner, pod = self._state.planner, wish.pod
        with self._state.lock:
            known = self._state.pod(pod.uid)
            if known is None or known.node or known.deleting or self._leader.why_not():
                return None
            if self._state.ledger.reservation(pod.uid) is not None:
                return None
            with planner.ledger.transaction():
                self._let_go(planner, gone, before.node)
                option = planner.option(before.node, wish.request, ranks)
                if option is None or len(option.leaving) > len(before.leaving):
                    return None
                plan = planner.cleared(wish.request, option)
            if plan is not None:
                self._state.nominate(wish, plan.places[0], NOMINATION_SECONDS)
            return plan
