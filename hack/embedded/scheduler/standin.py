"""The scheduler of one replica of the cluster service: it schedules while it has the Lease, and restarts without it."""

import logging
import random
import threading
import time
import uuid
from datetime import UTC, datetime

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.kube.api import Ref
from device_plugin.kube.errors import ApiError
from device_plugin.kube.leases import Candidate, Election
from hack.embedded.scheduler.extender_client import ExtenderClient
from hack.embedded.scheduler.session import SchedulerSession
from hack.embedded.scheduler.timing import SchedulerTiming

log = logging.getLogger(__name__)

# The schedulerName of the pods that it takes.
NAME = "vgpu-scheduler"
LEASE = Ref("vgpu-scheduler", "vgpu-system")


class SchedulerStandIn:
    """`start` it and `stop` it; it may be started again. `pod_name` begins its identity in the Lease.

    While the event `leading` is set, it holds the Lease by its own record.
    """

    def __init__(
        self,
        api_url: str,
        token: str,
        extender_url: str,
        pod_name: str,
        *,
        timing: SchedulerTiming | None = None,
    ) -> None:
        self.leading = threading.Event()
        self._endpoint = Endpoint(api_url, lambda: f"Bearer {token}" if token else None)
        self._extender_url = extender_url
        self._pod_name = pod_name
        self._timing = timing or SchedulerTiming()
        self._rng = random.Random(0)
        self._stop = threading.Event()
        self._gate = threading.Event()
        self._gate.set()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to seek the Lease. Does nothing if it runs."""
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name=f"scheduler-{self._pod_name}", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End as on SIGTERM: the Lease is given up at once (ReleaseOnCancel). Does nothing if it does not run."""
        if self._thread is not None:
            self._stop.set()
            self._gate.set()
            self._thread.join()
            self._thread = None

    def pause(self) -> None:
        """Freeze before the next step, as a machine that is suspended: nothing is renewed, scheduled or bound."""
        self._gate.clear()

    def resume(self) -> None:
        """Go on, in the belief that no time passed."""
        self._gate.set()

    def _run(self) -> None:
        client = KubeClient(self._endpoint, NAME)
        while not self._stop.is_set():
            # A process that lost the Lease ends, and its successor has another identity.
            identity = f"{self._pod_name}_{uuid.uuid4()}"
            election = Election(identity, self._timing.lease, self._timing.renew_deadline)
            candidate = Candidate(client, LEASE, election, time.monotonic, _now)
            while not self._stop.is_set() and not self._attempt(candidate):
                self._stop.wait(self._timing.retry_period)
            if candidate.leads():
                log.info("%s leads", identity)
                self._lead(candidate, client)
        client.close()

    def _lead(self, candidate: Candidate, client: KubeClient) -> None:
        """Schedule, and renew the Lease, until it is lost or the end has come."""
        extender = ExtenderClient(self._extender_url, self._timing.extender)
        session = SchedulerSession(client, extender, NAME, self._timing, self._gate, self._rng)
        session.start()
        self.leading.set()
        while candidate.leads() and not self._stop.wait(self._timing.retry_period):
            self._attempt(candidate)
        self.leading.clear()
        try:
            candidate.release()
        except ApiError as error:
            log.debug("the Lease is not released: %s", error)
        session.stop()
        extender.close()

    def _attempt(self, candidate: Candidate) -> bool:
        """Acquire the Lease or renew it, once; True if it is ours now."""
        self._gate.wait()
        try:
            return candidate.attempt()
        except ApiError as error:
            log.debug("the Lease is not renewed: %s", error)
            return False


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
