"""Amounts as Kubernetes writes them."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.core.contract.quantities import parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [("4", 4), ("+4", 4), ("4.", 4), (".5", Fraction(1, 2)), ("2Ki", 2048), ("3e2", 300), ("3E2", 300),
     ("1E", 10**18), ("4P", 4 * 10**15), ("1Ei", 2**60), ("1.5Pi", 3 * 2**49), ("9223372036854775807", 2**63 - 1),
     ("1500m", Fraction(3, 2)), ("-2k", -2000), ("", None), ("k", None), ("1e2k", None), ("--1", None), ("1 2", None)],
)  # fmt: skip
def test_quantities_are_those_of_kubernetes(text: str, value: Fraction | None) -> None:
    assert parse_quantity(text) == value


@given(st.text())
def test_any_text_is_a_quantity_or_none(text: str) -> None:
    parse_quantity(text)


def test_a_long_text_is_no_quantity() -> None:
    assert parse_quantity("1" * 64) is None
