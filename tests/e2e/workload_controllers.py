"""A stand-in for the controllers of JobSets, RayJobs and the others: it makes pods of what is not suspended."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from device_plugin.core.pod_sets import at, pod_sets
from device_plugin.core.workload_kinds import MPI_JOB_V1, RAY_JOB, TRAIN_JOB, WORKLOAD_KINDS, WorkloadKind
from device_plugin.kube.api import PODS, WORKLOADS, Kind, Ref, Where
from device_plugin.kube.errors import ApiError, ConflictError, GoneError, UnknownError
from tests.builders.workloads import body
from tests.contract.kinds import definition
from tests.e2e.kubectl import api
from tests.e2e.waiting import eventually
from tests.e2e.workloads import container, pod

DEFINITIONS = Kind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", dict
)
INSTALLED = tuple(kind for kind in WORKLOAD_KINDS if kind is not MPI_JOB_V1)
Object = Mapping[str, Any]


@contextmanager
def installed() -> Iterator[None]:
    """The kinds' definitions, in the form of this project's own."""
    for kind in INSTALLED:
        with suppress(ConflictError):
            api().create(DEFINITIONS, definition(kind))
    assert eventually(lambda: all(map(_served, INSTALLED)), 60)
    yield
    for kind in INSTALLED:
        api().delete(DEFINITIONS, Ref(f"{kind.plural}.{kind.group}"))
    names = {f"{kind.plural}.{kind.group}" for kind in INSTALLED}
    assert eventually(
        lambda: names.isdisjoint(each["metadata"]["name"] for each in api().list(DEFINITIONS).items), 60
    )


def _served(kind: WorkloadKind) -> bool:
    """True once objects of the kind can be created: a new definition takes none for some seconds."""
    try:
        api().create(WORKLOADS[kind].json, body(kind, "any"), "default", dry=True)
    except (GoneError, UnknownError):
        return False
    return True


class Controllers:
    """Makes the pods of the workloads in a namespace, and deletes them when a workload is suspended.

    Of a workload in `held_back`, one pod is not made yet.
    """

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._stop = threading.Event()
        self.held_back = set[str]()

    @contextmanager
    def running(self) -> Iterator["Controllers"]:
        """The controllers, while their thread runs."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        yield self
        self._stop.set()
        thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.3):
            for kind in INSTALLED:
                with suppress(ApiError):
                    for found in api().list(WORKLOADS[kind].json, Where(self._namespace)).items:
                        self._reconcile(kind, found)

    def _reconcile(self, kind: WorkloadKind, found: Object) -> None:
        name = found["metadata"]["name"]
        value = f"{name}-x" if kind is RAY_JOB else name
        there = api().list(PODS.json, Where(self._namespace, f"{kind.pod_label}={value}")).items
        if at(found, "spec", *kind.suspend) is True or ended(found):
            for pod in there:
                with suppress(GoneError):
                    api().delete(PODS, Ref(pod["metadata"]["name"], self._namespace))
            return
        if kind is RAY_JOB and at(found, "status", "rayClusterName") != value:
            self.tell(kind, name, {"rayClusterName": value})
        wanted = dict(self._pods(kind, found, value))
        names = sorted(wanted)[:-1] if name in self.held_back else sorted(wanted)
        for each in set(names) - {pod["metadata"]["name"] for pod in there}:
            with suppress(ConflictError):
                api().create(PODS.json, wanted[each], self._namespace)

    def _pods(self, kind: WorkloadKind, found: Object, value: str) -> Iterator[tuple[str, Object]]:
        metadata = found["metadata"]
        owner = {
            "apiVersion": f"{kind.group}/{kind.version}", "kind": kind.name, "name": metadata["name"],
            "uid": metadata["uid"], "controller": True,
        }  # fmt: skip
        named = {**found, "apiVersion": owner["apiVersion"], "kind": kind.name}
        for number, each in enumerate(pod_sets(named)):
            for index in range(each.count):
                name = f"{kind.name.lower()}-{metadata['name']}-{number}-{index}"
                about = {"name": name, "labels": {kind.pod_label: value}, "ownerReferences": [owner]}
                yield name, {"metadata": about, "spec": _spec(kind, each.template)}

    def pods(self, kind: WorkloadKind, name: str) -> list[Any]:
        """The pods of a workload."""
        value = f"{name}-x" if kind is RAY_JOB else name
        return list(api().list(PODS.json, Where(self._namespace, f"{kind.pod_label}={value}")).items)

    def run(self, kind: WorkloadKind, name: str, count: int) -> bool:
        """True if this number of pods of the workload run, and no other pod of it exists."""
        return [pod["status"].get("phase") for pod in self.pods(kind, name)] == ["Running"] * count

    def suspended(self, kind: WorkloadKind, name: str) -> bool:
        """True if the workload is suspended now."""
        return at(self.get(kind, name), "spec", *kind.suspend) is True

    def get(self, kind: WorkloadKind, name: str) -> Any:
        """The workload as it is now."""
        return api().get(WORKLOADS[kind].json, Ref(name, self._namespace))

    def tell(self, kind: WorkloadKind, name: str, status: Object) -> None:
        """Write this status on the workload."""
        api().patch(
            WORKLOADS[kind].json, Ref(name, self._namespace), {"status": status}, subresource="status"
        )

    def complete(self, kind: WorkloadKind, name: str) -> None:
        """The workload has done its work."""
        if kind is RAY_JOB:
            self.tell(kind, name, {"jobDeploymentStatus": "Complete"})
        else:
            self.tell(kind, name, {"conditions": [{"type": kind.complete, "status": "True"}]})


def ended(found: Object) -> bool:
    """True if the workload's status says that it has done its work."""
    types = {each.get("type") for each in at(found, "status", "conditions") or ()}
    return bool(types & {"Completed", "Complete", "Succeeded"}) or (
        at(found, "status", "jobDeploymentStatus") == "Complete"
    )


def _spec(kind: WorkloadKind, template: Object) -> Object:
    """The spec of a pod. The pods of a TrainJob get their program from its runtime, which is no object here."""
    if kind is not TRAIN_JOB:
        spec: Object = template["spec"]
        return spec
    (asked,) = template["spec"]["containers"]
    made: Object = pod("any", container(resources=asked["resources"]))["spec"]
    return made
