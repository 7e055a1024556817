"""Texts of numbers with a noun (`3 pods`), and of lists that name a few of many (`a, b and 5 more`)."""

from collections.abc import Sequence


def counted(number: int, noun: str) -> str:
    """The number with the noun: `1 slice`, `3 slices`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def few_of(names: Sequence[str], most: int) -> str:
    """At most `most` of the names, and the number of the others: `a, b and 5 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
