"""The agent's calls of the API server: how many events a fault that comes and goes may write."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from device_plugin.core.contract.events import Event
from device_plugin.core.pods import Pod
from device_plugin.kube.api import Api
from device_plugin.kube.errors import UnknownError
from device_plugin.node.api import BURST, REFILL_SECONDS, NodeApi


class Events:
    """An API server that keeps the texts of events, in virtual time."""

    def __init__(self, fails: Callable[[], None] = lambda: None) -> None:
        self.now = 0.0
        self.texts: list[str] = []
        self._fails = fails

    def post_event(self, *about: Any, **_: Any) -> None:
        self.texts.append(about[-1])
        self._fails()

    def agent(self) -> NodeApi:
        """The calls of an agent to this server."""
        return NodeApi(cast("Api", self), "n1", lambda: self.now)


def no_answer() -> None:
    raise UnknownError("no answer")


def test_a_fault_that_comes_and_goes_for_a_day_writes_few_events() -> None:
    events = Events()
    agent = events.agent()
    while events.now < 86400:
        agent.node_event(Event.CARD_UNHEALTHY, f"at {events.now}")
        events.now += 3
    assert len(events.texts) == pytest.approx(BURST + 86400 / REFILL_SECONDS, abs=1)
    agent.node_event(Event.CARD_MEMORY_UNACCOUNTED, "another reason has a budget of its own")
    events.now += REFILL_SECONDS
    agent.node_event(Event.CARD_UNHEALTHY, "later")
    assert events.texts[-2:] == ["another reason has a budget of its own", "later"]


def test_all_cards_of_a_node_may_fail_at_once() -> None:
    events = Events()
    agent = events.agent()
    for card in range(BURST):
        agent.node_event(Event.CARD_UNHEALTHY, f"card {card}")
    assert len(events.texts) == BURST


def test_an_event_that_cannot_be_written_stops_nobody() -> None:
    events = Events(no_answer)
    agent = events.agent()
    agent.node_event(Event.CARD_UNHEALTHY, "of the node")
    agent.pod_event(Pod("default", "a", "uid-a"), Event.SLICE_COVERED, "of a pod")
    assert events.texts == ["of the node", "of a pod"]
