"""Allocate: the two RPCs by which a container gets its slices.

The kubelet does not say for which pod it calls Allocate, and it must not be guessed. So Allocate does nothing that can
fail: it returns a CDI device named after the tickets. PreStartContainer gets the same tickets later, when the kubelet
already shows which container holds them: there the pod's grant is read, and the files are written that the runtime
mounts next.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from device_plugin.core.cards import Card
from device_plugin.core.events import Event
from device_plugin.core.grants import CardSize, Slice, largest
from device_plugin.core.machine import Holder, KubeletError
from device_plugin.kube.errors import ApiError, UnknownError
from device_plugin.node.api import NodeApi
from device_plugin.node.checks.kernel_limits import KernelLimits
from device_plugin.node.checks.refused import RefusedStarts
from device_plugin.node.ports import PodResources
from device_plugin.node.slices import claims
from device_plugin.node.slices.claims import Claim, Holders, NotNowError
from device_plugin.node.slices.pods import NodePods
from device_plugin.node.slices.records import Record, Records
from device_plugin.node.slices.tickets import cdi_name
from device_plugin.node.stages.inject import KIND, Injector
from device_plugin.node.vendors.local_card import LocalCard
from device_plugin.node.vendors.port import NoVendorIdError
from vgpu_runtime.config import ConfigError

log = logging.getLogger(__name__)

# Seconds to wait in PreStartContainer: the kubelet gives it 30 s, and after a failure backs off for much longer.
WAIT_SECONDS = 10.0
LOOK_SECONDS, MOST_LOOK_SECONDS = 0.05, 1.0
# Each waiting call has one of the 24 threads of its plugin's server. Allocate must never queue behind them, because the
# kubelet calls it for one pod at a time. Further calls fail at once, and the kubelet repeats them.
MOST_WAITING = 16


class Allocator:
    """Serves both RPCs, from any number of threads. `cards` returns the shared cards by uuid as they are now."""

    def __init__(
        self,
        api: NodeApi,
        kubelet: PodResources,
        pods: NodePods,
        records: Records,
        injector: Injector,
        cards: Callable[[], Mapping[str, LocalCard]],
        limits: KernelLimits,
        refused: RefusedStarts,
    ) -> None:
        self._api = api
        self._holders = Holders(kubelet)
        self._pods = pods
        self._records = records
        self._injector = injector
        self._cards = cards
        self._limits = limits
        self._refused = refused
        self._given: dict[str, dict[str, float]] = {}
        self._told: set[str] = set()
        self._stop = threading.Event()
        self._waiters = threading.BoundedSemaphore(MOST_WAITING)
        # Held from a decision until it is recorded, so that no two containers get one slice.
        self.lock = threading.Lock()

    def stop(self) -> None:
        """Let waiting calls fail: the kubelet tries again at our successor."""
        self._stop.set()

    def allocate(self, resource: str, tickets: Collection[str]) -> str:
        """The qualified CDI device for these tickets. Cannot fail."""
        self._holders.allocate(resource, tickets)
        now = time.monotonic()
        self._given.setdefault(resource, {}).update(dict.fromkeys(tickets, now))
        return f"{KIND}={cdi_name(resource, tickets)}"

    def given(self, resource: str, seconds: float) -> set[str]:
        """Tickets that Allocate saw in the last `seconds` and whose container has not started yet."""
        since = time.monotonic() - seconds
        return {ticket for ticket, at in list(self._given.get(resource, {}).items()) if at >= since}

    def remove(self, record: Record) -> None:
        """Remove record, files and specs of a container that is gone, and release its ids. The lock is held."""
        cards = self._cards()
        self._injector.withdraw(record.names.values())
        self._injector.release(record.key)
        self._records.forget(*record.key)
        for card, vendor_id in record.vendor_ids.items():
            if card in cards and (ids := cards[card].vendor.ids) is not None:
                ids.release(card, vendor_id)

    def pre_start(self, resource: str, tickets: Collection[str]) -> None:
        """Write the files of the container with these tickets. Raises NotNowError; the kubelet then tries again."""
        wanted = frozenset(tickets)
        try:
            self._try(resource, wanted, anew=False)
        except NotNowError as error:
            if not error.waiting or not self._waiters.acquire(blocking=False):
                log.warning("%s: %s", cdi_name(resource, tickets), error)
                raise
            try:
                self._wait(resource, wanted)
            finally:
                self._waiters.release()

    def _wait(self, resource: str, tickets: frozenset[str]) -> None:
        """Try again with growing pauses, until it works, WAIT_SECONDS are over or waiting cannot help."""
        deadline = time.monotonic() + WAIT_SECONDS
        pause = LOOK_SECONDS
        while True:
            stopping = self._stop.wait(pause)
            try:
                return self._try(resource, tickets, anew=True)
            except NotNowError as error:
                if not error.waiting or time.monotonic() > deadline or stopping:
                    log.warning("%s: %s", cdi_name(resource, tickets), error)
                    raise
                pause = min(2 * pause, MOST_LOOK_SECONDS)

    def _try(self, resource: str, tickets: frozenset[str], *, anew: bool) -> None:
        holder = self._holder(resource, tickets, anew=anew)
        carrier = claims.carrying(resource, holder.tickets)
        if resource == carrier:
            self._carry(holder, carrier)
        # Otherwise there is nothing to do: the kubelet calls for the carrier as well before each start of the
        # container, and that call writes what belongs to all of its resources.
        for ticket in tickets:
            self._given.get(resource, {}).pop(ticket, None)

    def _carry(self, holder: Holder, carrier: str) -> None:
        claim = self._claim(holder, carrier, holder.tickets[carrier])
        if missing := claim.asked - holder.tickets.keys():
            raise NotNowError(f"the kubelet does not show its {min(missing)} yet", waiting=True)
        with self.lock:
            before = self._records.get(*claim.record.key)
            record = self._admit(claim, holder, carrier)
            record = replace(record, vendor_ids=self._vendor_ids(record))
            try:
                self._records.put(record)
                self._injector.carry(record, carrier)
            except (OSError, ConfigError) as error:
                raise NotNowError(f"its files cannot be written: {error}") from error
        self._limits.limit(record.pod, claim.pod_slices)
        try:
            self._injector.announce()
        except OSError as error:
            raise NotNowError(f"the runtime cannot be notified of its files: {error}") from error
        again = before is not None and before.slices == record.slices
        # A container that starts again and again is to fill no log.
        log.log(logging.DEBUG if again else logging.INFO, "%s gets %s", _who(record), _shown(record.slices))

    def _claim(self, holder: Holder, resource: str, tickets: frozenset[str]) -> Claim:
        """The claim of the container: from the API server, or from its record while the API server does not answer."""
        try:
            pod = self._api.pod(holder.namespace, holder.pod)
        except ApiError as error:
            silent = isinstance(error, UnknownError)
            if silent and (known := self._remembered(holder, resource, tickets)) is not None:
                return known
            raise NotNowError(f"pod {holder.namespace}/{holder.pod}: {error}", waiting=True) from error
        return claims.from_pod(pod, holder.container, resource)

    def _remembered(self, holder: Holder, resource: str, tickets: frozenset[str]) -> Claim | None:
        """The claim that the container had at its last start, from its record; None if its pod has no processes."""
        known = claims.from_records(holder, resource, tickets, self._records.all())
        if known is None or not self._pods.running(known.record.pod):
            return None
        return known if self._injector.carried(known.record.key) else None

    def _holder(self, resource: str, tickets: frozenset[str], *, anew: bool) -> Holder:
        """The one container that holds exactly these tickets."""
        try:
            holders = self._holders.of(resource, tickets, anew=anew)
        except KubeletError as error:
            raise NotNowError(str(error), waiting=True) from error
        if not holders:
            raise NotNowError(
                f"the kubelet does not show yet which container holds these tickets of {resource}: it tries again"
                " by itself; if that lasts for minutes, delete the pod",
                waiting=True,
            )
        if len(holders) > 1:
            self._duplicate(holders)
        return holders[0]

    def _duplicate(self, holders: Collection[Holder]) -> None:
        names = " and ".join(sorted(f"{h.namespace}/{h.pod}" for h in holders))
        text = f"the kubelet gave the same tickets to {names}: delete one of these pods"
        if text not in self._told:
            self._told.add(text)
            self._api.node_event(Event.DUPLICATE_TICKETS, text)
        raise NotNowError(text)

    def _admit(self, claim: Claim, holder: Holder, carrier: str) -> Record:
        """The container's record with the tickets that it holds now, and the ids of its last start. The lock is held.

        Raises NotNowError while another container may still use the slices or the tickets.
        """
        wanted = claim.record
        cards = self._claimed_cards(claim)
        before = self._records.get(*wanted.key)
        sizes: Mapping[str, CardSize] = {}
        # A container that held these slices before was granted them along with all others, whatever its cards report
        # now.
        if before is None or before.slices != wanted.slices:
            sizes = _sizes(claim, cards)
            self._wait_for_damaged(wanted)
        blocking = self._refused.look(claim, sizes)
        if blocking is not None:
            gone = "" if self._pods.active(blocking.pod) else ", which is deleted or has ended,"
            raise NotNowError(
                f"{_who(blocking)}{gone} still runs on this slice: waiting until its processes have ended",
                waiting=True,
            )
        tickets = claims.of_family(carrier, holder.tickets)
        names = {resource: cdi_name(resource, held) for resource, held in tickets.items()}
        for name in names.values():
            self._evict(wanted, name)
        if before is not None and before.names != names:
            # A kubelet that lost its checkpoint gives other tickets: remove the files under the old names.
            self.remove(before)
            before = None
        return replace(
            wanted,
            names=names,
            tickets={resource: tuple(sorted(held)) for resource, held in tickets.items()},
            vendor_ids=before.vendor_ids if before is not None else {},
        )

    def _wait_for_damaged(self, wanted: Record) -> None:
        """Raise NotNowError while a container whose record is damaged may hold any of the slices that are wanted.

        Which these are is not known, only the cards.
        """
        for (pod, container), damaged in self._records.damaged().items():
            shared = {s.card for s in wanted.slices} & damaged.closed(self._cards())
            if pod != wanted.pod and shared and self._pods.holding(pod):
                raise NotNowError(
                    f"the record of container {container} of pod {pod} is damaged, so card {min(shared)} gets no new"
                    " slices until it is made again or its processes end",
                    waiting=True,
                )

    def _evict(self, wanted: Record, name: str) -> None:
        """Remove other containers that had this CDI name, so that a stale spec of it points at nothing."""
        for other in self._records.all():
            if name in other.names.values() and other.key != wanted.key:
                if other.pod != wanted.pod and self._pods.holding(other.pod):
                    raise NotNowError(f"its tickets are still used by {_who(other)}: waiting", waiting=True)
                self.remove(other)

    def _claimed_cards(self, claim: Claim) -> Mapping[str, Card]:
        """The cards of the claim, by uuid. Raises NotNowError if one cannot serve it now."""
        cards: dict[str, Card] = {}
        for s in claim.pod_slices:
            local = self._cards().get(s.card)
            if local is None:
                raise NotNowError(
                    f"its grant names the card {s.card[:63]}, which this node does not offer: delete the pod"
                )
            card = cards[s.card] = local.card
            if not card.healthy:
                raise NotNowError(
                    f"its card {s.card} is unhealthy: see the events of the node, or delete the pod"
                )
            if s.cores[0] >= card.core_groups:
                raise NotNowError(
                    f"the card {s.card} now has {card.core_groups} core groups, and none of those in the grant:"
                    " delete the pod"
                )
        return cards

    def _vendor_ids(self, record: Record) -> Mapping[str, int]:
        """By card, the ids that vendors give to the slices. A container that starts again may get others."""
        cards, found = self._cards(), {}
        others = [other.vendor_ids for other in self._records.all() if other.key != record.key]
        for card in (s.card for s in record.slices):
            ids = cards[card].vendor.ids
            if ids is None:
                continue
            taken = [held[card] for held in others if card in held]
            try:
                found[card] = ids.claim(card, taken, record.vendor_ids.get(card))
            except NoVendorIdError as error:
                raise NotNowError(str(error), waiting=True) from error
        return found


def _sizes(claim: Claim, cards: Mapping[str, Card]) -> Mapping[str, CardSize]:
    """The sizes by which the claim is checked: a card may report less than when it was granted. Raises NotNowError."""
    sizes = {uuid: largest((card.size, claim.sizes.get(uuid))) for uuid, card in cards.items()}
    for uuid, size in sizes.items():
        if sum(s.mem_mib for s in claim.pod_slices if s.card == uuid) > size.mem_mib:
            raise NotNowError(f"its grant is larger than the card {uuid}: delete the pod")
    return sizes


def _who(record: Record) -> str:
    return f"container {record.container} of pod {record.namespace}/{record.pod_name} ({record.pod})"


def _shown(slices: tuple[Slice, ...]) -> str:
    return ", ".join(f"{s.mem_mib} MiB and {len(s.cores)} core groups of {s.card}" for s in slices)
