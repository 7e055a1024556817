"""Who must end so that a pod of higher priority fits: found while others are placed, and the place kept for it."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice

from device_plugin.cluster.leader import Leader
from device_plugin.cluster.state import State
from device_plugin.cluster.wishes import Wish
from device_plugin.core.pods import Pod
from device_plugin.core.rearrange import Option, Plan, Ranks, ordered

# A grace period of the usual 30 s and a slow node; after that kube-scheduler's next try finds new victims.
NOMINATION_SECONDS = 300.0
# Whoever has not left after so long is not waited for any longer: a pod may give itself years to end.
LEAVING_SECONDS = 900.0
# How long a pod that a PodDisruptionBudget protects is not asked to go again.
PROTECTED_SECONDS = 30.0
# Nodes looked at while the lock is held, or as many as so many seconds are enough for: /filter waits for no longer than
# one of its own decisions.
NODES, TURN_SECONDS = 8, 0.002

Held = Mapping[str, Pod]
"""Bound pods by uid."""

Leaving = Mapping[str, Sequence[str]]
"""Of each node the uids of pods that are about to leave it."""


class Victims:
    """Call it from any thread. `pause` lets others have the lock between nodes; true if the service ends."""

    def __init__(
        self, state: State, leader: Leader, clock: Callable[[], float], pause: Callable[[], bool]
    ) -> None:
        self._state = state
        self._leader = leader
        self._clock = clock
        self._pause = pause
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
        leaving = self._by_node(gone)
        ranks = {
            uid: pod.priority
            for uid, pod in held.items()
            if pod.priority < wish.pod.priority
            and uid not in gone
            and uid not in self._protected
            and not self._leaves(pod)
        }
        options: list[Option] = []
        left = iter(wish.nodes)
        while turn := self._options(wish, islice(left, NODES), ranks, leaving):
            options += filter(None, turn)
            if self._pause():
                return None
        for option in ordered(options, ranks):
            plan = self._nominated(wish, option, ranks, leaving)
            if plan is not None or self._pause():
                return plan
        return None

    def _by_node(self, pods: Collection[str]) -> Leaving:
        leaving: dict[str, list[str]] = defaultdict(list)
        with self._state.lock:
            for uid in pods:
                if (held := self._state.ledger.holding(uid)) is not None:
                    leaving[held.node].append(uid)
        return leaving

    def _options(
        self, wish: Wish, nodes: Iterable[str], ranks: Ranks, leaving: Leaving
    ) -> Sequence[Option | None]:
        """One turn of the lock: what the next of `nodes` can do, nothing if there are none."""
        found = []
        with self._state.lock:
            until = self._clock() + TURN_SECONDS
            for node in nodes:
                found.append(self._option(wish, node, ranks, leaving))
                if self._clock() >= until:
                    break
        return found

    def _option(self, wish: Wish, node: str, ranks: Ranks, leaving: Leaving) -> Option | None:
        planner = self._state.planner
        with planner.ledger.transaction():
            self._let_go(node, leaving)
            return planner.option(node, wish.request, ranks)

    def _let_go(self, node: str, leaving: Leaving) -> None:
        """Within a transaction: those that are leaving anyway have left."""
        for uid in leaving.get(node, ()):
            self._state.ledger.release(uid)

    def _nominated(self, wish: Wish, before: Option, ranks: Ranks, leaving: Leaving) -> Plan | None:
        """The option of before as a plan, its place nominated for the pod; None if it would cost more by now."""
        planner, pod = self._state.planner, wish.pod
        with self._state.lock:
            known = self._state.pod(pod.uid)
            if known is None or known.node or known.deleting or self._leader.why_not():
                return None
            if self._state.ledger.reservation(pod.uid) is not None:
                return None
            option = self._option(wish, before.node, ranks, leaving)
            if option is None or len(option.leaving) > len(before.leaving):
                return None
            with planner.ledger.transaction():
                self._let_go(option.node, leaving)
                plan = planner.cleared(wish.request, option)
            if plan is not None:
                self._state.nominate(wish, plan.places[0], NOMINATION_SECONDS)
            return plan
