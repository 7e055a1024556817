"""Preemption: evict pods so that a pod of higher priority, which fits nowhere, gets their slices.

kube-scheduler preempts too, but it only counts how much of a resource a node has free, in units, and sees no cards. If
a node has too few units, kube-scheduler asks us (/preempt) which victims really make room, and evicts them. If a node
has enough units, but spread over cards, kube-scheduler finds no victims, and we evict. In both cases the victims hold
their slices until they have really ended, and the slices are nominated (reserved) for the waiting pod, so that no other
pod gets them.
"""

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from itertools import product

from device_plugin.allocator.search import SearchCopy
from device_plugin.allocator.service import Service, Shared
from device_plugin.allocator.waiting.preemption_queue import Pending
from device_plugin.cluster.announce import announce
from device_plugin.core.contract.events import Event
from device_plugin.core.errors import RequestError
from device_plugin.core.pods import Pod
from device_plugin.core.rearrange import MovePlan, Option, Planner, Ranks
from device_plugin.kube.api import Api
from device_plugin.kube.errors import ApiError, GoneError
from device_plugin.state.promises import Leaving

log = logging.getLogger(__name__)

# Most searches in one turn: each reads every card of every offered node.
SEARCHES = 4
# Seconds that a nomination lasts: enough for a usual grace period of 30 s on a slow node. Then the next try finds new
# victims.
NOMINATION_SECONDS = 300.0
# Seconds to wait for a pod that is ending; a pod may have a grace period of years.
LEAVING_SECONDS = 900.0
# Seconds until a pod is considered again after a PodDisruptionBudget refused its eviction.
DEFERRED_SECONDS = 30.0

Held = Mapping[str, Pod]
"""Bound pods by uid."""

Candidates = Mapping[str, Sequence[str]]
"""By node: the UIDs of the pods that kube-scheduler would evict on the node."""


class Preemption(Service):
    """Finds the pods that must end so that another pod fits; `step` evicts them, `advise` returns them for /preempt.

    `step` and `advise` have a copy of the ledger each: a search in the background pauses often, and kube-scheduler
    waits for the answer to /preempt before it asks for another pod.
    """

    def __init__(self, shared: Shared, api: Api, wait: Callable[[float], object]) -> None:
        super().__init__(shared)
        self._api = api
        self._search = SearchCopy(shared, wait)
        self._advice = SearchCopy(shared, lambda _: None)
        # Guards changes of the records below, which both searches use.
        self._lock = threading.Lock()
        # The UIDs of evicted pods: they count as leaving before the watch shows it.
        self._told: frozenset[str] = frozenset()
        # By UID: the time when a pod began to end; and the time until which a pod is not chosen as a victim.
        self._leaving_since: dict[str, float] = {}
        self._deferred: dict[str, float] = {}
        # The UIDs of pods whose eviction a PodDisruptionBudget has refused.
        self._refused_before: frozenset[str] = frozenset()

    def step(self) -> None:
        """Make room for the next pods of the preemption queue, if this replica leads; called about once a second.

        Has a thread of its own, because a search of 10,000 nodes takes long. Only evictions and events are written.
        """
        if self._why_not_leading():
            return
        held: Held | None = None
        for _ in range(SEARCHES):
            with self._view.lock:
                pending = self._allocator.waiting.preemption.take()
            if pending is None:
                return
            held = held or self._held()
            plan = self._nominate(self._search, pending, held)
            if plan is not None:
                pods = [held[move.source.pod] for move in plan.moves]
                # Pods whose eviction was refused before come first: a new refusal then comes before any eviction.
                self._evict(pending, sorted(pods, key=lambda pod: pod.uid not in self._refused_before), plan)

    def advise(self, pod: Pod, candidates: Candidates) -> Candidates:
        """The answer to kube-scheduler's preemption: one candidate node, and the pods to evict there.

        kube-scheduler's own victims are added if ours are not enough, or if we need none: then the host lacks CPU or
        memory, which only kube-scheduler counts. The slices are nominated for the pod. Reservations of the pods to
        evict are given back, and promises of their slices to other jobs end.

        The candidates are returned unchanged for a pod that asks for no slice. The answer is empty if no eviction
        helps, or if the pods that are ending already make room. It is empty too for a pod of a gang, for a malformed
        request, and if this replica does not lead.
        """
        pod = self._view.gangs.labelled(pod)
        try:
            request = self._view.pods.request_of(pod)
        except RequestError:
            return {}
        if request is None:
            return candidates
        if self._why_not_leading() or request.gang is not None:
            return {}
        held = self._held()
        candidates = self._without_leaving(pod, candidates, held)
        pending = Pending(self._view.pod_news.known(pod), request, tuple(candidates))
        if not self._still_wanting(pending, held):
            return {}
        plan = self._nominate(self._advice, pending, held)
        theirs: tuple[str, ...] = ()
        if plan is None:
            theirs = tuple(uid for victims in candidates.values() for uid in victims)
            plan = self._nominate(self._advice, pending, held, theirs)
        if plan is None:
            return {}
        node, ours = plan.places[0].node, [move.source.pod for move in plan.moves]
        evicted = list(dict.fromkeys((*ours, *(candidates[node] if theirs or not ours else ()))))
        for uid in evicted:
            # kube-scheduler does not delete an unbound victim, but only cancels its attempt.
            self._allocator.give_back(uid)
            self._withdraw(uid, pod)
        log.info("kube-scheduler evicts %d pods on %s for %s", len(evicted), node, _name(pod))
        return {node: evicted}

    def _without_leaving(self, pod: Pod, candidates: Candidates, held: Held) -> Candidates:
        """The candidates without nodes on which a victim leaves for another job, or belongs to a shrinking Job."""
        leaving = self._leaving(pod)
        ours = leaving.for_others | {uid for uid, each in held.items() if each.owner_uid in leaving.jobs}
        return {node: victims for node, victims in candidates.items() if ours.isdisjoint(victims)}

    # The search

    def _nominate(
        self, search: SearchCopy, pending: Pending, held: Held, going: Collection[str] = ()
    ) -> MovePlan | None:
        """Find and return the plan with the fewest victims, and reserve its grant for the pod; None without a plan.

        Pods that are ending, and pods in `going`, count as gone and are not victims. Slices kept for the pod's job are
        free for the pod.
        """
        leaving = self._leaving(pending.pod)
        gone = self._gone(leaving, held, going)
        ranks = {
            uid: pod.priority
            for uid, pod in held.items()
            if pod.priority < pending.pod.priority
            and uid not in gone
            and uid not in self._deferred
            and pod.owner_uid not in leaving.jobs
            and uid not in leaving.for_others
            and not self._leaves(pod)
        }
        with search.planner(pending.pod) as planner:
            _let_go(planner, gone)

            def nominated(option: Option) -> MovePlan | None:
                # A plan that fails on the copy nearly always fails on the ledger too: do not take the lock.
                if planner.cleared(pending.request, option) is None:
                    return None
                return self._nominated(pending, option, ranks, gone)

            return planner.search(pending.request, pending.nodes, ranks, nominated, paced=search.paced)

    def _nominated(
        self, pending: Pending, before: Option, ranks: Ranks, gone: Collection[str]
    ) -> MovePlan | None:
        """Reserve a grant for the pod on the node of `before`: a node and victims, found on a copy of the ledger.

        Returns the plan of the preemption. None if the ledger itself does not allow a plan on this node, or only with
        more victims; also if the pod waits no more, or this replica does not lead.
        """
        planner, pod = self._allocator.planner, pending.pod
        with self._view.lock, self._view.promises.opened_for(pod):
            known = self._view.pods.get(pod.uid)
            if known is None or known.node or known.deleting or self._why_not_leading():
                return None
            if self._view.ledger.reservation(pod.uid) is not None:
                return None
            with planner.ledger.transaction():
                _let_go(planner, gone, before.node)
                option = planner.option(before.node, pending.request, ranks)
                if option is None or len(option.leaving) > len(before.leaving):
                    return None
                plan = planner.cleared(pending.request, option)
            if plan is not None:
                self._allocator.nominate(pending, plan.places[0], NOMINATION_SECONDS)
            return plan

    def _still_wanting(self, pending: Pending, held: Held) -> bool:
        """True if victims must be found for the pod; a nomination that the pod has is then released.

        False if the nominated slices become free as soon as the pods that are ending have ended, or if a Binding of the
        pod is under way.
        """
        pod, ending = pending.pod, self._gone(self._leaving(pending.pod), held)
        with self._view.lock:
            found = self._view.ledger.reservation(pod.uid)
            if found is None:
                return True
            if (
                found.under_way
                or {each.other for each in self._view.ledger.in_the_way(found.grant)} <= ending
            ):
                return False
            self._allocator.release(pod.uid)
            return True

    # The pods that may have to end

    def _held(self) -> Held:
        """Return the bound pods that have not ended, by UID, and drop the notes of this object about all other pods."""
        held = {pod.uid: pod for pod in self._view.pods.all() if pod.node and not pod.ended}
        now = self._clock()
        with self._lock:
            self._told &= held.keys()
            self._refused_before &= held.keys()
            since = self._leaving_since
            self._leaving_since = {uid: since.get(uid, now) for uid in held if self._leaves(held[uid])}
            self._deferred = {uid: until for uid, until in self._deferred.items() if until > now}
        return held

    def _withdraw(self, uid: str, pod: Pod) -> None:
        """Withdraw another job's promise of the slices of the pod with the UID `uid`, which is evicted for `pod`."""
        with self._view.lock:
            self._view.promises.withdraw(uid, pod)

    def _leaving(self, pod: Pod) -> Leaving:
        """The pods that leave for this pod's job, and the pods that leave for other jobs and so cannot be victims."""
        with self._view.lock:
            return self._view.promises.leaving(pod)

    def _gone(self, leaving: Leaving, held: Held, going: Collection[str] = ()) -> Set[str]:
        """The pods that count as gone: ending pods, pods in `going`, and pods that leave for the waiting pod's job.

        Pods that leave for another job do not count, because their slices are kept for that job.
        """
        return (self._ending(held) | set(going) | leaving.for_it) - leaving.for_others

    def _ending(self, held: Held) -> set[str]:
        """The pods that have been ending for less than LEAVING_SECONDS."""
        now, since = self._clock(), self._leaving_since
        return {
            uid for uid, pod in held.items()
            if self._leaves(pod) and now - since.get(uid, now) < LEAVING_SECONDS
        }  # fmt: skip

    def _leaves(self, pod: Pod) -> bool:
        return pod.deleting or pod.uid in self._told

    # Eviction

    def _evict(self, pending: Pending, victims: Sequence[Pod], plan: MovePlan) -> None:
        """Evict the victims of the plan, then write events on the pods; no eviction waits for an event.

        After a refusal the nomination is released, and the pod is queued for preemption again.
        """
        where = f"{', '.join(sorted({s.card for s in plan.places[0].slices()}))} on {plan.places[0].node}"
        waiting = _name(pending.pod)
        evicted, refused = self._evicted(victims, pending.pod)
        if refused:
            self._allocator.resume(pending)
        why = f"evicted: {waiting} of priority {pending.pod.priority} needs its slice of {where}"
        for victim in evicted:
            log.info("evicted %s for %s: %s", _name(victim), waiting, where)
            announce(self._api, victim, Event.PREEMPTED, why)
        if victims and not refused:
            names = ", ".join(map(_name, victims))
            text = f"{where} is held for it until these pods of lower priority have ended: {names}"
            announce(self._api, pending.pod, Event.PREEMPTING, text)

    def _evicted(self, victims: Sequence[Pod], waiting: Pod) -> tuple[Sequence[Pod], bool]:
        """Evict the victims until an eviction is refused; returns the evicted pods, and True after a refusal.

        First each victim gets a dry run: if a PodDisruptionBudget protects one victim, no other victim is evicted. A
        real eviction may still be refused: a dry run does not count the other victims of the same budget, and budgets
        change.
        """
        asked = victims if len(victims) > 1 else ()
        evicted: list[Pod] = []
        for victim, dry in (*product(asked, (True,)), *product(victims, (False,))):
            try:
                self._api.evict(victim, dry=dry)
            except GoneError:
                self._view.pod_news.gone(victim.uid)
                continue
            except ApiError as error:
                log.info("%s stays though %s waits: %s", _name(victim), _name(waiting), error)
                with self._lock:
                    self._deferred = {**self._deferred, victim.uid: self._clock() + DEFERRED_SECONDS}
                    self._refused_before |= {victim.uid}
                return evicted, True
            if not dry:
                with self._lock:
                    self._told |= {victim.uid}
                self._withdraw(victim.uid, waiting)
                evicted.append(victim)
        return evicted, False


def _let_go(planner: Planner, gone: Collection[str], node: str = "") -> None:
    """Release the slices of the pods in `gone`, only on `node` if it is given; the caller has opened a transaction."""
    for uid in gone:
        held = planner.ledger.holding(uid)
        if held is not None and node in ("", held.node):
            planner.ledger.release(uid)


def _name(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"
