"""The compiled kernel of the policy `fragmentation`: the scores of stale rows in C, equal to numpy's to the last digit.

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
    _fields_ = [("nodes", c_int64), ("cards", c_int64), ("layers", c_void_p), ("host", c_void_p)]


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
    _fields_ = [("worth", c_void_p), ("price", c_void_p), ("untouched", c_void_p)]


@cache
def compiled() -> ctypes.PyDLL | None:
    """The compiled library; None if there is none for this machine."""
    try:
        library = ctypes.PyDLL(LIBRARY)
    except OSError:
        return None
    table, fill, shape, now = POINTER(_Table), POINTER(_Fill), POINTER(_Shape), POINTER(_Now)
    library.vgpu_now.argtypes = [table, fill, c_void_p, c_int64, now]
    library.vgpu_bounds.argtypes = [table, fill, shape, now, c_void_p, c_int64, c_void_p]
    library.vgpu_scores.argtypes = [table, fill, shape, c_void_p, c_int64, c_void_p, c_void_p]
    for function in (library.vgpu_now, library.vgpu_bounds, library.vgpu_scores):
        function.restype = None
    return library


class SliceSizes:
    """A slice on each kind of card: `mib`, `cores`, and its `price`, infinite where it is refused; shape (kinds + 1,).

    `cpu` (milli) and `memory` (MiB) are what the pod asks of its host.
    """

    def __init__(self, cpu: int, memory: int, mib: Ints, cores: Ints, price: Floats) -> None:
        # A structure holds addresses alone: these arrays must live as long as it does.
        self._arrays = tuple(map(np.ascontiguousarray, (mib, cores, price)))
        self.struct = _Shape(cpu, memory, *map(_address, self._arrays))


class Rows:
    """A table's rows and one policy's tables, as the kernel reads them; valid until the table's layout changes.

    - `layers` has the shape (columns, nodes, cards), `host` (3, nodes).
    - `levels` are the levels of memory and of core groups; `worth` has the shape (CPU prices, kinds, levels).
    - `cpu` has the shape (CPU prices,), `price` (kinds,).
    - `several` are the amounts of the shapes of several cards, each (shapes,), and their value, (kinds, shapes).
    """

    def __init__(
        self, library: ctypes.PyDLL, layers: Ints, host: Ints, levels: tuple[int, int], worth: Floats, cpu: Floats,
        price: Floats, several: tuple[Ints, Ints, Ints, Floats],
    ) -> None:  # fmt: skip
        self._library = library
        prices, kinds, count = worth.shape
        tables = tuple(map(np.ascontiguousarray, (worth.transpose(1, 2, 0), cpu, price, *several)))
        # As in SliceSizes, the arrays must live as long as the structures.
        self._arrays = layers, host, *tables
        self._table = _Table(*layers.shape[1:], _address(layers), _address(host))
        self._fill = _Fill(kinds, prices, count, *levels, len(several[0]), *map(_address, tables))

    def now(self, rows: Ints, worth: Floats, price: Ints, untouched: Mask) -> None:
        """Write, for upper bounds, each row's worth of cards, its best CPU price, and whether its cards are untouched.

        The shapes are (nodes, cards), (nodes,) and (nodes,).
        """
        now = _Now(_address(worth), _address(price), _address(untouched))
        self._library.vgpu_now(byref(self._table), byref(self._fill), _address(rows), len(rows), byref(now))

    def bounds(self, sizes: SliceSizes, rows: Ints, worth: Floats, price: Ints, untouched: Mask) -> Floats:
        """The upper bound of each row's score, from the arrays that `now` writes; shape (rows,)."""
        bound: Floats = np.empty(len(rows))
        now = _Now(_address(worth), _address(price), _address(untouched))
        self._library.vgpu_bounds(
            byref(self._table), byref(self._fill), byref(sizes.struct), byref(now), _address(rows), len(rows),
            _address(bound),
        )  # fmt: skip
        return bound

    def scores(self, sizes: SliceSizes, rows: Ints, value: Floats, card: Places) -> None:
        """Write the score of each row's best card, and the card's index, into arrays of shape (nodes,)."""
        self._library.vgpu_scores(
            byref(self._table), byref(self._fill), byref(sizes.struct), _address(rows), len(rows), _address(value),
            _address(card),
        )  # fmt: skip


def _address(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> int:
    return array.ctypes.data
