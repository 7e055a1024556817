"""The scheduler of one replica of the cluster service: it schedules while it holds the Lease, and then restarts."""

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

# The schedulerName of the pods that it schedules.
NAME = "vgpu-scheduler"
LEASE = Ref("vgpu-scheduler", "vgpu-system")


class SchedulerStandIn:
    """The scheduler, from `start` to `stop`; it can be started again. Its identity in the Lease begins with `pod_name`.

    The event `leading` is set while the scheduler believes that it holds the Lease. With `claims`, its profile is the
    one of the component dra: a pod waits until its ResourceClaims exist, and the extender is called for every pod.
    """

    def __init__(
        self,
        api_url: str,
        token: str,
        extender_url: str,
        pod_name: str,
        *,
        timing: SchedulerTiming | None = None,
        claims: bool = False,
    ) -> None:
        self.leading = threading.Event()
        self._endpoint = Endpoint(api_url, lambda: f"Bearer {token}" if token else None)
        self._extender_url = extender_url
        self._pod_name = pod_name
        self._timing = timing or SchedulerTiming()
        self._claims = claims
        self._rng = random.Random(0)
        self._stop = threading.Event()
        self._gate = threading.Event()
        self._gate.set()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, which tries to get the Lease; no effect if it runs."""
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name=f"scheduler-{self._pod_name}", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End as after SIGTERM, and release the Lease (ReleaseOnCancel); no effect if it does not run."""
        if self._thread is not None:
            self._stop.set()
            self._gate.set()
            self._thread.join()
            self._thread = None

    def pause(self) -> None:
        """Stop before the next step, as if the machine were suspended: nothing is renewed, scheduled or bound."""
        self._gate.clear()

    def resume(self) -> None:
        """Go on after `pause`, as if no time had passed."""
        self._gate.set()

    def _run(self) -> None:
        client = KubeClient(self._endpoint, NAME)
        while not self._stop.is_set():
            # A real process ends when it has lost the Lease, and the next process has another identity.
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
        """Schedule pods and renew the Lease, until the Lease is lost or `stop` is called."""
        extender = ExtenderClient(self._extender_url, self._timing.extender, every_pod=self._claims)
        session = SchedulerSession(
            client, extender, NAME, self._timing, self._gate, self._rng, claims=self._claims
        )
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
        """Try once to acquire or renew the Lease; true if it is ours now."""
        self._gate.wait()
        try:
            return candidate.attempt()
        except ApiError as error:
            log.debug("the Lease is not renewed: %s", error)
            return False


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
