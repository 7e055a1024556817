"""Reads the loads of cards and the progress of programs from one node agent after another, at a bounded rate.

No other part waits for an answer. A slow or faulty agent affects its own node only: each exchange ends at a deadline,
at most MOST_BYTES of an answer are read, and an agent that fails is asked less and less often.
"""

import heapq
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import httptools

from device_plugin.adapters.http.client import Connection
from device_plugin.adapters.metrics import read_samples
from device_plugin.core.contract.annotations import MAX_CARDS
from device_plugin.core.jobs.progress import MOST, ContainerName, Progress, ProgressReport
from device_plugin.core.loads import Load
from device_plugin.core.pods import Agent

log = logging.getLogger(__name__)

SECONDS = 1.0
# The lines of more than 2,000 containers: a container has about ten, of some 150 bytes each.
MOST_BYTES = 4 << 20
IDLE_SECONDS = 1.0
# The pause of an agent that fails doubles each time, up to this.
LONGEST_PAUSE = 300.0
_TOTAL, _USED, _BUSY = "vgpu_card_memory_bytes", "vgpu_card_memory_used_bytes", "vgpu_card_busy_ratio"
_DONE, _GOAL, _SAVED = "vgpu_progress_done", "vgpu_progress_goal", "vgpu_checkpoints_total"
# Most samples that are read of a metric of containers: no node has more.
MOST_CONTAINERS = 1024
Said = TypeVar("Said")
"""The value that is read from an agent."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The rate of questions: each agent is asked every `seconds`, and at most `per_second` agents in one second."""

    seconds: float = 15.0
    per_second: float = 50.0


@dataclass(frozen=True, slots=True)
class _Turn:
    agent: Agent
    due: float
    pause: float


class AgentPoller(Generic[Said]):
    """Reads a value from each node agent with `read`, and calls `on_said` with the node's name and the value.

    Call `step` in a loop from one thread; another thread may add and remove agents. While `wanted()` is false no agent
    is asked; while `of_use(node)` is false the agent of that node is not asked.
    """

    def __init__(
        self, read: Callable[[str], Said], on_said: Callable[[str, Said], None], wanted: Callable[[], bool],
        pace: Pace, clock: Callable[[], float], of_use: Callable[[str], bool] = lambda _: True,
    ) -> None:  # fmt: skip
        self._read = read
        self._of_use = of_use
        self._on_said = on_said
        self._wanted = wanted
        self._pace = pace
        self._clock = clock
        self._lock = threading.Lock()
        self._turns: dict[str, _Turn] = {}
        # A heap of due times with the names of the agents' pods; entries that differ from the agent's turn are void.
        self._queue: list[tuple[float, str]] = []

    def sync(self, agents: Iterable[Agent]) -> None:
        """Replace the known agents by this list of all agents."""
        listed = {agent.pod: agent for agent in agents}
        with self._lock:
            gone = self._turns.keys() - listed.keys()
        for pod in gone:
            self.gone(pod)
        for agent in listed.values():
            self.see(agent)

    def see(self, agent: Agent) -> None:
        """Record the address of an agent's pod; an agent without an address is not asked."""
        if not agent.address:
            self.gone(agent.pod)
            return
        with self._lock:
            known = self._turns.get(agent.pod)
            if known is None or known.agent != agent:
                self._await(_Turn(agent, self._clock(), self._pace.seconds))

    def forget(self, agent: Agent) -> None:
        """Remove an agent whose pod is gone."""
        self.gone(agent.pod)

    def gone(self, pod: str) -> None:
        """Remove the agent whose pod has this name."""
        with self._lock:
            self._turns.pop(pod, None)

    def step(self) -> float:
        """Ask the agent that has waited longest, if one is due; returns the seconds until the next call."""
        if not self._wanted():
            return IDLE_SECONDS
        turn = self._next()
        if turn is None:
            return IDLE_SECONDS
        pause = self._ask(turn)
        with self._lock:
            if self._turns.get(turn.agent.pod) == turn:
                self._await(replace(turn, due=self._clock() + pause, pause=pause))
        return 1 / self._pace.per_second

    def _ask(self, turn: _Turn) -> float:
        """Ask one agent, and pass the agent's value to `on_said`; returns the seconds until the agent's next turn.

        Each failure doubles this time, up to LONGEST_PAUSE.
        """
        agent = turn.agent
        try:
            said = self._read(agent.address)
        except Exception as error:  # noqa: BLE001 - a failure of any kind affects this agent's node only
            if turn.pause == self._pace.seconds:
                log.info("no answer from the agent of node %s at %s: %s", agent.node, agent.address, error)
            return max(self._pace.seconds, min(LONGEST_PAUSE, 2 * turn.pause))
        self._on_said(agent.node, said)
        return self._pace.seconds

    def _next(self) -> _Turn | None:
        with self._lock:
            while self._queue:
                due, pod = self._queue[0]
                turn = self._turns.get(pod)
                if turn is not None and turn.due == due:
                    now = self._clock()
                    if due > now or self._of_use(turn.agent.node):
                        return turn if due <= now else None
                    self._await(_Turn(turn.agent, now + self._pace.seconds, self._pace.seconds))
                heapq.heappop(self._queue)
            return None

    def _await(self, turn: _Turn) -> None:
        self._turns[turn.agent.pod] = turn
        heapq.heappush(self._queue, (turn.due, turn.agent.pod))


def read_loads(address: str) -> Mapping[str, Load]:
    """Returns the loads of an agent's cards, by uuid. Cards whose driver does not report the used memory are left out.

    `address` is host:port. Raises OSError if the agent does not answer in time, ValueError for a malformed answer.
    """
    return _loads(read_metrics(address))


def read_progress(address: str) -> Mapping[ContainerName, ProgressReport]:
    """Returns the progress that programs report, by container. `address` is host:port.

    The values are checked here too, because the agent may be of an older version, or not ours. Raises OSError if the
    agent does not answer in time, ValueError for a malformed answer.
    """
    return _told(read_metrics(address))


def read_metrics(address: str) -> str:
    """Returns the text of an agent's /metrics; `address` is host:port.

    Raises OSError if the agent does not answer in SECONDS, ValueError for a malformed answer.
    """
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + SECONDS
    request = f"GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode()
    body = bytearray()
    with closing(Connection(socket.create_connection((host.strip("[]"), int(port)), SECONDS))) as connection:
        try:
            connection.ask(request, SECONDS, deadline)
            if connection.status != 200:
                raise ValueError(f"the answer has status {connection.status}")
            for part in connection.body():
                body += part
                if len(body) > MOST_BYTES:
                    raise ValueError(f"the answer is longer than {MOST_BYTES} bytes")
        except httptools.HttpParserError as error:
            raise ValueError(f"the answer is not HTTP: {error}") from error
    return body.decode(errors="replace")


def _loads(text: str) -> Mapping[str, Load]:
    total, used, busy = (
        {labels.get("card", ""): value for labels, value in read_samples(text, name, MAX_CARDS)}
        for name in (_TOTAL, _USED, _BUSY)
    )
    return {
        card: Load(_share(value / total[card]), _busy(busy.get(card)))
        for card, value in used.items()
        if total.get(card, 0) > 0
    }


def _told(text: str) -> Mapping[ContainerName, ProgressReport]:
    said: dict[ContainerName, dict[str, int]] = {}
    for name in (_DONE, _GOAL, _SAVED):
        for labels, value in read_samples(text, name, MOST_CONTAINERS):
            container = labels.get("namespace", ""), labels.get("pod", ""), labels.get("container", "")
            if value >= 0 and value.is_integer():
                said.setdefault(container, {})[name] = int(value)
    return {
        container: ProgressReport(_progress(values), min(values.get(_SAVED, 0), MOST))
        for container, values in said.items()
    }


def _progress(values: Mapping[str, int]) -> Progress | None:
    done, total = values.get(_DONE), values.get(_GOAL)
    if done is None or total is None or not 0 < total <= MOST:
        return None
    return Progress(min(done, total), total)


def _busy(ratio: float | None) -> float | None:
    return None if ratio is None else _share(ratio)


def _share(ratio: float) -> float:
    return min(1.0, max(0.0, ratio))
