"""The survey: node agents are asked for the loads of their cards, one after another, at a bounded rate.

Nothing waits for it. One agent that is slow or lies harms only what is known of its own node: an answer is limited in
size and time, and whoever fails is asked more and more rarely.
"""

import heapq
import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from device_plugin.cluster.leader import Leader
from device_plugin.cluster.ports import ReadLoads
from device_plugin.cluster.state import State
from device_plugin.core.pods import Agent

log = logging.getLogger(__name__)

IDLE_SECONDS = 1.0
# The pause of an agent that fails doubles each time, up to this.
LONGEST_PAUSE = 300.0


@dataclass(frozen=True, slots=True)
class Pace:
    """Each agent is asked every `seconds`, and no more than `per_second` agents in a second."""

    seconds: float = 15.0
    per_second: float = 50.0


@dataclass(frozen=True, slots=True)
class _Turn:
    agent: Agent
    due: float
    pause: float


class Survey:
    """Call `step` again and again from one thread; agents come and go from another."""

    def __init__(
        self, state: State, leader: Leader, read: ReadLoads, pace: Pace, clock: Callable[[], float]
    ) -> None:
        self._state = state
        self._leader = leader
        self._read = read
        self._pace = pace
        self._clock = clock
        self._lock = threading.Lock()
        self._turns: dict[str, _Turn] = {}
        # When agents are due, by the names of their pods; what does not agree with their turns is void.
        self._queue: list[tuple[float, str]] = []

    def sync(self, agents: Iterable[Agent]) -> None:
        """Take a list of all agents."""
        listed = {agent.pod: agent for agent in agents}
        with self._lock:
            gone = self._turns.keys() - listed.keys()
        for pod in gone:
            self.forget(pod)
        for agent in listed.values():
            self.see(agent)

    def see(self, agent: Agent) -> None:
        """Take news of an agent; without an address it cannot be asked."""
        if not agent.address:
            self.forget(agent.pod)
            return
        with self._lock:
            known = self._turns.get(agent.pod)
            if known is None or known.agent != agent:
                self._await(_Turn(agent, self._clock(), self._pace.seconds))

    def forget(self, pod: str) -> None:
        """The agent's pod is gone."""
        with self._lock:
            self._turns.pop(pod, None)

    def step(self) -> float:
        """Ask the agent that has waited longest, if one is due; returns after how many seconds to call again."""
        if self._leader.why_not():
            return IDLE_SECONDS  # whoever does not lead decides nothing
        turn = self._next()
        if turn is None:
            return IDLE_SECONDS
        pause = self._ask(turn)
        with self._lock:
            if self._turns.get(turn.agent.pod) == turn:
                self._await(replace(turn, due=self._clock() + pause, pause=pause))
        return 1 / self._pace.per_second

    def _ask(self, turn: _Turn) -> float:
        """Ask, and tell the state; returns the seconds until the agent is asked again."""
        agent = turn.agent
        try:
            loads = self._read(agent.address)
        except (OSError, ValueError) as error:
            if turn.pause == self._pace.seconds:
                log.info("no loads from the agent of node %s at %s: %s", agent.node, agent.address, error)
            return max(self._pace.seconds, min(LONGEST_PAUSE, 2 * turn.pause))
        with self._state.lock:
            self._state.measured.put(agent.node, loads)
        return self._pace.seconds

    def _next(self) -> _Turn | None:
        with self._lock:
            while self._queue:
                due, pod = self._queue[0]
                turn = self._turns.get(pod)
                if turn is not None and turn.due == due:
                    return turn if due <= self._clock() else None
                heapq.heappop(self._queue)
            return None

    def _await(self, turn: _Turn) -> None:
        self._turns[turn.agent.pod] = turn
        heapq.heappush(self._queue, (turn.due, turn.agent.pod))
