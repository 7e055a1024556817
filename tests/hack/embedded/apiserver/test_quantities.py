"""Amounts are spelled as Kubernetes spells them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hack.embedded.apiserver import quantities


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"), (4, "4"), ("4000", "4k"), ("4500", "4500"), ("1000000", "1M"), ("0.5", "500m"), ("1.5", "1500m"),
        ("1.5k", "1500"), ("0.5Gi", "512Mi"), ("1024Mi", "1Gi"), ("1.5Ki", "1536"), ("512", "512"), ("3e3", "3e3"),
        ("-2000", "-2k"), ("+1", "1"), ("1000Ki", "1000Ki"), ("4000T", "4P"), ("1024Pi", "1Ei"),
    ],
)  # fmt: skip
def test_canonical_spelling(text: str | float, canonical: str) -> None:
    assert quantities.canonical(text) == canonical


@given(st.integers(-(10**12), 10**12), st.sampled_from(["", "m", "k", "Ki", "Mi", "e3"]))
def test_the_spelling_changes_and_the_amount_does_not(number: int, suffix: str) -> None:
    text = f"{number}{suffix}"
    spelled = quantities.canonical(text)
    assert quantities.parse(spelled) == quantities.parse(text)
    assert quantities.canonical(spelled) == spelled


@pytest.mark.parametrize("text", ["", "four", "1.2.3", "4 Gi", "1kk", None, True, [1]])
def test_what_is_no_amount(text: object) -> None:
    assert quantities.parse(text) is None
