"""Unenforced slices: containers that use a card by the kernel's figures, but not through the library.

The library in each process takes a slot (counters) of the container's usage region before it lets the process have
memory or a queue. So a process that holds either without a slot bypasses the library: a static program, raw system
calls, a musl program, whose loader reads no preload, or an environment in which the preload was lost. Programs that
only read the card's state (rocm-smi) hold neither. A process also bypasses the library if it makes a card work through
its render node while the container holds a part of the card.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from device_plugin.core.contract.events import Event
from device_plugin.core.enforcement import Enforcement
from device_plugin.node.api import NodeApi
from device_plugin.node.checks.driver_slices import DriverSlices
from device_plugin.node.checks.kernel_figures import KernelFigures
from device_plugin.node.checks.lasting import Lasting
from device_plugin.node.slices.records import Record, Records
from device_plugin.node.slices.writable import WritableFiles
from device_plugin.node.vendors.local_card import LocalCard

log = logging.getLogger(__name__)

# Seconds that a process must hold memory or a queue: a driver lets go of it somewhat later than the process ends.
SURE_SECONDS = 30.0
# Seconds after the agent's own start in which nothing is found: it may have started with the machine.
START_SECONDS = 60.0


@dataclass(slots=True)
class _Container:
    """The findings about one container. `record` is the agent's record of its latest start.

    `holders` are the container's processes that hold memory or a queue of a card. `reported` are the events that were
    posted, also at earlier starts, so that a container that starts again and again is reported once.
    """

    record: Record
    holders: Lasting[int]
    reported: set[Event] = field(default_factory=set)
    unenforced: bool = False


class UnenforcedSlices:
    """Finds containers that use a card without the library, each time after `figures` were read.

    `clock` is monotonic, in seconds.
    """

    def __init__(
        self,
        records: Records,
        writable: WritableFiles,
        cards: Callable[[], Mapping[str, LocalCard]],
        figures: KernelFigures,
        driver: DriverSlices,
        api: NodeApi,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records = records
        self._writable = writable
        self._cards = cards
        self._figures = figures
        self._driver = driver
        self._api = api
        self._clock = clock
        self._start = clock()
        # By pod UID and container name.
        self._containers: dict[tuple[str, str], _Container] = {}

    def found(self) -> tuple[Record, ...]:
        """The containers, as the agent's records, that used a card without the library at the latest step."""
        return tuple(each.record for each in list(self._containers.values()) if each.unenforced)

    def ends(self, record: Record) -> bool:
        """True if the container's pod is to be deleted: the family of one of its cards has the mode `kill`."""
        cards = self._cards()
        return any(s.card in cards and cards[s.card].enforcement is Enforcement.KILL for s in record.slices)

    def step(self) -> None:
        """Decide for each container whether it uses a card without the library.

        An event is posted if it does, or if that cannot be known.
        """
        before, found = self._containers, {}
        for record in self._records.all():
            each = before.get(record.key)
            if each is None or each.record is not record:
                holders = Lasting[int](self._clock, SURE_SECONDS)
                each = _Container(record, holders, each.reported if each is not None else set())
            found[record.key] = each
            self._judge(each)
        self._containers = found

    def _judge(self, container: _Container) -> None:
        use = self._figures.of(container.record)
        steady = container.holders.note_all(use.holders | use.unmasked)
        container.unenforced = False
        if self._clock() - self._start < START_SECONDS:
            return
        usage = self._writable.usage(container.record.key) if steady else None
        if usage is not None and (steady & use.unmasked or len(steady) > usage.live_slots):
            container.unenforced = True
            self._report(container, Event.SLICE_UNENFORCED, _UNENFORCED)
        elif self._driver.unheld(container.record):
            container.unenforced = True
            self._report(container, Event.SLICE_UNENFORCED, _UNHELD)
        elif steady and usage is None:
            # A library of another version may have written it, so no container is ended for it.
            self._report(container, Event.SLICE_USE_UNKNOWN, _UNKNOWN)

    def _report(self, container: _Container, event: Event, text: str) -> None:
        """Log an event and post it; each event only once for a container."""
        record = container.record
        if event in container.reported:
            return
        container.reported.add(event)
        text = f"container {record.container}: {text}"
        log.error("pod %s/%s: %s", record.namespace, record.pod_name, text)
        self._api.pod_event(record.pod_ref, event, text)


_UNENFORCED = (
    "it uses its card by the kernel's figures, and the library that limits it is not loaded in all of its programs: its"
    " limits do not hold. Use programs that are linked dynamically with glibc, keep /etc/ld.so.preload and LD_PRELOAD"
    " as they are, and create the pod again"
)
_UNHELD = (
    "it uses its card, and the card's driver holds it to no slice: its image has no runtime of the card's maker, or"
    " another one than the node's. Its limits do not hold. Use an image with Hygon's DTK, and create the pod again"
)
_UNKNOWN = (
    "it uses its card by the kernel's figures, and its usage region cannot be read: it is not known whether its limits"
    " hold. Create the pod again"
)
