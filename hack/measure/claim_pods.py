"""Pods that ask by ResourceClaims, and the comparison of their claims with their grants."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from device_plugin.core.contract.grants import Grant
from device_plugin.kube.errors import ConflictError
from hack.embedded.claims.uses import CLAIMS, TEMPLATES, claim_spec, used
from hack.embedded.kubelet.drivers import SLICES
from hack.embedded.person import NAMESPACE, Object, Person
from hack.measure.random_pods import FAMILY

CLASS = "dcu.vgpu.io"


def by_claims(person: Person, pod: Object) -> Object:
    """The pod with a ResourceClaim in place of each container's limits; the templates that it needs are created."""
    entries = []
    for container in pod["spec"]["containers"]:
        name, limits = container["name"], container.pop("resources")["limits"]
        entries.append({"name": name, "resourceClaimTemplateName": _template(person, limits)})
        container["resources"] = {"claims": [{"name": name}]}
    pod["spec"].update(resourceClaims=entries, schedulerName="vgpu-scheduler")
    return pod


def _template(person: Person, limits: Mapping[str, str]) -> str:
    """The name of a ResourceClaimTemplate that asks for the same slice as these limits."""
    memory, cores = limits.get(f"{FAMILY}-mem"), limits.get(f"{FAMILY}-cores")
    requests = {**({"memory": f"{memory}Gi"} if memory else {}), **({"cores": cores} if cores else {})}
    name = "-".join(["slice", *(f"{key}-{value.lower()}" for key, value in requests.items())])
    body = {"metadata": {"name": name}, "spec": {"spec": claim_spec(CLASS, requests)}}
    with suppress(ConflictError):  # an earlier pod asked for the same
        person.api.create(TEMPLATES, body, NAMESPACE)
    return name


def claim_faults(person: Person, pods: Sequence[Object]) -> Iterator[str]:
    """Texts about ResourceClaims that differ from the grants of the running `pods`, and about claims of no pod.

    As by `by_claims`, each container uses the claim of its own name.
    """
    claims = {each["metadata"]["name"]: each for each in person.api.list(CLAIMS).items}
    cards = dict(_devices(person))
    for pod in pods:
        text = pod["metadata"].get("annotations", {}).get("vgpu.io/grant")
        grant = Grant.decode(text) if text else None
        for container, name in used(pod).items():
            claim = claims.pop(name, None)
            if claim is None or grant is None:
                yield f"pod {pod['metadata']['name']}: no claim {name}, or no grant"
                continue
            status = claim["status"]
            given = sorted(_given(status, cards))
            granted = sorted((pod["spec"]["nodeName"], each.card) for each in grant.containers[container])
            if given != granted or grant.claims.get(container) != claim["metadata"]["uid"]:
                yield f"claim {name} has {given}, and its pod's grant {granted}"
            if [each["uid"] for each in status.get("reservedFor") or ()] != [pod["metadata"]["uid"]]:
                yield f"claim {name} is not reserved for its pod alone"
    for name in claims:
        yield f"claim {name} is left, and no pod uses it"


def _devices(person: Person) -> Iterator[tuple[tuple[str, str], str]]:
    """The uuid of each card that is shown as a device, by pool (node) and device name."""
    for found in person.api.list(SLICES).items:
        spec = found["spec"]
        for device in spec["devices"]:
            yield (spec["pool"]["name"], device["name"]), device["attributes"]["uuid"]["string"]


def _given(status: Mapping[str, Any], cards: Mapping[tuple[str, str], str]) -> Iterator[tuple[str, str]]:
    """The node and card of each device of a ResourceClaim's status."""
    allocation = status.get("allocation") or {"devices": {}}
    for each in allocation["devices"].get("results") or ():
        yield each["pool"], cards.get((each["pool"], each["device"]), "no card")
