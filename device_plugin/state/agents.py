"""The nodes whose agents are ready by their readiness probes: a crashed agent cannot report that it does not serve."""

import threading
from collections.abc import Iterable

from device_plugin.core.pods import Agent


class Agents:
    """Holds the nodes of the ready agents. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By name of the agent's pod: its node. None before the first list.
        self._ready: dict[str, str] | None = None

    def sync(self, agents: Iterable[Agent]) -> None:
        """Replace the known agents by a list of all agents; only ready agents are kept."""
        with self._lock:
            self._ready = {agent.pod: agent.node for agent in agents if agent.ready}

    def see(self, agent: Agent) -> None:
        """Record an agent as it is now; an agent that is not ready is removed.

        Before the first list nothing is recorded.
        """
        with self._lock:
            if self._ready is not None and agent.ready:
                self._ready[agent.pod] = agent.node
        if not agent.ready:
            self.forget(agent)

    def forget(self, agent: Agent) -> None:
        """Remove an agent whose pod is gone."""
        with self._lock:
            if self._ready is not None:
                self._ready.pop(agent.pod, None)

    def nodes(self) -> frozenset[str] | None:
        """The nodes with a ready agent; None before the agents were listed."""
        with self._lock:
            return frozenset(self._ready.values()) if self._ready is not None else None
