"""One run of the kubelet process, from its start to its stop or restart; containers go on after it."""

import logging
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.adapters.kube.watch import ListWatch
from device_plugin.kube.api import PODS, Change, Where
from hack.embedded import pod_spec
from hack.embedded.kubelet.claims import PodClaims, Prepared
from hack.embedded.kubelet.devices import DeviceManager
from hack.embedded.kubelet.downward import DownwardVolumes
from hack.embedded.kubelet.drivers import Drivers
from hack.embedded.kubelet.node_status import NodePublisher
from hack.embedded.kubelet.pod_admission import Rejection, admit
from hack.embedded.kubelet.pod_resources import PodResourcesServer
from hack.embedded.kubelet.pod_status import rejected_status
from hack.embedded.kubelet.pod_worker import KubeletParts, PodWorker
from hack.embedded.kubelet.registration import CHECKPOINT, RegistrationServer
from hack.embedded.kubelet.reporter import Reporter
from hack.embedded.kubelet.server import KubeletServer, Pods
from hack.embedded.kubelet.timing import KubeletTiming
from hack.embedded.pod_spec import Json
from hack.embedded.runtime.containers import ContainerAttempt, Runtime

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """The settings that a kubelet keeps across restarts."""

    name: str
    kubelet_dir: Path
    api_url: str
    token: str
    timing: KubeletTiming


class KubeletSession:
    """The kubelet from one start to its stop. Only the thread that watches the pods changes the records of pods.

    `prepared` are the claims that earlier sessions have prepared.
    """

    def __init__(self, config: NodeConfig, runtime: Runtime, rng: random.Random, prepared: Prepared) -> None:
        self._runtime = runtime
        self._random = rng
        self._pods: dict[str, Json] = {}
        # Mirror pods: the kubelet does not run them, and only serves requests about them.
        self._mirrored: dict[str, Json] = {}
        self._workers: dict[str, PodWorker] = {}
        self._inactive: set[str] = set()
        self._survivors = runtime.containers()
        timing = config.timing
        authorization = f"Bearer {config.token}" if config.token else None
        self._api = KubeClient(Endpoint(config.api_url, lambda: authorization), "kubelet")
        plugins = config.kubelet_dir / "device-plugins"
        plugins.mkdir(parents=True, exist_ok=True)
        self._devices = DeviceManager(
            plugins / CHECKPOINT, rng, timing, self._active_pods, self._devices_changed
        )
        self._registration = RegistrationServer(plugins, self._devices, timing.dial)
        self._pod_resources = PodResourcesServer(
            config.kubelet_dir / "pod-resources" / "kubelet.sock", self._devices, self._active_pods
        )
        self._reporter = Reporter(self._api, timing.api_retry)
        self._server = KubeletServer(Pods(self._named, self._attempt))
        self._node = NodePublisher(
            self._api,
            config.name,
            self._server.port,
            self._devices.capacity,
            timing.node_status,
            timing.api_retry,
        )
        self._drivers = Drivers(config.kubelet_dir / "plugins_registry", self._api, config.name, timing.wipe)
        here = Where(fields=f"spec.nodeName={config.name}")
        self._watch = ListWatch(self._api, PODS.json, here, longest_pause=timing.api_retry)
        self._ending = threading.Event()
        runs = {
            "report": self._reporter.run,
            "node": lambda: self._node.run(self._ending),
            "pods": lambda: self._watch.run(self._on_list, self._on_change, self._ending),
            "drivers": self._drivers.run,
        }
        self._threads = [
            threading.Thread(target=run, name=f"{what}-{config.name}", daemon=True)
            for what, run in runs.items()
        ]
        downward = DownwardVolumes(config.kubelet_dir / "pods")
        claims = PodClaims(self._api, self._drivers, prepared)
        self._around = KubeletParts(self._devices, claims, downward, runtime, self._reporter, timing)

    def start(self) -> None:
        """Serve the sockets, publish the node, and follow its pods."""
        self._runtime.listen(self._ended)
        self._registration.start()
        self._pod_resources.start()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop all threads and servers; containers go on."""
        self._ending.set()
        # Closing the plugins' connections ends a running Allocate call, for which the thread of the pods may wait.
        self._registration.stop()
        self._watch.interrupt()
        self._drivers.stop()
        self._node.changed()
        self._reporter.stop()
        for thread in self._threads:
            thread.join()
        for worker in self._workers.values():
            worker.abandon()
        self._pod_resources.stop()
        self._server.stop()
        self._api.close()

    def _named(self, namespace: str, name: str) -> Json | None:
        """The pod of this namespace and name, mirror pods included."""
        known = (*self._pods.values(), *self._mirrored.values())
        wanted = {"namespace": namespace, "name": name}.items()
        return next((pod for pod in known if wanted <= pod["metadata"].items()), None)

    def _attempt(self, pod: Json, container: str) -> ContainerAttempt | None:
        """The newest attempt of one of the pod's containers."""
        wanted = (pod_spec.uid(pod), container)
        found = (each for each in self._runtime.containers() if (each.spec.pod_uid, each.spec.name) == wanted)
        return next(found, None)

    def _on_list(self, pods: Sequence[Json]) -> None:
        self._mirrored = {pod_spec.uid(pod): pod for pod in pods if pod_spec.mirrored(pod)}
        pods = [pod for pod in pods if not pod_spec.mirrored(pod)]
        listed = {pod_spec.uid(pod) for pod in pods}
        for uid in set(self._pods) - listed:
            self._remove(self._pods[uid])
        new = listed - self._pods.keys()
        # All pods are recorded before the first is admitted, so that none loses the tickets that it already had.
        self._pods.update({pod_spec.uid(pod): pod for pod in pods})
        for pod in pods:
            if pod_spec.uid(pod) in new:
                self._add(pod)
            elif pod_spec.deleting(pod):
                self._delete(pod)
        for container in self._survivors:
            if container.spec.pod_uid not in listed and container.spec.pod_uid not in self._workers:
                self._end_orphan(container.spec.pod)
        for uid in self._runtime.groups.sandboxes() - listed - self._workers.keys():
            self._runtime.groups.close_sandbox(uid)
        # No later pod can have the UID of an adopted container, because UIDs are not used again.
        self._survivors = []

    def _on_change(self, change: Change, pod: Json) -> None:
        uid = pod_spec.uid(pod)
        if pod_spec.mirrored(pod):
            self._mirrored[uid] = pod
            if change is Change.DELETED:
                del self._mirrored[uid]
            return
        if change is Change.DELETED:
            self._remove(pod)
            return
        known = uid in self._pods
        self._pods[uid] = pod
        if not known:
            self._add(pod)
        elif pod_spec.deleting(pod):
            self._delete(pod)
        elif uid in self._workers:
            self._workers[uid].refresh(pod)

    def _add(self, pod: Json) -> None:
        uid = pod_spec.uid(pod)
        mine = [container for container in self._survivors if container.spec.pod_uid == uid]
        if pod_spec.terminal(pod) or (pod_spec.deleting(pod) and not mine):
            self._inactive.add(uid)
            self._end_remains(pod, mine)
            if pod_spec.deleting(pod):
                self._delete(pod)
            return
        if pod_spec.deleting(pod):
            worker = self._worker(pod, mine)
            worker.terminate(pod)
            worker.start()
            return
        rejection = self._admit(pod, mine)
        if self._ending.is_set():
            return
        if rejection is None:
            self._worker(pod, mine).start()
        else:
            self._reject(pod, rejection, mine)

    def _worker(self, pod: Json, adopted: list[ContainerAttempt]) -> PodWorker:
        worker = PodWorker(pod, self._around, self._random.getrandbits(32), adopted)
        self._workers[worker.uid] = worker
        return worker

    def _admit(self, pod: Json, mine: list[ContainerAttempt]) -> Rejection | None:
        running = {container.spec.name for container in mine if container.exit_code is None}
        others = [other for other in self._active_pods() if pod_spec.uid(other) != pod_spec.uid(pod)]
        return admit(pod, self._devices, running, others)

    def _reject(self, pod: Json, rejection: Rejection, mine: list[ContainerAttempt]) -> None:
        log.info("pod %s rejected: %s", pod_spec.full_name(pod), rejection.message)
        self._inactive.add(pod_spec.uid(pod))
        self._reporter.event(pod, rejection.reason, rejection.message)
        self._reporter.status(pod, rejected_status(rejection), delete=pod_spec.deleting(pod))
        self._end_remains(pod, mine)

    def _end_remains(self, pod: Json, mine: list[ContainerAttempt]) -> None:
        """End the containers and the sandbox of a pod that must not run; an earlier kubelet process started them."""
        if any(container.exit_code is None for container in mine):
            self._end_orphan(pod)
        else:
            self._runtime.groups.close_sandbox(pod_spec.uid(pod))

    def _end_orphan(self, pod: Json) -> None:
        """End the containers of a pod that is gone or was rejected, without reporting its status."""
        uid = pod_spec.uid(pod)
        mine = [container for container in self._runtime.containers() if container.spec.pod_uid == uid]
        if uid not in self._workers:
            worker = self._worker(pod, mine)
            worker.remove(pod)
            worker.start()

    def _devices_changed(self) -> None:
        self._node.changed()
        for worker in list(self._workers.values()):
            worker.poke()  # the health of its tickets may have changed

    def _ended(self, container: ContainerAttempt) -> None:
        worker = self._workers.get(container.spec.pod_uid)
        if worker is not None:
            worker.poke()

    def _delete(self, pod: Json) -> None:
        uid = pod_spec.uid(pod)
        if uid in self._inactive or uid not in self._workers:
            self._reporter.status(pod, None, delete=True)
        else:
            self._workers[uid].terminate(pod)

    def _remove(self, pod: Json) -> None:
        uid = pod_spec.uid(pod)
        self._pods.pop(uid, None)
        self._inactive.discard(uid)
        if uid in self._workers:
            self._workers[uid].remove(pod)
        else:
            self._runtime.forget(uid)
        self._workers = {
            uid: worker for uid, worker in self._workers.items() if uid in self._pods or worker.alive
        }

    def _active_pods(self) -> list[Json]:
        """The pods that may hold tickets (device IDs): not rejected, not ended, not gone from the API server."""
        pods, workers = self._pods.copy(), self._workers
        return [
            pod
            for uid, pod in pods.items()
            if uid not in self._inactive and not (uid in workers and workers[uid].finished)
        ]
