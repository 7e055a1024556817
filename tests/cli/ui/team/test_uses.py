"""The use of slices for the page for a team: from agents at their addresses, or from a Prometheus."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access.prometheus import Prometheus, PrometheusError, PrometheusSeries
from device_plugin.cli.reading.slice_use import MOST_AGENTS
from device_plugin.cli.ui.team import uses
from device_plugin.cli.ui.team.uses import TeamUses
from device_plugin.core.pods import Agent
from device_plugin.kube.api import EVERYWHERE, Kind, Listed, Where

SAMPLE = 'vgpu_slice_memory_used_bytes{namespace="team",pod="a",container="main",node="n1",card="c"} 5\n'


class Agents(KubeClient):
    """A client that may list the agents of n1 and n2, and has no other right."""

    def __init__(self) -> None:
        """Open no connection."""

    def list(self, kind: Kind[Any], where: Where = EVERYWHERE) -> Listed[Any]:
        assert (kind.item, where.namespace) == (Agent, "ours")
        agents = [Agent(f"agent-{i}", f"n{i}", f"10.0.0.{i}:9400") for i in (1, 2)]
        return Listed([each for each in agents if where.fields in ("", f"spec.nodeName={each.node}")])


def test_agents_are_asked_at_their_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(address: str) -> str:
        if address != "10.0.0.1:9400":
            raise TimeoutError("timed out")
        return SAMPLE

    monkeypatch.setattr(uses, "read_metrics", answer)
    team = TeamUses(Agents(), "ours", None)
    found = team.read(["n1", "n2"])
    assert found["team", "a", "main", "c"].used == 5
    assert team.notes == ["the agent of n2 does not answer: timed out"]


def test_too_many_agents_are_not_asked_and_the_page_says_what_helps() -> None:
    team = TeamUses(Agents(), "ours", None)
    assert team.read([f"n{i}" for i in range(MOST_AGENTS + 1)]) == {}
    assert "name a Prometheus in the setting prometheus" in team.notes[0]


class Answers:
    """A Prometheus with this answer to each query."""

    def __init__(self, answer: Callable[[], list[PrometheusSeries]]) -> None:
        self._answer = answer

    def now(self, text: str) -> list[PrometheusSeries]:
        assert '"ours"' in text
        return self._answer()


def test_with_a_prometheus_no_agent_is_asked() -> None:
    labels = {"namespace": "team", "pod": "a", "container": "main", "node": "n1", "card": "c"}

    def team(answer: Callable[[], list[PrometheusSeries]]) -> TeamUses:
        return TeamUses(Agents(), "ours", cast(Prometheus, Answers(answer)))

    assert [*team(lambda: [PrometheusSeries(labels, [(0, 7)])]).read(["n1"])] == [("team", "a", "main", "c")]
    empty = team(list)
    assert empty.read(["n1"]) == {}
    assert "no figures from node agents in namespace ours" in empty.notes[0]

    def fails() -> list[PrometheusSeries]:
        raise PrometheusError("it is gone")

    broken = team(fails)
    assert broken.read(["n1"]) == {}
    assert broken.notes == ("it is gone",)
