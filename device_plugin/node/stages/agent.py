"""The node agent's loop: turns twice a second, and runs in each turn the stages and checks that are due.

Their order: discover, advertise, restore, reclaim, look for mounts that hide our files (checks/covered.py), compare
with the kernel, publish.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from device_plugin.core.contract.cards import Card, Inventory, ReportedSlice, SliceState
from device_plugin.node.checks.covered import CoveredSlices
from device_plugin.node.checks.kernel_checks import LOOK_SECONDS, KernelChecks
from device_plugin.node.checks.other_plugins import OtherPlugins
from device_plugin.node.checks.preflight import Preflight
from device_plugin.node.checks.refused import RefusedStarts
from device_plugin.node.checks.rivals import Rivals
from device_plugin.node.slices.admission import Wanted
from device_plugin.node.slices.records import Record
from device_plugin.node.stages.advertise import Advertiser
from device_plugin.node.stages.discover import SharedCards
from device_plugin.node.stages.drivers import Drivers
from device_plugin.node.stages.publish import Publisher
from device_plugin.node.stages.reclaim import Reclaimer
from device_plugin.node.stages.renew import Renewer

log = logging.getLogger(__name__)

TURN_SECONDS = 0.5
SCAN_SECONDS = 3.0
PREFLIGHT_SECONDS = 60.0
RIVALS_SECONDS = 10.0
# Seconds after which a loop that has not turned counts as hung: /healthz fails and Kubernetes restarts the agent.
HANG_SECONDS = 60.0


class AgentLoop:
    """Runs the stages until it is stopped; then publishes `serving: false`, serves `drain_seconds` more, and ends.

    `drivers` serve ResourceClaims, and `renewer` renews the files of their containers; None if claims are off.
    """

    def __init__(
        self,
        cards: SharedCards,
        advertiser: Advertiser,
        publisher: Publisher,
        reclaimer: Reclaimer,
        refused: RefusedStarts,
        covered: CoveredSlices,
        kernel: KernelChecks,
        preflight: Preflight,
        others: OtherPlugins,
        rivals: Rivals,
        drain_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        drivers: Drivers | None = None,
        renewer: Renewer | None = None,
    ) -> None:
        self._cards = cards
        self._advertiser = advertiser
        self._publisher = publisher
        self._reclaimer = reclaimer
        self._refused = refused
        self._covered = covered
        self._kernel = kernel
        self._preflight = preflight
        self._others = others
        self._rivals = rivals
        self._drivers = drivers
        self._renewer = renewer
        self._known_others: list[str] = []
        self._drain_seconds = drain_seconds
        self._clock = clock
        self._due = {"scan": 0.0, "preflight": 0.0, "kernel": 0.0, "rivals": 0.0}
        self._beat = clock()
        self._draining = False
        # By stage: the error of its last turn.
        self._failures: dict[str, str] = {}

    def run(self, stop: threading.Event) -> None:
        """Remove files of unknown containers, then call `turn` every TURN_SECONDS until `stop` is set.

        Then drain: publish `serving: false`, serve `drain_seconds` more, and stop the device plugins.
        """
        self._do("remove unrecorded files", self._reclaimer.sweep_unrecorded)
        while not stop.is_set():
            self.turn()
            stop.wait(TURN_SECONDS)
        self._drain()

    def turn(self) -> None:
        """Run all stages that are due. If a stage fails, the failure is logged, and the other stages run."""
        self._beat = self._clock()
        if self._is_due("scan", SCAN_SECONDS):
            self._do("discover", self._cards.look)
            self._do("trim", self._reclaimer.trim)
        self._do("advertise", lambda: self._advertiser.step(self._cards.cards()))
        if self._is_due("rivals", RIVALS_SECONDS):
            self._do("look for rivals", self._rivals.step)
        if self._known_others != (known := [*self._others.problems(), *self._rivals.problems()]):
            self._known_others = known
            self._due["preflight"] = 0.0  # which reports them
        if self._is_due("preflight", PREFLIGHT_SECONDS):
            self._do("preflight", self._check)
        self._do("restore", self._reclaimer.restore)
        self._do("reclaim", self._reclaimer.sweep)
        if self._renewer is not None:
            self._do("renew", self._renewer.step)
        self._do("look for covers", self._covered.step)
        if self._is_due("kernel", LOOK_SECONDS):
            self._do("compare with the kernel", self._kernel.step)
        self._do("sample which slices compute", self._kernel.sample)
        if self._drivers is not None:
            self._do("serve claims", self._serve_claims)
        # An inventory published before the first sweep would free slices that outlive their pods for a moment.
        if self._reclaimer.ready:
            self._do("publish", self._publish)

    def _do(self, stage: str, step: Callable[[], object]) -> None:
        try:
            step()
        except Exception as error:
            text = f"{stage} failed: {type(error).__name__}: {error}"
            if self._failures.get(stage) != text:
                self._failures[stage] = text
                log.exception("%s", text)
        else:
            self._failures.pop(stage, None)

    def _check(self) -> None:
        if not self._preflight.check():
            self._due["preflight"] = self._clock() + SCAN_SECONDS

    def _serve_claims(self) -> None:
        if self._drivers is not None:
            cards = Inventory(tuple(self._offered())).cordon(self._publisher.cordons).cards
            faults = {uuid: local.fault for uuid, local in self._cards().items() if local.fault}
            self._drivers.step(cards, faults)

    def _publish(self) -> None:
        serving = self._advertiser.serving and not self._draining
        # An agent that ends can no longer say that a pod works again.
        idle = () if self._draining else self._kernel.idle.found()
        inventory = Inventory(
            tuple(self._offered()), serving, tuple(self.reports()), idle, self._kernel.idle.unmeasured(),
            claims=self._drivers is not None and self._drivers.registered,
        )  # fmt: skip
        self._publisher.step(inventory)

    def inventory_age(self) -> float:
        """Seconds since the inventory annotation was last known to be up to date."""
        return self._publisher.age

    def why_not_alive(self) -> str:
        """The reason why /healthz fails, as text; empty if it does not."""
        silent = self._clock() - self._beat
        return f"the loop has not turned for {silent:.0f} s" if silent > HANG_SECONDS else ""

    def why_not_ready(self) -> str:
        """All reasons why /readyz fails, in one text; empty if it does not."""
        return "; ".join([*self.reasons(), *self._preflight.problems])

    def reasons(self) -> Iterator[str]:
        """The stages' reasons for not serving, for /readyz."""
        if self._draining:
            yield "shutting down"
        if not self._cards():
            yield "no card to share on this node"
        yield from (why for why in (self._advertiser.why_not, self._publisher.why_not) if why)
        if self._drivers is not None and self._drivers.why_not:
            yield self._drivers.why_not
        yield from tuple(self._failures.values())

    def _offered(self) -> list[Card]:
        """The cards for the inventory; cards that get no new slices are unhealthy there.

        A card gets no new slices if it is closed or excluded, if another program has cut it, or if its family is
        withdrawn.
        """
        cards = self._cards.cards()
        closed = self._reclaimer.closed([card.uuid for card in cards]) | self._cards.excluded()
        closed |= self._kernel.driver.closed()
        withdrawn = {
            card.family
            for card in cards
            if self._others.withdrawn(card.family) or self._rivals.withdrawn(card.family)
        }
        return [
            replace(card, healthy=card.healthy and card.uuid not in closed and card.family not in withdrawn)
            for card in cards
        ]

    def reports(self) -> list[ReportedSlice]:
        """The reports for the inventory, one for each container with a problem.

        If a container has several problems, the first of this list is reported. Its slices outlive the pod; its start
        was refused; it uses a card without the library (unenforced) and its pod is to be ended; a mount hides our files
        (covered); it is unenforced, but its pod is to stay.
        """
        unenforced = [
            (record, self._kernel.unenforced.ends(record)) for record in self._kernel.unenforced.found()
        ]
        found: dict[tuple[str, str], ReportedSlice] = {}
        for report in (
            *(_report(record, SliceState.OUTLIVING) for record in self._reclaimer.outliving()),
            *(_report(wanted, SliceState.REFUSED, end=True) for wanted in self._refused.found()),
            *(_report(record, SliceState.UNENFORCED, end=True) for record, end in unenforced if end),
            *(_report(record, SliceState.COVERED) for record in self._covered.found()),
            *(_report(record, SliceState.UNENFORCED) for record, _ in unenforced),
        ):
            found.setdefault((report.pod, report.container), report)
        return list(found.values())

    def _drain(self) -> None:
        self._draining = True
        self.turn()
        # Pods that were placed before the allocator saw this are still served.
        end = self._clock() + self._drain_seconds
        pause = threading.Event()
        while self._clock() < end:
            self.turn()
            pause.wait(min(TURN_SECONDS, max(0.0, end - self._clock())))
        self._advertiser.stop()
        if self._drivers is not None:
            self._drivers.stop()

    def _is_due(self, name: str, period: float) -> bool:
        now = self._clock()
        due = now >= self._due[name]
        if due:
            self._due[name] = now + period
        return due


def _report(each: Record | Wanted, state: SliceState, *, end: bool = False) -> ReportedSlice:
    return ReportedSlice(each.pod, each.namespace, each.pod_name, each.container, state, each.slices, end)
