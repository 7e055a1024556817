"""The cluster as a person with kubectl sees it."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

# As patient as tests.e2e.waiting: other clusters share the machine.
SECONDS = 180.0


class KubectlError(Exception):
    """kubectl said no; the text is what it printed."""


class Kubectl:
    """kubectl in one namespace (empty: where the objects say), by $KUBECONFIG; `user` impersonates somebody."""

    def __init__(self, namespace: str = "default", user: str = "") -> None:
        self.namespace = namespace
        where = ["--namespace", namespace] if namespace else []
        self._command = ["kubectl", *where, *(["--as", user] if user else [])]

    def __call__(self, *arguments: str, given: str | None = None) -> str:
        """What `kubectl ARGUMENTS` prints, with `given` on its standard input. Raises KubectlError."""
        done = subprocess.run(
            [*self._command, *arguments], input=given, capture_output=True, text=True, check=False,
            timeout=2 * SECONDS,
        )  # fmt: skip
        if done.returncode:
            raise KubectlError(done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def json(self, *arguments: str) -> Any:
        """The object that `kubectl ARGUMENTS -o json` prints."""
        return json.loads(self(*arguments, "--output", "json"))

    def items(self, *arguments: str) -> list[Any]:
        """The objects of a list."""
        found: list[Any] = self.json("get", *arguments)["items"]
        return found

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Create or change these objects, all at once. Raises KubectlError with the server's message."""
        self("apply", "--filename", "-", given=_list(objects))

    def create(self, *objects: Mapping[str, Any]) -> None:
        """Create these objects, all at once. Raises KubectlError with the server's message."""
        self("create", "--filename", "-", given=_list(objects))

    def refusal(self, *objects: Mapping[str, Any]) -> str:
        """Why these objects are not taken; asserts that they are not."""
        try:
            self.create(*objects)
        except KubectlError as error:
            return str(error)
        raise AssertionError("these objects were taken")

    def running(self, *pods: str, seconds: float = SECONDS) -> None:
        """Return once these pods (none named: all of the namespace) are Ready. Raises KubectlError after `seconds`."""
        named = [f"pod/{name}" for name in pods] or ["pod", "--all"]
        self("wait", "--for=condition=Ready", *named, f"--timeout={seconds:g}s")

    def gone(self, *pods: str, seconds: float = SECONDS) -> None:
        """Delete these pods, and return once their objects are gone."""
        self("delete", "pod", *pods, "--wait=true", f"--timeout={seconds:g}s", "--ignore-not-found")

    def pod(self, name: str) -> Any:
        """The pod as it is now."""
        return self.json("get", "pod", name)

    def phase(self, name: str) -> str:
        """Pending, Running, Succeeded or Failed."""
        return str(self.pod(name)["status"]["phase"])

    def inside(self, pod: str, *command: str, container: str = "main") -> str:
        """What `command` prints in the container. Raises KubectlError if it fails."""
        return self("exec", pod, "--container", container, "--", *command)

    def events(self, name: str) -> list[str]:
        """`reason: message` of all events about the object, oldest first."""
        found = self.items("events", "--field-selector", f"involvedObject.name={name}")
        found.sort(key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "")
        return [f"{event['reason']}: {event.get('message', '')}" for event in found]

    def metrics(self, pod: str, port: int) -> str:
        """What the pod's /metrics says."""
        return self("get", "--raw", f"/api/v1/namespaces/{self.namespace}/pods/{pod}:{port}/proxy/metrics")


def _list(objects: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
