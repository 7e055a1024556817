"""Reads the pods that a manifest would make: a Pod, a controller with templates of pods, or a List of these."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import msgspec

from device_plugin.adapters.kube.structs import DecodeError
from device_plugin.adapters.kube.templates import TemplatePod, read_template
from device_plugin.adapters.yaml_text import read
from device_plugin.cli.access.names import FORM, NAME, NAMESPACE
from device_plugin.core.errors import VgpuError
from device_plugin.core.pod_sets import PodSet, at, pod_sets

# Most workloads of a file: each costs a call to the API server, and with aliases few characters make many items.
MOST_WORKLOADS = 100


class ManifestError(VgpuError):
    """The file is no manifest of pods; the text says what is wrong.

    Cure: try the file with `kubectl apply --dry-run=client -f FILE`, which says where it is wrong.
    """


@dataclass(frozen=True, slots=True)
class Workload:
    """The pods of one manifest: `count` equal pods with the manifest's name.

    `body` is the template as JSON, with metadata and spec; empty for pods without a manifest. `owner` has API version,
    kind and name of the pods' controller, such as a Job; it is empty for a Pod.
    """

    name: str
    template: TemplatePod
    count: int = 1
    body: Mapping[str, Any] = field(default_factory=dict)
    owner: Mapping[str, str] = field(default_factory=dict)


def read_manifests(file: str, namespace: str) -> tuple[Workload, ...]:
    """Returns the workloads of a file, `-` for standard input; objects without pods are left out.

    Raises YamlFileError and ManifestError.
    """
    objects = (each for document in read(file) for each in _objects(document))
    made = (workload for each in objects for workload in _workloads(each, namespace))
    found = tuple(islice(made, MOST_WORKLOADS + 1))
    if len(found) > MOST_WORKLOADS:
        raise ManifestError(f"{file} has more than {MOST_WORKLOADS} workloads: split it")
    if not found:
        raise ManifestError(
            f"{file} has no Pod, and nothing with a template of pods, such as a Deployment, a Job or a RayCluster"
        )
    return found


def _objects(document: Any) -> Iterator[dict[str, Any]]:
    if isinstance(document, dict):
        items = document.get("items")
        yield from (
            (each for each in items if isinstance(each, dict)) if isinstance(items, list) else [document]
        )


def _workloads(found: dict[str, Any], namespace: str) -> Iterator[Workload]:
    kind = str(found.get("kind"))
    for pods in pod_sets(found):
        written = at(found, "metadata", "name") or at(found, "metadata", "generateName")
        where = str(at(found, "metadata", "namespace") or namespace)
        for key, text, form in (
            ("name", written, NAME), ("namespace", where, NAMESPACE), ("name of a part", pods.role, NAME)
        ):  # fmt: skip
            if text and not form.fullmatch(str(text)):
                raise ManifestError(
                    f"{kind}: the {key} {str(text)[:253]!r} is no name in Kubernetes: write {FORM}"
                )
        yield _workload(found, pods, str(written or kind.lower())[:253], where)


def _workload(found: dict[str, Any], pods: PodSet, owner: str, namespace: str) -> Workload:
    name = f"{owner.rstrip('-')}-{pods.role}" if pods.role else owner
    template = {"metadata": pods.template.get("metadata") or {}, "spec": pods.template["spec"]}
    try:
        made = read_template(_with_requests(template), namespace)
    except DecodeError as error:
        raise ManifestError(f"{found.get('kind')} {name} cannot be read: {error}") from error
    pod = TemplatePod(msgspec.structs.replace(made.pod, name=name), made.nodes)
    return Workload(name, pod, pods.count, template, _owner(found, owner))


def _owner(found: dict[str, Any], name: str) -> Mapping[str, str]:
    """Returns API version, kind and name of a controller; empty for a Pod, or if the manifest lacks them."""
    version, kind = found.get("apiVersion"), found.get("kind")
    if kind == "Pod" or not (isinstance(version, str) and isinstance(kind, str)):
        return {}
    return {"apiVersion": version, "kind": kind, "name": name}


def _with_requests(template: dict[str, Any]) -> dict[str, Any]:
    """Returns the template as the API server completes it: a limit without a request becomes the request too."""
    spec = dict(template["spec"])
    for key in ("containers", "initContainers"):
        if isinstance(spec.get(key), list):
            spec[key] = [_container(each) for each in spec[key]]
    return {"metadata": template.get("metadata") or {}, "spec": spec}


def _container(container: Any) -> Any:
    resources = at(container, "resources")
    limits = at(resources, "limits")
    if not isinstance(limits, dict):
        return container
    requests = at(resources, "requests")
    completed = {**limits, **(requests if isinstance(requests, dict) else {})}
    return {**container, "resources": {**resources, "requests": completed}}
