"""`vgpu check --image`: whether an image's programs load our library, found in a pod of the image without slices.

The pod holds no card, and runs none of the image's programs: vgpu-loads starts only the programs' dynamic loaders, with
the library in the place that it has in a container with a slice. The loaders' own answers are right for any libc and
any version.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.check.installation import (
    NODE_AGENTS,
    CheckState,
    Finding,
    containers,
    name_of,
    problem,
)
from device_plugin.core.errors import VgpuError
from device_plugin.core.printable import one_line, printable
from device_plugin.kube.api import PODS, Kind, Object, Ref
from device_plugin.kube.errors import ApiError, GoneError, UnknownError
from vgpu_runtime.paths import CONTAINER_LIBRARY, CONTAINER_PRELOAD, LOADS

# Programs that are looked at if the caller names none; one is enough.
USUAL_PROGRAMS = ("python3", "python", "sh")
# Seconds in which the pod must have ended: images of this field have gigabytes.
MOST_SECONDS = 1800
LOOK_SECONDS = 1.0
# A user without rights, whom every security standard of Kubernetes admits.
USER = 65532
_FILES, _CHECKED, _LIBRARY = "files", "image", "library"
_TERMINATION = "/dev/termination-log"
# Reasons of a container that waits for something which does not come by itself.
_HOPELESS = ("InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError")
# Reasons that the node tries again; after this number of looks it counts as hopeless.
_REPEATED, _MOST_LOOKS = ("ErrImagePull", "ImagePullBackOff"), 10
_SAFE = {
    "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True,
}  # fmt: skip


class ImageCheckError(VgpuError):
    """The image could not be checked; the text says why, and what to do.

    Cure: see the events of the pod that the text names; it is removed when the command ends.
    """


class Loads(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of vgpu-loads: the program, the file that runs it, its loader, the outcome, and the loader's words."""

    program: str
    path: str
    loader: str
    state: str
    said: str

    @property
    def musl(self) -> bool:
        """True if the program's libc is musl, whose loader reads no /etc/ld.so.preload."""
        return self.loader.rpartition("/")[2].startswith("ld-musl-")


@dataclass(frozen=True, slots=True)
class ImageCheck:
    """The image to check, and the `programs` in it to check; if these are empty, python3, python and sh.

    The pod that checks the image is in `namespace`. `vgpu_image` is the product's image, from which its init container
    copies the library.
    """

    image: str
    programs: Sequence[str]
    namespace: str
    vgpu_image: str

    def pod(self) -> Object:
        """The pod that checks the image, as JSON; its termination message is the answer of vgpu-loads."""
        place = CONTAINER_LIBRARY.rpartition("/")[0]
        programs = self.programs or USUAL_PROGRAMS
        checked = {
            "name": _CHECKED, "image": self.image, "securityContext": _SAFE,
            "command": [f"{place}/{LOADS.name}", _TERMINATION, *programs],
            "resources": _resources("16Mi"),
            "volumeMounts": [
                {"name": _FILES, "mountPath": place, "readOnly": True},
                {
                    "name": _FILES, "mountPath": CONTAINER_PRELOAD, "readOnly": True,
                    "subPath": CONTAINER_PRELOAD.rpartition("/")[2],
                },
            ],
        }  # fmt: skip
        copier = {
            "name": _LIBRARY, "image": self.vgpu_image, "imagePullPolicy": "IfNotPresent",
            "args": ["copy-library", "--to", "/files"], "securityContext": _SAFE, "resources": _resources("128Mi"),
            "volumeMounts": [{"name": _FILES, "mountPath": "/files"}],
        }  # fmt: skip
        spec = {
            "restartPolicy": "Never", "activeDeadlineSeconds": MOST_SECONDS, "enableServiceLinks": False,
            "automountServiceAccountToken": False, "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
            "securityContext": {
                "runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "initContainers": [copier], "containers": [checked], "volumes": [{"name": _FILES, "emptyDir": {}}],
        }  # fmt: skip
        metadata = {
            "generateName": "vgpu-check-image-",
            "labels": {"app.kubernetes.io/name": "vgpu-check-image"},
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def findings(client: KubeClient, check: ImageCheck) -> list[Finding]:
    """Run the pod; returns a finding for each program: whether its loader loads the library.

    Raises ImageCheckError, ApiError.
    """
    with _started(client, check) as pod:
        answer = _ended(client, pod, check, _said_once())
    try:
        found = [msgspec.json.decode(line, type=Loads) for line in answer.encode().splitlines()]
    except msgspec.MsgspecError as error:
        raise ImageCheckError(f"pod {pod.name} answered {one_line(answer[:200])!r}: {error}") from error
    present = [each for each in found if each.state != "no program"]
    if check.programs:
        return [_finding(each, check.image) for each in found]
    if not present:
        names = ", ".join(USUAL_PROGRAMS)
        text = f"{check.image} has none of {names}"
        return [Finding("image", CheckState.UNKNOWN, text, "name its program: --image IMAGE -- PROGRAM")]
    return [_finding(each, check.image) for each in present]


def image_of(workloads: Sequence[Object]) -> str:
    """The image of the node agents among the installation's `workloads`. Raises ImageCheckError if there is none."""
    for workload in workloads:
        if name_of(workload) in NODE_AGENTS:
            for container in containers(workload):
                return str(container["image"])
    raise ImageCheckError("no DaemonSet of vgpu can be read: write its image with --vgpu-image")


@contextmanager
def _started(client: KubeClient, check: ImageCheck) -> Iterator[Ref]:
    """Yields a new pod that checks the image; the pod is deleted at the end."""
    kind: Kind[Any] = PODS.json
    made = client.create(kind, check.pod(), check.namespace)["metadata"]
    ref = Ref(made["name"], made["namespace"], made["uid"])
    try:
        yield ref
    finally:
        with suppress(ApiError):  # it ends by its deadline
            client.delete(PODS, ref, grace_seconds=0)


def _ended(client: KubeClient, pod: Ref, check: ImageCheck, say: Callable[[str], None]) -> str:
    """Wait for the end of the pod; returns the answer of vgpu-loads. Raises ImageCheckError, ApiError.

    `say` is called with each reason why the pod has not ended yet.
    """
    looks, limit = 0, time.monotonic() + MOST_SECONDS
    while True:
        try:
            status = client.get(PODS.json, pod).get("status") or {}
        except GoneError as error:
            raise ImageCheckError(f"pod {pod.name} was deleted by somebody else") from error
        except UnknownError as error:
            say(f"the API server does not answer: {error}")
            status = {}
        answer = _state(status, "containerStatuses").get("terminated")
        if answer is not None and answer.get("exitCode") == 0:
            return str(answer.get("message") or "")
        if status.get("phase") == "Failed":
            raise _failure(pod, status, check)
        text, repeated, hopeless = _waiting(status, check)
        looks = looks + 1 if repeated else 0
        if hopeless or looks > _MOST_LOOKS or time.monotonic() > limit:
            raise ImageCheckError(f"pod {pod.name}: {text}")
        say(f"pod {pod.name}: {text}")
        time.sleep(LOOK_SECONDS)


def _waiting(status: Mapping[str, Any], check: ImageCheck) -> tuple[str, bool, bool]:
    """Returns the reason why the pod has not ended, and two flags.

    The first flag is true if the node tries again by itself, the second if no further try can help.
    """
    for statuses, image in (("initContainerStatuses", check.vgpu_image), ("containerStatuses", check.image)):
        waiting = _state(status, statuses).get("waiting") or {}
        reason = waiting.get("reason") or ""
        if reason in (*_HOPELESS, *_REPEATED):
            return f"{image}: {reason}: {_short(waiting)}", reason in _REPEATED, reason in _HOPELESS
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"it waits for a node: {_short(condition)}", False, False
    return f"a node pulls {check.image}", False, False


def _failure(pod: Ref, status: Mapping[str, Any], check: ImageCheck) -> ImageCheckError:
    """The error that says why a pod of the check failed."""
    copier = _state(status, "initContainerStatuses").get("terminated") or {}
    if copier.get("exitCode"):
        return ImageCheckError(
            f"pod {pod.name}: {check.vgpu_image} could not copy the library (exit code {copier['exitCode']}"
            f" {_short(copier)}): write an image of this version of vgpu with --vgpu-image"
        )
    ended = _state(status, "containerStatuses").get("terminated") or {}
    why = _short(ended) or _short(status) or "the node says nothing"
    return ImageCheckError(f"pod {pod.name} failed: {why}")


def _state(status: Mapping[str, Any], statuses: str) -> Mapping[str, Any]:
    """Returns the state of the first container in a list of the pod's status; empty if there is none yet.

    `statuses` is the name of the list, such as `containerStatuses`.
    """
    found = status.get(statuses) or ()
    return (found[0].get("state") or {}) if found else {}


def _short(found: Mapping[str, Any]) -> str:
    return one_line(": ".join(str(found[key])[:300] for key in ("reason", "message") if found.get(key)))


def _said_once() -> Callable[[str], None]:
    """A function that prints a line on stderr unless it has just printed the same."""
    last = ""

    def say(text: str) -> None:
        nonlocal last
        if text != last:
            last = text
            print(printable(text), file=sys.stderr, flush=True)

    return say


def _finding(loads: Loads, image: str) -> Finding:
    """The finding that says whether one program of the image loads the library."""
    name = one_line(loads.program)
    if loads.path.rpartition("/")[2] not in ("", loads.program.rpartition("/")[2]):
        name += f" (run by {one_line(loads.path)})"
    said = f": {one_line(loads.said)}" if loads.said else ""
    match loads.state:
        case "loaded":
            return Finding(
                "image", CheckState.OK, f"{name} of {image} loads the library: its slice limits it"
            )
        case "not loaded" if loads.musl:
            return problem(
                "image", f"{name} of {image} uses musl, and loads the library only with a variable{said}",
                "set LD_PRELOAD=/usr/local/vgpu/libvgpu.so in the pod, or use an image with glibc",
            )  # fmt: skip
        case "not loaded":
            return problem(
                "image", f"{name} of {image} does not load the library{said}",
                "use an image with glibc 2.17 or newer of the node's architecture",
            )  # fmt: skip
        case "static":
            return problem(
                "image", f"{name} of {image} is linked statically: no slice limits it",
                "link it dynamically, or start a program that is",
            )  # fmt: skip
        case "no program":
            return problem(
                "image", f"{image} has no program {name}", "write it as the pod's command does, after --"
            )
        case "no loader":
            return problem(
                "image", f"{image} lacks {one_line(loads.loader)}, which {name} needs",
                "add the program's libc to the image",
            )  # fmt: skip
        case "unreadable":
            return problem(
                "image", f"{name} of {image} cannot be read by user {USER}",
                "let all users read it: the check runs as a user without rights",
            )  # fmt: skip
    return problem(
        "image", f"{name} of {image} is no program of 64 bits", "start a program that is; name it after --"
    )


def _resources(memory: str) -> Mapping[str, Any]:
    amounts = {"cpu": "100m", "memory": memory}
    return {"requests": amounts, "limits": amounts}
