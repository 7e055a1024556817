"""Jobs: defaults, the labels of their pods, validation, and what an update may change.

Model: k8s.io/kubernetes pkg/registry/batch/job (strategy) and pkg/apis/batch (v1 defaults, validation).
"""

import copy
import re
from collections.abc import Iterator
from typing import Any

from hack.embedded.apiserver import errors, pods
from hack.embedded.apiserver.errors import Cause
from hack.embedded.apiserver.strategies import Object, Strategy, keep

# A host name, by which the pods of an Indexed Job find each other.
_HOST = re.compile(r"(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?")
PREFIX = "batch.kubernetes.io/"
CONTROLLER_UID, JOB_NAME = f"{PREFIX}controller-uid", f"{PREFIX}job-name"
MOST_FAILURES = 2**31 - 1
_IMMUTABLE = (
    "selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy",
)  # fmt: skip
_COUNTS = ("parallelism", "completions", "backoffLimit", "backoffLimitPerIndex", "activeDeadlineSeconds")
# The fields of a template that may change while the Job is suspended: they decide the nodes of its pods.
_DIRECTIVES = ("nodeSelector", "tolerations", "schedulingGates")


class JobStrategy(Strategy):
    """The rules for writes of Jobs; a Job is written by two routes, the object itself and its status."""

    def default(self, new: Object) -> None:
        """Set the API server's defaults, also in the template's pod."""
        spec, template = _template(new)
        for key in [key for key, value in spec.items() if value is None]:
            del spec[key]
        if "parallelism" not in spec:
            spec.setdefault("completions", 1)
            spec["parallelism"] = 1
        spec.setdefault("backoffLimit", MOST_FAILURES if "backoffLimitPerIndex" in spec else 6)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        spec.setdefault("manualSelector", False)
        replaced = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
        spec.setdefault("podReplacementPolicy", replaced)
        pods.default_spec(template.setdefault("spec", {}))
        labels = template["metadata"].get("labels")
        if labels and not new["metadata"].get("labels"):
            new["metadata"]["labels"] = dict(labels)

    def prepare_create(self, new: Object) -> None:
        """Reset generation and status, and let the Job's own UID select its pods."""
        metadata = new["metadata"]
        metadata["generation"] = 1
        new["status"] = {}
        own = {"controller-uid": metadata["uid"], "job-name": metadata["name"]}
        labels = new["spec"]["template"]["metadata"].setdefault("labels", {})
        labels.update({**own, **{f"{PREFIX}{key}": value for key, value in own.items()}})
        new["spec"]["selector"] = {"matchLabels": {CONTROLLER_UID: metadata["uid"]}}

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        """Restore the part that only the other route may write; increase the generation if the spec has changed."""
        if subresource == "status":
            keep(new, old, "spec")
            return
        keep(new, old, "status")
        if new["spec"] != old["spec"]:
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1

    def validate(self, new: Object) -> list[Cause]:
        """The faults of its numbers, of its template, and of its name, which must be valid in its pods' host names."""
        name, spec = new["metadata"]["name"], new["spec"]
        causes = [*super().validate(new), *_causes(spec)]
        last = f"{name}-{spec.get('completions', 0) - 1}"
        if (
            spec["completionMode"] == "Indexed"
            and spec.get("completions", 0) > 0
            and not _HOST.fullmatch(last)
        ):
            message = f'Invalid value: "{name}": will not able to create pod with invalid DNS label: {last}'
            causes.append(Cause("metadata.name", message))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """The faults of an update: an immutable field has changed.

        An Indexed Job may change its width; a suspended Job without running pods may change the nodes of its pods.
        """
        causes, spec, was = self.validate(new), new["spec"], old["spec"]
        if spec.get("completions") != was.get("completions"):
            if spec["completionMode"] != "Indexed":
                causes.append(_immutable("completions", spec.get("completions")))
            elif spec.get("completions") != spec["parallelism"]:
                message = f"Invalid value: {spec['completions']}: can only be modified in tandem with spec.parallelism"
                causes.append(Cause("spec.completions", message))
        causes += [_immutable(key, spec.get(key)) for key in _IMMUTABLE if spec.get(key) != was.get(key)]
        changeable = _is_open(old)
        if _fixed(spec["template"], free=changeable) != _fixed(was["template"], free=changeable):
            causes.append(_immutable("template.spec" if changeable else "template", "{…}"))
        return causes


def _template(new: Object) -> tuple[Object, Object]:
    """The spec and its template. Raises StatusError 400 if they are not objects."""
    spec = new.get("spec")
    template = spec.setdefault("template", {}) if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(template, dict):
        raise errors.bad_request('Job in version "v1" cannot be handled as a Job: spec is malformed')
    if template.get("metadata") is None:
        template["metadata"] = {}
    return spec, template


def _causes(spec: Object) -> Iterator[Cause]:
    indexed, policy = spec["completionMode"] == "Indexed", spec["template"]["spec"]["restartPolicy"]
    for key in _COUNTS:
        if spec.get(key, 0) < 0:
            yield Cause(f"spec.{key}", f"Invalid value: {spec[key]}: must be greater than or equal to 0")
    if indexed and "completions" not in spec:
        message = "Required value: when completion mode is Indexed"
        yield Cause("spec.completions", message, "FieldValueRequired")
    if policy == "Always":
        message = 'Required value: valid values: "OnFailure", "Never"'
        yield Cause("spec.template.spec.restartPolicy", message, "FieldValueRequired")
    if "podFailurePolicy" in spec:
        if policy == "OnFailure":
            message = (
                'Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified'
            )
            yield Cause("spec.template.spec.restartPolicy", message)
        if spec["podReplacementPolicy"] != "Failed":
            message = f'Unsupported value: "{spec["podReplacementPolicy"]}": supported values: "Failed"'
            yield Cause("spec.podReplacementPolicy", message, "FieldValueNotSupported")
    if "backoffLimitPerIndex" in spec and not indexed:
        message = f"Invalid value: {spec['backoffLimitPerIndex']}: requires indexed completion mode"
        yield Cause("spec.backoffLimitPerIndex", message)
    yield from pods.spec_causes(spec["template"]["spec"], "spec.template.spec")


def _immutable(key: str, value: object) -> Cause:
    return Cause(f"spec.{key}", f"Invalid value: {value}: field is immutable")


def _is_open(job: Object) -> bool:
    """True while the Job is suspended and none of its pods runs; since Kubernetes 1.36, pods may have run before."""
    status = job.get("status", {})
    stopped = any(
        one["type"] == "Suspended" and one["status"] == "True" for one in status.get("conditions", ())
    )
    return job["spec"]["suspend"] and (stopped or "startTime" not in status) and not status.get("active")


def _fixed(template: Object, *, free: bool) -> dict[str, Any]:
    """The immutable parts of a template; if `free`, without the nodes and resources of its pods."""
    fixed = copy.deepcopy(template)
    if free:
        fixed.pop("metadata", None)
        for key in _DIRECTIVES:
            fixed["spec"].pop(key, None)
        for _, container in pods.containers(fixed["spec"]):
            container.pop("resources", None)
        (fixed["spec"].get("affinity") or {}).pop("nodeAffinity", None)
        if not fixed["spec"].get("affinity"):
            fixed["spec"].pop("affinity", None)
    return fixed
