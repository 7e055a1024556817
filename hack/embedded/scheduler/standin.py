"""The scheduler of one replica of the cluster service: it schedules while it has the Lease, and restarts without it."""

import logging
import random
import threading
import uuid
from collections.abc import Collection

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.core.requests import DEFAULT_PREFIXES, resource_names
from device_plugin.kube.api import Ref
from hack.embedded.scheduler.extender import ExtenderClient
from hack.embedded.scheduler.lease import Elector
from hack.embedded.scheduler.session import SchedulerSession
from hack.embedded.scheduler.timing import SchedulerTiming

log = logging.getLogger(__name__)

MANAGED = tuple(name for prefix in DEFAULT_PREFIXES for name in resource_names(prefix))


class SchedulerStandIn:
    """`start` it, `stop` or `kill` it; it may be started again. `pod_name` begins its identity in the Lease.

    `managed` are the extender's managedResources; pods that ask for none of them are bound without it.
    """

    def __init__(
        self,
        api_url: str,
        token: str,
        extender_url: str,
        pod_name: str,
        *,
        name: str = "vgpu-scheduler",
        lease_namespace: str = "vgpu-system",
        lease_name: str = "vgpu-scheduler",
        managed: Collection[str] = MANAGED,
        timing: SchedulerTiming | None = None,
        seed: int = 0,
    ) -> None:
        self._endpoint = Endpoint(api_url, lambda: f"Bearer {token}" if token else None)
        self._extender_url = extender_url
        self._pod_name = pod_name
        self._name = name
        self._lease = Ref(lease_name, lease_namespace)
        self._managed = managed
        self._timing = timing or SchedulerTiming()
        self._rng = random.Random(seed)
        self._stop = threading.Event()
        self._releases = True
        self._gate = threading.Event()
        self._gate.set()
        self._leading = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "SchedulerStandIn":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def leading(self) -> bool:
        """True while the scheduler holds the Lease, by its own record."""
        return self._leading.is_set()

    def wait_leading(self, seconds: float) -> bool:
        """Return once it leads; False if that takes longer than `seconds`."""
        return self._leading.wait(seconds)

    def start(self) -> None:
        """Begin to seek the Lease. Does nothing if it runs."""
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name=f"scheduler-{self._pod_name}", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End as on SIGTERM: the Lease is given up at once. Does nothing if it does not run."""
        self._end(releases=True)

    def kill(self) -> None:
        """End as on SIGKILL: the Lease stays until it expires."""
        self._end(releases=False)

    def pause(self) -> None:
        """Freeze before the next step, as a machine that is suspended: nothing is renewed, scheduled or bound."""
        self._gate.clear()

    def resume(self) -> None:
        """Go on, in the belief that no time passed."""
        self._gate.set()

    def _end(self, *, releases: bool) -> None:
        if self._thread is None:
            return
        self._releases = releases
        self._stop.set()
        self._gate.set()
        self._thread.join()
        self._thread = None

    def _run(self) -> None:
        client = KubeClient(self._endpoint, self._name)
        while not self._stop.is_set():
            # A process that lost the Lease ends, and its successor has another identity.
            identity = f"{self._pod_name}_{uuid.uuid4()}"
            elector = Elector(client, self._lease, identity, self._timing, self._gate)
            if elector.acquire(self._stop):
                self._lead(elector, client)
        client.close()

    def _lead(self, elector: Elector, client: KubeClient) -> None:
        log.info("%s leads", elector.identity)
        extender = ExtenderClient(self._extender_url, self._managed, self._timing.extender)
        session = SchedulerSession(client, extender, self._name, self._timing, self._gate, self._rng)
        session.start()
        self._leading.set()
        elector.renew(self._stop)
        self._leading.clear()
        if self._releases:
            elector.release()
        session.stop()
        extender.close()
