"""The ResourceClaims that ask for our cards, or hold some, by namespace and name."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from msgspec import Struct, structs

from device_plugin.core.contract.claims import Claim, Device
from device_plugin.core.contract.units import DEFAULT_UNIT_MIB

_DELETED = "it is being deleted: create it again, or use another claim"
# The parts of claims that many of them have in common, as one object for all equal ones.
_SHARED = 4096
ClaimName = tuple[str, str]
"""The namespace and the name of a claim."""


@dataclass(frozen=True, slots=True)
class ServedClaims:
    """The settings of ResourceClaims: pods of the scheduler `scheduler` may ask for slices by claims.

    The memory that a claim asks for is rounded up to a multiple of `unit_mib` MiB.
    """

    scheduler: str
    unit_mib: int = DEFAULT_UNIT_MIB


class _Kept(Struct, frozen=True, gc=False):
    """The parts of a ResourceClaim that are kept, in at most 300 bytes with its name.

    `asks` is a Claim that has only its request, and `devices` are those of its allocation. Equal values are one object.
    `version` is the claim's resourceVersion as a number, which takes 27 bytes less than the text. It is 0 unless the
    claim has our finalizer and no devices, and is not being deleted: then only the allocation is left to write.
    """

    uid: str
    pod: str
    version: int
    asks: Claim
    devices: tuple[Device, ...]


class KnownClaims:
    """Holds the ResourceClaims that ask for our cards, or hold some. Claims for other drivers are not kept.

    Callers hold the cluster view's lock, unless a method says otherwise.
    """

    def __init__(self) -> None:
        self._known: dict[str, dict[str, _Kept]] = {}
        # Claims with devices of which there was news since they were last compared with the grants.
        self._unsettled = set[ClaimName]()

    def find(self, namespace: str, name: str) -> Claim | None:
        """The ResourceClaim of this name; None if it is not known, or asks for no card of ours. It needs no lock.

        The returned Claim has the request and the allocated devices, but not the pods that use it. Its `version` and
        `protected` are set only if the claim has our finalizer and no devices, and is not being deleted.
        """
        kept = self._known.get(namespace, {}).get(name)
        return _whole(namespace, name, kept) if kept is not None else None

    def see(self, claim: Claim, pod: str = "") -> bool:
        """Record a ResourceClaim; returns true if it is new, has another request than before, or has lost its devices.

        In these cases the requests of pods that name it may have changed. `pod` is the UID of the pod for which the
        claim was made; it is a text object that is in memory already, so that it takes no more memory. It is empty if
        there is none.
        """
        if not claim.ours:
            return self.forget(claim.namespace, claim.name)
        kept = _Kept(claim.uid, pod or claim.pod, _version(claim), _asks(claim), _devices(claim.devices))
        of = self._known.setdefault(claim.namespace, {})
        before = of.get(claim.name)
        of[claim.name] = kept
        if kept.devices:
            self._unsettled.add(claim.key)
        else:
            self._unsettled.discard(claim.key)
        if before is None:
            return True
        given_back = bool(before.devices) and not kept.devices
        return given_back or (before.uid, before.asks) != (kept.uid, kept.asks)

    def forget(self, namespace: str, name: str) -> bool:
        """Remove a ResourceClaim that is gone; returns false if it was not known."""
        of = self._known.get(namespace, {})
        self._unsettled.discard((namespace, name))
        if of.pop(name, None) is None:
            return False
        if not of:
            del self._known[namespace]
        return True

    def names(self) -> set[ClaimName]:
        """The namespaces and names of all known ResourceClaims."""
        return {(namespace, name) for namespace, of in self._known.items() for name in of}

    def unsettled(self) -> list[Claim]:
        """The ResourceClaims with devices that have changed since they were last passed to `settle`."""
        return [_whole(*key, self._known[key[0]][key[1]]) for key in self._unsettled]

    def settle(self, claims: Iterable[ClaimName]) -> None:
        """Leave these ResourceClaims, which agree with the grants, out of `unsettled` until they change again."""
        # A set that was large keeps its memory.
        self._unsettled = self._unsettled.difference(claims)


def _whole(namespace: str, name: str, kept: _Kept) -> Claim:
    return structs.replace(
        kept.asks, namespace=namespace, name=name, uid=kept.uid, pod=kept.pod, devices=kept.devices,
        version=str(kept.version or ""), protected=kept.version > 0,
    )  # fmt: skip


def _version(claim: Claim) -> int:
    """The ResourceClaim's resourceVersion as a number; 0 unless its allocation is all that must still be written.

    It is all if the claim has our finalizer and no devices, and is not being deleted. The number is also 0 if the
    resourceVersion is no decimal number; Kubernetes writes no others.
    """
    ready = claim.protected and not claim.devices and not claim.deleting
    return int(claim.version) if ready and claim.version.isdecimal() else 0


def _asks(claim: Claim) -> Claim:
    """A copy of the ResourceClaim with only its request; if it is being deleted, with only a fault that says so."""
    if claim.deleting:
        return _shared(Claim("", "", "", "", fault=_DELETED))
    return _shared(
        Claim(
            "", "", "", "", device_class=claim.device_class, request=claim.request, count=claim.count,
            memory=claim.memory, cores=claim.cores, fault=claim.fault,
        )
    )  # fmt: skip


@lru_cache(_SHARED)
def _shared(asks: Claim) -> Claim:
    return asks


@lru_cache(_SHARED)
def _devices(devices: tuple[Device, ...]) -> tuple[Device, ...]:
    return devices
