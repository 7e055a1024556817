"""The target workload: the shapes that later pods will probably have, estimated from earlier pods."""

from collections.abc import Iterator, Sequence
from copy import copy
from heapq import nlargest
from itertools import islice

import numpy as np
from msgspec import Struct

from device_plugin.core.placement.card_columns import CardKind, Columns, Floats, Ints, Mask
from device_plugin.core.placement.fit import CardFit, KindSizes
from device_plugin.core.requests import Request, Shape

# After this many newer pods a pod counts half: enough pods to know the mix, few enough to follow its changes.
HALF_LIFE = 4096
# Only the most frequent shapes that make up this share of all pods count: rarer ones cost time and change nothing.
COVER = 0.995
# Most shapes that count: every pod may request another amount of CPU.
MOST = 1000
# Most distinct requests in the tables that a running service computes: 240 take minutes, 64 take about a second.
MOST_SIZES = 64
# Beyond MOST_COUNTED distinct shapes only the KEPT most frequent stay counted.
KEPT = 4 * MOST
MOST_COUNTED = 2 * KEPT


class Weighted(Struct, frozen=True, gc=False):
    """A shape (kind of request), and the number of pods that had it; newer pods weigh more in this number."""

    shape: Shape
    count: float


class TargetWorkload:
    """Counts the shapes (kinds of requests) of pods as the pods come; older pods weigh less."""

    def __init__(self, half_life: float = HALF_LIFE) -> None:
        self._counts: dict[Shape, float] = {}
        self._weight = 1.0
        self._growth = 2.0 ** (1 / half_life)
        self.arrivals = 0
        self.left_out = 0
        """Number of shapes that were dropped because there were too many."""

    def __len__(self) -> int:
        """Number of distinct shapes (kinds of requests) that are counted."""
        return len(self._counts)

    def add(self, shape: Shape, count: float = 1.0) -> None:
        """Count `count` pods of this shape (kind of request) as the newest pods.

        If too many shapes are counted, the rarest are dropped; very small old counts are dropped too.
        """
        self._counts[shape] = self._counts.get(shape, 0.0) + count * self._weight
        self._weight *= self._growth
        self.arrivals += 1
        if len(self._counts) > MOST_COUNTED:
            self.left_out += len(self._counts) - KEPT
            self._counts = dict(nlargest(KEPT, self._counts.items(), key=lambda item: item[1]))
        if self._weight > 1e9:
            self._counts = {shape: left for shape, n in self._counts.items() if (left := n / 1e9) > 1e-3}
            self._weight /= 1e9

    def copy(self) -> "TargetWorkload":
        """A copy of the counts, which later pods do not change."""
        made = copy(self)
        made._counts = self._counts.copy()
        return made

    def affordable(self) -> tuple[Weighted, ...]:
        """The most frequent shapes with at most MOST_SIZES distinct requests: their tables take 1 to 2 s to compute.

        The time depends on the number of distinct requests, not on the number of shapes.
        """
        found, sizes = [], set[Request]()
        for each in self.frequent():
            sizes.add(each.shape.request)
            if len(sizes) > MOST_SIZES:
                break
            found.append(each)
        return tuple(found)

    def frequent(self, cover: float = COVER) -> tuple[Weighted, ...]:
        """The most frequent shapes that make up the share `cover` of all pods, most frequent first, at most MOST."""
        return tuple(islice(self._most(cover), MOST))

    def _most(self, cover: float) -> Iterator[Weighted]:
        total, seen = sum(self._counts.values()), 0.0
        for shape, count in sorted(self._counts.items(), key=lambda item: (-item[1], _order(item[0]))):
            if seen >= cover * total:
                return
            yield Weighted(shape, count / self._weight)
            seen += count


def _order(shape: Shape) -> tuple[object, ...]:
    """A sort key that orders shapes (kinds of requests) with equal counts."""
    request, host = shape.request, shape.host
    models = sorted(shape.models.include), sorted(shape.models.exclude)
    return (
        request.family, request.whole, request.mem or 0, request.cores or 0, request.percent or 0,
        request.max_slices or 0, request.count, models,
        host.cpu_milli, host.memory_mib, host.disk_mib,
    )  # fmt: skip


class Demand:
    """The amounts that pods of each shape (kind of request) would take of a card of each kind.

    `mib`, `cores`, `allowed` and `family` have the shape (kinds, shapes). The following have the shape (shapes,):
    `whole`, the number of whole cards; `slice`, true for a slice; `cpu` (milli) and `memory` (MiB) of the host; and
    `count`, the number of pods. A pod shape is `allowed` on a kind of its family and models if it fits a free card of
    this kind; `family` is the same without regard to models.
    """

    def __init__(self, kinds: Sequence[CardKind], shapes: Sequence[Weighted]) -> None:
        self.kinds = tuple(kinds)
        asked = [weighted.shape for weighted in shapes]
        self.mib: Ints = np.zeros((len(kinds), len(asked)), dtype=np.int64)
        self.cores: Ints = np.zeros_like(self.mib)
        self.family: Mask = np.zeros(self.mib.shape, dtype=bool)
        self.allowed: Mask = np.zeros(self.mib.shape, dtype=bool)
        self.whole: Ints = np.array([each.request.whole for each in asked], dtype=np.int64)
        self.slice: Mask = np.array([each.is_slice for each in asked], dtype=bool)
        self.cpu: Ints = np.array([each.host.cpu_milli for each in asked], dtype=np.int64)
        self.memory: Ints = np.array([each.host.memory_mib for each in asked], dtype=np.int64)
        # A pod of several slices counts as that number of pods.
        counts = [weighted.count * weighted.shape.request.count for weighted in shapes]
        self.count: Floats = np.array(counts, dtype=np.float64)
        free = Columns.free(kinds)
        for number, each in enumerate(asked):
            if not (each.is_slice or each.request.whole):
                continue
            need = CardFit(free, KindSizes(kinds, each.request))
            self.mib[:, number], self.cores[:, number] = need.mib, need.cores
            self.family[:, number] = need.fits()
            models = [each.models.accepts_model(kind.model) for kind in kinds]
            self.allowed[:, number] = self.family[:, number] & np.array(models, dtype=bool)

    def wanted(self) -> Floats:
        """The cards that all pods of each shape take together; shape (shapes,).

        A slice counts as the larger of its shares of memory and core groups, on the kind where it is largest.
        """
        if not self.kinds:
            return np.zeros(len(self.count))
        cards = np.array([[kind.mem_mib, kind.groups] for kind in self.kinds])
        share = np.maximum(self.mib / cards[:, :1], self.cores / cards[:, 1:]).max(axis=0)
        return self.count * np.maximum(self.whole, 1) * share
