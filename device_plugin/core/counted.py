"""Texts of numbers with a noun (`3 pods`), and of lists that name a few of many (`a, b and 5 more`)."""

from collections.abc import Sequence


def counted(number: int, noun: str) -> str:
    """The number with the noun in singular or plural: `1 slice`, `3 slices`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def few_of(names: Sequence[str], most: int) -> str:
    """The first `most` names as text, with the number of the other names: `a, b and 5 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
