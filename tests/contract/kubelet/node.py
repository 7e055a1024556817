"""The node under test, as one test sees it: resources, pods and plugins of names that no other test uses."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.contract.cluster import PODS, Cluster, unique
from tests.contract.kubelet.late_plugin import LatePlugin
from tests.contract.kubelet.machines import NODE, Machine
from tests.deadline import eventually

EVENTS = "/api/v1/namespaces/default/events"
# The stand-in has no images; its containers see the host's programs.
IMAGE = "vgpu.io/workload:0.1.0"
SLEEP = ["sleep", "1000"]


class Node:
    """Pods are called by the names that the test gives them; in the cluster they have a prefix."""

    def __init__(self, cluster: Cluster, machine: Machine) -> None:
        self.machine = machine
        self.folders = machine.folders
        self.prefix = unique("k")
        self.mem, self.cores = f"lab.io/{self.prefix}-mem", f"lab.io/{self.prefix}-cores"
        self._cluster = cluster
        self._plugins: list[LatePlugin] = []
        self._pods: set[str] = set()

    def close(self) -> None:
        """Pods go as fast as they can; that they hold tickets until then is no matter, as no other test has these."""
        for plugin in self._plugins:
            plugin.close()
        for name in self._pods:
            self._cluster.patch(self._path(name), {"metadata": {"finalizers": None}})
            self.delete(name, grace=0)

    def until(self, condition: Callable[[], object], what: str = "") -> None:
        """Return once `condition` holds."""
        assert eventually(condition, self.machine.patience, self.machine.every), f"not in time: {what}"

    @contextmanager
    def halted(self) -> Iterator[None]:
        """The kubelet is down meanwhile."""
        self.machine.halt()
        try:
            yield
        finally:
            self.machine.resume()

    def restart_kubelet(self) -> None:
        with self.halted():
            pass

    # Plugins and what the node offers

    def another(self, resource: str, count: int) -> LatePlugin:
        """A plugin that does not serve yet."""
        self._plugins.append(LatePlugin(self.folders, resource, count))
        return self._plugins[-1]

    def plugin(self, resource: str, count: int) -> LatePlugin:
        """A plugin that serves; the kubelet has its list of tickets."""
        plugin = self.another(resource, count)
        plugin.serve()
        self.until(lambda: self.machine.lists(resource), f"{resource} listed")
        return plugin

    def offered(self, resource: str) -> tuple[int, int] | None:
        """(capacity, allocatable), or None if the node never heard of the resource."""
        status = self._cluster.get(f"/api/v1/nodes/{NODE}").body["status"]
        if resource not in status["capacity"]:
            return None
        return int(status["capacity"][resource]), int(status["allocatable"][resource])

    def until_offered(self, resource: str, counts: tuple[int, int]) -> None:
        """Return once the node says (capacity, allocatable)."""
        self.until(lambda: self.offered(resource) == counts, f"{resource} {counts}")

    # Pods

    def container(self, name: str = "main", mem: int = 0, cores: int = 0, **more: Any) -> dict[str, Any]:
        """A container; `limits` and others among `more`."""
        limits = {self.mem: str(mem), self.cores: str(cores), **more.pop("limits", {})}
        limits = {resource: count for resource, count in limits.items() if count != "0"}
        return {"name": name, "image": IMAGE, "command": SLEEP, "resources": {"limits": limits}, **more}

    def create(self, name: str, *containers: dict[str, Any], **spec: Any) -> Any:
        """A pod that is bound to the node and ends within a second; `spec` overrides."""
        spec = {
            "nodeName": NODE,
            "containers": list(containers),
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            **spec,
        }
        metadata = {
            "name": self.full(name),
            "labels": spec.pop("labels", {}),
            "finalizers": spec.pop("finalizers", []),
        }
        made = self._cluster.post(
            PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        )
        assert made.code == 201, made.body
        self._pods.add(name)
        return made.body

    def full(self, name: str) -> str:
        """The pod's name in the cluster."""
        return f"{self.prefix}-{name}"

    def named(self, name: str) -> str:
        """The pod as messages name it."""
        return f"{self.full(name)}_default({self.pod(name)['metadata']['uid']})"

    def pod(self, name: str) -> Any:
        """The pod, which exists."""
        answer = self._cluster.get(self._path(name))
        assert answer.code == 200, answer.body
        return answer.body

    def gone(self, name: str) -> bool:
        return self._cluster.get(self._path(name)).code == 404

    def status(self, name: str) -> Any:
        return self.pod(name)["status"]

    def state(self, name: str) -> Any:
        """The status of the pod's first container; without any, if there is none yet."""
        return (self.status(name).get("containerStatuses") or [{"state": {}, "restartCount": 0}])[0]

    def waiting(self, name: str) -> tuple[str, str]:
        """(reason, message) why the pod's first container does not run."""
        waiting = self.state(name)["state"].get("waiting", {})
        return waiting.get("reason", ""), waiting.get("message", "")

    def until_phase(self, name: str, phase: str) -> Any:
        """The status of the pod once it has the phase."""
        self.until(lambda: self.status(name)["phase"] == phase, f"{name} {phase}")
        return self.status(name)

    def delete(self, name: str, grace: int | None = None) -> None:
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        self._cluster.delete(self._path(name), options)

    def annotate(self, name: str, annotations: dict[str, str]) -> None:
        """By the route of the pod's status."""
        change = {"metadata": {"annotations": annotations}}
        assert self._cluster.patch(f"{self._path(name)}/status", change).code == 200

    def evict(self, name: str) -> None:
        metadata = {"name": self.full(name), "namespace": "default"}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        assert self._cluster.post(f"{self._path(name)}/eviction", body).code == 201

    def events(self, name: str) -> list[tuple[str, str]]:
        """(reason, message) of the events about a pod."""
        items = self._cluster.get(EVENTS).body["items"]
        return [(e["reason"], e["message"]) for e in items if e["involvedObject"]["name"] == self.full(name)]

    def refusal(self, name: str) -> tuple[str, str]:
        """(reason, message) of a pod that was rejected; an event says the same."""
        status = self.until_phase(name, "Failed")
        self.until(
            lambda: any(status["message"].endswith(message) for reason, message in self.events(name)
                        if reason == status["reason"]), "event",
        )  # fmt: skip
        return status["reason"], status["message"]

    def log(self, name: str, container: str = "main") -> str:
        return self.machine.log(self.pod(name), container)

    def config(self, name: str) -> str:
        """What the late plugin writes for the pod."""
        return f"pod={self.full(name)} tickets="

    def live(self, pod: Any) -> set[str]:
        """The ids of the pod's containers that have processes."""
        return self.machine.live(pod["metadata"]["uid"])

    def sockets(self) -> set[str]:
        return {path.name for path in self.folders.plugins.glob("*.sock")}

    def _path(self, name: str) -> str:
        return f"{PODS}/{self.full(name)}"
