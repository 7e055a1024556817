"""The cluster service, put together: four watches, two loops, two HTTP servers around one view of the cluster."""

import gc
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TypeVar

from device_plugin.adapters import extender
from device_plugin.adapters.agents import AgentPoller, Pace, read_loads
from device_plugin.adapters.exposition import Exposition
from device_plugin.adapters.http import server as http
from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import from_settings
from device_plugin.adapters.kube.watch import ListWatch
from device_plugin.adapters.probes import probes
from device_plugin.cluster.app import Extender
from device_plugin.cluster.housekeeping.deletions import Deletions
from device_plugin.cluster.housekeeping.loop import Housekeeping
from device_plugin.cluster.housekeeping.touch import Touch
from device_plugin.cluster.lead.leader import Leader
from device_plugin.cluster.lead.leadership import Leadership
from device_plugin.cluster.place.bind import Binder
from device_plugin.cluster.place.counts import Counts
from device_plugin.cluster.place.filter import Filter
from device_plugin.cluster.place.refit import Refit
from device_plugin.cluster.place.reservations import Reservations
from device_plugin.cluster.place.service import Shared
from device_plugin.cluster.ports import Calls
from device_plugin.cluster.preempt.preemption import Preemption
from device_plugin.cluster.show.cluster_gauges import ClusterGauges
from device_plugin.cluster.show.explain import Explainer
from device_plugin.cluster.show.health import Health
from device_plugin.cluster.watch.view import ClusterView
from device_plugin.core.annotations import QUEUE
from device_plugin.core.batch import QueuedJob
from device_plugin.core.loads import Load
from device_plugin.core.pods import Agent, Node, Pod
from device_plugin.core.requests import resource_names
from device_plugin.kube.api import AGENT_LABELS, AGENTS, NODES, PODS, QUEUED_JOBS, Change, Ref, Where
from device_plugin.kube.errors import ApiError, GoneError, RefusedError
from device_plugin.wiring import fitting
from device_plugin.wiring.cpu_pinning import CpuPinning
from device_plugin.wiring.memory import MemoryReturn, malloc_trim
from device_plugin.wiring.settings import ClusterSettings, SettingsError
from device_plugin.wiring.threads import Threads

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
# Seconds between returns of free memory to the system, after many pods came or went.
RETURN_SECONDS = 10.0
Item = TypeVar("Item")


class Service:
    """One replica of the cluster service: `start`, then `close`. If one of its threads dies, the process ends."""

    def __init__(self, settings: ClusterSettings, stop: threading.Event) -> None:
        self._settings = settings
        self._stop = stop
        clock = time.monotonic
        kube = settings.kube
        endpoint = from_settings(kube.server, kube.token_file, kube.ca_file, kube.kubeconfig)
        resources = [name for prefix in settings.prefixes for name in resource_names(prefix)]
        api = self._client = KubeClient(endpoint, COMPONENT, resources=resources)
        scored = settings.node_score
        view = self._view = ClusterView(settings.prefixes, clock, scored.stale_seconds)
        reservations = Reservations(view, settings.reservation_seconds, clock, scored.scoring())
        leader = Leader(settings.pod_name, clock)
        shared = Shared(view, reservations, leader, clock, Counts())
        explainer = Explainer(shared, settings.scheduler_name, stop.wait)
        gauges = ClusterGauges(shared, explainer)
        scrapes = Exposition(gauges, leads=lambda: not leader.why_not())
        binder = Binder(shared, api)
        self._leadership = Leadership(shared, api, Ref(settings.lease_name, settings.lease_namespace))
        deletions = Deletions(shared, api, covered_too=settings.covered_pods == "delete")
        self._housekeeping = Housekeeping(shared, api, binder, deletions)
        self._preemption = Preemption(shared, api, stop.wait)
        self._touch = Touch(shared, api, settings.scheduler_name)
        self._refit = Refit(shared, partial(fitting.tables, ending=stop.is_set), self._pause)
        pace = Pace(scored.ask_seconds, scored.asks_per_second)
        self._poller = AgentPoller(read_loads, self._on_loads, lambda: not leader.why_not(), pace, clock)
        self._health = Health(shared)
        calls = Calls(
            partial(extender.read_filter, resources=resources), extender.read_bind,
            partial(extender.read_preempt, resources=resources),
        )  # fmt: skip
        self._extender = Extender(Filter(shared), binder, self._preemption, explainer, calls).app()
        self._operations = probes(self._health.why_dead, self._health.why_not_ready, scrapes)
        self._pods = ListWatch(api, PODS)
        self._nodes = ListWatch(api, NODES)
        self._jobs = ListWatch(api, QUEUED_JOBS, Where(labels=QUEUE))
        self._agents = ListWatch(api, AGENTS, Where(scored.agent_namespace, labels=AGENT_LABELS))
        self._threads = Threads(stop)

    def run(self) -> int:
        """Serve until `stop` is set; returns the exit status."""
        with ExitStack() as stack:
            stack.callback(self._client.close)
            ports = self._listen(stack)
            stack.callback(self._join)
            for name, run in self._loops().items():
                self._threads.spawn(name, run)
            print(f"listening extender={ports[0]} http={ports[1]}", flush=True)  # noqa: T201 - part of the contract
            self._stop.wait()
        return 1 if self._threads.failed else 0

    def _loops(self) -> Mapping[str, Callable[[], None]]:
        """The functions that run until the service ends, by the names of their threads."""
        view, stop = self._view, self._stop
        memory = MemoryReturn(lambda: len(view.pods.all()), malloc_trim())
        return {
            "pods": partial(self._pods.run, view.sync_pods, self._on_pod, stop),
            "nodes": partial(self._nodes.run, view.sync_nodes, self._on_node, stop),
            "jobs": partial(self._jobs.run, view.sync_jobs, self._on_job, stop, self._on_no_jobs),
            "agents": partial(self._agents.run, self._poller.sync, self._on_agent, stop),
            "loads": self._ask_agents,
            "leadership": partial(self._beat, "leadership", self._leadership.step),
            "housekeeping": partial(self._beat, "housekeeping", self._housekeeping.step),
            # Without a heartbeat: a step over all pods may take minutes, and no placement depends on these. A replica
            # that has not listed does not lead.
            "beginnings": partial(self._every, TURN_SECONDS, self._leadership.begin),
            "preemption": partial(self._every, TURN_SECONDS, self._preemption.step),
            "refit": partial(self._every, TURN_SECONDS, self._refit.step),
            "touch": partial(self._every, TOUCH_SECONDS, self._touch.step),
            "memory": partial(self._every, RETURN_SECONDS, memory.step),
            "one-cpu": self._stay_together,
            "freeze": self._freeze,
        }

    def _listen(self, stack: ExitStack) -> Sequence[str]:
        shown = []
        for app, listen, silence in (
            (self._extender, self._settings.extender_listen, http.SILENCE_SECONDS),
            (self._operations, self._settings.http_listen, http.STRANGERS_SECONDS),
        ):
            try:
                server = stack.enter_context(http.Server(app, listen, silence=silence))
            except (OSError, ValueError) as error:
                raise SettingsError(f"cannot listen on {listen}: {error}") from error
            shown.append(server.address)
        return shown

    def _on_pod(self, change: Change, pod: Pod) -> None:
        if change is Change.DELETED:
            self._view.forget_pod(pod.uid, ended=pod.ended)
        else:
            self._view.see_pod(pod, watched=True)

    def _on_node(self, change: Change, node: Node) -> None:
        if change is Change.DELETED:
            self._view.forget_node(node.name)
        else:
            self._view.see_node(node)

    def _on_job(self, change: Change, job: QueuedJob) -> None:
        if change is Change.DELETED:
            self._view.forget_job(job.uid)
        else:
            self._view.see_job(job)

    def _on_no_jobs(self, error: ApiError) -> None:
        """Go on without promises where this service may not list Jobs, as with the roles of an older version."""
        if isinstance(error, RefusedError | GoneError) and not self._view.jobs_listed:
            log.warning(
                "nothing is kept for jobs while these cannot be listed: apply the roles of this version"
            )
            self._view.work_without_jobs()

    def _on_agent(self, change: Change, agent: Agent) -> None:
        if change is Change.DELETED:
            self._poller.forget(agent.pod)
        else:
            self._poller.see(agent)

    def _on_loads(self, node: str, loads: Mapping[str, Load]) -> None:
        with self._view.lock:
            self._view.measured.put(node, loads)

    def _pause(self) -> bool:
        """Wait PAUSE_SECONDS so that other threads get the lock; true if the service ends."""
        return self._stop.wait(PAUSE_SECONDS)

    def _beat(self, name: str, step: Callable[[], None]) -> None:
        while not self._stop.is_set():
            self._health.beat(name)
            step()
            self._stop.wait(TURN_SECONDS)

    def _every(self, seconds: float, step: Callable[[], None]) -> None:
        while not self._stop.wait(seconds):
            step()

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

    def _ask_agents(self) -> None:
        # No heartbeat: if it hangs, loads become stale and only the ledger counts.
        pause = 0.0
        while not self._stop.wait(pause):
            pause = self._poller.step()

    def _join(self) -> None:
        self._stop.set()
        self._pods.interrupt()
        self._nodes.interrupt()
        self._jobs.interrupt()
        self._agents.interrupt()
        self._threads.join()


def run(settings: ClusterSettings, stop: threading.Event) -> int:
    """Serve until `stop` is set. Prints where it listens. Raises SettingsError, EndpointError."""
    if len(settings.pod_name) > 63:
        # The scheduler's identity is the host name, which Kubernetes cuts at 63 characters.
        raise SettingsError(f"podName {settings.pod_name!r} is longer than a host name can be: 63 characters")
    sys.setswitchinterval(SWITCH_SECONDS)
    return Service(settings, stop).run()
