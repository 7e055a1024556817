"""Requests from ResourceClaims: the second source of requests, next to containers' limits.

A claim of `memory: 4Gi, cores: 15` asks for the same slice as the limits `<prefix>-mem: 4` and `<prefix>-cores: 15`, if
a memory unit is 1 GiB.
"""

from collections.abc import Callable, Collection
from math import ceil

from device_plugin.core.contract.claims import Claim, device_class
from device_plugin.core.contract.quantities import parse_quantity
from device_plugin.core.contract.units import DEFAULT_UNIT_MIB, MIB
from device_plugin.core.errors import RequestError
from device_plugin.core.pods import Container, Pod
from device_plugin.core.requests import MAX_CONTAINER_CARDS, MAX_COUNT, Request

# Most claims of a pod: a tenant may write thousands.
MAX_CLAIMS = 32


class UnknownClaimError(RequestError):
    """A claim of the pod is not known here. It may be too new, or ask for devices of another driver.

    Cure: if the claim does not exist, create it; if it asks for devices of another driver, give the pod another
    schedulerName.
    """


class ClaimRequests:
    """Reads the requests of pods from their ResourceClaims.

    `find` returns the ResourceClaim with this namespace and name; None if it is not known, or asks for no card of ours.
    A claim's memory is rounded up to units of `unit_mib` MiB.
    """

    def __init__(
        self, families: Collection[str], find: Callable[[str, str], Claim | None],
        unit_mib: int = DEFAULT_UNIT_MIB,
    ) -> None:  # fmt: skip
        self._families = {device_class(family): family for family in families}
        self._find = find
        self._unit_mib = unit_mib

    def of(self, pod: Pod, container: Container) -> tuple[Request, Claim] | None:
        """Returns the container's request and the claim that makes it; None if the container uses no claim.

        Raises RequestError if the claim, or the way in which the pod uses it, is not served; UnknownClaimError if the
        claim is not known.
        """
        if not container.claims:
            return None
        where = f"container {container.name}"
        if len(container.claims) > 1:
            raise RequestError(
                f"{where} uses several claims: write one claim, with `count` for slices of several cards"
            )
        if len(pod.claims or {}) > MAX_CLAIMS:
            raise RequestError(f"the pod uses more than {MAX_CLAIMS} claims: split the pod")
        (name,) = container.claims
        if _users(pod, name) > 1:
            raise RequestError(f"claim {name} is used by several containers: write a claim for each")
        claim = self._claim(pod, where, name)
        if claim.fault:
            raise RequestError(f"ResourceClaim {claim.name}: {claim.fault}")
        if claim.pod not in ("", pod.uid):
            raise RequestError(f"ResourceClaim {claim.name} was made for another pod: use a claim of its own")
        if any(request not in ("", claim.request) for request in container.of_claims):
            # The kubelet would start the container without a card.
            raise RequestError(
                f"{where} uses a request of ResourceClaim {claim.name} that it does not have: leave `request` out"
            )
        return self._request(claim), claim

    def check(self, pod: Pod) -> None:
        """Raise RequestError if the pod has a ResourceClaim that no container uses: the kubelet would wait for ever."""
        used = {name for container in pod.containers for name in container.claims}
        if unused := next((name for name in pod.claims or () if name not in used), ""):
            raise RequestError(
                f"claim {unused} is used by no container: name it in resources.claims of one, or take it out of"
                " spec.resourceClaims"
            )

    def _claim(self, pod: Pod, where: str, name: str) -> Claim:
        stored = (pod.claims or {}).get(name)
        if stored is None:
            raise RequestError(
                f"{where} uses claim {name}, which spec.resourceClaims does not have: add it there"
            )
        claim = self._find(pod.namespace, stored) if stored else None
        if claim is None:
            shown = f"ResourceClaim {stored}" if stored else f"the ResourceClaim of its claim {name}"
            raise UnknownClaimError(
                f"{where} waits for {shown}: it does not exist yet, or names no device class of"
                f" {' or '.join(self._families)}"
            )
        return claim

    def _request(self, claim: Claim) -> Request:
        where = f"ResourceClaim {claim.name}"
        family = self._families.get(claim.device_class)
        if family is None:
            raise RequestError(
                f"{where} names the device class {claim.device_class}: write {' or '.join(self._families)}"
            )
        if not 1 <= claim.count <= MAX_CONTAINER_CARDS:
            raise RequestError(f"{where}: count is {claim.count}: write 1 to {MAX_CONTAINER_CARDS}")
        mem = self._amount(where, "memory", claim.memory, self._unit_mib * MIB)
        cores = self._amount(where, "cores", claim.cores, 1)
        return Request(family, mem=mem, cores=cores, count=claim.count)

    def _amount(self, where: str, name: str, text: str, unit: int) -> int | None:
        """The amount `text` that a claim requests, in units of `unit`, rounded up; None if `text` is empty.

        Raises RequestError, which names the claim (`where`) and the capacity (`name`), if `text` is no amount above 0.
        """
        if not text:
            return None
        value = parse_quantity(text)
        if value is None or value <= 0:
            raise RequestError(
                f"{where}: {name} is {text!r}: write an amount above 0, such as {_EXAMPLES[name]}"
            )
        return min(ceil(value / unit), MAX_COUNT)


def _users(pod: Pod, name: str) -> int:
    """The number of the pod's containers that use the claim `name`, or another claim with the same ResourceClaim.

    Two claims of a pod may name one ResourceClaim. A ResourceClaim that is not made yet has no name, and is compared
    with no other.
    """
    claims = pod.claims or {}
    stored = claims.get(name)
    same = {name, *(other for other, of in claims.items() if stored and of == stored)}
    return sum(not same.isdisjoint(container.claims) for container in pod.containers)


_EXAMPLES = {"memory": "4Gi", "cores": "15"}
