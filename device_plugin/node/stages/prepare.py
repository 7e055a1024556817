"""Prepare: serves the kubelet's two RPCs for ResourceClaims: one writes a container's files, the other removes them.

The kubelet names the claim. The claim names its pod and its devices; the pod's grant decides what the container gets,
and a claim that contradicts the grant gives nothing. The kubelet compares neither the node nor the pool of a claim, so
this is done here. The kubelet calls once for each sandbox of a pod, and does not call again when a container restarts.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from device_plugin.core.contract.claims import AllocatedDevice, Allocation, device_class, device_name
from device_plugin.core.machine import PreparedClaim
from device_plugin.kube.errors import ApiError, GoneError, UnknownError
from device_plugin.node.api import NodeApi
from device_plugin.node.slices import admission
from device_plugin.node.slices.admission import NotNowError, Wanted, who
from device_plugin.node.slices.pods import NodePods
from device_plugin.node.slices.records import CLAIM, Record, Records
from device_plugin.node.stages.inject import KIND, Injector
from device_plugin.node.stages.start import Starter, Waiting
from device_plugin.node.vendors.local_card import LocalCard

log = logging.getLogger(__name__)

# Most seconds that a call waits. The kubelet ends a call after 45 s, and after a failed one waits for 60 to 90 s.
WAIT_SECONDS = 40.0
# Most seconds to wait in NodeUnprepareResources for the pod's processes to end; the kubelet then tries again.
END_SECONDS = 10.0
# Most waiting calls: as MOST_WAITING of stages/allocate.py, with the threads of the server of one card family.
MOST_WAITING = 48


class ClaimStarts:
    """Serves the kubelet's two RPCs for ResourceClaims (prepare, unprepare) on `node`, from any number of threads.

    `cards` returns the shared cards, by uuid.
    """

    def __init__(
        self,
        node: str,
        api: NodeApi,
        pods: NodePods,
        records: Records,
        injector: Injector,
        cards: Callable[[], Mapping[str, LocalCard]],
        starter: Starter,
    ) -> None:
        self._node = node
        self._api = api
        self._pods = pods
        self._records = records
        self._injector = injector
        self._cards = cards
        self._starter = starter
        self._waiting = Waiting(MOST_WAITING)

    def stop(self) -> None:
        """Make waiting calls fail; the kubelet repeats the calls when the next agent has started."""
        self._waiting.stop()

    def prepare(self, namespace: str, name: str, uid: str, seconds: float) -> PreparedClaim:
        """Write the files of the container with this ResourceClaim; returns what the kubelet gives to the container.

        Raises NotNowError; the kubelet then tries again. If the reason may end by itself soon, the call first waits for
        that, up to `seconds` or WAIT_SECONDS, the shorter of the two.
        """
        record = self._waiting.run(
            lambda _: self._try(namespace, name, uid), min(seconds, WAIT_SECONDS), f"claim {namespace}/{name}"
        )
        return PreparedClaim(f"{KIND}={record.names[CLAIM]}", record.devices)

    def unprepare(self, uid: str, seconds: float) -> None:
        """Remove the files of the container with the ResourceClaim of this UID, once its pod has no processes.

        Raises NotNowError if the pod's processes do not end within END_SECONDS or `seconds`.
        """
        self._waiting.run(lambda _: self._end(uid), min(seconds, END_SECONDS), f"claim {uid}")

    def _try(self, namespace: str, name: str, uid: str) -> Record:
        """Returns the record (state) of the container with the claim, with its files written. Raises NotNowError."""
        before = self._records.of_claim(uid)
        if before is not None and not (before.devices and self._injector.written(before)):
            before = None
        try:
            wanted = self._wanted(namespace, name, uid)
        except ApiError as error:
            if before is not None and isinstance(error, UnknownError):
                return before
            waiting = not isinstance(error, GoneError)
            raise NotNowError(f"ResourceClaim {namespace}/{name}: {error}", waiting=waiting) from error
        # The files of a running container stay as they are.
        if before is not None and before.slices == wanted.slices and self._pods.running(before.pod):
            return before
        return self._starter.start(wanted, CLAIM)

    def _wanted(self, namespace: str, name: str, uid: str) -> Wanted:
        """The slices that the pod's grant has for the container with the claim. Raises ApiError and NotNowError."""
        allocation = self._api.allocation(namespace, name)
        if allocation.uid != uid:
            raise NotNowError(
                f"ResourceClaim {namespace}/{name} was created again: delete the pod, and create it again"
            )
        if len(allocation.pods) != 1:
            raise NotNowError(
                f"ResourceClaim {namespace}/{name} is reserved for {len(allocation.pods)} pods, and serves one: use a"
                " claim for each pod"
            )
        ((pod_name, pod_uid),) = allocation.pods
        pod = self._api.pod(namespace, pod_name)
        if (pod.uid, pod.node) != (pod_uid, self._node):
            raise NotNowError(
                f"ResourceClaim {namespace}/{name} is reserved for a pod {pod_name} that is not on this node: delete"
                " the pod that uses it"
            )
        wanted = admission.from_claim(pod, uid)
        return replace(wanted, devices=self._devices(allocation, wanted))

    def _devices(self, allocation: Allocation, wanted: Wanted) -> tuple[AllocatedDevice, ...]:
        """The ResourceClaim's devices in the order of the slices; empty if a card is not shared now.

        Raises NotNowError if the devices are not those of the slices.
        """
        shared = self._cards()
        if any(s.card not in shared for s in wanted.slices):
            return ()  # admission refuses it
        cards = [shared[s.card].card for s in wanted.slices]
        given = {(each.driver, each.pool, each.device): each for each in allocation.devices}
        granted = [(device_class(card.family), self._node, device_name(card)) for card in cards]
        if len(allocation.devices) != len(wanted.slices) or given.keys() != set(granted):
            text = ", ".join(sorted("/".join(each) for each in given)) or "no device"
            raise NotNowError(
                f"the ResourceClaim of {who(wanted)} names {text}, and its pod's grant gives"
                f" {', '.join(s.card for s in wanted.slices)}: delete the pod and create it again"
            )
        return tuple(given[each] for each in granted)

    def _end(self, uid: str) -> None:
        """Remove the record (state) and files of the claim's container.

        Raises NotNowError while its pod has processes.
        """
        with self._starter.lock:
            record = self._records.of_claim(uid)
            if record is None:
                return
            if self._pods.running(record.pod):
                raise NotNowError(f"processes of {who(record)} still run: waiting", waiting=True)
            try:
                self._injector.remove(record)
            except OSError as error:
                raise NotNowError(f"its files cannot be removed: {error}") from error
        log.info("%s: its claim has ended, and its files are removed", who(record))
