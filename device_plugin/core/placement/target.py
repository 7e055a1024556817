"""The target workload: what pods will probably ask for, learnt from what they have asked so far."""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import nlargest
from itertools import islice

from device_plugin.core.placement.ask import Ask

# Arrivals after which an ask counts half as much: long enough to know the mix, short enough to follow it.
HALF_LIFE = 4096
# Rare asks cost time and change nothing.
COVER = 0.995
# And no more than so many: every pod may request another amount of CPU.
MOST = 1000
# Different asks that are counted at all; the rarest are forgotten when there are twice as many.
KEPT = 4 * MOST


@dataclass(frozen=True, slots=True)
class Weighted:
    """An ask, and how many pods of it there were (a newer one counting more)."""

    ask: Ask
    count: float


class Target:
    """Asks with counts that fade."""

    def __init__(self, half_life: float = HALF_LIFE) -> None:
        self._counts: dict[Ask, float] = {}
        self._weight = 1.0
        self._growth = 2.0 ** (1 / half_life)
        self.arrivals = 0

    def add(self, ask: Ask, count: float = 1.0) -> None:
        """A pod asks; the newer, the more it counts."""
        self._counts[ask] = self._counts.get(ask, 0.0) + count * self._weight
        self._weight *= self._growth
        self.arrivals += 1
        if len(self._counts) > 2 * KEPT:
            self._counts = dict(nlargest(KEPT, self._counts.items(), key=lambda item: item[1]))
        if self._weight > 1e9:
            self._counts = {ask: left for ask, n in self._counts.items() if (left := n / 1e9) > 1e-3}
            self._weight /= 1e9

    def copy(self) -> "Target":
        """One that stays as this is now."""
        made = Target()
        made._counts, made._weight, made._growth = self._counts.copy(), self._weight, self._growth
        made.arrivals = self.arrivals
        return made

    def frequent(self, cover: float = COVER) -> tuple[Weighted, ...]:
        """The most frequent asks that make up `cover` of all, most frequent first."""
        return tuple(islice(self._most(cover), MOST))

    def _most(self, cover: float) -> Iterator[Weighted]:
        total, seen = sum(self._counts.values()), 0.0
        for ask, count in sorted(self._counts.items(), key=lambda item: (-item[1], _order(item[0]))):
            if seen >= cover * total:
                return
            yield Weighted(ask, count / self._weight)
            seen += count


def _order(ask: Ask) -> tuple[object, ...]:
    """Any order, so long as it is always the same."""
    request, host = ask.request, ask.host
    models = sorted(ask.models.include), sorted(ask.models.exclude)
    return (
        request.family, request.whole, request.mem or 0, request.cores or 0, models,
        host.cpu_milli, host.memory_mib, host.disk_mib,
    )  # fmt: skip
