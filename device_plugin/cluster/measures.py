"""The cluster's gauges, read from the ledger when they are asked for. What has no source has no sample."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from device_plugin.cluster.explain import FITS, PREEMPTING, Explainer
from device_plugin.cluster.leader import Leader
from device_plugin.cluster.state import State
from device_plugin.core.ledger import CardState
from device_plugin.core.reasons import Reason

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Gauge:
    """One gauge: for each set of label values a value."""

    name: str
    help: str
    labels: Sequence[str]
    samples: Sequence[tuple[Sequence[str], float]]


class Measures:
    """Call it for all gauges as they are now."""

    def __init__(self, state: State, leader: Leader, explainer: Explainer) -> None:
        self._state = state
        self._leader = leader
        self._explainer = explainer

    def __call__(self) -> Iterator[Gauge]:
        """Cards once nodes and pods were listed; unplaced pods only where they are placed; faults and leadership."""
        leads = not self._leader.why_not()
        if not self._leader.unread():
            yield Gauge("vgpu_leader", "1 if this replica leads.", (), [((), float(leads))])
        if self._state.why_not_synced():
            return
        with self._state.lock:
            names = self._state.ledger.nodes()
            nodes = [node for name in names if (node := self._state.ledger.node(name)) is not None]
            faults = self._state.faults.counts()
            ratio = self._state.placer.fragmentation()
        yield from _card_gauges(
            [((node.name, card.card.uuid), card) for node in nodes for card in node.cards]
        )
        yield Gauge(
            "vgpu_faulty_annotations", "Annotations that are ignored because they cannot be trusted.",
            ("kind",), [((kind,), float(count)) for kind, count in faults.items()],
        )  # fmt: skip
        if ratio is not None:
            yield Gauge(
                "vgpu_fragmentation_ratio",
                "Share of all cards that is idle and of no use to the pods that are to be expected.",
                (), [((), ratio)],
            )  # fmt: skip
        if leads:
            yield self._unplaced()

    def _unplaced(self) -> Gauge:
        counts = Counter(entry.reason for entry in self._explainer.waiting())
        reasons = [FITS, PREEMPTING, *(reason.value for reason in Reason)]
        samples = [((reason,), float(counts[reason])) for reason in reasons]
        return Gauge("vgpu_unplaced_pods", "Pods that wait for a slice, by reason.", ("reason",), samples)


def _card_gauges(cards: Sequence[tuple[tuple[str, str], CardState]]) -> Iterator[Gauge]:
    labels = ("node", "card")
    columns = (
        ("vgpu_card_memory_bytes", "Memory of a card.", [c.card.mem_mib * MIB for _, c in cards]),
        (
            "vgpu_card_granted_memory_bytes",
            "Memory of a card that is granted or reserved.",
            [(c.card.mem_mib - c.free_mib) * MIB for _, c in cards],
        ),
        ("vgpu_card_core_groups", "Core groups of a card.", [c.card.core_groups for _, c in cards]),
        (
            "vgpu_card_granted_core_groups",
            "Core groups of a card that are granted or reserved.",
            [c.card.core_groups - c.free_cores.bit_count() for _, c in cards],
        ),
    )
    for name, text, values in columns:
        samples = [(key, float(value)) for (key, _), value in zip(cards, values, strict=True)]
        yield Gauge(name, text, labels, samples)
