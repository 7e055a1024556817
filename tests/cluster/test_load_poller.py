"""Loads reach decisions while they are fresh, at a bounded rate, whatever agents do."""

from collections.abc import Callable, Mapping
from itertools import pairwise

import pytest

from device_plugin.adapters.agents import IDLE_SECONDS, LONGEST_PAUSE, AgentPoller, Pace
from device_plugin.allocator.explain import as_text
from device_plugin.core.loads import Load
from device_plugin.core.pods import Agent
from tests.builders.cards import inventory
from tests.cluster.world import Replica, World

STALE = 60.0
PACE = Pace(seconds=15.0, per_second=20.0)
Poller = AgentPoller[Mapping[str, Load]]
Answer = Callable[[], Mapping[str, Load]]


class Agents:
    """Agents by address, and when each was asked."""

    def __init__(self, world: World) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[float, str]] = []
        self._clock = world.clock

    def __call__(self, address: str) -> Mapping[str, Load]:
        self.asked.append((self._clock.now, address))
        return self.answers[address]()

    def add(self, node: str, memory: float) -> Agent:
        """An agent whose every card has this share of its memory in use, and is not busy."""
        self.answers[f"{node}:9400"] = lambda: {f"{node}-{i}": Load(memory, 0.0) for i in range(2)}
        return Agent(f"agent-{node}", node, f"{node}:9400")


@pytest.fixture
def agents(world: World) -> Agents:
    return Agents(world)


@pytest.fixture
def poller(world: World, agents: Agents) -> Poller:
    for name in ("n1", "n2", "n3"):
        world.node(name, inventory(name))
    world.one.view.node_news.sync(world.api.nodes())
    view, leader = world.one.view, world.one.leader

    def on_loads(node: str, loads: Mapping[str, Load]) -> None:
        with view.lock:
            view.measured.put(node, loads)

    return AgentPoller(agents, on_loads, lambda: not leader.why_not(), PACE, world.clock)


def run(world: World, poller: Poller, seconds: float) -> None:
    """The poller's own thread, for some seconds."""
    end = world.clock.now + seconds
    world.one.renew()
    while world.clock.now < end:
        world.clock.now += poller.step()
        world.one.renew()


def loads(one: Replica) -> list[str]:
    return [node["loads"] for node in one.explainer.view()["nodes"]]


def test_what_agents_measure_decides_until_it_is_stale_and_explain_says_which(
    world: World, one: Replica, poller: Poller, agents: Agents
) -> None:
    poller.sync([agents.add("n1", 0.95), agents.add("n2", 0.5)])
    asked = world.pod("p", 1, 1, annotations={"vgpu.io/policy": "node-score"})
    assert one.ask(asked) == "n1"
    assert loads(one) == ["from the ledger"] * 3
    run(world, poller, 1.0)
    assert one.ask(asked) == "n3", "the cards of n1 and n2 are in use, though nobody holds them"
    assert loads(one) == ["measured 1 s ago", "measured 1 s ago", "from the ledger"]
    assert "n2 (loads: measured 1 s ago)" in as_text(one.explainer.view())
    one.wait(STALE)
    assert one.ask(asked) == "n1"
    assert loads(one) == ["from the ledger"] * 3


def test_each_is_asked_in_its_turn_and_not_more_than_so_many_in_a_second(
    world: World, poller: Poller, agents: Agents
) -> None:
    poller.sync([agents.add(f"n{i}", 0.1) for i in range(1, 101)])
    begin = world.clock.now
    run(world, poller, 60.0)
    for second in range(60):
        within = [at for at, _ in agents.asked if begin + second <= at < begin + second + 1]
        assert len(within) <= PACE.per_second + 1
    counts = [sum(1 for _, address in agents.asked if address == f"n{i}:9400") for i in range(1, 101)]
    assert set(counts) <= {4, 5}, "every 15 s"


@pytest.mark.parametrize("error", [TimeoutError("no whole answer"), RuntimeError("what nobody foresaw")])
def test_one_that_fails_is_asked_more_and_more_rarely_and_the_others_as_before(
    world: World, poller: Poller, agents: Agents, error: Exception
) -> None:
    poller.sync([agents.add("n1", 0.1), agents.add("n2", 0.1)])

    def slow() -> Mapping[str, Load]:
        world.clock.now += 1.0
        raise error

    agents.answers["n1:9400"] = slow
    run(world, poller, 1800.0)
    failing = [at for at, address in agents.asked if address == "n1:9400"]
    pauses = [after - before for before, after in pairwise(failing)]
    assert pauses == sorted(pauses)
    assert pauses[0] >= 2 * PACE.seconds
    assert pauses[-1] >= LONGEST_PAUSE
    assert sum(1 for _, address in agents.asked if address == "n2:9400") > 100
    agents.answers["n1:9400"] = dict
    run(world, poller, 400.0)
    latest = [at for at, address in agents.asked if address == "n1:9400"][-2:]
    assert latest[1] - latest[0] < 2 * PACE.seconds, "it is well again"


def test_an_agent_that_is_gone_or_has_no_address_is_not_asked(
    world: World, poller: Poller, agents: Agents
) -> None:
    first, second = agents.add("n1", 0.1), agents.add("n2", 0.1)
    poller.sync([first, Agent("starting", "n3")])
    poller.sync([second])
    run(world, poller, 20.0)
    assert {address for _, address in agents.asked} == {"n2:9400"}
    poller.see(Agent(second.pod, "n2"))
    agents.asked.clear()
    run(world, poller, 20.0)
    assert agents.asked == []


def test_a_restarted_agent_is_asked_at_its_new_address(world: World, poller: Poller, agents: Agents) -> None:
    poller.see(agents.add("n1", 0.1))
    run(world, poller, 1.0)
    agents.answers["moved:9400"] = lambda: {"n1-0": Load(0.5)}
    poller.see(Agent("agent-n1", "n1", "moved:9400"))
    run(world, poller, 1.0)
    assert [address for _, address in agents.asked] == ["n1:9400", "moved:9400"]


def test_cards_that_the_node_does_not_have_change_nothing(
    world: World, poller: Poller, agents: Agents
) -> None:
    agent = agents.add("n1", 0.1)
    agents.answers["n1:9400"] = lambda: {"n2-0": Load(1.0, 1.0), "ghost": Load(1.0)}
    poller.sync([agent, Agent("stray", "no-such-node", "n1:9400")])
    run(world, poller, 2.0)
    view = world.one.view
    assert view.measured.loads.used("n1") == view.measured.loads.used("n2") == {}
    assert view.measured.age("no-such-node") is None


def test_agents_of_nodes_without_use_are_passed_over_until_they_have_some(
    world: World, agents: Agents
) -> None:
    of_use = {"n100"}
    poller: Poller = AgentPoller(
        agents, lambda *_: None, lambda: True, PACE, world.clock, of_use.__contains__
    )
    poller.sync([agents.add(f"n{i}", 0.1) for i in range(1, 101)])
    run(world, poller, 31.0)
    assert [address for _, address in agents.asked] == ["n100:9400"] * 3
    of_use.add("n7")
    begin = world.clock.now
    run(world, poller, 16.0)
    assert "n7:9400" in [address for at, address in agents.asked if at >= begin]


def test_a_replica_that_does_not_lead_asks_nobody(world: World, poller: Poller, agents: Agents) -> None:
    poller.sync([agents.add("n1", 0.1)])
    world.clock.now += 60.0
    assert poller.step() == IDLE_SECONDS
    assert agents.asked == []
