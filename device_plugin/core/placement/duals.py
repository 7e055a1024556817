"""Dual prices of slice sizes: the number of cards that one more slice of each size costs if cards are cut best.

Cards are cut into slices as in the cutting stock problem, and the prices come from its covering form by column
generation (Gilmore and Gomory, Operations Research 9, 1961). Each size is a pair of levels of memory and core groups.
Space that only few sizes can use gets a price near zero; a size that fills cards well together with others gets a high
price.
"""

import functools

import numpy as np

from device_plugin.core.placement.card_columns import Floats, Ints

ROUNDS = 400
# Many problems have several optimal price vectors. The mean over DRAWS slightly different demands lies between them.
DRAWS, NOISE = 8, 0.1


def central_duals(sizes: Ints, demand: Floats, card: tuple[int, int]) -> Floats:
    """The number of cards that one more slice of each size costs, if slices are wanted in the amounts `demand`.

    `sizes`, of shape (sizes, 2), are the levels (steps) of memory and core groups of each size; `card` is the levels of
    a free card.
    """
    return _central(sizes.astype(np.int64).tobytes(), demand.astype(np.float64).tobytes(), card)


# Cached, so that a new kind of card in the cluster does not cause new computations for all other kinds.
@functools.lru_cache(maxsize=64)
def _central(sizes_: bytes, demand_: bytes, card: tuple[int, int]) -> Floats:
    sizes, demand = np.frombuffer(sizes_, dtype=np.int64).reshape(-1, 2), np.frombuffer(demand_)
    # Seeded, so that equal workloads give equal prices.
    rng = np.random.default_rng(0)
    noise = np.exp(NOISE * rng.normal(size=(DRAWS, len(sizes))))
    return np.mean([_duals(sizes, demand * draw, card) for draw in noise], axis=0)


def _duals(sizes: Ints, demand: Floats, card: tuple[int, int]) -> Floats:
    """The dual price of each size (the cards that one more slice costs), by the revised simplex method.

    In each round the best cut of one card enters the basis, until no cut is worth more than the card.
    """
    copies = _copies(sizes, card)
    basis, cost, amount = np.diag(copies.astype(float)), np.ones(len(sizes)), demand / copies
    duals: Floats = cost.copy()
    for _ in range(ROUNDS):
        duals = np.asarray(np.linalg.solve(basis.T, cost), dtype=np.float64)
        if duals.min() < -1e-9:  # some size is cut more often than requested
            column, price = -np.eye(len(sizes))[int(duals.argmin())], 0.0
        else:
            value, column = best_cut(duals, sizes, card)
            price = 1.0
            if value <= 1 + 1e-9:
                break
        step = np.linalg.solve(basis, column)
        growing = step > 1e-9
        ratios = np.where(growing, amount / np.where(growing, step, 1), np.inf)
        leaving = int(ratios.argmin())
        amount = np.maximum(amount - ratios[leaving] * step, 0)
        amount[leaving], basis[:, leaving], cost[leaving] = ratios[leaving], column, price
    return np.maximum(duals, 0)


def best_cut(values: Floats, sizes: Ints, card: tuple[int, int]) -> tuple[float, Floats]:
    """The best cut of one card into slices: the highest sum of `values`, and the number of slices of each size."""
    best = np.zeros((card[0] + 1, card[1] + 1))
    for value, (mem, cores), times in zip(values, sizes, _copies(sizes, card), strict=True):
        for _ in range(times):
            shifted = best[: best.shape[0] - mem, : best.shape[1] - cores] + value
            if not (shifted > best[mem:, cores:] + 1e-12).any():
                break
            best[mem:, cores:] = np.maximum(best[mem:, cores:], shifted)
    return float(best[card]), _taken(best, values, sizes, card)


def _taken(best: Floats, values: Floats, sizes: Ints, card: tuple[int, int]) -> Floats:
    numbers = np.zeros(len(sizes))
    left = np.array(card)
    while True:
        fits = np.flatnonzero((sizes <= left).all(axis=1))
        before = left - sizes[fits]
        worth = best[before[:, 0], before[:, 1]] + values[fits]
        exact = np.flatnonzero((worth >= best[left[0], left[1]] - 1e-9) & (values[fits] > 1e-12))
        if not len(exact):
            return numbers
        chosen = int(fits[exact[0]])
        numbers[chosen] += 1
        left = left - sizes[chosen]


def _copies(sizes: Ints, card: tuple[int, int]) -> Ints:
    """The number of slices of each size that fit a free card without other slices."""
    times: Ints = (np.array(card) // np.maximum(sizes, 1)).astype(np.int64)
    return np.where(sizes > 0, times, np.iinfo(np.int64).max).min(axis=1)
