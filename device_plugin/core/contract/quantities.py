"""Quantities: the texts in which Kubernetes writes amounts (`4`, `2k`). The API server itself rewrites 4000 as 4k."""

import re
from fractions import Fraction
from functools import lru_cache

# Characters of the longest quantity that is read.
LONGEST = 63
_SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
    "Pi": Fraction(2**50), "Ei": Fraction(2**60),
}  # fmt: skip
_QUANTITY = re.compile(
    r"([+-]?)(\d{1,32}(?:\.\d{0,9})?|\.\d{1,9})(?:[eE]([+-]?\d{1,2})|([numkMGTPE]|[KMGTPE]i)?)"
)


def parse_quantity(text: str) -> Fraction | None:
    """The value of a Kubernetes quantity (`4`, `2k`, `1.5Ki`, `3e2`); None if the text is no quantity."""
    return _parsed(text) if len(text) <= LONGEST else None


# The amounts of tens of thousands of pods are few: making a fraction takes 20 times as long as finding it in the cache.
@lru_cache(1024)
def _parsed(text: str) -> Fraction | None:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        return None
    sign, digits, exponent, suffix = match.groups()
    value = Fraction(digits if not digits.endswith(".") else digits + "0")
    if exponent or suffix:
        value *= Fraction(10) ** int(exponent) if exponent else _SUFFIXES[suffix]
    return -value if sign == "-" else value
