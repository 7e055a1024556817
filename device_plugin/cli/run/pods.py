"""Decodes the pods of a Job, with only the fields that commands need: a Job of sub-tasks may have thousands of pods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from device_plugin.cli.run.objects import CONTAINER, NOT_STARTED
from device_plugin.core.batch import COMPLETION_INDEX
from device_plugin.core.printable import one_line
from device_plugin.kube.api import Kind, Object, controller_of

MOST_TEXT = 1024
# The annotation by which kubectl chooses a pod's container.
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


@dataclass(frozen=True, slots=True)
class JobPod:
    """A pod with its status. `state` is the state of its `container`, such as {"running": …}; empty without one.

    `last` is how that container ended before its last restart, empty if it was not restarted. `owner` is the uid of the
    pod's controller. `container` is the container that `vgpu run` makes, else kubectl's default container, else the
    first one. `unplaced` says why the pod has no node.
    """

    name: str
    namespace: str = ""
    uid: str = ""
    owner: str = ""
    index: str = ""
    created: str = ""
    phase: str = "Pending"
    node: str = ""
    container: str = CONTAINER
    state: Mapping[str, Any] = field(default_factory=dict)
    unplaced: str = ""
    restarts: int = 0
    last: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Returns the name by which people know the pod among those of its Job: its index, else its name."""
        return self.index or self.name

    @property
    def ended(self) -> bool:
        """True once the pod's phase is final."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def running(self) -> bool:
        """True while the container runs."""
        return "running" in self.state

    @property
    def not_started(self) -> bool:
        """True if the pod ended because its container could not be started."""
        return self.exit_code == NOT_STARTED

    @property
    def has_run(self) -> bool:
        """True if the container runs, or has run."""
        return self.running or (self.exit_code is not None and not self.not_started)

    @property
    def exit_code(self) -> int | None:
        """Returns the container's exit code; None before it has ended."""
        code = self.state.get("terminated", {}).get("exitCode")
        return None if code is None else int(code)

    @property
    def waits_for(self) -> str:
        """Returns why the pod does not run yet, in the words of Kubernetes; empty if it runs or has ended."""
        if self.phase != "Pending":
            return ""
        waiting = self.state.get("waiting", {})
        if waiting.get("reason", "PodInitializing") != "PodInitializing":
            return f"pod {self.name}: {text_of(waiting, 'reason', 'message')}"
        if self.node:
            return f"pod {self.name} is placed"
        return f"pod {self.name} waits for a node" + (f": {self.unplaced}" if self.unplaced else "")


def _container(pod: Object) -> str:
    """Returns the name of the container whose output and state stand for the pod."""
    names = [str(each["name"]) for each in pod["spec"]["containers"]]
    chosen = (pod["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER)
    return next((name for name in (CONTAINER, chosen) if name in names), names[0])


def _read(pod: Object) -> JobPod:
    metadata, status, container = pod["metadata"], pod.get("status") or {}, _container(pod)
    own: Object = next(
        (each for each in status.get("containerStatuses") or () if each["name"] == container), {}
    )
    unplaced = [
        shortened(str(each.get("message") or ""))
        for each in status.get("conditions") or ()
        if (each["type"], each["status"]) == ("PodScheduled", "False")
    ]
    return JobPod(
        metadata["name"], metadata["namespace"], metadata["uid"],
        str(controller_of(metadata).get("uid", "")),
        index=(metadata.get("labels") or {}).get(COMPLETION_INDEX, ""), created=metadata["creationTimestamp"],
        phase=status.get("phase") or "Pending", node=pod["spec"].get("nodeName") or "",
        container=container, state=own.get("state") or {}, unplaced=unplaced[0] if unplaced else "",
        restarts=int(own.get("restartCount") or 0), last=(own.get("lastState") or {}).get("terminated") or {},
    )  # fmt: skip


JOB_PODS = Kind("", "v1", "pods", "Pod", JobPod, _read)


def of_job(pods: Sequence[JobPod], uid: str) -> Sequence[JobPod]:
    """Returns the pods whose controller is the Job with this `uid`.

    The label of a Job is not enough, because everybody may write it on a pod.
    """
    return [pod for pod in pods if pod.owner == uid]


def first_failure(pods: Sequence[JobPod]) -> tuple[int, str]:
    """Returns exit code and description of the program that failed first; 1 and no text if none failed by itself."""
    failed = [pod for pod in pods if pod.exit_code and not pod.not_started]
    if not failed:
        return 1, ""
    first = min(failed, key=lambda pod: str(pod.state["terminated"].get("finishedAt") or ""))
    why = text_of(first.state["terminated"], "reason", "message")
    told = f", {why}" if why not in ("", "Error") else ""
    return first.exit_code or 1, f"pod {first.name} ended with {first.exit_code}{told}"


def text_of(found: Mapping[str, Any], *keys: str) -> str:
    """Returns the values of these keys that are not empty, with colons between them, in one line."""
    return ": ".join(filter(None, (shortened(str(found.get(key) or "")) for key in keys)))


def shortened(text: str) -> str:
    """Returns the first MOST_TEXT characters of the text, in one line; tenants may have written parts of it."""
    return one_line(text[:MOST_TEXT])
