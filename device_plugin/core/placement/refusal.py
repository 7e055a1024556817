"""A "no" with its reasons, in words that help."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from device_plugin.core.reasons import Reason

# What a person reads first: the causes that waiting or asking for less would cure.
ORDER = (
    Reason.GANG_ROOM, Reason.TOGETHER, Reason.HOST, Reason.APART, Reason.MEMORY, Reason.CORES, Reason.SLICES,
    Reason.WHOLE, Reason.SHORT, Reason.TOO_LARGE, Reason.UNHEALTHY, Reason.CORDONED, Reason.NOT_SERVING, Reason.MODEL,
    Reason.UUID, Reason.FAMILY, Reason.NO_INVENTORY, Reason.GANG, Reason.POLICY, Reason.MALFORMED,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request cannot be granted now.

    `cards` counts cards per reason, `nodes` the nodes that show no cards. `details` say a number with a reason
    (`largest free 3 GiB`). `node_reasons` is the foremost reason of each node that was looked at. `said` replaces
    the text when the request is refused whatever the cards.
    """

    cards: Mapping[Reason, int]
    nodes: Mapping[Reason, int] = field(default_factory=dict)
    details: Mapping[Reason, str] = field(default_factory=dict)
    node_reasons: Mapping[str, Reason] = field(default_factory=dict)
    said: str = ""

    @property
    def reasons(self) -> Mapping[Reason, int]:
        """Cards and nodes per reason, together."""
        return Counter(self.cards) + Counter(self.nodes)

    @property
    def main(self) -> Reason:
        """The reason that stands for all in a metric: the first that a person could cure."""
        return next((r for r in ORDER if r in self.reasons), Reason.NO_INVENTORY)

    @property
    def text(self) -> str:
        """For instance `6 cards: 4 lack memory (largest free 3 GiB), 2 unhealthy`."""
        if self.said:
            return self.said
        parts = []
        if total := sum(self.cards.values()):
            causes = ", ".join(f"{self.cards[r]} {self._cause(r)}" for r in ORDER if r in self.cards)
            parts.append(f"{_counted(total, 'card')}: {causes}")
        parts += [f"{_counted(self.nodes[r], 'node')} {self._cause(r)}" for r in ORDER if r in self.nodes]
        return "; ".join(parts) or "no node shows any card"

    @property
    def by_node(self) -> Mapping[str, str]:
        """A text for each node, the same for all nodes of one reason: kube-scheduler groups and counts them by text."""
        return {name: self.said or self._cause(reason) for name, reason in self.node_reasons.items()}

    @property
    def advice(self) -> str:
        """What to do about the main reason."""
        return self.main.advice

    def _cause(self, reason: Reason) -> str:
        detail = f" ({self.details[reason]})" if reason in self.details else ""
        return f"{reason.text}{detail}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def gib(mib: int) -> str:
    """MiB as a person reads them: `3 GiB`, `3.5 GiB`, `512 MiB`."""
    return f"{mib} MiB" if mib < 1024 else f"{round(mib / 1024, 1):g} GiB"


def largest(pairs: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """The greatest of each half of some pairs; zeros if there are none."""
    firsts, seconds = zip(*pairs, strict=True) if (pairs := list(pairs)) else ((0,), (0,))
    return max(firsts), max(seconds)
