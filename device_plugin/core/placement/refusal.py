"""A "no" with its reasons, in words that help."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from device_plugin.core.reasons import Reason

# What a person reads first: the causes that waiting or asking for less would cure.
ORDER = (
    Reason.GANG_ROOM, Reason.TOGETHER, Reason.HOST, Reason.APART, Reason.MEMORY, Reason.CORES, Reason.SLICES,
    Reason.WHOLE, Reason.SHORT, Reason.TOO_LARGE, Reason.UNHEALTHY, Reason.CORDONED, Reason.NOT_SERVING, Reason.MODEL,
    Reason.UUID, Reason.FAMILY, Reason.NO_INVENTORY, Reason.GANG, Reason.POLICY, Reason.MALFORMED,
)  # fmt: skip
# Those that come and go with every slice: a node that has one of them now may have another of them a moment later.
MOVING = (
    Reason.TOGETHER, Reason.HOST, Reason.APART, Reason.MEMORY, Reason.CORES, Reason.SLICES, Reason.WHOLE
)  # fmt: skip

NodeRanks = Callable[[Sequence[str]], Iterable[int]]
"""Of each of some nodes the place in ORDER of its foremost reason; len(ORDER) for a node without cards."""


def _silent(nodes: Sequence[str]) -> Iterable[int]:
    return repeat(len(ORDER), len(nodes))


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request cannot be granted now.

    `cards` counts cards per reason, `nodes` the nodes that show no cards. `details` say a number with a reason
    (`largest free 3 GiB`), `rounded` the same for a text that may not change with every slice. `of_nodes` says the
    foremost reason of each node. `said` replaces the text when the request is refused whatever the cards, and `steady`
    stands for it where the text may not change by itself.
    """

    cards: Mapping[Reason, int]
    nodes: Mapping[Reason, int] = field(default_factory=dict)
    details: Mapping[Reason, str] = field(default_factory=dict)
    rounded: Mapping[Reason, str] = field(default_factory=dict)
    of_nodes: NodeRanks = field(default=_silent, compare=False)
    said: str = ""
    steady: str = ""

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
            causes = ", ".join(f"{self.cards[r]} {_cause(r, self.details)}" for r in ORDER if r in self.cards)
            parts.append(f"{_counted(total, 'card')}: {causes}")
        parts += [
            f"{_counted(self.nodes[r], 'node')} {_cause(r, self.details)}" for r in ORDER if r in self.nodes
        ]
        return "; ".join(parts) or "no node shows any card"

    def by_node(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """A text for each of `nodes`, the same for all nodes of one reason: kube-scheduler counts nodes by text.

        It seldom changes while slices come and go: kube-scheduler writes it into the pod, and asks again for a pod
        that was changed. So numbers are rounded, and of the reasons that slices move all nodes get the foremost.
        """
        if self.said:
            return dict.fromkeys(nodes, self.summary)
        foremost = next((reason for reason in MOVING if reason in self.cards), None)
        texts = [
            _cause(foremost if foremost and reason in MOVING else reason, self.rounded)
            for reason in (*ORDER, Reason.NO_INVENTORY)
        ]
        return dict(zip(nodes, map(texts.__getitem__, self.of_nodes(nodes)), strict=True))

    @property
    def summary(self) -> str:
        """The main reason in a text that seldom changes while slices come and go."""
        return self.steady or self.said or _cause(self.main, self.rounded)

    @property
    def advice(self) -> str:
        """What to do about the main reason."""
        return self.main.advice


def _cause(reason: Reason, details: Mapping[Reason, str]) -> str:
    detail = f" ({details[reason]})" if reason in details else ""
    return f"{reason.text}{detail}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def gib(mib: int) -> str:
    """MiB as a person reads them: `3 GiB`, `3.5 GiB`, `512 MiB`."""
    return f"{mib} MiB" if mib < 1024 else f"{round(mib / 1024, 1):g} GiB"


def rounded(number: int) -> int:
    """The largest power of two that is not above `number`, so that it seldom changes; 0 for 0."""
    return 1 << (number.bit_length() - 1) if number > 0 else 0


class Refused:
    """A refusal whose reasons are found when it is called: behind the lock there is no time for them.

    `everywhere` says that no node whatever would do; else some might, of those that were not offered.
    """

    def __init__(self, why: Callable[[], Refusal], *, everywhere: bool = False) -> None:
        self.everywhere = everywhere
        self._why: Callable[[], Refusal] | None = why
        self._refusal: Refusal | None = None

    def __call__(self) -> Refusal:
        """The refusal, found once."""
        why = self._why
        if why is not None:
            # In this order, for another thread may come in between.
            self._refusal, self._why = why(), None
        if self._refusal is None:
            raise AssertionError("how the reasons are found is forgotten only once they are")
        return self._refusal
