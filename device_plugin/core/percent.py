"""Percent of a card: what `<prefix>-percent: p` grants of its memory and of its core groups.

Memory is rounded down to a MiB. Core groups are few, so they are rounded cumulatively: with P percent of the card held
by slices that were asked for in percent, and p more to come, these slices hold floor((P + p) * n / 100) of n groups
together. Four quarters so use all groups of a card, where four equal amounts rounded down would leave up to three.
A slice gets its exact share rounded down or up, and at least one group.
"""

MOST = 100


def at_least(percent: int, whole: int) -> int:
    """The share of `whole` (MiB, or core groups) that `percent` grants on any card: rounded down, and at least 1."""
    return max(1, percent * whole // MOST)


def most(free: int, whole: int) -> int:
    """The largest percent whose least share of `whole` is not more than `free`; 0 if there is none."""
    return min(MOST, ((free + 1) * MOST - 1) // whole) if free > 0 and whole > 0 else 0


def rounded(percent: int, whole: int, held_percent: int, held: int) -> int:
    """The core groups, out of `whole`, that `percent` more gets; `held_percent` percent already hold `held` of them.

    Slices that ended may have been those that were rounded down: then the next ones are, until all fit again.
    """
    together = (held_percent + percent) * whole // MOST - held
    up = -(-percent * whole // MOST)
    return min(max(together, at_least(percent, whole)), up)
