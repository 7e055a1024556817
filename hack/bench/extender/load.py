"""Plays kube-scheduler, in a process of its own: one filter after another, and Bindings beside them."""

import json
import queue
import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from hack.bench.extender.api_objects import PodTexts
from hack.bench.extender.api_server import SWITCH_SECONDS
from hack.bench.extender.cluster_model import ClusterModel, ExtenderBenchError, uid
from hack.bench.extender.kept_call import CallError, KeptCall
from hack.bench.extender.timing import LoadTiming, Notes
from hack.process_cost import cpu_seconds

# Most pods that have a node and are not bound yet. kube-scheduler has no limit, but a growing queue tells nothing.
# Together with that of /filter these are all connections that the service keeps open.
BINDERS = 8
# Seconds to wait: kube-scheduler gives an extender 5 s; a leader lists thousands of pods before its first place.
CALL_SECONDS, LEADER_SECONDS = 5.0, 120.0
# Pods that must be there for the service to learn a workload, and seconds in which it does; pods of the load end too
# soon to count.
LESSON_PODS, LESSON_SECONDS = 64, 120.0
LESSON = b"target workload learnt"
ASK_AGAIN_SECONDS = 0.25
# Orders of nodes, and nodes in a block: kube-scheduler's filters run in parallel, in blocks of nodes, and offer the
# nodes in the order in which they finish, which differs each time.
ORDERS, PARALLEL = 61, 16


def drive(
    control: Connection, workload: ClusterModel, first: int, address: tuple[str, int], log: Path, pid: int
) -> None:
    """Send the parent the Timing of pods `first`, `first` + 1, …; or a text, if it cannot be had.

    The service is the process `pid`, and writes `log`.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    outcome: LoadTiming | str
    try:
        outcome = _Scheduler(workload, first, address, log, pid).run()
    except (ExtenderBenchError, CallError, ValueError, OSError) as error:
        outcome = str(error)
    with suppress(OSError):  # the parent has ended, so we end too
        control.send(outcome)


class _Scheduler:
    def __init__(
        self, workload: ClusterModel, first: int, address: tuple[str, int], log: Path, pid: int
    ) -> None:
        self._seconds = workload.seconds
        self._texts = PodTexts(workload)
        self._orders = [json.dumps(names).encode() for names in _orders(workload)]
        self._number = first
        self._address = address
        self._log = log
        self._pid = pid
        self._filter = KeptCall(*address, CALL_SECONDS)
        self._slots = threading.Semaphore(BINDERS)
        self._chosen: queue.SimpleQueue[tuple[int, str] | None] = queue.SimpleQueue()
        self._notes = Notes()
        self._failures: list[str] = []

    def run(self) -> LoadTiming:
        """Wait until the service leads and has learnt the workload, warm up for 1/5 of the time, and measure.

        In a nearly empty cluster it learns no workload, and another policy decides.
        """
        self._await_leader()
        binders = [threading.Thread(target=self._bind_all) for _ in range(BINDERS)]
        for thread in binders:
            thread.start()
        try:
            if self._number >= LESSON_PODS:
                self._place_until_learnt()
            end = (start := time.perf_counter() + self._seconds / 5) + self._seconds
            self._place_until(start)
            before, known = cpu_seconds(self._pid), self._lessons()
            while (now := time.perf_counter()) < end and not self._failures:
                self._place_until(min(now + ASK_AGAIN_SECONDS, end))
                known, new = (lessons := self._lessons()), lessons - known
                self._notes.lessons += [time.perf_counter()] * new
            used = cpu_seconds(self._pid) - before
        finally:
            for _ in binders:
                self._chosen.put(None)
            for thread in binders:
                thread.join()
            self._filter.close()
        if self._failures:
            raise ExtenderBenchError(self._failures[0])
        return self._notes.timing(start, end, used)

    def _place_until(self, end: float) -> None:
        while time.perf_counter() < end and not self._failures:
            self._next()

    def _await_leader(self) -> None:
        end = time.monotonic() + LEADER_SECONDS
        while error := self._refusal():
            if time.monotonic() > end:
                raise ExtenderBenchError(f"the service does not lead after {LEADER_SECONDS:.0f} s: {error}")
            time.sleep(ASK_AGAIN_SECONDS)

    def _place_until_learnt(self) -> None:
        """Until then another policy decides, which takes less time."""
        end = time.monotonic() + LESSON_SECONDS
        while not self._failures and not self._lessons():
            if time.monotonic() > end:
                raise ExtenderBenchError(f"the service has learnt nothing after {LESSON_SECONDS:.0f} s")
            self._place_until(time.perf_counter() + ASK_AGAIN_SECONDS)

    def _lessons(self) -> int:
        return self._log.read_bytes().count(LESSON)

    def _refusal(self) -> str:
        try:
            return str(self._ask(self._number)["Error"])
        except CallError as failure:
            self._filter.close()
            return str(failure)

    def _next(self) -> None:
        self._slots.acquire()
        number, self._number = self._number, self._number + 1
        start = time.perf_counter()
        result = self._ask(number)
        end = time.perf_counter()
        if result["Error"]:
            raise ExtenderBenchError(f"/filter: {result['Error']}")
        self._notes.filters.append((end, end - start))
        if result["NodeNames"]:
            self._chosen.put((number, result["NodeNames"][0]))
        else:
            self._notes.refusals.append(end)
            self._slots.release()

    def _ask(self, number: int) -> Any:
        nodes = self._orders[number % ORDERS]
        body = b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (self._texts.pod(number, 1, None), nodes)
        return json.loads(self._filter.post("/filter", body))

    def _bind_all(self) -> None:
        call = KeptCall(*self._address, CALL_SECONDS)
        while (chosen := self._chosen.get()) is not None:
            number, node = chosen
            pod = {"PodName": f"pod-{number}", "PodNamespace": "default", "PodUID": uid(number)}
            try:
                result = json.loads(call.post("/bind", json.dumps({**pod, "Node": node}).encode()))
                if result["Error"]:
                    self._failures.append(f"/bind: {result['Error']}")
            except (CallError, ValueError) as failure:
                self._failures.append(str(failure))
            self._notes.bindings.append(time.perf_counter())
            self._slots.release()
        call.close()


def _orders(workload: ClusterModel) -> Iterator[list[str]]:
    """The nodes' names in as many orders: by the time at which each block might finish."""
    names, rng = workload.names(), random.Random(workload.seed)
    size = round(len(names) ** 0.5)
    for _ in range(ORDERS):
        ends = [block + PARALLEL * rng.random() for block in range(len(names) // size + 1)]
        yield [name for _, name in sorted((ends[i // size], name) for i, name in enumerate(names))]
