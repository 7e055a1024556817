"""The common base of the cluster service and the job engine: one replica, which follows the whole cluster.

Both services watch pods, nodes, Jobs and node agents, and keep the same view of the cluster. /healthz reports a loop
that hangs. Each service has two addresses: one for calls of its clients, one for probes and metrics.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from device_plugin.adapters.agents import AgentPoller
from device_plugin.adapters.http import server as http
from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import from_settings
from device_plugin.adapters.kube.watch import ListWatch, News, feed
from device_plugin.adapters.probes import probes
from device_plugin.core.http_values import App, EarlyApp
from device_plugin.core.pods import Node, Pod
from device_plugin.core.requests import all_resource_names
from device_plugin.kube.api import AGENT_LABELS, AGENTS, NODES, PODS, Where
from device_plugin.state.view import ClusterView
from device_plugin.wiring.commands import say_listening
from device_plugin.wiring.loops import Loops
from device_plugin.wiring.memory import MemoryReturn, malloc_trim
from device_plugin.wiring.settings import ClusterSettings, JobsSettings, SettingsError

# Seconds between returns of free memory to the system, after many pods came or went.
RETURN_SECONDS = 10.0


class Replica(ABC):
    """One replica of the cluster service or the job engine. `run` serves until `stop` is set or a thread fails.

    A loop counts as hanging if it does not call its function again within `stuck_seconds`.
    """

    _poller: AgentPoller[Any]
    """The poller of the node agents."""
    _pod_news: Sequence[News[Pod]] = ()
    """Receivers of news of pods, in addition to the view."""
    _node_news: Sequence[News[Node]] = ()
    """Receivers of news of nodes, in addition to the view."""
    _early: EarlyApp | None = None
    """The application that gives clients early answers."""

    def __init__(
        self, component: str, settings: ClusterSettings | JobsSettings, view: ClusterView, agent_namespace: str,
        stuck_seconds: float, stop: threading.Event,
    ) -> None:  # fmt: skip
        kube = settings.kube
        endpoint = from_settings(kube.server, kube.token_file, kube.ca_file, kube.kubeconfig)
        resources = all_resource_names(settings.prefixes)
        self._api = KubeClient(endpoint, component, resources=resources, brief_ends=True)
        self._view = view
        self._stop = stop
        self._http_listen = settings.http_listen
        self._loop = Loops(stop, time.monotonic, stuck_seconds)
        self._pods = ListWatch(self._api, PODS)
        self._nodes = ListWatch(self._api, NODES)
        self._agents = ListWatch(self._api, AGENTS, Where(agent_namespace, labels=AGENT_LABELS))

    @abstractmethod
    def _main_server(self) -> tuple[str, str, App]:
        """Returns the server for clients: its name, its address, and its application."""

    @abstractmethod
    def _metrics(self) -> App:
        """Returns the application that answers /metrics."""

    @abstractmethod
    def _why_not_ready(self) -> str:
        """Returns the reasons why this replica could not lead, as text; empty if it leads or could lead."""

    @abstractmethod
    def _loops(self) -> Mapping[str, Callable[[], None]]:
        """Returns the service's own loops by thread name; loops that every replica has are not among them."""

    @abstractmethod
    def _watches(self) -> Sequence[ListWatch[Any]]:
        """Returns the service's own watches, without those that every replica has."""

    def run(self) -> int:
        """Serve until `stop` is set or a thread fails; returns the exit status, 1 after a failure."""
        with ExitStack() as stack:
            stack.callback(self._api.close)
            shown = self._listen(stack)
            stack.callback(self._join)
            for name, run in {**self._common_loops(), **self._loops()}.items():
                self._loop.threads.spawn(name, run)
            say_listening(shown)
            self._stop.wait()
        return 1 if self._loop.threads.failed else 0

    def _common_loops(self) -> Mapping[str, Callable[[], None]]:
        view, stop = self._view, self._stop
        pods, nodes = (view.pod_news, *self._pod_news), (view.node_news, *self._node_news)
        memory = MemoryReturn(lambda: len(view.pods.all()), malloc_trim())
        return {
            "pods": partial(feed, self._pods, stop, *pods, doubt=view.pod_news.doubt),
            "nodes": partial(feed, self._nodes, stop, *nodes, doubt=view.node_news.doubt),
            "agents": partial(feed, self._agents, stop, view.agents, self._poller),
            # A hang does no harm: figures of the agents become stale then, and no decision rests on them alone.
            "ask agents": partial(self._loop.again, lambda: self._poller.step()),
            "memory": partial(self._loop.every, RETURN_SECONDS, memory.step),
        }

    def _listen(self, stack: ExitStack) -> str:
        """Start both servers; returns their names and addresses as text."""
        name, listen, app = self._main_server()
        operations = probes(self._loop.why_not_alive, self._why_not_ready, self._metrics())
        addresses = (
            self._served(stack, app, listen, http.SILENCE_SECONDS, self._early),
            self._served(stack, operations, self._http_listen, http.UNTRUSTED_SECONDS),
        )
        return f"{name}={addresses[0]} http={addresses[1]}"

    def _served(
        self, stack: ExitStack, app: App, listen: str, silence: int, early: EarlyApp | None = None
    ) -> str:
        try:
            return stack.enter_context(http.Server(app, listen, silence=silence, early=early)).address
        except (OSError, ValueError) as error:
            raise SettingsError(f"cannot listen on {listen}: {error}") from error

    def _join(self) -> None:
        self._stop.set()
        watches: list[ListWatch[Any]] = [self._pods, self._nodes, self._agents, *self._watches()]
        for watch in watches:
            watch.interrupt()
        self._loop.threads.join()
