"""The target workload: what pods will probably ask for, learnt from what they have asked so far."""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import nlargest
from itertools import islice

from device_plugin.core.placement.ask import Ask
from device_plugin.core.requests import Request

# Arrivals after which an ask counts half as much: long enough to know the mix, short enough to follow it.
HALF_LIFE = 4096
# Rare asks cost time and change nothing.
COVER = 0.995
# And no more than so many: every pod may request another amount of CPU.
MOST = 1000
# Different amounts that tables are made for while a service runs: 240 take minutes, 64 take about a second.
MOST_SIZES = 64
# Different asks that are counted at all; the rarest are forgotten when there are twice as many.
KEPT = 4 * MOST
MOST_COUNTED = 2 * KEPT


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
        self.left_out = 0
        """Asks that were forgotten because there were too many."""

    def __len__(self) -> int:
        """Different asks that are counted."""
        return len(self._counts)

    def add(self, ask: Ask, count: float = 1.0) -> None:
        """A pod asks; the newer, the more it counts."""
        self._counts[ask] = self._counts.get(ask, 0.0) + count * self._weight
        self._weight *= self._growth
        self.arrivals += 1
        if len(self._counts) > MOST_COUNTED:
            self.left_out += len(self._counts) - KEPT
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

    def affordable(self) -> tuple[Weighted, ...]:
        """The most frequent asks, as far as tables for them are made in a second or two.

        What takes time is how many different amounts of a card they ask for, not how many asks there are.
        """
        found, sizes = [], set[Request]()
        for each in self.frequent():
            sizes.add(each.ask.request)
            if len(sizes) > MOST_SIZES:
                break
            found.append(each)
        return tuple(found)

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
