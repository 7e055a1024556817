"""Writes ResourceClaims: the allocation together with the pod that it is reserved for, and before it the finalizer.

The API server accepts finalizer and allocation only in separate writes: it drops a finalizer in a write of the status,
and an allocation in every other write. A new claim has the finalizer from a policy (vgpu-claim-finalizer). Then only
the allocation is written, on condition that the claim still has the version that the watch has shown. If that fails, or
if the claim has no finalizer, the finalizer is written first and then the allocation.

An allocation cannot be changed while it is set, so an old one is cleared first. The grant on the pod is the truth, and
the claim is a copy of it for the kubelet and for people: a claim whose writes were interrupted is written again with
the next Binding, or cleared.

The write of the finalizer returns the claim as it is now, so that nothing is read before. Kubernetes' claim controller
writes the same objects: each write of a status carries the last known resourceVersion. Conflicts are ordinary, and then
all writes are repeated.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from device_plugin.allocator.service import Service, Shared
from device_plugin.cluster.ports import TimedApi
from device_plugin.core.contract.cards import Card
from device_plugin.core.contract.claims import FINALIZER, Claim, allocation, read_claim
from device_plugin.core.contract.grants import Slice
from device_plugin.core.contract.quantities import parse_quantity
from device_plugin.core.ledger import Reservation
from device_plugin.core.pods import Pod
from device_plugin.kube.api import PODS, RESOURCE_CLAIMS, Api, Ref
from device_plugin.kube.errors import ApiError, ConflictError, GoneError, RefusedError, UnknownError

log = logging.getLogger(__name__)

# Seconds for all writes of a /bind together: kube-scheduler waits 5 s for the answer (httpTimeout).
WRITE_SECONDS = 4.0
# Most times that a claim is read again after a conflict or a lost answer: a tenant may write it all the time.
TRIES = 8
_JSON = RESOURCE_CLAIMS.json
_Object = dict[str, Any]


class ClaimError(Exception):
    """A ResourceClaim was not written; the metrics count the call of /bind under the label `outcome`."""

    def __init__(self, outcome: str, text: str) -> None:
        super().__init__(text)
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class _Gift:
    """The slices that a pod gets by one of its ResourceClaims, each with its card; the pod will be bound to `node`.

    `name` and `uid` are those of the claim.
    """

    pod: Pod
    node: str
    name: str
    uid: str
    given: Sequence[tuple[Slice, Card]]

    @property
    def ref(self) -> Ref:
        return Ref(self.name, self.pod.namespace)

    def allocation(self, claim: Claim) -> _Object:
        # A share has the same UUID each time, so that writes can be repeated.
        shares = [str(uuid5(NAMESPACE_OID, f"{self.uid}/{card.uuid}")) for _, card in self.given]
        return allocation(claim, self.node, self.given, shares)


class ClaimWrites(Service):
    """Writes the ResourceClaims of pods before they are bound, and clears them. Any thread may call it.

    `fenced` returns true while no other replica can have the Lease.
    """

    def __init__(self, shared: Shared, api: TimedApi, fenced: Callable[[], bool]) -> None:
        super().__init__(shared)
        self._api = api
        self._fenced = fenced
        self._lock = threading.Lock()
        # The UIDs of the claims that a thread of this process works on.
        self._busy = set[str]()

    @contextmanager
    def alone(self, claims: Collection[str]) -> Iterator[None]:
        """Keep other threads from writing these ResourceClaims. Raises ClaimError if another thread writes one now."""
        with self._lock:
            if not self._busy.isdisjoint(claims):
                raise ClaimError("busy", "a claim of the pod is being cleared: try again")
            self._busy.update(claims)
        try:
            yield
        finally:
            with self._lock:
                self._busy.difference_update(claims)

    def give(self, reservation: Reservation, deadline: float) -> None:
        """Write the reserved slices, and the pod, into all claims of the pod, before `deadline`. Raises ClaimError.

        A claim that has all of this already is not written.
        """
        for gift in self._gifts(reservation):
            if not self._given_at_once(gift, deadline):
                self._repeated(gift.ref, deadline, partial(self._give, gift))
        self._check(deadline, "the Binding")

    def take_back(self, reservation: Reservation) -> None:
        """Clear the ResourceClaims of a pod whose Binding was refused; what cannot be cleared now is cleared later.

        This may take WRITE_SECONDS, even if the time of the /bind is over. Meanwhile `alone` keeps the next /bind from
        these claims, because the API server may still carry out one of these writes.
        """
        deadline = self._clock() + WRITE_SECONDS
        for name, uid in _claims(reservation):
            ref = Ref(name, reservation.pod.namespace)
            try:
                self._repeated(ref, deadline, partial(self._clear, ref, uid))
            except ClaimError as error:
                log.info("claim %s/%s is not cleared yet: %s", ref.namespace, ref.name, error)

    def clear(self, claim: Claim) -> None:
        """Remove a ResourceClaim's allocation and its pods. Raises ClaimError, also if one of these pods is bound."""
        ref = Ref(claim.name, claim.namespace)
        with self.alone({claim.uid}):
            self._repeated(ref, self._clock() + WRITE_SECONDS, partial(self._clear, ref, claim.uid))

    def _gifts(self, reservation: Reservation) -> Iterator[_Gift]:
        grant = reservation.grant
        with self._view.lock:
            node = self._view.ledger.node(grant.node)
        cards = {state.card.uuid: state.card for state in node.cards} if node is not None else {}
        for name, uid in _claims(reservation):
            container = next(container for container, claim in grant.claims.items() if claim == uid)
            slices = grant.containers[container]
            if lost := [each.card for each in slices if each.card not in cards]:
                raise ClaimError("unplaced", f"card {lost[0]} is not offered any more: try again")
            yield _Gift(reservation.pod, grant.node, name, uid, [(each, cards[each.card]) for each in slices])

    def _repeated(self, ref: Ref, deadline: float, write: Callable[[Api], None]) -> None:
        """Call `write`, again after each conflict and each lost answer, at most TRIES times. Raises ClaimError."""
        shown = f"ResourceClaim {ref.name}"
        api, last = self._api.until(deadline), ""
        for _ in range(TRIES):
            self._check(deadline, shown)
            try:
                return write(api)
            except (ConflictError, UnknownError) as error:
                last = str(error)
            except GoneError as error:
                raise ClaimError("gone", f"{shown} is gone: {error}") from error
            except RefusedError as error:
                raise ClaimError("refused", f"{shown}: {error}") from error
            except (ApiError, ValueError) as error:
                raise ClaimError("unread", f"{shown}: {error}") from error
        raise ClaimError("unread", f"{shown} could not be written in {TRIES} tries: {last}")

    def _check(self, deadline: float, shown: str) -> None:
        """Raise ClaimError if the deadline has passed, or if this replica may not write any more.

        `shown` is the name of the object to write, for the text of the error.
        """
        if self._clock() >= deadline:
            raise ClaimError("unread", f"{shown} was not written in time: the API server is slow")
        self._check_fenced()

    def _given_at_once(self, gift: _Gift, deadline: float) -> bool:
        """Write only the allocation, if the claim has the version that the watch has shown; returns true if written.

        Returns false if the claim is not known to have the finalizer, or if the write failed or was not answered.
        Raises ClaimError.
        """
        claim = self._view.claims.find(gift.pod.namespace, gift.name)
        if claim is None or claim.uid != gift.uid or not claim.protected:
            return False
        self._check(deadline, f"ResourceClaim {gift.name}")
        try:
            self._allocate(self._api.until(deadline), gift, claim, claim.version)
        except ApiError as error:
            log.info("claim %s/%s needs more than one write: %s", *claim.key, error)
            return False
        return True

    def _give(self, gift: _Gift, api: Api) -> None:
        claim = self._protected(api, gift)
        if claim.deleting:
            raise ClaimError("refused", f"ResourceClaim {gift.name} is being deleted")
        version = claim.version
        if claim.devices:
            found = api.get(_JSON, gift.ref)
            claim = self._read(found, gift)
            allocated = (found.get("status") or {}).get("allocation")
            if allocated and claim.reserved == (gift.pod.uid,) and _alike(allocated, gift.allocation(claim)):
                return
            self._check_unused(api, found, gift.pod.uid)
            version = self._empty(api, gift.ref, claim.version)
        self._allocate(api, gift, claim, version)

    def _allocate(self, api: Api, gift: _Gift, claim: Claim, version: str) -> None:
        pod = {"resource": "pods", "name": gift.pod.name, "uid": gift.pod.uid}
        given = {"allocation": gift.allocation(claim), "reservedFor": [pod]}
        self._write_status(api, gift.ref, version, given)

    def _clear(self, ref: Ref, uid: str, api: Api) -> None:
        found = api.get(_JSON, ref)
        claim = read_claim(found)
        if claim.uid != uid or not claim.devices:
            return
        self._check_unused(api, found)
        self._empty(api, ref, claim.version)
        log.info("claim cleared, no pod is bound with it: %s/%s", ref.namespace, ref.name)

    def _protected(self, api: Api, gift: _Gift) -> Claim:
        """Write the finalizer into the claim; returns the claim as it is now. Finalizers of others stay.

        An API server stores nothing if the claim has the finalizer already.
        """
        self._check_fenced()
        try:
            change = {"metadata": {"finalizers": [FINALIZER]}}
            return api.patch(
                RESOURCE_CLAIMS, Ref(gift.name, gift.pod.namespace, gift.uid), change, by_key=True
            )
        except (ConflictError, RefusedError):
            self._read(api.get(_JSON, gift.ref), gift)  # it may be another claim of this name
            raise

    def _empty(self, api: Api, ref: Ref, version: str) -> str:
        return self._write_status(
            api, ref, version, {"allocation": None, "reservedFor": None, "devices": None}
        )

    def _write_status(self, api: Api, ref: Ref, version: str, status: _Object) -> str:
        """Merge `status` into the ResourceClaim's status if it still has this version; returns the new version."""
        self._check_fenced()
        change = {"metadata": {"resourceVersion": version}, "status": status}
        return api.patch(RESOURCE_CLAIMS.metadata, ref, change, subresource="status").version

    def _check_fenced(self) -> None:
        if not self._fenced():
            raise ClaimError("fenced", self._why_not_leading())

    def _read(self, found: _Object, gift: _Gift) -> Claim:
        claim = read_claim(found)
        if claim.uid != gift.uid:
            raise ClaimError("gone", f"ResourceClaim {claim.name} was created again after the pod was placed")
        return claim

    def _check_unused(self, api: Api, found: _Object, but: str = "") -> None:
        """Raise ClaimError if a pod that the claim is reserved for is bound. The pod with the UID `but` is not checked.

        If such a claim were cleared, Kubernetes' claim controller would reserve it for the bound pod again, but could
        not allocate it. The same controller frees the claim of a pod that has ended.
        """
        namespace = found["metadata"]["namespace"]
        for user in found["status"].get("reservedFor") or ():
            if user["uid"] == but:
                continue
            try:
                pod = api.get(PODS, Ref(user["name"], namespace))
            except GoneError:
                continue
            if pod.uid == user["uid"] and pod.node:
                name = found["metadata"]["name"]
                raise ClaimError(
                    "refused",
                    f"ResourceClaim {name} is used by pod {pod.name}: give each pod a claim of its own",
                )


def _claims(reservation: Reservation) -> Iterator[tuple[str, str]]:
    """The name and the UID of each ResourceClaim in the reservation's grant."""
    pod = reservation.pod
    used = {container.name: container.claims for container in pod.containers}
    for container, uid in reservation.grant.claims.items():
        (name,) = used[container]
        yield (pod.claims or {})[name], uid


def _alike(one: _Object, other: _Object) -> bool:
    """True if two allocations give equal amounts of the same devices; the API server writes amounts in its own form."""
    return _amounts(one) == _amounts(other) and one.get("nodeSelector") == other.get("nodeSelector")


def _amounts(given: _Object) -> list[tuple[object, ...]]:
    results = given["devices"].get("results") or ()
    return [
        (
            *(each.get(key) for key in ("request", "driver", "pool", "device", "shareID")),
            {name: parse_quantity(str(text)) for name, text in (each.get("consumedCapacity") or {}).items()},
        )
        for each in results
    ]
