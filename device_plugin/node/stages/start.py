"""Start: gives a starting container its slices, by limits or a ResourceClaim, and lets calls of the kubelet wait."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from device_plugin.core.contract.grants import Slice
from device_plugin.node.checks.kernel_limits import KernelLimits
from device_plugin.node.checks.refused import RefusedStarts
from device_plugin.node.slices import admission
from device_plugin.node.slices.admission import NotNowError, TakenError, Wanted, who
from device_plugin.node.slices.pods import NodePods
from device_plugin.node.slices.records import Record, Records
from device_plugin.node.stages.inject import Injector
from device_plugin.node.vendors.local_card import LocalCard
from device_plugin.node.vendors.port import NoVendorIdError
from vgpu_runtime.config import ConfigError

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

LOOK_SECONDS, MOST_LOOK_SECONDS = 0.05, 1.0


class Starter:
    """Decides whether starting containers may have their slices, and writes their records (state) and files.

    Safe from any thread.

    `cards` returns the shared cards, by uuid.
    """

    def __init__(
        self,
        pods: NodePods,
        records: Records,
        injector: Injector,
        cards: Callable[[], Mapping[str, LocalCard]],
        limits: KernelLimits,
        refused: RefusedStarts,
    ) -> None:
        self._pods = pods
        self._records = records
        self._injector = injector
        self._cards = cards
        self._limits = limits
        self._refused = refused
        # Held from a decision until it is recorded, so that no two containers get one slice.
        self.lock = threading.Lock()

    def start(self, wanted: Wanted, carrier: str) -> Record:
        """Write the container's record (state) and files, notify the runtimes, and set the kernel's limits.

        `carrier` names the CDI device that brings the files into the container. Returns the record. Raises NotNowError
        if the container may not have its slices now, or a file cannot be written.
        """
        with self.lock:
            before = self._records.get(*wanted.key)
            try:
                outdated = admission.admit(wanted, self._cards(), self._records, self._pods)
            except TakenError as error:
                self._refused.note(wanted, error.sizes)
                raise
            self._refused.forget(wanted.key)
            for each in outdated:
                self._injector.remove(each)
            try:
                record = self._injector.carry(wanted, carrier)
            except NoVendorIdError as error:
                raise NotNowError(str(error), waiting=True) from error
            except (OSError, ConfigError) as error:
                raise NotNowError(f"its files cannot be written: {error}") from error
        try:
            self._injector.announce()
        except OSError as error:
            raise NotNowError(f"the runtime cannot be notified of its files: {error}") from error
        self._limits.limit(record.pod, wanted.pod_slices)
        again = before is not None and before.slices == record.slices
        # A container that starts again and again is to fill no log.
        log.log(logging.DEBUG if again else logging.INFO, "%s gets %s", who(record), _shown(record.slices))
        return record


class Waiting:
    """Repeats a refused call of the kubelet while the cause may end soon; at most `most` calls wait at a time.

    A waiting call keeps a thread of the server that got it, and other calls need threads too.
    """

    def __init__(self, most: int) -> None:
        self._stop = threading.Event()
        self._waiters = threading.BoundedSemaphore(most)

    def stop(self) -> None:
        """Make waiting calls fail; the kubelet repeats them when the next agent has started."""
        self._stop.set()

    def run(self, attempt: Callable[[bool], Answer], seconds: float, name: str) -> Answer:
        """Returns what `attempt` returns. After a NotNowError that may end by waiting, `attempt` is repeated.

        It is repeated for up to `seconds`. It gets false at the first call, and true when it is repeated. The last
        NotNowError is logged with the `name`, and raised.
        """
        deadline = time.monotonic() + seconds
        try:
            return attempt(False)  # noqa: FBT003
        except NotNowError as error:
            if not error.waiting or not self._waiters.acquire(blocking=False):
                log.warning("%s: %s", name, error)
                raise
        try:
            return self._repeat(attempt, deadline, name)
        finally:
            self._waiters.release()

    def _repeat(self, attempt: Callable[[bool], Answer], deadline: float, name: str) -> Answer:
        """Repeats `attempt`, with growing pauses; raises its last error after the deadline, or when stopped."""
        pause = LOOK_SECONDS
        while True:
            stopping = self._stop.wait(pause)
            try:
                return attempt(True)  # noqa: FBT003
            except NotNowError as error:
                if not error.waiting or time.monotonic() > deadline or stopping:
                    log.warning("%s: %s", name, error)
                    raise
                pause = min(2 * pause, MOST_LOOK_SECONDS)


def _shown(slices: tuple[Slice, ...]) -> str:
    return ", ".join(f"{s.mem_mib} MiB and {len(s.cores)} core groups of {s.card}" for s in slices)
