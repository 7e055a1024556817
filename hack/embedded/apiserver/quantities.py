"""Kubernetes' resource.Quantity: its canonical spelling (apimachinery pkg/api/resource/quantity.go)."""

import re
from fractions import Fraction
from typing import Any

from device_plugin.core.contract.quantities import parse_quantity
from hack.embedded.apiserver import errors

PATTERN = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = {0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E", -3: "m", -6: "u", -9: "n"}


def parse(value: object) -> Fraction | None:
    """The value of a quantity from JSON (text or number); None if it is not a quantity."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return parse_quantity(str(value))


def canonical(value: str | float) -> str:
    """The spelling that the API server stores: 4000 becomes 4k, 0.5Gi becomes 512Mi. `value` must be a quantity."""
    text = str(value)
    number = parse_quantity(text)
    if number is None:
        raise ValueError(f"{text!r} is not a quantity")
    if text.endswith("i") and number.denominator == 1 and abs(number) >= 1024:
        power = 0
        while power + 1 < len(_BINARY) and number % 1024 == 0 and number:
            number, power = number / 1024, power + 1
        return f"{number}{_BINARY[power]}"
    exponent = 0
    while number.denominator != 1 and exponent > -9:
        number, exponent = number * 1000, exponent - 3
    while exponent < 18 and number and number % 1000 == 0:
        number, exponent = number / 1000, exponent + 3
    if exponent and re.search(r"[eE][+-]?\d", text):
        return f"{int(number)}e{exponent}"
    return f"{int(number)}{_DECIMAL[exponent]}"


def normalise(kind: str, amounts: dict[str, Any]) -> None:
    """Replace the quantities in `amounts` by their canonical spelling. Raises StatusError 400 for another text.

    `kind` is the kind of the object, for the error.
    """
    for name, amount in amounts.items():
        if parse(amount) is None:
            raise errors.bad_request(
                f'{kind} in version "v1" cannot be handled as a {kind}: quantities must match the regular'
                f" expression '{PATTERN}'"
            )
        amounts[name] = canonical(amount)
