"""The load of a kube-scheduler: /filter calls one after another and /bind calls at the same time, all measured."""

import json
import queue
import random
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from itertools import cycle
from pathlib import Path
from typing import Any

from device_plugin.adapters.http.client import LOST
from device_plugin.adapters.kube.connections import Connections
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.cluster.filter import NOT_YET
from hack.bench.extender import api_objects
from hack.bench.extender.api_objects import PodTexts
from hack.bench.extender.cluster_model import ClusterModel, uid
from hack.bench.report import BenchError
from hack.embedded.services import ServiceProcess
from hack.measure.process_cost import cpu_seconds

# Most pods that have a node and are not bound yet. kube-scheduler has no limit, but a growing queue measures nothing.
BINDERS = 8
# Seconds to wait for a call, and for a new leader, which lists thousands of pods first. They are so long that a slow
# machine does not fail the measurement.
CALL_SECONDS, LEADER_SECONDS = 60.0, 900.0
# Pods that must exist before the service learns a workload, and seconds in which it learns it. Pods of the load end too
# soon to be counted.
LESSON_PODS, LESSON_SECONDS = 64, 900.0
LEADING, LESSON = b"leading pods=", b"target workload learnt"
ASK_AGAIN_SECONDS = 0.25
# Orders of nodes, and nodes in a block: kube-scheduler's filters run in parallel, in blocks of nodes, and offer the
# nodes in the order in which they finish, which differs each time.
ORDERS, PARALLEL = 61, 16
# The time in which tables and scores are computed, in seconds relative to the log line about the learnt workload.
LEARNING = -10.0, 30.0
# The beginning of the answer for a pod that fits nowhere.
REFUSED = b'{"NodeNames":[],'
# Most bytes of an answer.
MOST_ANSWER = 8 << 20
_JSON = {"Content-Type": "application/json"}
# The head of an answer: its status, and the length of its body.
_HEAD = re.compile(rb"HTTP/1.1 (\d+) .*?\r\nContent-Length: (\d+)(?:\r\n[^\r]+)*\r\n\r\n", re.DOTALL)


@dataclass(frozen=True)
class LoadFigures:
    """Pods bound per second, milliseconds of /filter, the service's CPU time per pod, and pods that fit nowhere.

    `lessons` is how often a target workload was learnt meanwhile. `learning_p99_ms` is the 99th percentile of /filter
    calls near these times, None without such calls. `learnt` is false if the service should have learnt a target
    workload but did not.
    """

    pods_per_s: float
    filter_p50_ms: float
    filter_p99_ms: float
    cpu_ms_per_pod: float
    refused: int
    lessons: int = 0
    learning_p99_ms: float | None = None
    learnt: bool = True


@dataclass
class Notes:
    """The times at which calls ended, in seconds of one clock; `filters` also has durations. Threads may append."""

    filters: list[tuple[float, float]] = field(default_factory=list)
    refusals: list[float] = field(default_factory=list)
    bindings: list[float] = field(default_factory=list)
    lessons: list[float] = field(default_factory=list)

    def figures(self, start: float, end: float, cpu_seconds: float) -> LoadFigures:
        """The figures of all events between `start` and `end`, in which the service used `cpu_seconds`.

        Raises BenchError if no pod was bound.
        """
        filters = [(at, took) for at, took in self.filters if start <= at <= end]
        bound, refused, lessons = (
            [at for at in times if start <= at <= end]
            for times in (self.bindings, self.refusals, self.lessons)
        )
        if not filters or not bound:
            raise BenchError(f"no pod was placed, {len(refused)} fit nowhere: write more --seconds")
        learning = [
            took
            for at, took in filters
            if any(LEARNING[0] <= at - lesson <= LEARNING[1] for lesson in lessons)
        ]
        whole = [took for _, took in filters]
        return LoadFigures(
            round(len(bound) / (end - start), 1), _percentile_ms(whole, 50), _percentile_ms(whole, 99),
            round(1000 * cpu_seconds / len(bound), 3), len(refused), len(lessons),
            _percentile_ms(learning, 99) if learning else None,
        )  # fmt: skip


def _percentile_ms(seconds: list[float], percent: int) -> float:
    return round(1000 * sorted(seconds)[len(seconds) * percent // 100], 3)


class SchedulerLoad:
    """Calls a running service for the pods `first`, `first` + 1, …, and for pods that fit nowhere.

    `log` is the file of the service's log.
    """

    def __init__(self, workload: ClusterModel, first: int, service: ServiceProcess, log: Path) -> None:
        self._seconds = workload.seconds
        self._texts = PodTexts(workload)
        self._orders = cycle(orders(workload))
        self._hopeless = api_objects.hopeless(workload)
        # The hopeless pods for which /filter is called before each other pod.
        self._beside: list[bytes] = []
        self._number = first
        self.service = service
        self._log = log
        # The product's own connections: they cost little compared with the measured calls.
        address = service.addresses["extender"]
        self._connections = Connections(Endpoint(f"http://{address}", lambda: None), CALL_SECONDS)
        self._scheduling = FilterConnection(address)
        self._slots = threading.Semaphore(BINDERS)
        self._chosen: queue.SimpleQueue[tuple[int, str] | None] = queue.SimpleQueue()
        self._notes = Notes()
        self._failures: list[BenchError] = []

    def run(self) -> tuple[LoadFigures, LoadFigures | None]:
        """Wait until the service leads and has learnt the workload, warm up for 1/5 of the time, and measure.

        In a nearly empty cluster the service learns no workload, and another policy decides. The second figures are
        measured with hopeless pods: before each pod that fits, /filter is called for all of them. They are None
        without hopeless pods. Raises BenchError.
        """
        with closing(self._connections), closing(self._scheduling):
            self._await_leader()
            with self._binders():
                learnt = self._number < LESSON_PODS or self._place_until_learnt()
                alone = replace(self._measured(), learnt=learnt)
                self._beside = self._hopeless
                beside = replace(self._measured(), learnt=learnt) if self._beside else None
            self._check()
        return alone, beside

    def _await_leader(self) -> None:
        end = time.monotonic() + LEADER_SECONDS
        while True:
            said = NOT_YET
            try:
                # Before that line the API server may not have the pod yet, and the service would note that it is gone.
                if LEADING in self._log.read_bytes():
                    refused = self._ask(self._number)["FailedAndUnresolvableNodes"].values()
                    if not any(text.endswith(NOT_YET) for text in refused):
                        return
            except BenchError as error:
                said = str(error)
            if time.monotonic() > end or not self.service.running:
                raise BenchError(f"the service does not lead: {said}")
            time.sleep(ASK_AGAIN_SECONDS)

    def _place_until_learnt(self) -> bool:
        """Place pods until the service has learnt the workload; false after LESSON_SECONDS without it."""
        end = time.monotonic() + LESSON_SECONDS
        while not self._lessons():
            if time.monotonic() > end:
                return False
            self._place_until(time.perf_counter() + ASK_AGAIN_SECONDS)
        return True

    def _measured(self) -> LoadFigures:
        self._notes = Notes()
        end = (start := time.perf_counter() + self._seconds / 5) + self._seconds
        self._place_until(start)
        before, known = cpu_seconds(self.service.pid), self._lessons()
        while (now := time.perf_counter()) < end:
            self._place_until(min(now + ASK_AGAIN_SECONDS, end))
            known, new = (lessons := self._lessons()), lessons - known
            self._notes.lessons += [time.perf_counter()] * new
        return self._notes.figures(start, end, cpu_seconds(self.service.pid) - before)

    def _lessons(self) -> int:
        return self._log.read_bytes().count(LESSON)

    def _place_until(self, end: float) -> None:
        while time.perf_counter() < end:
            self._place_next()
            self._check()

    def _place_next(self) -> None:
        for pod in self._beside:
            self._refuse(pod)
        self._slots.acquire()
        number, self._number = self._number, self._number + 1
        start = time.perf_counter()
        nodes = self._filter(number)
        end = time.perf_counter()
        self._notes.filters.append((end, end - start))
        if nodes:
            self._chosen.put((number, nodes[0]))
        else:
            self._notes.refusals.append(end)
            self._slots.release()

    def _filter(self, number: int) -> list[str]:
        fitting: list[str] = self._ask(number)["NodeNames"]
        return fitting

    def _ask(self, number: int) -> Any:
        """The answer of /filter for the pod of this number."""
        return self._result("/filter", *self._scheduling.ask(self._asking(self._texts.pod(number, 1, None))))

    def _refuse(self, pod: bytes) -> None:
        """Call /filter for a pod that fits nowhere. The answer is not parsed: a real kube-scheduler would parse it."""
        status, answer = self._scheduling.ask(self._asking(pod))
        if status != HTTPStatus.OK or answer[: len(REFUSED)] != REFUSED:
            said = bytes(answer[:200]).decode(errors="replace")
            raise BenchError(f"/filter: status {status}, no refusal: {said}")

    def _asking(self, pod: bytes) -> Sequence[bytes]:
        return b'{"Pod":%b,"Nodes":null,"NodeNames":' % pod, next(self._orders), b"}"

    @contextmanager
    def _binders(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._bind_all) for _ in range(BINDERS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            for _ in threads:
                self._chosen.put(None)
            for thread in threads:
                thread.join()

    def _bind_all(self) -> None:
        while (chosen := self._chosen.get()) is not None:
            number, node = chosen
            pod = {"PodName": f"pod-{number}", "PodNamespace": "default", "PodUID": uid(number)}
            try:
                self._bind(json.dumps({**pod, "Node": node}).encode())
            except BenchError as failure:
                self._failures.append(failure)
            self._notes.bindings.append(time.perf_counter())
            self._slots.release()

    def _check(self) -> None:
        """Raise the first error of a Binding, if there is one."""
        if self._failures:
            raise self._failures[0]

    def _bind(self, body: bytes) -> None:
        """Send one /bind. Raises BenchError if it has no answer, or an error."""
        try:
            status, answer = self._connections.request("POST", "/bind", _JSON, body)
        except LOST as error:
            raise BenchError(f"/bind: {error}") from error
        self._result("/bind", status, answer)

    @staticmethod
    def _result(path: str, status: int, answer: bytearray | memoryview) -> Any:
        """The answer, parsed as JSON. Raises BenchError for an answer with an error or another status than 200."""
        result = json.loads(bytes(answer)) if status == HTTPStatus.OK else {"Error": f"status {status}"}
        if result["Error"]:
            raise BenchError(f"{path}: {result['Error']}")
        return result


class FilterConnection:
    """One open connection for /filter, one call at a time. It receives the bytes of an answer and does not parse them.

    A parser of HTTP would take as long to find the end of an answer as the service takes to refuse thousands of nodes.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self._buffer = memoryview(bytearray(MOST_ANSWER))

    def ask(self, body: Sequence[bytes]) -> tuple[int, memoryview]:
        """Status and body of the answer; the body is valid until the next call. Raises BenchError without an answer.

        `body` is the call in pieces, which are sent without a copy: that would count as time of the service.
        """
        head = (
            f"POST /filter HTTP/1.1\r\nHost: {self._address}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {sum(map(len, body))}\r\n\r\n"
        )
        pieces = head.encode(), *body
        try:
            if self._socket is None:
                host, _, port = self._address.rpartition(":")
                self._socket = socket.create_connection((host, int(port)), CALL_SECONDS)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sent = self._socket.sendmsg(pieces)
            self._socket.sendall(b"".join(pieces)[sent:] if sent < sum(map(len, pieces)) else b"")
            return self._received(self._socket)
        except OSError as error:
            self.close()
            raise BenchError(f"/filter: {error}") from error

    def close(self) -> None:
        """Close the connection if it is open; the next call opens a new connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _received(self, connection: socket.socket) -> tuple[int, memoryview]:
        length, found = 0, None
        while found is None or length < found.end() + int(found[2]):
            if not (more := connection.recv_into(self._buffer[length:])):
                raise ConnectionResetError("the service closed the connection")
            length += more
            found = found or _HEAD.match(self._buffer[:length])
        return int(found[1]), self._buffer[found.end() : length]


def orders(workload: ClusterModel) -> Iterator[bytes]:
    """The nodes' names as JSON, in ORDERS orders, each by random times at which blocks of nodes finish."""
    names, rng = workload.names(), random.Random(workload.seed)
    size = round(len(names) ** 0.5)
    for _ in range(ORDERS):
        ends = [block + PARALLEL * rng.random() for block in range(len(names) // size + 1)]
        ordered = [name for _, name in sorted((ends[i // size], name) for i, name in enumerate(names))]
        # Go writes JSON without spaces.
        yield json.dumps(ordered, separators=(",", ":")).encode()
