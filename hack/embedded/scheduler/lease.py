"""Leader election of one replica's scheduler, paced as kube-scheduler's (tools/leaderelection)."""

import logging
import threading
import time
from datetime import UTC, datetime

from device_plugin.kube.api import Api, Ref
from device_plugin.kube.errors import ApiError
from device_plugin.kube.leases import Candidate, Election
from hack.embedded.scheduler.timing import SchedulerTiming

log = logging.getLogger(__name__)


class Elector:
    """One candidate, for one thread. While `gate` is clear it stands still."""

    def __init__(
        self, api: Api, of: Ref, identity: str, timing: SchedulerTiming, gate: threading.Event
    ) -> None:
        self.identity = identity
        self._timing = timing
        self._gate = gate
        election = Election(identity, timing.lease, timing.renew_deadline)
        self._candidate = Candidate(api, of, election, time.monotonic, _now)

    def acquire(self, stop: threading.Event) -> bool:
        """Try until the Lease is ours; False if `stop` came first."""
        while not stop.is_set():
            if self.attempt():
                return True
            stop.wait(self._timing.retry_period)
        return False

    def renew(self, stop: threading.Event) -> None:
        """Renew the Lease until it is lost or `stop` is set."""
        while not stop.wait(self._timing.retry_period):
            self.attempt()
            if not self._candidate.leads():
                log.info("%s lost the Lease", self.identity)
                return

    def attempt(self) -> bool:
        """Acquire the Lease or renew it, once; True if it is ours now."""
        self._gate.wait()
        try:
            return self._candidate.attempt()
        except ApiError as error:
            log.debug("the Lease is not renewed: %s", error)
            return False

    def release(self) -> None:
        """Give the Lease up at once, if it is ours: what kube-scheduler does on SIGTERM (ReleaseOnCancel)."""
        try:
            self._candidate.release()
        except ApiError as error:
            log.debug("the Lease is not released: %s", error)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
