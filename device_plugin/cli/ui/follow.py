"""Watches the cluster with the caller's rights, and keeps the page's entries up to date.

Pods, nodes, queued Jobs and ResourceClaims go into a ClusterView, so that cards and reasons come from the same code as
in the cluster service. A caller who may not read nodes sees only cards that grants name. A caller who may read the pods
of one namespace sees only these pods.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import NamedTuple

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.allocator.allocator import Allocator
from device_plugin.allocator.explain import Explainer
from device_plugin.allocator.service import Shared, only_reads
from device_plugin.allocator.why_pod import asked_text
from device_plugin.cli.queued_jobs import job_row
from device_plugin.cli.ui import rows
from device_plugin.cli.ui.day import HeldDay
from device_plugin.cli.ui.entries import PageEntries
from device_plugin.cli.ui.rows import Namespaced
from device_plugin.cli.ui.timeline import MOST_LIVE, Timeline
from device_plugin.cli.ui.watches import Watched, Watches
from device_plugin.core.batch import Job
from device_plugin.core.claims import UnknownClaimError
from device_plugin.core.contract.annotations import QUEUE
from device_plugin.core.errors import RequestError
from device_plugin.core.ledger import NodeState
from device_plugin.core.pods import Pod
from device_plugin.kube.api import JOBS, NODES, PODS, RESOURCE_CLAIMS
from device_plugin.state.claims import ServedClaims
from device_plugin.state.view import ClusterView

# Seconds in which changes are collected, so that a burst of changes costs one update.
GATHER_SECONDS = 0.05
# Least seconds between two computations of reasons, and the pause after one as a multiple of its own time.
REASONS_SECONDS, LEISURE = 0.25, 4
# Most seconds between two updates: some rows change with time alone.
TURN_SECONDS = 1.0
# Most waiting pods, gangs, Jobs and faults that the page gets; a tenant can make thousands.
MOST_WAITING = MOST_GANGS = 2000
MOST_JOBS = MOST_LIVE
MOST_FAULTS = 100


class ClusterFollower:
    """Keeps `entries`, the objects that the page shows, up to date with the cluster, from `start` until `close`."""

    def __init__(
        self, client: KubeClient, entries: PageEntries, prefixes: Sequence[str], *,
        scheduler: str, namespace: str, only_namespace: bool, served: ServedClaims | None = None,
    ) -> None:  # fmt: skip
        """Only `namespace` is watched if `only_namespace` is true, or if the caller may not read all namespaces.

        With `served`, requests in ResourceClaims count too, once a node prepares claims and if the caller may read
        claims. If the claims of a pod may not be read, the page shows only the pod's requests in limits.
        """
        clock = time.monotonic
        self._entries = entries
        self._scheduler = scheduler
        self._view = ClusterView(prefixes, clock, served=served)
        # The namespace whose claims are watched (empty: all); None while no claims are.
        self._claims_in: str | None = None
        self._claims_known = False
        self._view.read_claims(known=False)
        self._allocator = Allocator(self._view, 0.0, clock)
        self._stop = threading.Event()
        shared = Shared(self._view, self._allocator, only_reads, clock)
        self._explainer = Explainer(shared, scheduler, self._stop.wait)
        self._changed, self._asked = threading.Event(), threading.Event()
        self._seen: Mapping[str, NodeState] = {}
        self._seen_hidden = False
        self._jobs = _ShownJobs(prefixes)
        self._timeline = Timeline(time.time)
        self._day = HeldDay(time.time)
        self._plans: Mapping[tuple[str, str], rows.Row] = {}
        self._places: Mapping[tuple[str, str], int] = {}
        self._nodes_hidden = False
        self._watches = Watches(
            client, entries, namespace, self._stop, self._touch, only_namespace=only_namespace
        )

    def start(self) -> None:
        """Start the threads that watch the cluster, and those that compute rows and reasons."""
        view = self._view
        nodes, pods, jobs = view.node_news, view.pod_news, (view.job_news, self._jobs, self._timeline)
        for watched in (
            Watched(NODES, [nodes], self._lose_nodes, self._on_nodes, nodes.doubt),
            Watched(PODS, [pods], pods.go_without, doubt=pods.doubt),
            Watched(JOBS, jobs, self._lose_jobs, label=QUEUE),
        ):
            self._watches.start(watched)
        if view.serves_claims:
            claims = view.claim_news
            self._watches.start(
                Watched(RESOURCE_CLAIMS, [claims], self._lose_claims, self._on_claims, optional=True)
            )
        self._watches.start_thread("rows", self._rows)
        self._watches.start_thread("reasons", self._reasons)

    def close(self) -> None:
        """Stop the threads and the watches."""
        self._stop.set()
        for event in (self._changed, self._asked):
            event.set()
        self._watches.close()

    def take_plans(self, plans: Sequence[rows.Row], source: str) -> None:
        """Show the job engine's answers about jobs, in place of the page's rows that are made of the Jobs alone.

        `source` is a text that says where the answers are from.
        """
        self._plans = {(plan["namespace"], plan["name"]): plan for plan in plans}
        self._entries.put("about", {"jobs": {"source": source}})
        self._asked.set()

    def take_places(self, places: Mapping[tuple[str, str], int]) -> None:
        """Show the places of waiting Jobs in their queues; `places` has them by namespace and name of the Job.

        A row that is the job engine's answer does not get its place from here.
        """
        self._places = places
        self._asked.set()

    def held(self) -> tuple[Mapping[str, NodeState], Mapping[str, Pod]]:
        """Returns the ledger's states of the nodes by name, and the known pods with slices on these nodes by UID.

        Both are empty before nodes and pods were listed.
        """
        if not self._shown():
            return {}, {}
        records = self._view.snapshot().records()
        return records, {
            uid: pod for record in records.values() for uid, pod in self._pods_of(record).items()
        }

    def _touch(self) -> None:
        self._changed.set()
        self._asked.set()

    def _on_nodes(self, _namespace: str) -> None:
        self._nodes_hidden = False
        self._touch()

    def _lose_nodes(self) -> None:
        self._nodes_hidden = True
        self._view.node_news.sync(())

    def _on_claims(self, namespace: str) -> None:
        self._claims_in = namespace
        self._touch()

    def _lose_claims(self) -> None:
        self._claims_in = None
        self._view.claim_news.sync(())

    def _lose_jobs(self) -> None:
        self._view.job_news.sync(())
        self._jobs.sync(())
        self._timeline.clear()

    # Cards

    def _rows(self) -> None:
        while not self._stop.is_set():
            self._changed.wait(TURN_SECONDS)
            self._changed.clear()
            self._view.expire()
            self._entries.put("times", self._timeline.changes())
            if self._shown():
                self._put_nodes()
            self._entries.put("day", self._day.changes())
            self._stop.wait(GATHER_SECONDS)

    def _shown(self) -> bool:
        return ("nodes" in self._view.listed or self._nodes_hidden) and "pods" in self._view.listed

    def _put_nodes(self) -> None:
        """Set the page's entries of nodes whose state in the ledger changed, and remove entries of gone nodes."""
        snapshot = self._view.snapshot()
        records = snapshot.records()
        hidden = self._nodes_hidden
        changed = {
            name: record
            for name, record in records.items()
            if self._seen.get(name) is not record or hidden is not self._seen_hidden
        }
        gone = self._seen.keys() - records.keys()
        # A snapshot of the changed nodes only: to describe all nodes would read every pod of the cluster each time.
        few = snapshot.of(changed)
        found: dict[str, rows.Row | None] = dict.fromkeys(gone)
        for name, record in changed.items():
            pods = self._pods_of(record)
            if record.inventory is not None:
                found[name] = rows.node_row(self._explainer, few, name, pods)
            else:
                row = rows.granted_row(record, pods) if hidden else {}
                found[name] = row if row.get("cards") else None
        self._entries.put("node", found)
        self._day.see(found)
        self._seen, self._seen_hidden = records, hidden
        self._entries.put("about", {"cluster": {"read": True}})

    def _pods_of(self, record: NodeState) -> Mapping[str, Pod]:
        """Returns the pods that hold slices on a node, by UID."""
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
        self._count_claims()
        with self._view.lock:
            statuses = [*self._allocator.gangs.statuses()]
            faults = self._view.faults.standing()[:MOST_FAULTS]
        plans = self._plans
        gangs = [asdict(gang) for gang in self._few("gangs", statuses, MOST_GANGS)]
        jobs = self._few("jobs", self._jobs.live(), MOST_JOBS)
        waiting = self._waiting()
        self._entries.replace("waiting", {f"{row['namespace']}/{row['pod']}": row for row in waiting})
        self._entries.replace("gang", {f"{gang['namespace']}/{gang['group']}": gang for gang in gangs})
        self._entries.replace(
            "job",
            {
                f"{job.namespace}/{job.name}": plans.get((job.namespace, job.name)) or self._placed(job)
                for job in jobs
            },
        )
        self._entries.replace(
            "fault",
            {
                f"{each.kind} {each.subject}": {"text": f"{each.kind} of {each.subject}: {each.text}"}
                for each in faults
            },
        )

    def _count_claims(self) -> None:
        """Count the requests in ResourceClaims while claims are watched and a node prepares them; else only limits.

        Where no node prepares claims for us, the claims of pods of our scheduler may be for other drivers.
        """
        known = self._claims_in is not None and any(
            inventory.claims for inventory in self._view.snapshot().inventories().values()
        )
        if known != self._claims_known:
            self._claims_known = known
            self._view.read_claims(known=known)

    def _placed(self, job: "_ShownJob") -> rows.Row:
        """Returns the page's row of a Job, with its place in the queue if it has no pods and the place is known."""
        place = None if job.row["width"] else self._places.get((job.namespace, job.name))
        return {**job.row, "place": place}

    def _waiting(self) -> list[rows.Row]:
        """Returns the page's rows of pods that wait for a card, each with the reason.

        If nodes cannot be read, the reason is the text of kube-scheduler.
        """
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
        """Returns at most `most` of the objects, from all namespaces in turn.

        If some are left out, a notice on the page says so; `what` is the name of the objects there.
        """
        text = f"{most} of {len(found)} {what} are shown, the namespaces in turn: with -n, vgpu ui shows those of one"
        self._entries.put("notice", {f"more {what}": {"text": text} if len(found) > most else None})
        return rows.in_turn(found, most)

    def _asks(self, pod: Pod) -> str:
        """Returns the pod's request as text; empty if the request is malformed: the reason in the pod's row says so."""
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
        except UnknownClaimError:
            # Claims of other namespaces may exist.
            return self._claims_in in ("", pod.namespace)
        except RequestError:
            return True


class _ShownJob(NamedTuple):
    """A queued Job that has not ended, with the page's row that is made of the Job alone."""

    namespace: str
    name: str
    row: rows.Row


class _ShownJobs:
    """The queued Jobs that have not ended. The thread of the Jobs' watch writes, and any thread may read."""

    def __init__(self, prefixes: Sequence[str]) -> None:
        self._prefixes = prefixes
        self._jobs: dict[str, _ShownJob] = {}

    def sync(self, jobs: Sequence[Job]) -> None:
        self._jobs = {job.uid: self._shown(job) for job in jobs if not job.ended}

    def see(self, job: Job) -> None:
        if job.ended:
            self.forget(job)
        else:
            self._jobs[job.uid] = self._shown(job)

    def forget(self, job: Job) -> None:
        self._jobs.pop(job.uid, None)

    def live(self) -> Sequence[_ShownJob]:
        """Returns the queued Jobs that have not ended."""
        # The list is made in one step of the interpreter, so that no write of the watch's thread disturbs it.
        return [*self._jobs.values()]

    def _shown(self, job: Job) -> _ShownJob:
        return _ShownJob(job.namespace, job.name, job_row(job, prefixes=self._prefixes))
