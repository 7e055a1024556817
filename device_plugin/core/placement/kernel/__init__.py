"""The compiled kernel of the policy `fragmentation`: scores and the best row in C, equal to numpy's to the last digit.

It is loaded by ctypes, so one file serves every Python, and calls keep the interpreter's lock: a call takes some
microseconds, and to get the lock back could take longer. Without the compiled file, as in an installation by pip, the
policy uses numpy alone.
"""

import ctypes
from ctypes import POINTER, Structure, byref, c_int64, c_void_p
from functools import cache

import numpy as np

from device_plugin.core.placement.card_columns import Floats, Ints, Mask, Places

# Where `make native` and the image have it, beside the package.
LIBRARY = f"{__file__.rpartition('/device_plugin/')[0]}/build/libvgpu-scores.so"
# Sizes of the kernel's arrays on its stack: CPU prices, and cards of a node.
MOST_PRICES, MOST_CARDS = 17, 64


class _Table(Structure):
    _fields_ = [
        ("nodes", c_int64), ("cards", c_int64), ("layers", c_void_p), ("host", c_void_p), ("stamp", c_void_p)
    ]  # fmt: skip


class _Fill(Structure):
    _fields_ = [
        *((name, c_int64) for name in ("kinds", "prices", "levels", "mem", "cores", "several")),
        *((name, c_void_p) for name in ("worth", "cpu", "price")),
        *((name, c_void_p) for name in ("several_cards", "several_cpu", "several_memory", "several_value")),
    ]


class _Shape(Structure):
    _fields_ = [
        ("cpu", c_int64), ("memory", c_int64), ("mib", c_void_p), ("cores", c_void_p), ("price", c_void_p)
    ]  # fmt: skip


class _Now(Structure):
    _fields_ = [(name, c_void_p) for name in ("worth", "price", "untouched", "made")]


class _Scores(Structure):
    _fields_ = [(name, c_void_p) for name in ("value", "card", "exact")]


@cache
def compiled() -> ctypes.PyDLL | None:
    """The loaded library with the compiled kernel; None if there is no file for this machine."""
    try:
        library = ctypes.PyDLL(LIBRARY)
    except OSError:
        return None
    table, fill, shape, now, scores = map(POINTER, (_Table, _Fill, _Shape, _Now, _Scores))
    library.vgpu_now.argtypes = [table, fill, c_void_p, c_int64, now]
    library.vgpu_bounds.argtypes = [table, fill, shape, now, c_void_p, c_int64, c_void_p]
    library.vgpu_scores.argtypes = [table, fill, shape, c_void_p, c_int64, scores]
    library.vgpu_refresh.argtypes = [table, fill, shape, now, c_int64, scores]
    library.vgpu_best.argtypes = [table, fill, shape, scores, c_void_p]
    for function in (library.vgpu_now, library.vgpu_bounds, library.vgpu_scores, library.vgpu_refresh):
        function.restype = None
    library.vgpu_best.restype = c_int64
    return library


class SliceSizes:
    """A slice's `mib`, `cores` and `price` on each kind of card, as arrays of shape (kinds + 1,) for the kernel.

    `price` is in thousandths of a card, and infinite on a kind that is refused. The pod asks `cpu` (milli) and `memory`
    (MiB) of its host.
    """

    def __init__(self, cpu: int, memory: int, mib: Ints, cores: Ints, price: Floats) -> None:
        # A structure holds addresses alone: these arrays must live as long as it does.
        self._arrays = tuple(map(np.ascontiguousarray, (mib, cores, price)))
        self.struct = _Shape(cpu, memory, *map(_address, self._arrays))


class RowsNow:
    """The kept values of each row (node), from which bounds of scores are computed; valid until rows get other nodes.

    - `worth`: the worth of the row's cards at the row's CPU price; shape (nodes, cards).
    - `price`: the CPU price at which the node's worth is least, as an index into `Fill.cpu`; shape (nodes,).
    - `untouched`: true if no slice of the row's cards is held; shape (nodes,).
    - `made`: the row's stamp (change number) when these values were computed; shape (nodes,).
    """

    def __init__(self, worth: Floats, price: Ints, untouched: Mask, made: Ints) -> None:
        self._arrays = worth, price, untouched, made
        self.struct = _Now(*map(_address, self._arrays))


class Rows:
    """A table's rows and one policy's tables, as the kernel reads them; valid until rows are assigned to other nodes.

    - `layers` has the shape (columns, nodes, cards), `host` (3, nodes), `stamp` (nodes,).
    - `levels` are the levels of memory and of core groups; `worth` has the shape (CPU prices, kinds, levels).
    - `cpu` has the shape (CPU prices,), `price` (kinds,).
    - `several` are requests for several cards: their cards, CPU and memory, each (requests,), and their value, (kinds,
      requests).
    """

    def __init__(
        self, library: ctypes.PyDLL, layers: Ints, host: Ints, stamp: Ints, levels: tuple[int, int], worth: Floats,
        cpu: Floats, price: Floats, several: tuple[Ints, Ints, Ints, Floats],
    ) -> None:  # fmt: skip
        self.library = library
        prices, kinds, count = worth.shape
        tables = tuple(map(np.ascontiguousarray, (worth.transpose(1, 2, 0), cpu, price, *several)))
        # As in SliceSizes, the arrays must live as long as the structures.
        self._arrays = layers, host, stamp, *tables
        self.structs = (
            byref(_Table(*layers.shape[1:], *map(_address, (layers, host, stamp)))),
            byref(_Fill(kinds, prices, count, *levels, len(several[0]), *map(_address, tables))),
        )

    def compute(self, rows: Ints, now: RowsNow) -> None:
        """Compute the kept values `now` of these rows (nodes), from which upper bounds are computed."""
        self.library.vgpu_now(*self.structs, _address(rows), len(rows), byref(now.struct))

    def bounds(self, sizes: SliceSizes, rows: Ints, now: RowsNow) -> Floats:
        """The upper bound of the score of each of these rows (nodes) for a slice; shape (rows,).

        The rows' kept values `now` must be up to date.
        """
        bound: Floats = np.empty(len(rows))
        self.library.vgpu_bounds(
            *self.structs, byref(sizes.struct), byref(now.struct), _address(rows), len(rows), _address(bound)
        )
        return bound


class SliceScores:
    """Computes nodes' scores for one slice in arrays of shape (nodes,); valid until rows are assigned to other nodes.

    `value` is the score of each row (node); where `exact` is false, an upper bound of the score. `card` is the index of
    the row's best card.
    """

    def __init__(
        self, rows: Rows, now: RowsNow, sizes: SliceSizes, value: Floats, card: Places, exact: Mask
    ) -> None:  # fmt: skip
        self._keep = rows, now, sizes, value, card, exact
        self._library = rows.library
        self._asked = *rows.structs, byref(sizes.struct)
        self._now = byref(now.struct)
        self._scores = byref(_Scores(*map(_address, (value, card, exact))))

    def refresh(self, seen: int) -> None:
        """Compute the upper bound of the score of each row (node) that changed after the change number `seen`."""
        self._library.vgpu_refresh(*self._asked, self._now, seen, self._scores)

    def best(self, among: Mask | None) -> int | None:
        """The position of the row (node) with the best score, of all or of those in `among`; None if none fits."""
        found: int = self._library.vgpu_best(
            *self._asked, self._scores, None if among is None else _address(among)
        )
        return None if found < 0 else found

    def score(self, rows: Ints) -> None:
        """Compute the exact scores of these rows (nodes)."""
        self._library.vgpu_scores(*self._asked, _address(rows), len(rows), self._scores)


def _address(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> int:
    return array.ctypes.data
