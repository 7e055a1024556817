"""The sum over names: equal for equal names in any order, another one for any other names."""

import json
import random

import pytest

from device_plugin.adapters.name_sums import name_sum


def _text(names: list[str]) -> bytes:
    return json.dumps(names, separators=(",", ":")).encode()


def _names(rng: random.Random) -> list[str]:
    kind = rng.choice(["node-{:05}", "node-{}", "ip-10-{}-7.eu-west-1.compute.internal", "{:x}", "n{:0>252}"])
    return [kind.format(number) for number in rng.sample(range(3000), rng.randint(1, 60))]


@pytest.mark.parametrize("seed", range(20))
def test_equal_names_in_any_order_have_one_sum_and_others_another(seed: int) -> None:
    rng = random.Random(seed)
    seen: dict[int, frozenset[str]] = {}
    for _ in range(100):
        names = _names(rng)
        found = name_sum(_text(names))
        assert found is not None
        assert name_sum(_text(rng.sample(names, len(names)))) == found
        assert seen.setdefault(found, frozenset(names)) == frozenset(names), f"seed {seed}"


@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 15, 16, 17, 41, 252])
def test_what_two_names_exchange_changes_the_sum(length: int) -> None:
    """Differences that would cancel each other in a plain sum, at every place of a name."""
    for place in range(length):
        one, two, three, four = (
            "a" * place + letter + "a" * (length - place - 1) + other
            for letter, other in (("1", "x"), ("4", "y"), ("2", "x"), ("3", "y"))
        )
        assert name_sum(_text([one, two])) != name_sum(_text([three, four]))
        assert name_sum(_text([f"{one}1", two])) != name_sum(_text([one, f"{two}1"]))


@pytest.mark.parametrize(
    "text",
    [b"[]", b"null", b"{}", b"", b"[", b'["', b'["a"', b'["a" ]', b'["a", "b"]', b'["a","b\\"c"]', b'["a",1]',
     b'["a","b",["c"]]', b'["a","b",null]', b'["' + b"a" * 257 + b'"]'],
)  # fmt: skip
def test_what_has_another_form_has_no_sum(text: bytes) -> None:
    assert name_sum(text) is None


def test_empty_names_count() -> None:
    assert name_sum(b'["","a"]') == name_sum(b'["a",""]') != name_sum(b'["a"]')
