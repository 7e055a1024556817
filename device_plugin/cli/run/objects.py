"""Makes the objects of `vgpu run`: an Indexed Job in a queue, and the objects that the Job needs.

The scripts of sub-tasks are in a ConfigMap that the pods mount. The agents of torchrun meet at a Service that leads to
the pod of index 0.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from device_plugin.adapters.kube.jobs import read_job
from device_plugin.core.batch import COMPLETION_INDEX, JOB_NAME
from device_plugin.core.contract import annotations as keys
from device_plugin.core.errors import RequestError, VgpuError
from device_plugin.core.jobs.reading import job_spec
from device_plugin.core.jobs.spec import Split
from device_plugin.core.requests import MAX_GANG
from device_plugin.kube.api import JOBS, Ref

CONTAINER, SCRIPTS, PORT = "main", "/parts", 29400
# The end of the name of the Service that gives pods names.
NAMES = "-pods"
# Kubernetes' bounds for the content of a ConfigMap, and for the host name of a pod, NAME-INDEX.
MOST_SCRIPT_BYTES, MOST_HOST_NAME = 1 << 20, 63
# A rank that fails makes torchrun start all ranks again, and each replica that is killed makes others fail.
RESTARTS = 1000
# For backoffLimit: if index 0 is lost, all agents of torchrun fail together. LOST_MEETINGS such losses are allowed, and
# LEAST_FAILURES failures at least.
LOST_MEETINGS, LEAST_FAILURES = 10, 100
# Kubernetes' own default.
USUAL_FAILURES = 6
_NAME = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")
# Text that Kubernetes would replace in a container's command.
_EXPANDED = re.compile(r"\$(?=[$(])")
_MODULE = ("-m", "torch.distributed.run")
_PYTHON = re.compile(r"python[0-9.]*")
# Options of torchrun that `vgpu run` sets itself, or that contradict these.
_TORCHRUN = (
    "nnodes",
    "rdzv-backend",
    "rdzv-endpoint",
    "standalone",
    "node-rank",
    "master-addr",
    "master-port",
)
# Pods that start after a Service have its address in variables. Index 0 cannot reach itself by that address.
_MEET = """\
meeting=${{{variable}:-tcp://{name}:{port}}}
[ "$JOB_COMPLETION_INDEX" != 0 ] || meeting=localhost:{port}
export PET_RDZV_ENDPOINT=${{meeting#tcp://}}
exec "$@"
"""
_RUN_PART = f'exec "$@" "{SCRIPTS}/$JOB_COMPLETION_INDEX"'
# The exit code of a container that could not be started; its program is not the cause.
NOT_STARTED = 128
_DISRUPTED = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
_NOT_STARTED = {
    "action": "Ignore",
    "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": [NOT_STARTED]},
}


# Fields that a policy writes into pods from Kubernetes 1.36 on.
_SECCOMP = {"seccompProfile": {"type": "RuntimeDefault"}}
_NO_CHROOT = {"capabilities": {"drop": ["SYS_CHROOT"]}}


class RunError(VgpuError):
    """A command on a Job cannot do what its options say, or kubectl fails; the text says what to write instead.

    Cure: see `kubectl describe job NAME` and the events of its pods.
    """


@dataclass(frozen=True, slots=True)
class NewJob:
    """The values from which a Job is made: `replicas` pods of `image`, each with `limits`.

    - `cards` is the number of whole cards of a pod.
    - `least` and `most` bound the replicas; if None, the bound is `replicas`, or the smallest or largest of `widths`.
    - `widths` are the only numbers of replicas that are allowed; empty: all within the bounds.
    - `annotations` are the Job's; an empty text stands for an annotation that was not asked for.
    - `scripts` are the sub-tasks of a split; each has a pod of its own.
    - `claims` are volume claims, by the path at which they are mounted.
    - `scheduler` is set for Kubernetes before 1.36, which also needs other fields in pods.
    - `retries` is the number of failed pods after which the Job still goes on; None is the usual number.
    """

    name: str
    image: str
    program: tuple[str, ...]
    limits: Mapping[str, str]
    cards: int = 0
    replicas: int = 1
    least: int | None = None
    most: int | None = None
    widths: tuple[int, ...] = ()
    namespace: str = ""
    queue: str = "default"
    annotations: Mapping[str, str] = field(default_factory=dict)
    card_model: str = ""
    scripts: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    claims: Mapping[str, str] = field(default_factory=dict)
    priority: str = ""
    scheduler: str = ""
    grace: int = 60
    retries: int | None = None

    @property
    def sized(self) -> bool:
        """True if the job engine computes the width from the amount of work (--samples)."""
        return bool(self.annotations.get(keys.SAMPLES))

    @property
    def bounds(self) -> tuple[int, int]:
        """Returns the fewest and the most replicas with which the Job may run."""
        if self.widths:
            allowed = self.allowed or self.widths
            return allowed[0], allowed[-1]
        if self.sized:
            return self.least or 1, self.most or MAX_GANG
        return self.least or self.replicas, self.most or self.replicas

    @property
    def allowed(self) -> tuple[int, ...]:
        """Returns the `widths` (numbers of replicas) from `least` to `most`."""
        return tuple(each for each in self.widths if (self.least or 1) <= each <= (self.most or MAX_GANG))

    @property
    def torchrun(self) -> bool:
        """True if the program is torchrun and the Job may have two or more replicas, whose agents must meet."""
        return not self.scripts and self.bounds[1] > 1 and _starts_torchrun(self.program)


@dataclass(frozen=True, slots=True)
class Objects:
    """A Job, and the other objects that its pods need."""

    job: Mapping[str, Any]
    others: tuple[Mapping[str, Any], ...] = ()


def objects(new: NewJob, prefix: str) -> Objects:
    """Returns the objects of a Job. Raises RunError if Kubernetes or the job engine would refuse the Job."""
    _check(new)
    job = _job(new)
    try:
        job_spec(read_job(json.dumps(job).encode()), (prefix,), {}, lambda _: 0.0)
    except RequestError as error:
        raise RunError(_in_options(str(error))) from error
    others: list[Mapping[str, Any]] = []
    if new.scripts:
        content = {str(index): text for index, text in enumerate(new.scripts)}
        others.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata(new), "data": content})
    others += _services(new)
    return Objects(job, tuple(others))


def _services(new: NewJob) -> Iterable[dict[str, Any]]:
    """Yields the Service at which the agents of torchrun meet, and the Service that gives their pods host names."""
    if not new.torchrun:
        return
    common = {"publishNotReadyAddresses": True, "ports": [{"port": PORT}]}
    for suffix, spec in (
        ("", {"selector": {JOB_NAME: new.name, COMPLETION_INDEX: "0"}}),
        (NAMES, {"clusterIP": "None", "selector": {JOB_NAME: new.name}}),
    ):
        metadata = {**_metadata(new), "name": new.name + suffix}
        yield {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {**spec, **common}}


def owned_by(job: Ref) -> dict[str, Any]:
    """Returns metadata with the Job as owner: Kubernetes deletes the object with the Job."""
    return {
        "ownerReferences": [
            {"apiVersion": JOBS.api_version, "kind": JOBS.name, "name": job.name, "uid": job.uid}
        ]
    }


def _check(new: NewJob) -> None:
    """Raise RunError for a Job that Kubernetes would refuse, or would accept and never run."""
    highest = (len(new.scripts) or max(new.replicas, new.bounds[1])) - 1
    longest = MOST_HOST_NAME - max(len(f"-{highest}"), len(NAMES) if new.torchrun else 0)
    if len(new.name) > longest or not _NAME.fullmatch(new.name):
        raise RunError(
            f"name {new.name[:MOST_HOST_NAME]!r}: write at most {longest} small letters, digits and -, with a letter"
            " first and no - at the end"
        )
    # The engine computes the replicas of a sized Job.
    least, most = (1, MAX_GANG) if new.sized else (new.least or 1, new.most or MAX_GANG)
    if not new.scripts and least <= most and not least <= new.replicas <= most:
        raise RunError(
            f"{new.replicas} replicas, where {least} to {most} are allowed: change --replicas or --cards, or --min"
            " and --max"
        )
    if new.allowed and not new.sized and new.replicas not in new.allowed:
        raise RunError(
            f"{new.replicas} replicas, where {', '.join(map(str, new.allowed))} are allowed: change --replicas or"
            " --cards, or --widths"
        )
    if sum(len(text.encode()) for text in new.scripts) > MOST_SCRIPT_BYTES:
        raise RunError(
            f"the scripts of --split have more than {MOST_SCRIPT_BYTES} bytes together, which is the most that a"
            " ConfigMap holds: put what they share into the image, or on a --volume"
        )
    if new.torchrun:
        for word in new.program:
            option = word.partition("=")[0].removeprefix("--").replace("_", "-")
            if word.startswith("--") and option in _TORCHRUN:
                raise RunError(
                    f"{word[:MOST_HOST_NAME]}: leave it out, because vgpu run sets it for torchrun; --min and --max"
                    " bound the number of replicas"
                )


def _starts_torchrun(program: tuple[str, ...]) -> bool:
    """True if the program is torchrun, by either of its names."""
    first = program[0].rpartition("/")[2] if program else ""
    return first == "torchrun" or (bool(_PYTHON.fullmatch(first)) and program[1:3] == _MODULE)


def _metadata(new: NewJob) -> dict[str, Any]:
    return {"name": new.name} | ({"namespace": new.namespace} if new.namespace else {})


def _job(new: NewJob) -> dict[str, Any]:
    written = {key: text for key, text in new.annotations.items() if text}
    if new.scripts:
        written[keys.SPLIT] = Split.ORDERED.value
    elif new.widths:
        bounds = {keys.MIN_REPLICAS: new.least, keys.MAX_REPLICAS: new.most}
        written |= {key: str(bound) for key, bound in bounds.items() if bound}
        written[keys.WIDTHS] = ",".join(map(str, new.widths))
    elif new.least or new.most:
        least, most = new.bounds
        written |= {keys.MIN_REPLICAS: str(least), keys.MAX_REPLICAS: str(most)}
    if new.card_model:
        written[keys.CARD_MODEL] = new.card_model
    width = {"completions": len(new.scripts), "parallelism": 1} if new.scripts else {
        "completions": new.replicas, "parallelism": new.replicas,
    }  # fmt: skip
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.name,
        "metadata": {
            **_metadata(new),
            "labels": {keys.QUEUE: new.queue},
            **({"annotations": written} if written else {}),
        },
        "spec": {
            "suspend": True,
            "completionMode": "Indexed",
            **width,
            "podReplacementPolicy": "Failed",
            **_failures(new),
            "podFailurePolicy": {"rules": [_DISRUPTED, _NOT_STARTED]},
            "template": _template(new),
        },
    }


def _failures(new: NewJob) -> dict[str, int]:
    """Returns the Job's field that limits failed pods: `backoffLimit`, or with sub-tasks `backoffLimitPerIndex`."""
    if new.scripts:
        return {"backoffLimitPerIndex": new.retries or 0}
    if new.retries is not None:
        return {"backoffLimit": new.retries}
    least, most = new.bounds
    if new.torchrun:
        return {"backoffLimit": max(LOST_MEETINGS * most, LEAST_FAILURES)}
    # A program that is made for a change of width continues from its checkpoints.
    return {"backoffLimit": USUAL_FAILURES if least < most else 0}


def _template(new: NewJob) -> dict[str, Any]:
    together = 0 if new.scripts or (new.sized and new.least is None) else new.bounds[0]
    labels = {keys.GROUP: new.name, keys.GROUP_SIZE: str(together)} if together > 1 else {}
    kept = {keys.CARD_MODEL: new.card_model} if new.card_model else {}
    metadata = {key: value for key, value in (("labels", labels), ("annotations", kept)) if value}
    return {
        **({"metadata": metadata} if metadata else {}),
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": new.grace,
            # If torchrun were process 1 of its container, it would ignore a SIGTERM that comes while it starts.
            **({"shareProcessNamespace": True, "subdomain": new.name + NAMES} if new.torchrun else {}),
            **({"priorityClassName": new.priority} if new.priority else {}),
            **({"schedulerName": new.scheduler, "securityContext": _SECCOMP} if new.scheduler else {}),
            "containers": [_container(new)],
            **({"volumes": volumes} if (volumes := list(_volumes(new))) else {}),
        },
    }


def _container(new: NewJob) -> dict[str, Any]:
    mounts = [{"name": name, "mountPath": path} for name, path in _mounts(new)]
    env = [
        entry if isinstance(entry, dict) else {"name": name, "value": _literal(entry)}
        for name, entry in ({**_torchrun_settings(new), **new.env}).items()
    ]
    return {
        "name": CONTAINER,
        "image": new.image,
        **_command(new),
        **({"env": env} if env else {}),
        "resources": {"limits": dict(new.limits)},
        **({"securityContext": _NO_CHROOT} if new.scheduler else {}),
        **({"volumeMounts": mounts} if mounts else {}),
    }


def _command(new: NewJob) -> dict[str, Any]:
    """Returns the container's command: the program as typed, or a shell that replaces itself by the program.

    The shell is needed for torchrun and for sub-tasks.
    """
    if new.torchrun:
        variable = f"{new.name.upper().replace('-', '_')}_PORT"
        script = _MEET.format(variable=variable, name=new.name, port=PORT)
    elif new.scripts:
        script = _RUN_PART
    else:
        return {"command": [_literal(word) for word in new.program]}
    return {
        "command": ["sh", "-ec", script, "sh"],
        **({"args": [_literal(word) for word in new.program]} if new.program else {}),
    }


def _torchrun_settings(new: NewJob) -> dict[str, Any]:
    """Returns the environment variables that are settings of torchrun; empty for other programs."""
    if not new.torchrun:
        return {}
    least, most = new.bounds
    return {
        "PET_NNODES": f"{least}:{most}",
        **({"PET_NPROC_PER_NODE": str(new.cards)} if new.cards > 1 else {}),
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ID": new.name,
        "PET_RDZV_CONF": "last_call_timeout=3",
        "PET_MAX_RESTARTS": str(RESTARTS),
        # PyTorch 2.4 and 2.5 use the agents' store as the store of the ranks, and look for it at a wrong address.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        # The address at which ranks find rank 0. PyTorch 1.x and 2.4 ignore it, and use the host's name.
        "PET_LOCAL_ADDR": {
            "name": "PET_LOCAL_ADDR",
            "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
        },
    }


def _mounts(new: NewJob) -> Iterable[tuple[str, str]]:
    """Yields name and path of each volume."""
    if new.scripts:
        yield "parts", SCRIPTS
    for index, path in enumerate(new.claims):
        yield f"volume-{index}", path


def _volumes(new: NewJob) -> Iterable[dict[str, Any]]:
    if new.scripts:
        yield {"name": "parts", "configMap": {"name": new.name, "defaultMode": 0o555}}
    for index, claim in enumerate(new.claims.values()):
        yield {"name": f"volume-{index}", "persistentVolumeClaim": {"claimName": claim}}


def _literal(word: str) -> str:
    """Returns the word escaped, so that Kubernetes does not expand `$(...)` in it."""
    return _EXPANDED.sub("$$", word)


def _in_options(text: str) -> str:
    """Returns `text` with the name of each annotation replaced by the option that sets it, such as --min."""
    for key, option in ((keys.MIN_REPLICAS, "--min"), (keys.MAX_REPLICAS, "--max")):
        text = text.replace(f"annotation {key}", option).replace(key, option)
    return re.sub(r"(?:annotation )?vgpu\.io/(?=[a-z])", "--", text)
