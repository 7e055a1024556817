"""One replica of a service that follows the whole cluster: what the cluster service and the job engine have in common.

Both follow pods, nodes, Jobs and the node agents by watches, keep the same view of the cluster, run loops of which a
hanging one is found, and serve two addresses: one for those who ask something of the service, one for probes.
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
from device_plugin.core.http_values import App
from device_plugin.core.pods import Node, Pod
from device_plugin.core.requests import resource_names
from device_plugin.kube.api import AGENT_LABELS, AGENTS, NODES, PODS, Where
from device_plugin.state.view import ClusterView
from device_plugin.wiring.commands import say_listening
from device_plugin.wiring.loops import Loops
from device_plugin.wiring.memory import MemoryReturn, malloc_trim
from device_plugin.wiring.settings import ClusterSettings, JobsSettings, SettingsError

# Seconds between returns of free memory to the system, after many pods came or went.
RETURN_SECONDS = 10.0


class Replica(ABC):
    """Serves with `run`. If one of its threads dies, the process ends. A loop hangs if it takes `stuck_seconds`."""

    _poller: AgentPoller[Any]
    """The poller of the node agents."""
    _pod_news: Sequence[News[Pod]] = ()
    """Further parts that take news of pods."""
    _node_news: Sequence[News[Node]] = ()
    """Further parts that take news of nodes."""

    def __init__(
        self, component: str, settings: ClusterSettings | JobsSettings, view: ClusterView, agent_namespace: str,
        stuck_seconds: float, stop: threading.Event,
    ) -> None:  # fmt: skip
        kube = settings.kube
        endpoint = from_settings(kube.server, kube.token_file, kube.ca_file, kube.kubeconfig)
        resources = [name for prefix in settings.prefixes for name in resource_names(prefix)]
        self._api = KubeClient(endpoint, component, resources=resources)
        self._view = view
        self._stop = stop
        self._http_listen = settings.http_listen
        self._loop = Loops(stop, time.monotonic, stuck_seconds)
        self._pods = ListWatch(self._api, PODS)
        self._nodes = ListWatch(self._api, NODES)
        self._agents = ListWatch(self._api, AGENTS, Where(agent_namespace, labels=AGENT_LABELS))

    @abstractmethod
    def _main_server(self) -> tuple[str, str, App]:
        """The server that others ask: the name to print with its address, its address, and its application."""

    @abstractmethod
    def _metrics(self) -> App:
        """The application of /metrics."""

    @abstractmethod
    def _why_not_ready(self) -> str:
        """The missing parts, as text; empty if this replica could lead, whether it does or not."""

    @abstractmethod
    def _loops(self) -> Mapping[str, Callable[[], None]]:
        """The functions that run until the service ends, in addition to every replica's, by their threads' names."""

    @abstractmethod
    def _watches(self) -> Sequence[ListWatch[Any]]:
        """The watches in addition to those of every replica."""

    def run(self) -> int:
        """Serve until `stop` is set; returns the exit status."""
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
            # Its hanging does no harm: what agents say becomes stale then, and nothing rests on it alone.
            "ask agents": partial(self._loop.again, lambda: self._poller.step()),
            "memory": partial(self._loop.every, RETURN_SECONDS, memory.step),
        }

    def _listen(self, stack: ExitStack) -> str:
        """Begin to serve; returns the addresses with their names."""
        name, listen, app = self._main_server()
        operations = probes(self._loop.why_not_alive, self._why_not_ready, self._metrics())
        addresses = (
            self._served(stack, app, listen, http.SILENCE_SECONDS),
            self._served(stack, operations, self._http_listen, http.UNTRUSTED_SECONDS),
        )
        return f"{name}={addresses[0]} http={addresses[1]}"

    def _served(self, stack: ExitStack, app: App, listen: str, silence: int) -> str:
        try:
            return stack.enter_context(http.Server(app, listen, silence=silence)).address
        except (OSError, ValueError) as error:
            raise SettingsError(f"cannot listen on {listen}: {error}") from error

    def _join(self) -> None:
        self._stop.set()
        watches: list[ListWatch[Any]] = [self._pods, self._nodes, self._agents, *self._watches()]
        for watch in watches:
            watch.interrupt()
        self._loop.threads.join()
