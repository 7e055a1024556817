"""A node's ResourceClaims: prepared by their drivers before a pod starts, and unprepared after its end.

Model: pkg/kubelet/cm/dra of Kubernetes 1.36. As there, a claim that is prepared is not prepared again for another pod.
"""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field

from device_plugin.adapters.kubelet.pb import dra_pb2 as pb
from device_plugin.kube.api import Api, Ref
from device_plugin.kube.errors import ApiError
from hack.embedded.claims.uses import CLAIMS, Object, owner, used
from hack.embedded.kubelet.drivers import Drivers, PrepareError
from hack.embedded.pod_spec import Json, uid


@dataclass(slots=True)
class PreparedClaim:
    """A ResourceClaim, the UIDs of its pods, and its drivers.

    `devices` has the CDI devices of each request, by the driver that has prepared them.
    """

    namespace: str
    name: str
    uid: str
    drivers: frozenset[str]
    pods: set[str] = field(default_factory=set)
    devices: dict[str, Mapping[str, list[str]]] = field(default_factory=dict)

    @property
    def called(self) -> pb.Claim:
        """The ResourceClaim in the form in which drivers are called for it."""
        return pb.Claim(namespace=self.namespace, name=self.name, uid=self.uid)


# By namespace and name. It outlives the kubelet's process, as the real kubelet's checkpoint does.
Prepared = MutableMapping[tuple[str, str], PreparedClaim]


class PodClaims:
    """Prepares and unprepares ResourceClaims by their drivers; `prepared` has those of an earlier kubelet too."""

    def __init__(self, api: Api, drivers: Drivers, prepared: Prepared) -> None:
        self._api = api
        self._drivers = drivers
        self._prepared = prepared

    def prepare(self, pod: Json) -> None:
        """Prepare the ResourceClaims of a pod that are not prepared yet. Raises PrepareError."""
        for entry, name in used(pod).items():
            if not name:
                raise PrepareError(f'pod "{_named(pod)}": ResourceClaim not created yet ({entry})')
            self._prepare(pod, self._claim(pod, name))

    def cdi_devices(self, pod: Json, container: str) -> tuple[str, ...]:
        """The CDI devices of the ResourceClaims that the container uses."""
        spec = pod["spec"]
        each = (*(spec.get("initContainers") or ()), *spec["containers"])
        wanted = next(found for found in each if found["name"] == container)
        found: list[str] = []
        for use in (wanted.get("resources") or {}).get("claims") or ():
            claim = self._prepared.get((pod["metadata"]["namespace"], used(pod).get(use["name"], "")))
            for devices in claim.devices.values() if claim else ():
                for request, ids in devices.items():
                    if use.get("request", request) == request:
                        found += ids
        return tuple(found)

    def unprepare(self, pod: Json) -> None:
        """Unprepare the ResourceClaims of a pod that no other pod uses. Raises PrepareError."""
        for key, claim in list(self._prepared.items()):
            if claim.pods == {uid(pod)}:
                for driver in claim.drivers:
                    self._drivers.get(driver).unprepare(claim.called)
                del self._prepared[key]
            claim.pods.discard(uid(pod))

    def _claim(self, pod: Json, name: str) -> Object:
        """The ResourceClaim of this name, which is reserved for the pod. Raises PrepareError."""
        try:
            claim = self._api.get(CLAIMS, Ref(name, pod["metadata"]["namespace"]))
        except ApiError as error:
            raise PrepareError(f"fetch ResourceClaim {name}: {error}") from None
        if owner(claim).get("uid", uid(pod)) != uid(pod):
            raise PrepareError(f"ResourceClaim {name} was not created for pod {_named(pod)}")
        reserved = (claim.get("status") or {}).get("reservedFor") or ()
        if all(each["uid"] != uid(pod) for each in reserved):
            raise PrepareError(
                f"pod {pod['metadata']['name']} ({uid(pod)}) is not allowed to use ResourceClaim {name}"
                f" ({uid(claim)})"
            )
        return claim

    def _prepare(self, pod: Json, claim: Object) -> None:
        """Call the ResourceClaim's drivers, which must all be registered, to prepare it. Raises PrepareError."""
        drivers = {name: self._drivers.get(name) for name in sorted(_drivers(claim))}
        metadata = claim["metadata"]
        key = metadata["namespace"], metadata["name"]
        made = self._prepared.setdefault(key, PreparedClaim(*key, metadata["uid"], frozenset(drivers)))
        if made.uid != metadata["uid"]:
            raise PrepareError(
                f"old ResourceClaim with same name {metadata['name']} and different UID {made.uid} still exists"
            )
        made.pods.add(uid(pod))
        for name, driver in drivers.items():
            if name not in made.devices:
                made.devices[name] = driver.prepare(made.called)


def _drivers(claim: Json) -> set[str]:
    """The drivers of the devices that the ResourceClaim was given."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return {each["driver"] for each in (allocation.get("devices") or {}).get("results") or ()}


def _named(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
