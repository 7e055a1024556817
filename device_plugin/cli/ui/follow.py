"""Follows the cluster with the caller's rights, and keeps the page's entries as the cluster is.

Pods, nodes and Jobs of queues are watched into a ClusterView, so that cards and reasons come from the same code as in
the cluster service. A caller who may not read nodes sees the cards that grants name; one who may read the pods of one
namespace only sees those.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.fast_annotations import read_grant
from device_plugin.adapters.kube.watch import ListWatch
from device_plugin.allocator.allocator import Allocator
from device_plugin.allocator.explain import Explainer
from device_plugin.allocator.service import Shared, only_reads
from device_plugin.allocator.why_pod import asked_text
from device_plugin.cli.access.caller import may_follow
from device_plugin.cli.reading.cluster import MissingRight
from device_plugin.cli.reading.reader import rule_to_list
from device_plugin.cli.ui import rows
from device_plugin.cli.ui.entries import PageEntries
from device_plugin.cli.ui.rows import Namespaced
from device_plugin.core.annotations import GROUP, QUEUE, RESIZE
from device_plugin.core.batch import Job, QueuedJob
from device_plugin.core.errors import RequestError
from device_plugin.core.ledger import NodeState
from device_plugin.core.pods import Node, Pod
from device_plugin.kube.api import EVERYWHERE, JOBS, NODES, PODS, Change, Kind, Where
from device_plugin.kube.errors import ApiError, ForbiddenError
from device_plugin.state.view import ClusterView

# Seconds in which changes are gathered, so that a burst costs one look at what changed.
GATHER_SECONDS = 0.05
# Reasons are computed again at most this often, and for at most one part of the time in LEISURE.
REASONS_SECONDS, LEISURE = 0.25, 4
# Seconds after which what depends on time alone is looked at.
TURN_SECONDS = 1.0
# Seconds after which what the caller might not read is asked for again.
RIGHTS_SECONDS = 30.0
# Waiting pods, gangs, Jobs and faults that the page gets; a tenant can make thousands.
MOST_WAITING = MOST_GANGS = MOST_JOBS = 2000
MOST_FAULTS = 100


class ClusterFollower:
    """Keeps `entries` as the cluster is, from `start` until `close`."""

    def __init__(
        self, client: KubeClient, entries: PageEntries, prefixes: Sequence[str], *,
        scheduler: str, namespace: str, only_namespace: bool,
    ) -> None:  # fmt: skip
        """`namespace` is followed alone if `only_namespace` is true, or the caller may not read all."""
        clock = time.monotonic
        self._client = client
        self._entries = entries
        self._scheduler = scheduler
        self._namespace = namespace
        self._where = Where(namespace) if only_namespace else EVERYWHERE
        self._view = ClusterView(prefixes, clock, decode=read_grant)
        self._allocator = Allocator(self._view, 0.0, clock)
        self._stop = threading.Event()
        shared = Shared(self._view, self._allocator, only_reads, clock)
        self._explainer = Explainer(shared, scheduler, self._stop.wait)
        self._changed, self._asked = threading.Event(), threading.Event()
        self._seen: Mapping[str, NodeState] = {}
        self._seen_hidden = False
        self._jobs: dict[str, Job] = {}
        self._plans: Mapping[tuple[str, str], rows.Row] = {}
        self._jobs_lock = threading.Lock()
        self._nodes_hidden = False
        # By kind, the time of day at which its watch failed first, as text.
        self._late: dict[str, str] = {}
        self._watches: list[ListWatch[Any]] = []
        self._watches_lock = threading.Lock()

    def start(self) -> None:
        """Start the threads that watch the cluster, and those that compute rows and reasons."""
        work: Mapping[str, Callable[[], None]] = {
            "nodes": partial(self._again, self._follow_nodes),
            "pods": partial(self._again, self._follow_pods),
            "jobs": partial(self._again, self._follow_jobs),
            "rows": self._rows,
            "reasons": self._reasons,
        }
        for name, each in work.items():
            self._start_thread(name, each)

    def close(self) -> None:
        """Stop following."""
        self._stop.set()
        for event in (self._changed, self._asked):
            event.set()
        with self._watches_lock:
            for watch in self._watches:
                watch.interrupt()

    def take_plans(self, plans: Sequence[rows.Row], source: str) -> None:
        """Show these answers of the job engine instead of what Jobs alone say; `source` says where they are from."""
        with self._jobs_lock:
            self._plans = {(plan["namespace"], plan["name"]): plan for plan in plans}
        self._entries.put("about", {"jobs": {"source": source}})
        self._asked.set()

    # Watches

    def _start_thread(self, name: str, work: Callable[[], None]) -> None:
        """Start a thread that does `work`; the page says so if an error ends it."""
        threading.Thread(target=self._guarded, args=(work,), name=f"ui-{name}", daemon=True).start()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            self._note("broken", f"a part of this page stands still ({said}): start `vgpu ui` again")
            raise

    def _again(self, follow: Callable[[], bool]) -> None:
        """Call `follow` again whenever it returns, until the end.

        It returns true where the caller may read more than was followed, and is called at once; false where the caller
        may not read anything, and is called after RIGHTS_SECONDS, since rights come and go.
        """
        while not self._stop.is_set():
            if not follow():
                self._stop.wait(RIGHTS_SECONDS)

    def _follow_nodes(self) -> bool:
        return self._follow(NODES, EVERYWHERE, self._view.node_news.sync, self._on_node, self._lose_nodes)

    def _follow_pods(self) -> bool:
        """Follow the pods; without the right to all of them, those of the namespace."""
        view = self._view
        follow = partial(
            self._follow, PODS, sync=view.pod_news.sync, on_change=self._on_pod, lose=view.pod_news.go_without
        )
        if follow(self._where):
            return True
        return not self._where.namespace and follow(Where(self._namespace), wider=self._where)

    def _follow_jobs(self) -> bool:
        """Follow the Jobs of queues; without the right to, those of the namespace."""
        lose = partial(self._sync_jobs, ())
        follow = partial(self._follow, JOBS, sync=self._sync_jobs, on_change=self._on_job, lose=lose)
        where = Where(self._where.namespace, QUEUE)
        if follow(where):
            return True
        return not where.namespace and follow(Where(self._namespace, QUEUE), wider=where)

    def _follow(
        self, kind: Kind[Any], where: Where, sync: Callable[[Sequence[Any]], None],
        on_change: Callable[[Change, Any], None], lose: Callable[[], None], *, wider: Where | None = None,
    ) -> bool:  # fmt: skip
        """Follow a kind until the end, or until the caller may read it in `wider` too, which holds `where`.

        Returns true then. Once the caller may not read the kind there it calls `lose`, since what was read before is
        not known any more, and returns false. A list is taken once its watch is open: who may only list would see it
        come and go.
        """
        watch: ListWatch[Any] = ListWatch(self._client, kind, where)
        ended = threading.Event()
        with self._watches_lock:
            self._watches.append(watch)
        listed: list[Sequence[Any]] = []

        def synced(items: Sequence[Any]) -> None:
            listed[:] = [items]

        def opened() -> None:
            if listed:
                sync(listed.pop())
                self._touch()
            self._on_open(kind, where)

        def changed(change: Change, item: Any) -> None:
            on_change(change, item)
            self._touch()

        if wider is not None:
            look = partial(self._widen, kind, wider, watch, ended)
            self._start_thread(f"rights-{kind.plural}", look)
        try:
            watch.run(synced, changed, self._stop, partial(self._on_error, kind), opened, self._doubts(kind))
        except ForbiddenError:
            self._late.pop(kind.plural, None)
            self._entries.put(
                "notice",
                {f"late-{kind.plural}": None, f"read-{kind.plural}": {"text": self._missing(kind, where)}},
            )
            lose()
            self._touch()
            return False
        finally:
            ended.set()
            with self._watches_lock:
                self._watches.remove(watch)
        return True

    def _doubts(self, kind: Kind[Any]) -> Callable[[], None]:
        """The call to make after a restored etcd: what is known of this kind may not hold any more."""
        if kind is PODS:
            return self._view.pod_news.doubt
        return self._view.node_news.doubt if kind is NODES else lambda: None

    def _widen(self, kind: Kind[Any], wider: Where, watch: ListWatch[Any], ended: threading.Event) -> None:
        """End a watch of one namespace once the caller may read the objects of `wider`; `ended` ends the looking."""
        while not ended.wait(RIGHTS_SECONDS):
            # Without an answer the next look asks again.
            with suppress(ApiError):
                if may_follow(self._client, kind, wider.namespace):
                    watch.interrupt()
                    return

    def _on_open(self, kind: Kind[Any], where: Where) -> None:
        """Take back the notice that the rows of a kind may be out of date: its watch is open again."""
        self._late.pop(kind.plural, None)
        self._entries.put("notice", {f"late-{kind.plural}": None})
        if where.namespace == self._where.namespace:
            self._entries.put("notice", {f"read-{kind.plural}": None})
        if kind is NODES:
            self._nodes_hidden = False
            self._touch()

    def _missing(self, kind: Kind[Any], where: Where) -> str:
        """The right that the caller lacks, what is unknown without it, and what allows it, as text."""
        unknown = "cards are known only as grants name them"
        if where.namespace:
            unknown = "none are shown"
        elif kind is not NODES:
            unknown = f"those of namespace {self._namespace} are shown"
        rule = rule_to_list(kind.plural, where.namespace, kind.group)
        of = f"in namespace {where.namespace}" if where.namespace else "of the cluster"
        return str(MissingRight(f"list the {kind.plural} {of}", unknown, rule))

    def _on_error(self, kind: Kind[Any], error: ApiError) -> None:
        """Note that the rows of a kind may be out of date. Raises ForbiddenError if the caller may not read them."""
        if isinstance(error, ForbiddenError):
            raise error
        since = self._late.setdefault(kind.plural, time.strftime("%H:%M:%S"))
        self._note(f"late-{kind.plural}", f"{kind.plural} may be out of date since {since}: {error}")

    def _lose_nodes(self) -> None:
        self._nodes_hidden = True
        self._view.node_news.sync(())

    def _on_node(self, change: Change, node: Node) -> None:
        if change is Change.DELETED:
            self._view.node_news.gone(node.name)
        else:
            self._view.node_news.see(node)

    def _on_pod(self, change: Change, pod: Pod) -> None:
        if change is Change.DELETED:
            self._view.pod_news.gone(pod.uid, ended=pod.ended)
        else:
            self._view.pod_news.see(pod, watched=True)

    def _sync_jobs(self, jobs: Sequence[Job]) -> None:
        self._view.job_news.sync(map(_kept, jobs))
        with self._jobs_lock:
            self._jobs = {job.uid: job for job in jobs}

    def _on_job(self, change: Change, job: Job) -> None:
        if change is Change.DELETED:
            self._view.job_news.forget(_kept(job))
        else:
            self._view.job_news.see(_kept(job))
        with self._jobs_lock:
            self._jobs.pop(job.uid, None)
            if change is not Change.DELETED:
                self._jobs[job.uid] = job

    def _touch(self) -> None:
        self._changed.set()
        self._asked.set()

    def _note(self, key: str, text: str) -> None:
        self._entries.put("notice", {key: {"text": text}})

    # Cards

    def _rows(self) -> None:
        while not self._stop.is_set():
            self._changed.wait(TURN_SECONDS)
            self._changed.clear()
            self._view.expire()
            if self._shown():
                self._put_nodes()
            self._stop.wait(GATHER_SECONDS)

    def _shown(self) -> bool:
        return ("nodes" in self._view.listed or self._nodes_hidden) and "pods" in self._view.listed

    def _put_nodes(self) -> None:
        """Set the entries of the nodes whose records in the ledger changed."""
        snapshot = self._view.snapshot()
        records = snapshot.records()
        hidden = self._nodes_hidden
        changed = {
            name: record
            for name, record in records.items()
            if self._seen.get(name) is not record or hidden is not self._seen_hidden
        }
        gone = self._seen.keys() - records.keys()
        # A snapshot of these nodes alone: one of all would look at every pod of the cluster for each change.
        few = snapshot.of(changed)
        found: dict[str, rows.Row | None] = dict.fromkeys(gone)
        for name, record in changed.items():
            pods = self._pods_of(record)
            if record.inventory is not None:
                found[name] = rows.node_row(self._explainer, few, name, rows.bound_times(pods.values()))
            else:
                row = rows.granted_row(record, pods) if hidden else {}
                found[name] = row if row.get("cards") else None
        self._entries.put("node", found)
        self._seen, self._seen_hidden = records, hidden
        self._entries.put("about", {"cluster": {"read": True}})

    def _pods_of(self, record: NodeState) -> Mapping[str, Pod]:
        """The pods that hold something on a node, by UID."""
        known = ((holder, self._view.pods.get(holder)) for holder in record.holdings)
        return {str(holder): pod for holder, pod in known if pod is not None}

    # Reasons

    def _reasons(self) -> None:
        while not self._stop.is_set():
            self._asked.wait()
            self._asked.clear()
            began = time.monotonic()
            if self._shown():
                self._put_reasons()
            took = time.monotonic() - began
            self._stop.wait(max(REASONS_SECONDS, LEISURE * took))

    def _put_reasons(self) -> None:
        with self._view.lock:
            statuses = [*self._allocator.gangs.statuses()]
            faults = self._view.faults.standing()[:MOST_FAULTS]
        with self._jobs_lock:
            all_jobs = [job for job in self._jobs.values() if not job.ended]
            plans = self._plans
        gangs = [asdict(gang) for gang in self._few("gangs", statuses, MOST_GANGS)]
        jobs = self._few("jobs", all_jobs, MOST_JOBS)
        waiting = self._waiting()
        self._entries.replace("waiting", {f"{row['namespace']}/{row['pod']}": row for row in waiting})
        self._entries.replace("gang", {f"{gang['namespace']}/{gang['group']}": gang for gang in gangs})
        told = {
            (job.namespace, job.name): plans.get((job.namespace, job.name)) or rows.job_row(job)
            for job in jobs
        }
        self._entries.replace("job", {"/".join(name): row for name, row in told.items()})
        self._entries.replace(
            "fault",
            {
                f"{each.kind} {each.subject}": {"text": f"{each.kind} of {each.subject}: {each.text}"}
                for each in faults
            },
        )

    def _waiting(self) -> list[rows.Row]:
        """The pods that wait for a card. Without the nodes nothing is computed: kube-scheduler's message is shown."""
        pods = {(pod.namespace, pod.name): pod for pod in self._view.pods.all() if self._waits(pod)}
        if self._nodes_hidden:
            few = self._few("waiting pods", [*pods.values()], MOST_WAITING)
            nothing = "kube-scheduler has said nothing of it yet"
            return [
                rows.waiting_row(pod, self._asks(pod), pod.obstacles.said or nothing, "", "said")
                for pod in few
            ]
        found = [entry for entry in self._explainer.waiting() if (entry.namespace, entry.pod) in pods]
        return [
            rows.waiting_row(pod, self._asks(pod), entry.text, entry.advice, entry.reason)
            for entry in self._few("waiting pods", found, MOST_WAITING)
            for pod in (pods[entry.namespace, entry.pod],)
        ]

    def _few(self, what: str, found: Sequence[Namespaced], most: int) -> Sequence[Namespaced]:
        """At most `most` of the objects found, round-robin over the namespaces; a notice gives the number left out."""
        text = f"{most} of {len(found)} {what} are shown, the namespaces in turn: with -n, vgpu ui shows those of one"
        self._entries.put("notice", {f"more {what}": {"text": text} if len(found) > most else None})
        return rows.in_turn(found, most)

    def _asks(self, pod: Pod) -> str:
        """The pod's request as text; empty if it is malformed: the pod's reason says so."""
        try:
            request = self._view.pods.request_of(pod)
        except RequestError:
            return ""
        return asked_text(request) if request is not None else ""

    def _waits(self, pod: Pod) -> bool:
        if pod.node or pod.ended or pod.deleting or pod.scheduler != self._scheduler:
            return False
        try:
            return self._view.pods.request_of(pod) is not None
        except RequestError:
            return True


def _kept(job: Job) -> QueuedJob:
    """The part of a Job that says what is kept for it."""
    return QueuedJob(
        job.namespace, job.name, job.uid, job.labels.get(GROUP, ""), job.annotations.get(RESIZE, "")
    )
