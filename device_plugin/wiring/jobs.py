"""Builds the job engine: its watches, its planners and two HTTP servers, which share the known Jobs."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from math import inf
from typing import Any

from device_plugin.adapters.agents import AgentPoller, Pace, read_progress
from device_plugin.adapters.kube.watch import ListWatch, feed
from device_plugin.adapters.metrics import Exposition
from device_plugin.core.batch import Job
from device_plugin.core.contract.annotations import QUEUE
from device_plugin.core.http_values import App
from device_plugin.core.jobs.job import JobSpec
from device_plugin.core.jobs.rates import read_rates
from device_plugin.core.jobs.rules import Rules
from device_plugin.core.jobs.workload_reading import spec_of
from device_plugin.jobs.execute.sender import Sender
from device_plugin.jobs.execute.writes import Write
from device_plugin.jobs.pools.dispatcher import Dispatcher
from device_plugin.jobs.pools.leases import PoolLeases
from device_plugin.jobs.pools.planners import Planners
from device_plugin.jobs.ports import Holdings
from device_plugin.jobs.round import Rounds
from device_plugin.jobs.show.announcer import Announcer
from device_plugin.jobs.show.explain import JobExplainer
from device_plugin.jobs.show.gauges import JobGauges
from device_plugin.kube.api import JOBS, PRIORITY_CLASSES, Ref, Where
from device_plugin.kube.errors import ApiError
from device_plugin.kube.leases import LEASES
from device_plugin.state.creations import FailedCreations
from device_plugin.state.holdings import ViewedHoldings
from device_plugin.state.jobs import JobsOfKind, KnownJobs
from device_plugin.state.managed import ManagedJobs
from device_plugin.state.nodes import KnownNodes
from device_plugin.state.priorities import Priorities
from device_plugin.state.replicas import LiveReplicas
from device_plugin.state.view import ClusterView
from device_plugin.wiring.build_info import with_build_info
from device_plugin.wiring.replica import Replica
from device_plugin.wiring.settings import JobsSettings
from device_plugin.wiring.workload_watches import LATER_SECONDS, WorkloadWatches

log = logging.getLogger(__name__)

COMPONENT = "vgpu-jobs"
# Seconds between two checks for changes.
LOOK_SECONDS = 0.25
# Seconds without a turn after which a loop counts as hung: a round makes many calls of at most 3 s each.
STUCK_SECONDS = 120.0
# Each agent with a pod of a Job is asked every 5 s for the programs' reports, and at most 50 agents in a second.
ASKED = Pace(5.0, 50.0)


class JobEngine(Replica):
    """One replica of the job engine: builds its parts, and names its loops, watches and servers."""

    def __init__(self, settings: JobsSettings, stop: threading.Event) -> None:
        clock = time.monotonic
        view = ClusterView(settings.prefixes, clock)
        super().__init__(COMPONENT, settings, view, settings.agent_namespace, STUCK_SECONDS, stop)
        self._settings = settings
        api = self._api
        nodes = KnownNodes()
        self._holdings = ViewedHoldings(view, nodes)
        self._known = KnownJobs(self._read, settings.stranded_seconds)
        self._priorities = Priorities(self._known.read_again)
        lease = Ref(settings.lease_name, settings.lease_namespace)
        self._replicas = LiveReplicas(settings.pod_name, settings.lease_namespace)
        self._pod_news, self._node_news = (self._replicas, self._known.pods), (nodes,)
        self._leases = PoolLeases(api, lease, settings.pod_name, clock, _now, self._replicas.names)
        rules = rules_of(settings)
        rates, _ = read_rates("\n".join(settings.rates))

        def rounds(jobs: ManagedJobs, holdings: Holdings, leads: Callable[[], bool]) -> Rounds:
            return Rounds(
                jobs, holdings, self._sender(leads), FailedCreations(api, clock, time.time), leads, clock, time.time,
                rules, rates,
            )  # fmt: skip

        dispatcher = Dispatcher(self._holdings, self._sender(self._leases.dispatches), clock, time.time)
        self._planners = Planners(
            self._known, self._holdings, self._leases, dispatcher, rounds, clock, time.thread_time
        )
        self._announcer = Announcer(api, self._known, clock)
        self._gauges = JobGauges(self._known, self._planners, self._leases.dispatches, time.time)
        self._poller = AgentPoller(
            read_progress,
            lambda node, told: self._known.receive(node, told, time.time()),
            self._leases.plans_any,
            ASKED,
            clock,
            self._known.on,
        )
        self._jobs = ListWatch(api, JOBS, Where(labels=QUEUE))
        self._workloads = WorkloadWatches(
            api, self._loop.threads, stop,
            lambda kind: (self._view.job_news.of(kind), JobsOfKind(self._known, kind)),
            self._may_read_jobs, self._known.doubt, LATER_SECONDS,
        )  # fmt: skip
        self._known.waits_for(self._workloads.why_not_synced)
        self._classes = ListWatch(api, PRIORITY_CLASSES)
        self._lease_watch = ListWatch(api, LEASES, Where(settings.lease_namespace))

    def _main_server(self) -> tuple[str, str, App]:
        return "explain", self._settings.explain_listen, JobExplainer(self._known, self._planners)

    def _metrics(self) -> App:
        read = with_build_info("jobs", self._gauges)
        return Exposition(read, leads=lambda: (self._leases.dispatches(), self._leases.planned()))

    def _sender(self, leads: Callable[[], bool]) -> Sender:
        return Sender(self._api, self._known, leads, time.monotonic, self._on_write)

    def _loops(self) -> Mapping[str, Callable[[], None]]:
        return {
            "priority classes": partial(feed, self._classes, self._stop, self._priorities),
            "jobs": self._watch_jobs,
            "kinds": partial(self._loop.again, self._workloads.step),
            "lease": partial(self._loop.paced, "lease", self._leases.keep),
            "lease watch": partial(feed, self._lease_watch, self._stop, self._leases),
            "rounds": partial(self._loop.turns, "rounds", LOOK_SECONDS, self._round),
            "events": partial(self._loop.turns, "events", LOOK_SECONDS, self._announcer.step),
        }

    def _watches(self) -> Sequence[ListWatch[Any]]:
        return self._jobs, self._classes, self._lease_watch, *self._workloads.all()

    def _read(self, job: Job) -> JobSpec:
        settings = self._settings
        return spec_of(
            job,
            settings.prefixes,
            self._priorities.by_name,
            self._holdings.share,
            settings.split_ratio or inf,
        )

    def _may_read_jobs(self) -> bool:
        """True once nodes and priority classes are listed: how a Job is read depends on its cards and its class."""
        return "nodes" in self._view.listed and self._priorities.listed

    def _watch_jobs(self) -> None:
        while not self._may_read_jobs():
            if self._stop.wait(LOOK_SECONDS):
                return
        feed(self._jobs, self._stop, self._view.job_news, self._known, doubt=self._known.doubt)

    def _on_write(self, write: Write) -> None:
        self._gauges.count(write)
        self._announcer.wrote(write)

    def _round(self) -> None:
        self._planners.step()
        rounds = [planner.rounds for planner in self._planners.all()]
        self._announcer.planned(rounds, dispatches=self._leases.dispatches())

    def _why_not_ready(self) -> str:
        missing = (self._known.why_not_synced(), self._view.why_not_synced(), self._leases.problem)
        return "; ".join(why for why in missing if why)

    def _join(self) -> None:
        super()._join()
        try:
            self._leases.release()
        except ApiError as error:
            log.info("the Lease is not given up: %s", error)


def rules_of(settings: JobsSettings) -> Rules:
    """Returns the rules of the job engine's rounds, made from the settings."""
    return Rules(
        quantum_s=settings.quantum_seconds,
        cooldown_s=settings.cooldown_seconds, young_s=settings.young_seconds,
        resumable=settings.resumable, resumable_queues=frozenset(settings.resumable_queues),
        min_runtime_s=settings.min_runtime_seconds, use=settings.use, weights=settings.queue_weights,
    )  # fmt: skip


def _now() -> str:
    """Returns the wall clock in the format of a Lease's times."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def run(settings: JobsSettings, stop: threading.Event) -> int:
    """Run a replica of the job engine until `stop` is set; prints its addresses and returns the exit status.

    Raises SettingsError, EndpointError.
    """
    return JobEngine(settings, stop).run()
