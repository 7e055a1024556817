"""Percent of a card: the part of its memory and of its core groups that `<prefix>-percent: p` grants.

Memory is rounded down to a MiB. Core groups are few, so the sum of all slices is rounded, not each slice. If slices in
percent already hold P percent of a card with n groups, and a slice of p percent is added, then together they hold
floor((P + p) * n / 100) groups. So four quarters use all groups of a card; if each were rounded down, up to three
groups would stay unused. A slice gets its exact share rounded down or up, and at least one group.
"""

MOST = 100


def at_least(percent: int, whole: int) -> int:
    """The least share of `whole` (MiB, or core groups) that `percent` grants: rounded down, but at least 1."""
    return max(1, percent * whole // MOST)


def most(free: int, whole: int) -> int:
    """The largest percent of `whole` that grants at most `free`, by the rounding of `at_least`; 0 if there is none."""
    return min(MOST, ((free + 1) * MOST - 1) // whole) if free > 0 and whole > 0 else 0


def rounded(percent: int, whole: int, held_percent: int, held: int) -> int:
    """The number of core groups that a new slice of `percent` gets on a card of `whole` core groups.

    The card's other slices in percent sum to `held_percent`, and hold `held` groups together. If slices that were
    rounded down have ended, the next slices are rounded down, until all fit again.
    """
    together = (held_percent + percent) * whole // MOST - held
    up = -(-percent * whole // MOST)
    return min(max(together, at_least(percent, whole)), up)
