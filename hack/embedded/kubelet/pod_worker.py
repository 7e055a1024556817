"""Runs one pod on one thread: starts, restarts and ends its containers, and reports its status."""

import logging
import random
import threading
import time
from dataclasses import dataclass

from hack.embedded import pod_spec
from hack.embedded.clock import timestamp
from hack.embedded.kubelet.claims import PodClaims
from hack.embedded.kubelet.container_life import ContainerLife
from hack.embedded.kubelet.devices import DeviceManager
from hack.embedded.kubelet.downward import DownwardVolumes
from hack.embedded.kubelet.drivers import PrepareError
from hack.embedded.kubelet.plugin_endpoint import PluginError
from hack.embedded.kubelet.pod_status import phase, pod_status
from hack.embedded.kubelet.reporter import Reporter
from hack.embedded.kubelet.timing import KubeletTiming
from hack.embedded.pod_spec import Json
from hack.embedded.runtime.containers import (
    ContainerAttempt,
    ContainerSpec,
    CreateError,
    Runtime,
    StartError,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KubeletParts:
    """The parts of the kubelet that a pod worker uses."""

    devices: DeviceManager
    claims: PodClaims
    downward: DownwardVolumes
    runtime: Runtime
    reporter: Reporter
    timing: KubeletTiming


class PodWorker:
    """Runs `pod`. `adopted` are the containers of the pod that the kubelet started before its restart."""

    def __init__(self, pod: Json, around: KubeletParts, seed: int, adopted: list[ContainerAttempt]) -> None:
        self.uid = pod_spec.uid(pod)
        self._pod = pod
        self._around = around
        self._random = random.Random(seed)
        policy = pod["spec"].get("restartPolicy", "Always")
        self._lives = [
            ContainerLife(
                view, _policy(policy, init=view.init, sidecar=view.sidecar), pod_spec.full_name(pod)
            )
            for view in pod_spec.containers(pod)
        ]
        for container in adopted:
            for life in self._lives:
                if life.view.name == container.spec.name:
                    life.adopt(container)
        self._started = pod.get("status", {}).get("startTime") or timestamp()
        self._wake = threading.Condition()
        self._poked = False
        # Claims are prepared once for a pod, and not again for its later containers.
        self._prepared = bool(adopted)
        self._changed = False
        self._grace: float | None = None
        self._removed = False
        self._abandoned = False
        self._ended = False
        self._shown: object = None
        self.finished = False
        self._thread = threading.Thread(target=self._run, name=f"pod-{pod['metadata']['name']}", daemon=True)

    @property
    def alive(self) -> bool:
        """True while the worker's thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the worker's thread, which starts the pod or continues with its adopted containers."""
        self._thread.start()

    def terminate(self, pod: Json) -> None:
        """End the containers within the deletion's grace period, and then remove the pod from the API server."""
        with self._wake:
            self._pod = pod
            if self._grace is None:
                self._grace = pod_spec.grace_seconds(pod)
        self.poke()

    def refresh(self, pod: Json) -> None:
        """Take over a changed pod object, and update its downwardAPI files."""
        with self._wake:
            # A change of the status lets no claim be prepared sooner.
            self._changed |= _written(pod) != _written(self._pod)
            self._pod = pod
            if not self._ended:
                self._around.downward.write(pod)
            self._wake.notify_all()

    def remove(self, pod: Json) -> None:
        """End the containers of a pod that is gone from the API server, without a report."""
        self._removed = True
        self.terminate(pod)

    def abandon(self) -> None:
        """End the worker with the kubelet; the containers keep running."""
        self._abandoned = True
        self.poke()
        if self._thread.is_alive():
            self._thread.join()

    def poke(self) -> None:
        """Wake the worker up: a container ended, or the pod changed."""
        with self._wake:
            self._poked = True
            self._wake.notify_all()

    def _wait(self, seconds: float | None) -> None:
        with self._wake:
            self._wake.wait_for(lambda: self._poked, seconds)
            self._poked = False

    def _run(self) -> None:
        with self._wake:
            self._around.downward.write(self._pod)
        self._around.runtime.groups.open_sandbox(self.uid)
        while not self._prepared and self._grace is None and not self._abandoned:
            self._prepare()
        while self._grace is None and not self._abandoned:
            initialized = self._start_due()
            shown = phase(self._lives, initialized=initialized, over=False)
            if shown in ("Succeeded", "Failed"):
                break
            self._report(shown, delete=False)
            self._wait(self._next_due())
        if not self._abandoned:
            self._end()

    def _prepare(self) -> None:
        """Prepare the pod's ResourceClaims; after a failure, wait until the next try is due."""
        self._changed = False
        try:
            self._around.claims.prepare(self._pod)
            self._prepared = True
        except PrepareError as error:
            text = f"Failed to prepare dynamic resources: {error}"
            self._around.reporter.event(self._pod, "FailedPrepareDynamicResources", text)
            self._report("Pending", delete=False)
            with self._wake:
                self._wake.wait_for(
                    lambda: self._changed or self._grace is not None or self._abandoned,
                    self._around.timing.prepare_retry,
                )

    def _unprepare(self) -> None:
        """Unprepare the pod's ResourceClaims; a failed call is repeated, and the pod does not end before."""
        done = False
        while not done and not self._abandoned:
            try:
                self._around.claims.unprepare(self._pod)
                done = True
            except PrepareError as error:
                log.info("pod %s: %s; trying again", self.uid, error)
                with self._wake:
                    self._wake.wait_for(lambda: self._abandoned, self._around.timing.retry)

    def _end(self) -> None:
        """Stop all containers that still run, and report the end of the pod."""
        self._stop_containers()
        if self._abandoned:
            return
        self._around.runtime.groups.close_sandbox(self.uid)
        self._unprepare()
        if self._abandoned:
            return
        with self._wake:
            self._ended = True
            self._around.downward.remove(self._pod)
        final = phase(self._lives, initialized=True, over=True)
        if self._grace is None:
            # Succeeded or Failed: the pod stays until it is deleted.
            self._report(final, delete=False)
            self.finished = True
            while self._grace is None and not self._abandoned:
                self._wait(None)
        if self._grace is not None:
            if not self._removed:
                self._report(final, delete=True)
            self.finished = True
            self._around.runtime.forget(self.uid)

    def _start_due(self) -> bool:
        """Start every container that is due, in order; true if the init containers have succeeded."""
        for life in self._lives:
            if life.view.init:
                if not life.running and not life.over:
                    self._try_start(life)
                through = life.running if life.view.sidecar else life.over and life.exit_code == 0
                if not through and not self._main_started():
                    return False
            elif not life.running and not life.over:
                self._try_start(life)
        return True

    def _main_started(self) -> bool:
        return any(life.container is not None for life in self._lives if not life.view.init)

    def _try_start(self, life: ContainerLife) -> None:
        moment = time.monotonic()
        if life.note_end(moment, self._around.timing):
            text = f"Back-off restarting failed container {life.view.name} in pod {life.pod}"
            self._around.reporter.event(self._pod, "BackOff", text)
        if moment < life.not_before or self._grace is not None:
            return
        retry = moment + self._around.timing.retry * self._random.uniform(1, 1.5)
        try:
            plugin = self._around.devices.pre_start(self.uid, life.view)
            devices = plugin.cdi_devices + self._around.claims.cdi_devices(self._pod, life.view.name)
            spec = ContainerSpec(
                self._pod, life.view.name, life.view.command, life.view.env, plugin.env, devices,
                life.restarts + 1 if life.container is not None else 0,
                self._around.downward.mounts(self._pod, life.view.name),
            )  # fmt: skip
            time.sleep(self._random.uniform(0, self._around.timing.create))
            if self._grace is not None:
                return
            life.begin(self._around.runtime.create(spec))
        except PluginError as error:
            self._fail(life, "CreateContainerConfigError", str(error), retry)
        except StartError as error:
            life.begin(error.container)
            self._fail(life, error.reason, str(error), moment)  # the next round sets the backoff
        except CreateError as error:
            self._fail(life, error.reason, str(error), retry)

    def _fail(self, life: ContainerLife, reason: str, message: str, retry: float) -> None:
        if life.waiting != (reason, message):
            self._around.reporter.event(self._pod, "Failed", f"Error: {message}")
        life.fail(reason, message, retry)

    def _next_due(self) -> float | None:
        """Seconds until the next container is due to start; None if none is due before an event."""
        due = [
            life.not_before for life in self._lives if not life.running and not life.over and life.not_before
        ]
        return max(min(due) - time.monotonic(), 0.001) if due else None

    def _stop_containers(self) -> None:
        live = [life.container for life in self._lives if life.container is not None and life.running]
        for container in live:
            container.terminate()
        grace = self._grace if self._grace is not None else pod_spec.grace_seconds(self._pod)
        self._wait_for_ends(live, time.monotonic() + grace)
        if self._abandoned:
            return
        for container in live:
            container.kill()
        self._wait_for_ends(live, None)

    def _wait_for_ends(self, containers: list[ContainerAttempt], deadline: float | None) -> None:
        with self._wake:
            self._wake.wait_for(
                lambda: self._abandoned or all(container.exit_code is not None for container in containers),
                None if deadline is None else max(deadline - time.monotonic(), 0),
            )

    def _report(self, phase_now: str, *, delete: bool) -> None:
        status = pod_status(self._pod, self._lives, phase_now, self._started)
        for entry in status["containerStatuses"]:
            if told := self._around.devices.health(self.uid, entry["name"]):
                entry["allocatedResourcesStatus"] = told
        if delete or status != self._shown:
            self._around.reporter.status(self._pod, status, delete=delete)
            self._shown = status


def _written(pod: Json) -> object:
    """The parts of a pod that people write."""
    metadata = pod["metadata"]
    return pod["spec"], metadata.get("labels"), metadata.get("annotations")


def _policy(pod_policy: str, *, init: bool, sidecar: bool) -> str:
    if sidecar:
        return "Always"
    # An init container runs until it has succeeded; a failed one is started again unless the policy is Never.
    return "OnFailure" if init and pod_policy == "Always" else pod_policy
