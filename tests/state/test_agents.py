"""Which nodes have an agent that is ready."""

from dataclasses import replace

from device_plugin.core.pods import Agent
from device_plugin.state.agents import Agents

A, B = (Agent(f"agent-{name}", name, f"{name}:9400", ready=True) for name in ("n1", "n2"))


def test_nothing_is_known_before_the_first_list() -> None:
    agents = Agents()
    agents.see(A)
    agents.forget(A)
    assert agents.nodes() is None


def test_an_agent_counts_while_it_is_ready() -> None:
    agents = Agents()
    agents.sync([A, replace(B, ready=False)])
    assert agents.nodes() == frozenset({"n1"})
    agents.see(B)
    assert agents.nodes() == frozenset({"n1", "n2"})
    agents.see(replace(A, ready=False))
    assert agents.nodes() == frozenset({"n2"})
    agents.forget(B)
    assert agents.nodes() == frozenset()


def test_a_new_agent_of_a_node_takes_the_place_of_the_old_one() -> None:
    agents = Agents()
    agents.sync([A])
    agents.see(replace(A, pod="agent-new"))
    agents.forget(A)
    assert agents.nodes() == frozenset({"n1"})
