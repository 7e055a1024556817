"""The touch: a write to an annotation of a pod that we refused, so that kube-scheduler asks for it again.

kube-scheduler asks again when something in the cluster changes. But it does not see every change that makes room: a
reservation that expired, a gang that was dissolved, a Binding that failed. And it may ask before our watch has shown
that a slice is free, and then not again for minutes. So we touch the refused pods for which there is room, unless
kube-scheduler has asked for them since.

No tenant can prevent other tenants' pods from being touched. Namespaces take turns, and if kube-scheduler does not ask
for a touched pod, the slices found for it are soon offered to other namespaces.
"""

import logging
from collections import OrderedDict, defaultdict, deque
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from device_plugin.allocator.service import Service, Shared
from device_plugin.allocator.waiting.refusal_budget import LaterError
from device_plugin.allocator.waiting.refusals import Waiting, WaitsFor
from device_plugin.cluster.touching import touch
from device_plugin.core.contract.grants import Grant
from device_plugin.core.errors import RequestError
from device_plugin.core.ledger import PromiseHolder, ReservationStage
from device_plugin.core.pods import Pod
from device_plugin.core.requests import PodRequest
from device_plugin.kube.api import Api

log = logging.getLogger(__name__)

# Seconds in which kube-scheduler asks for the pods that an event wakes; after that we touch.
GRACE_SECONDS = 0.3
# Seconds between the beginnings of two rounds while changes continue.
ROUND_SECONDS = 0.5
# Most pods for which a place is searched in one step; there are about four steps per second.
LOOKS = 64
# Most touched pods that kube-scheduler has not asked for yet.
TOUCHES = 16
# Most pods that are taken from the queue while the lock is held once; many of them may be known to fit nowhere.
TAKEN = 256
# kube-scheduler asks for a touched pod within milliseconds, or after the pods before it. For PROMPT_SECONDS the slices
# found for it are offered to no other pod; until ASKED_SECONDS only to pods of namespaces that are not late.
PROMPT_SECONDS, ASKED_SECONDS = 0.75, 5.0
# Seconds for which a namespace is late after kube-scheduler did not ask for one of its touched pods.
LATE_SECONDS = 60.0
# Seconds after which this replica takes over the pods that an earlier leader refused: by then kube-scheduler's backoff
# has ended, and it has asked for most of them again.
INHERITED_AFTER_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class _Expected:
    """A touched pod that kube-scheduler should ask for; `grants` were found for it or its gang, at the time `since`."""

    waiting: Waiting
    grants: Sequence[Grant]
    since: float


class _Queue:
    """Refused pods in the order in which they are tried: namespaces take turns, one pod each.

    Within a namespace the pods have the order of kube-scheduler's queue. A round tries each pod once. If a new round
    begins before the previous round has ended, the pods that the previous round did not reach come first.
    """

    def __init__(self) -> None:
        # UIDs by namespace, the next UID first; no list is empty.
        self._uids: OrderedDict[str, deque[str]] = OrderedDict()

    def __bool__(self) -> bool:
        """True if the queue still has pods to try in this round."""
        return bool(self._uids)

    def clear(self) -> None:
        """End the round by removing all pods from the queue."""
        self._uids.clear()

    def begin(self, waiting: Iterable[Waiting]) -> None:
        """Replace the pods in the queue by these refused pods.

        In each namespace the pods that were still in the queue come first.
        """
        of: dict[str, list[str]] = defaultdict(list)
        for each in sorted(waiting, key=lambda each: _queue_order(each.pod)):
            of[each.pod.namespace].append(each.pod.uid)
        left = self._uids
        self._uids = OrderedDict((namespace, deque[str]()) for namespace in left if namespace in of)
        for namespace, uids in of.items():
            first = dict.fromkeys(left.get(namespace, ()))
            here = set(uids)
            queue = self._uids.setdefault(namespace, deque())
            queue.extend(uid for uid in first if uid in here)
            queue.extend(uid for uid in uids if uid not in first)

    def take(self, last: Collection[str]) -> str:
        """Remove and return the UID of the next pod; pods of namespaces in `last` come after all others."""
        namespace = next((each for each in self._uids if each not in last), next(iter(self._uids)))
        queue = self._uids[namespace]
        uid = queue.popleft()
        if queue:
            self._uids.move_to_end(namespace)
        else:
            del self._uids[namespace]
        return uid

    def put_back(self, taken: Sequence[Waiting]) -> None:
        """Put pods back to the front of the queue, in this order."""
        for each in reversed(taken):
            self._uids.setdefault(each.pod.namespace, deque()).appendleft(each.pod.uid)
            self._uids.move_to_end(each.pod.namespace, last=False)


class Touch(Service):
    """Touches refused pods for which there is room: a write, after which kube-scheduler tries the pod again.

    A thread of its own calls `step` about four times a second.
    """

    def __init__(self, shared: Shared, api: Api, scheduler_name: str) -> None:
        super().__init__(shared)
        self._api = api
        self._scheduler_name = scheduler_name
        self._inherits: float | None = self._clock() + INHERITED_AFTER_SECONDS
        self._seen: object = None
        # The time when the next round is due after a change, and the time when the last one began.
        self._due: float | None = None
        self._began = self._clock()
        self._queue = _Queue()
        self._hopeless: set[object] = set()
        self._expected: dict[str, _Expected] = {}
        # By namespace: the time until which it is late, and comes after all others.
        self._late: dict[str, float] = {}

    def step(self) -> None:
        """Touch the next refused pods for which there is room, if this replica places."""
        now = self._clock()
        if self._why_not_placing():
            self._inherits = now + INHERITED_AFTER_SECONDS
            self._seen = None
            self._queue.clear()
            self._expected.clear()
            return
        if self._inherits is not None and now >= self._inherits:
            self._inherits = None
            self._inherit()
        self._take_postponed(now)
        self._settle(now)
        self._begin_round(now)
        for waiting in self._found(now):
            self._touch(waiting)

    def _settle(self, now: float) -> None:
        """Forget touched pods that were placed, refused again or removed, or for which /filter was not called in time.

        kube-scheduler must call /filter for a touched pod within ASKED_SECONDS. If it has not done so after
        PROMPT_SECONDS, the pod's namespace is late: for LATE_SECONDS, or until kube-scheduler calls for one of its
        pods. The slices that were found for the pods of late namespaces, and for forgotten pods without a place, become
        free for other pods. So a new round, which touches other pods, begins at once.
        """
        offered = False
        with self._view.lock:
            for uid, expected in list(self._expected.items()):
                namespace, age = expected.waiting.pod.namespace, now - expected.since
                known = self._view.pods.get(uid)
                placed = self._view.ledger.reservation(uid) is not None or (known is not None and known.node)
                if placed or self._allocator.waiting.pods.get(uid) not in (None, expected.waiting):
                    self._late.pop(namespace, None)
                elif known is not None and age < ASKED_SECONDS:
                    if age >= PROMPT_SECONDS:
                        offered |= namespace not in self._late
                        self._late[namespace] = now + LATE_SECONDS
                    continue
                del self._expected[uid]
                offered |= not placed
        self._late = {namespace: until for namespace, until in self._late.items() if until > now}
        if offered:
            self._due = now

    def _begin_round(self, now: float) -> None:
        """Put all refused pods into the queue of pods to touch, if it is time for that.

        It is time GRACE_SECONDS after a change by which a refused pod may fit. While the queue still has pods, it is
        time only once ROUND_SECONDS have passed since the queue was last filled.
        """
        with self._view.lock:
            news = self._allocator.news()
        if news != self._seen and self._due is None:
            self._due = now + GRACE_SECONDS
        if self._due is None or now < self._due or (self._queue and now < self._began + ROUND_SECONDS):
            return
        self._seen, self._due, self._began = news, None, now
        self._hopeless.clear()
        self._queue.begin(self._allocator.waiting.pods.values())

    def _found(self, now: float) -> list[Waiting]:
        """The next pods to touch, after at most LOOKS tries, the highest priority of each batch first.

        The list ends before more than TOUCHES pods wait for kube-scheduler to ask for them.
        """
        found: list[Waiting] = []
        looks = LOOKS
        if self._queue:
            self._expect_elsewhere()
        while looks and self._queue:
            batch = self._batch(looks)
            for number, waiting in enumerate(batch):
                if self._alike(waiting) in self._hopeless:
                    continue
                if len(self._awaited(waiting)) >= TOUCHES:
                    self._queue.put_back(batch[number:])
                    return found
                looks -= 1
                with self._view.lock:
                    fits = self._fits(waiting, now)
                if fits:
                    found.append(waiting)
                else:
                    self._hopeless.add(self._alike(waiting))
        return found

    def _expect_elsewhere(self) -> None:
        """Find new grants for touched pods if other pods have taken slices of the grants that were found for them.

        kube-scheduler asks in its own order, so one pod often gets the slices that were found for another pod. The
        second pod will then get other slices, which must not look free. Gangs are left out, because they have many
        grants.
        """
        with self._view.lock:
            for uid, expected in list(self._expected.items()):
                pod = self._view.pods.get(uid)
                if pod is None or len(expected.grants) > 1 or not self._is_taken(pod, expected.grants[0]):
                    continue
                del self._expected[uid]
                try:
                    request = self._view.pods.request_of(pod)
                except RequestError:
                    continue
                if request is not None and (grants := self._grants(pod, request, expected.waiting)):
                    self._expected[uid] = replace(expected, grants=grants)

    def _is_taken(self, pod: Pod, grant: Grant) -> bool:
        """True if other pods hold slices of the grant; slices kept for the pod's own job do not count."""
        own = PromiseHolder(grant.node, self._view.promises.of(pod))
        return any(each.other != own for each in self._view.ledger.in_the_way(grant, pod.uid))

    def _batch(self, most: int) -> list[Waiting]:
        """Take from the queue the next pods that may fit now, at most `most`."""
        batch: list[Waiting] = []
        with self._view.lock:
            for _ in range(TAKEN):
                if not self._queue or len(batch) == most:
                    break
                waiting = self._allocator.waiting.pods.get(self._queue.take(self._late))
                if (
                    waiting is not None
                    and self._alike(waiting) not in self._hopeless
                    and self._allocator.waiting.pods.outdated(waiting)
                ):
                    batch.append(waiting)
        return sorted(batch, key=lambda each: (each.pod.namespace in self._late, _queue_order(each.pod)))

    def _alike(self, waiting: Waiting) -> object:
        """A key: if one pod with this key does not fit, no pod with this key fits.

        A job with a promise has a key of its own, because the promised slices are free for its pods alone.
        """
        beneficiary = self._view.promises.of(waiting.pod)
        return (beneficiary, waiting.alike) if beneficiary else waiting.alike

    def _awaited(self, waiting: Waiting) -> list[Grant]:
        """The grants found for pods that were touched before: their slices are not free for the pod in `waiting`.

        A namespace is late if kube-scheduler has not asked for one of its touched pods in time. Grants for pods of late
        namespaces are left out, unless the namespace of the pod in `waiting` is late too.
        """
        late = self._late if waiting.pod.namespace not in self._late else ()
        return [
            grant
            for each in self._expected.values()
            if each.waiting.pod.namespace not in late
            for grant in each.grants
        ]

    def _fits(self, waiting: Waiting, now: float) -> bool:
        """True if the pod, with all of its gang, would be placed now. Callers hold the lock.

        Also true if the pod has a WAITING reservation, or was refused without a decision: kube-scheduler must ask for
        the pod again. A pod that is gone, bound or ending is removed from the waiting pods.
        """
        uid = waiting.pod.uid
        known = self._view.pods.get(uid)
        if known is None or known.node or known.deleting or known.ended:
            self._allocator.waiting.pods.drop(uid)
            return False
        reserved = self._view.ledger.reservation(uid)
        if reserved is not None and reserved.stage is not ReservationStage.NOMINATED:
            return reserved.stage is ReservationStage.WAITING
        if waiting.waits_for is WaitsFor.DECISION:
            return True
        try:
            request = self._view.pods.request_of(known)
        except RequestError:
            return False
        if request is None or self._allocator.problem(known, request):
            return False
        if waiting.gang and any(each.waiting.alike == waiting.alike for each in self._expected.values()):
            return True
        grants = self._grants(known, request, waiting)
        if grants:
            self._expected[uid] = _Expected(waiting, grants, now)
        return bool(grants)

    def _grants(self, pod: Pod, request: PodRequest, waiting: Waiting) -> Sequence[Grant]:
        """The grants that the pod, or its gang, would get now; empty if the pod or gang does not fit.

        Slices that were found for pods touched earlier count as taken.
        """
        gangs, ledger = self._allocator.gangs, self._view.ledger
        if request.gang is not None and not gangs.worth_asking(pod):
            return ()
        with ledger.transaction(), suppress(LaterError):
            ledger.release(pod.uid)
            if beneficiary := self._view.promises.of(pod):
                self._view.promises.slices.release(beneficiary, ledger)
            for grant in self._awaited(waiting):
                ledger.hold(grant)
            if request.gang is not None:
                return gangs.find(pod, waiting.nodes)
            # If kube-scheduler has sent no list of nodes, it has not checked the hosts' CPU and memory.
            vetted = waiting.nodes is not None
            request = self._allocator.in_group(pod, request)
            find = partial(self._allocator.placer.find, request, waiting.nodes, vetted=vetted)
            found = self._allocator.waiting.budget.decided(pod.namespace, request, find)
            return (found,) if found is not None else ()
        return ()

    def _touch(self, waiting: Waiting) -> None:
        pod = waiting.pod
        with self._view.lock:
            if self._allocator.waiting.pods.get(pod.uid) is not waiting:
                return  # kube-scheduler has asked for the pod meanwhile
            # The pod is dropped, so that it is touched again only after a new refusal.
            self._allocator.waiting.pods.drop(pod.uid)
        if not touch(self._api, self._view, pod, "there is room for it"):
            self._take_back(waiting)

    def _take_back(self, waiting: Waiting) -> None:
        """Undo a touch that could not be written: the pod waits again, unless kube-scheduler asked for it meanwhile."""
        uid = waiting.pod.uid
        self._expected.pop(uid, None)
        self._due = self._due or self._clock() + ASKED_SECONDS
        with self._view.lock:
            if self._allocator.waiting.pods.get(uid) is None and self._view.ledger.reservation(uid) is None:
                self._allocator.waiting.pods.keep(waiting)

    def _inherit(self) -> None:
        """Add refused pods to the waiting pods if kube-scheduler has not asked for them since this replica leads."""
        pods = [
            pod for pod in self._view.pods.all()
            if pod.scheduler == self._scheduler_name and pod.refused and not pod.node and not pod.deleting
        ]  # fmt: skip
        pods.sort(key=_queue_order)
        with self._view.lock:
            for pod in pods:
                if self._view.ledger.reservation(pod.uid) is None:
                    self._allocator.waiting.pods.inherit(pod, WaitsFor.ANYTHING)
        self._seen = None

    def _take_postponed(self, now: float) -> None:
        """Record the postponed pods (refused without a decision) as waiting, and begin a round, which touches them.

        Called in every step. A call of /filter that began before this replica led may postpone its pod later.
        """
        for pod in self._allocator.waiting.postponed.take():
            with self._view.lock:
                self._allocator.waiting.pods.inherit(self._view.pod_news.known(pod), WaitsFor.DECISION)
            self._due = now


def _queue_order(pod: Pod) -> tuple[int, str, str]:
    """The sort key of kube-scheduler's queue: the highest priority first, then the oldest."""
    return -pod.priority, pod.created, pod.uid
