"""Builds the cluster service: its watches, its loops and two HTTP servers, which share one state of the cluster."""

import gc
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from device_plugin.adapters import extender
from device_plugin.adapters.agents import AgentPoller, Pace, read_loads
from device_plugin.adapters.kube.watch import ListWatch, feed
from device_plugin.adapters.metrics import Exposition
from device_plugin.allocator.allocator import Allocator
from device_plugin.allocator.decisions import Decisions
from device_plugin.allocator.explain import Explainer
from device_plugin.allocator.refit import Refit
from device_plugin.allocator.service import Shared
from device_plugin.cluster.app import Extender
from device_plugin.cluster.bind import Binder
from device_plugin.cluster.claim_touch import ClaimTouch
from device_plugin.cluster.claim_writes import ClaimWrites
from device_plugin.cluster.cluster_gauges import ClusterGauges
from device_plugin.cluster.counts import Counts
from device_plugin.cluster.deletions import Deletions
from device_plugin.cluster.filter import Filter
from device_plugin.cluster.housekeeping import Housekeeping
from device_plugin.cluster.idle_evictions import IdleEvictions
from device_plugin.cluster.leader import Leader
from device_plugin.cluster.leadership import Leadership
from device_plugin.cluster.ports import Calls
from device_plugin.cluster.preemption import Preemption
from device_plugin.cluster.server_version import ServerVersion
from device_plugin.cluster.stale_claims import StaleClaims
from device_plugin.cluster.touch import Touch
from device_plugin.core.contract.annotations import QUEUE
from device_plugin.core.http_values import App
from device_plugin.core.loads import Load
from device_plugin.core.placement import kernel
from device_plugin.core.requests import all_resource_names
from device_plugin.kube.api import JOBS, Ref, Where
from device_plugin.state.claims import ServedClaims
from device_plugin.state.view import ClusterView
from device_plugin.wiring import fitting
from device_plugin.wiring.build_info import with_build_info
from device_plugin.wiring.claim_watch import ClaimWatch
from device_plugin.wiring.cpu_pinning import CpuPinning
from device_plugin.wiring.replica import Replica
from device_plugin.wiring.settings import ClusterSettings, SettingsError
from device_plugin.wiring.workload_watches import WorkloadWatches

log = logging.getLogger(__name__)

COMPONENT = "vgpu-cluster"
TURN_SECONDS = 1.0
TOUCH_SECONDS = 0.25
# Seconds that a computing thread can keep a /filter waiting; Python's default of 5 ms is longer than a decision.
SWITCH_SECONDS = 0.0005
# Seconds between two pieces of background work, so that other threads get the lock.
PAUSE_SECONDS = 0.002
# A full garbage collection stops every thread: 150 ms with 16,000 pods. Objects of the cluster are in no reference
# cycles, so every FREEZE_SECONDS all objects of that moment are excluded from collection.
FREEZE_SECONDS = 300.0
# Seconds without a turn after which a loop counts as hung: a turn makes a few calls of at most 3 s each.
STUCK_SECONDS = 60.0


class ClusterService(Replica):
    """One replica of the cluster service: builds its parts, and names its loops, watches and servers."""

    def __init__(self, settings: ClusterSettings, stop: threading.Event) -> None:
        clock = time.monotonic
        scored = settings.node_score
        served = ServedClaims(settings.scheduler_name, settings.mem_unit_mib) if settings.claims else None
        view = ClusterView(settings.prefixes, clock, scored.stale_seconds, served=served)
        super().__init__(COMPONENT, settings, view, scored.agent_namespace, STUCK_SECONDS, stop)
        self._extender_listen = settings.extender_listen
        api = self._api
        if kernel.compiled() is None:
            log.warning("%s cannot be loaded: placing takes more time, with numpy alone", kernel.LIBRARY)
        allocator = Allocator(view, settings.reservation_seconds, clock, scored.scoring())
        leader = self._leader = Leader(settings.pod_name, clock)
        shared, counts = Shared(view, allocator, leader.why_not, clock), Counts()
        explainer = Explainer(shared, settings.scheduler_name, stop.wait)
        self._gauges = ClusterGauges(shared, explainer, leader.unread, counts)
        claims = ClaimWrites(shared, api, leader.fenced)
        binder = Binder(shared, api, leader.fenced, counts, claims)
        self._leadership = Leadership(shared, leader, api, Ref(settings.lease_name, settings.lease_namespace))
        deletions = Deletions(shared, api, covered_too=settings.covered_pods == "delete")
        self._housekeeping = Housekeeping(
            shared, api, binder, deletions, IdleEvictions(shared, api, counts), StaleClaims(shared, claims)
        )
        self._preemption = Preemption(shared, api, stop.wait)
        self._touch = Touch(shared, api, settings.scheduler_name)
        self._claim_touch = ClaimTouch(shared, api) if settings.claims else None
        self._refit = Refit(shared, partial(fitting.tables, ending=stop.is_set), self._pause)
        pace = Pace(scored.ask_seconds, scored.asks_per_second)
        self._poller = AgentPoller(read_loads, self._on_loads, self._leads, pace, clock)
        self._version = ServerVersion(api.text)
        resources = all_resource_names(settings.prefixes)
        filter_calls = extender.FilterCalls(resources)
        calls = Calls(
            filter_calls, extender.read_bind, partial(extender.read_preempt, resources=resources),
            filter_calls.begun, extender.FilterAnswers(self._version.absent_is_hopeless),
        )  # fmt: skip
        extended = Extender(
            Filter(shared, counts), binder, self._preemption, explainer, Decisions(shared), calls
        )
        self._extender, self._early = extended.app(), extended.early
        self._claims = ClaimWatch(api, view, stop) if settings.claims else None
        self._jobs = ListWatch(api, JOBS.metadata, Where(labels=QUEUE))
        self._workloads = WorkloadWatches(
            api, self._loop.threads, stop, lambda kind: (self._view.job_news.of(kind),)
        )

    def _leads(self) -> bool:
        return not self._leader.why_not()

    def _main_server(self) -> tuple[str, str, App]:
        return "extender", self._extender_listen, self._extender

    def _metrics(self) -> App:
        return Exposition(with_build_info("cluster", self._gauges), leads=self._leads)

    def _why_not_ready(self) -> str:
        unread = self._claims.why_not_listed() if self._claims is not None else ""
        return "; ".join(why for why in (self._view.why_not_synced(), unread, self._leader.unread()) if why)

    def _loops(self) -> Mapping[str, Callable[[], None]]:
        return {
            **self._claim_loops(),
            "jobs": partial(feed, self._jobs, self._stop, self._view.job_news),
            "kinds": partial(self._loop.again, self._workloads.step),
            "leadership": partial(self._loop.turns, "leadership", TURN_SECONDS, self._leadership.step),
            "housekeeping": partial(self._loop.turns, "housekeeping", TURN_SECONDS, self._housekeeping.step),
            # A hang of these loops is not reported: a step over all pods may take minutes, and no placement waits for
            # one. A replica that has not listed does not lead.
            "beginnings": partial(self._loop.every, TURN_SECONDS, self._leadership.begin),
            "preemption": partial(self._loop.every, TURN_SECONDS, self._preemption.step),
            "refit": partial(self._loop.every, TURN_SECONDS, self._refit.step),
            "touch": partial(self._loop.every, TOUCH_SECONDS, self._touch.step),
            "version": partial(self._loop.again, self._version.step),
            "one-cpu": self._stay_together,
            "freeze": self._freeze,
        }

    def _claim_loops(self) -> Mapping[str, Callable[[], None]]:
        """The loops that serve ResourceClaims; none if these are not served."""
        if self._claims is None or self._claim_touch is None:
            return {}
        return {
            "claims": self._claims.run,
            "claim touch": partial(self._loop.every, TOUCH_SECONDS, self._claim_touch.step),
        }

    def _watches(self) -> Sequence[ListWatch[Any]]:
        claims = () if self._claims is None else (self._claims.watch,)
        return self._jobs, *claims, *self._workloads.all()

    def _on_loads(self, node: str, loads: Mapping[str, Load]) -> None:
        with self._view.lock:
            self._view.measured.put(node, loads)

    def _pause(self) -> bool:
        """Wait PAUSE_SECONDS so that other threads get the lock; returns true if the service ends.

        Background work calls this between two of its pieces.
        """
        return self._stop.wait(PAUSE_SECONDS)

    def _stay_together(self) -> None:
        # The thread `refit` starts the process that makes tables, which uses the other CPUs. The main thread only
        # waits.
        pinning = CpuPinning(self._stop.wait, free=["refit", threading.main_thread().name])
        try:
            while not self._stop.is_set():
                pinning.step()
        finally:
            pinning.leave()

    def _freeze(self) -> None:
        while self._view.why_not_synced():
            if self._stop.wait(TURN_SECONDS):
                return
        while True:
            gc.freeze()
            if self._stop.wait(FREEZE_SECONDS):
                return


def run(settings: ClusterSettings, stop: threading.Event) -> int:
    """Run a replica of the cluster service until `stop` is set; prints its addresses and returns the exit status.

    Raises SettingsError, EndpointError.
    """
    if len(settings.pod_name) > 63:
        # The scheduler's identity is the host name, which Kubernetes cuts at 63 characters.
        raise SettingsError(f"podName {settings.pod_name!r} is longer than a host name can be: 63 characters")
    sys.setswitchinterval(SWITCH_SECONDS)
    return ClusterService(settings, stop).run()
