"""Reads the use of all slices for the page for a team: from the metrics of the node agents, or from a Prometheus.

The agents are asked at their addresses, not through the API server, so that the page's account needs no right to
`pods/proxy`, by which it could reach every pod of the namespace.
"""

from collections.abc import Collection, Mapping, Sequence

from device_plugin.adapters.agents import read_metrics
from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access.prometheus import Prometheus
from device_plugin.cli.reading.held_use import SliceKey, SliceUse
from device_plugin.cli.reading.slice_use import (
    MOST_AGENTS,
    Found,
    UseUnknownError,
    from_agents,
    known_uses,
)
from device_plugin.core.pods import Agent


class TeamUses:
    """The use of slices of all namespaces. `agents` is the namespace of the node agents.

    `notes` has a sentence for each question that was not answered the last time.
    """

    def __init__(self, client: KubeClient, agents: str, prometheus: Prometheus | None) -> None:
        self._client = client
        self._agents = agents
        self._prometheus = prometheus
        self.notes: Sequence[str] = ()

    def read(self, nodes: Collection[str]) -> Mapping[SliceKey, SliceUse]:
        """Returns the use of slices on these nodes, as far as it is known. Raises ApiError."""
        missing = f"use is not known: Prometheus has no figures from node agents in namespace {self._agents}"
        uses, self.notes = known_uses(nodes, self._prometheus, self._agents, "", missing, self._from_agents)
        return uses

    def _from_agents(self, nodes: Collection[str]) -> Found:
        """Returns what the agents of these nodes answer. Raises UseUnknownError, ApiError."""
        if len(nodes) > MOST_AGENTS:
            raise UseUnknownError(
                f"use is not known: there are slices on {len(nodes)} nodes, and at most {MOST_AGENTS} node agents"
                " are asked: an administrator can name a Prometheus in the setting prometheus of vgpu ui-server"
            )
        return from_agents(self._client, self._agents, "", nodes, _asked)


def _asked(agent: Agent, deadline: float) -> str:  # noqa: ARG001 - read_metrics has a shorter deadline of its own
    return read_metrics(agent.address)
