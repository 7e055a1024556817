"""The cluster as a person with kubectl sees it.

What is done again and again takes no kubectl, which costs 0.1 s of CPU and more: objects are read and created over a
kept connection, and commands in containers have a connection each.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import Endpoint, from_kubeconfig
from device_plugin.kube.api import EVENTS, PODS, Kind, Ref, Where
from device_plugin.kube.errors import ApiError, ConflictError, GoneError, RefusedError, UnknownError
from tests.deadline import eventually
from tests.e2e.commands import LOST, execute

# As patient as tests.e2e.waiting: other clusters share the machine.
SECONDS = 180.0
# Kinds of objects that tests create and that have no namespace.
CLUSTER_WIDE = ("PersistentVolume", "PriorityClass", "RuntimeClass", "StorageClass")


class KubectlError(Exception):
    """The API server, or kubectl, said no; the text is what it said."""


@cache
def endpoint() -> Endpoint:
    """The API server of $KUBECONFIG, and its administrator's credentials."""
    return from_kubeconfig(os.environ["KUBECONFIG"])


@cache
def api() -> KubeClient:
    """The API server of $KUBECONFIG, as its administrator. The server itself gives up after 34 s."""
    return KubeClient(endpoint(), "vgpu-e2e", timeout=40)


def kind_of(body: Mapping[str, Any]) -> Kind[Any]:
    """The kind of an object, by its apiVersion and kind; for those whose plural is regular."""
    group, _, version = body["apiVersion"].rpartition("/")
    name = body["kind"]
    return Kind(group, version, f"{name.lower()}{'es' if name.endswith('s') else 's'}", name, dict)


class Kubectl:
    """kubectl in one namespace (empty: where the objects say, or no namespace), by $KUBECONFIG.

    `user`, with these groups, impersonates somebody in what kubectl does; objects are read as the administrator.
    """

    def __init__(self, namespace: str = "default", user: str = "", groups: Sequence[str] = ()) -> None:
        self.namespace = namespace
        self._user = user
        where = ["--namespace", namespace] if namespace else []
        impersonated = ["--as", user, *(f"--as-group={group}" for group in groups)] if user else []
        self._command = ["kubectl", *where, *impersonated]

    def __call__(self, *arguments: str, given: str | None = None) -> str:
        """What `kubectl ARGUMENTS` prints, with `given` on its standard input. Raises KubectlError."""
        done = subprocess.run(
            [*self._command, *arguments], input=given, capture_output=True, text=True, check=False,
            timeout=2 * SECONDS,
        )  # fmt: skip
        if done.returncode:
            raise KubectlError(done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def get(self, kind: Kind[Any], name: str) -> Any:
        """The object as it is now. Raises KubectlError."""
        try:
            return api().get(kind.json, Ref(name, self.namespace))
        except ApiError as error:
            raise KubectlError(str(error)) from error

    def items(self, kind: Kind[Any] = PODS, labels: str = "", fields: str = "") -> Sequence[Any]:
        """The objects of a kind (default: pods) with these labels and fields. Raises KubectlError."""
        try:
            return api().list(kind.json, Where(self.namespace, labels, fields)).items
        except ApiError as error:
            raise KubectlError(str(error)) from error

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Create or change these objects, all at once. Raises KubectlError with the server's message."""
        self("apply", "--filename", "-", given=_list(objects))

    def create(self, *objects: Mapping[str, Any]) -> None:
        """Create these objects, one after another. Raises KubectlError with the server's message."""
        if self._user:
            self("create", "--filename", "-", given=_list(objects))
            return
        for body in objects:
            named = body["metadata"].get("namespace", self.namespace)
            namespace = "" if body["kind"] in CLUSTER_WIDE else named
            _create(body, namespace)

    def refusal(self, *objects: Mapping[str, Any]) -> str:
        """Why these objects are not taken; asserts that they are not."""
        try:
            self.create(*objects)
        except KubectlError as error:
            return str(error)
        raise AssertionError("these objects were taken")

    def would_refuse(self, body: Mapping[str, Any]) -> str:
        """Why the API server would not take this object now; empty if it would. Nothing is stored.

        What admission knows of other objects (quotas, labels of namespaces, priority classes) is a moment old.
        """
        try:
            api().create(kind_of(body).json, body, self.namespace, dry=True)
        except RefusedError as error:
            return str(error)
        except ApiError as error:
            raise KubectlError(str(error)) from error
        return ""

    def running(self, *pods: str, seconds: float = SECONDS) -> None:
        """Return once these pods (none named: all of the namespace) are Ready. Raises KubectlError after `seconds`."""
        wanted = pods or tuple(pod["metadata"]["name"] for pod in self.items())
        assert wanted, "no pod is there"

        def all_are() -> bool:
            return {pod["metadata"]["name"] for pod in self.items() if is_ready(pod)}.issuperset(wanted)

        if not eventually(all_are, seconds, 0.25, KubectlError):
            raise KubectlError(f"not all are Ready after {seconds:g} s: {', '.join(wanted)}")

    def gone(self, *pods: str, seconds: float = SECONDS) -> None:
        """Delete these pods, and return once their objects are gone."""
        self("delete", "pod", *pods, "--wait=true", f"--timeout={seconds:g}s", "--ignore-not-found")

    def pod(self, name: str) -> Any:
        """The pod as it is now."""
        return self.get(PODS, name)

    def has(self, kind: Kind[Any], name: str) -> bool:
        """True if there is an object of this name. Raises KubectlError."""
        try:
            api().get(kind.metadata, Ref(name, self.namespace))
        except GoneError:
            return False
        except ApiError as error:
            raise KubectlError(str(error)) from error
        return True

    def phase(self, name: str) -> str:
        """Pending, Running, Succeeded or Failed."""
        return str(self.pod(name)["status"]["phase"])

    def inside(self, pod: str, *command: str, container: str = "main") -> str:
        """What `command` prints in the container. Raises KubectlError with its errors if it fails."""
        if self._user:
            return self("exec", pod, "--container", container, "--", *command)
        try:
            ended = execute(endpoint(), Ref(pod, self.namespace), container, command, 2 * SECONDS)
        except LOST as error:
            raise KubectlError(str(error)) from error
        if ended.error:
            raise KubectlError(f"{ended.errors}{ended.error}")
        return ended.output

    def events(self, name: str) -> list[str]:
        """`reason: message` of all events about the object, oldest first."""
        found = sorted(
            self.items(EVENTS, fields=f"involvedObject.name={name}"),
            key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "",
        )
        return [f"{event['reason']}: {event.get('message', '')}" for event in found]

    def metrics(self, pod: str, port: int) -> str:
        """What the pod's /metrics says."""
        return self("get", "--raw", f"/api/v1/namespaces/{self.namespace}/pods/{pod}:{port}/proxy/metrics")


def is_ready(found: Any) -> bool:
    """True if the pod or node has the condition Ready."""
    conditions = found["status"].get("conditions", [])
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def _create(body: Mapping[str, Any], namespace: str) -> None:
    """Create an object, asking again while there is no answer: other clusters share the machine.

    Raises KubectlError with the server's message.
    """
    asked = 0

    def created() -> bool:
        nonlocal asked
        asked += 1
        try:
            api().create(kind_of(body), body, namespace)
        except ConflictError:
            # A request without an answer may have created the object.
            if asked == 1:
                raise
        return True

    try:
        eventually(created, SECONDS, 0.25, UnknownError)
    except ApiError as error:
        raise KubectlError(str(error)) from error


def _list(objects: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
