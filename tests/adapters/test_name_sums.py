"""The sum over names, compiled and by numpy: equal for equal names in any order, another one for any other names."""

import json
import random
from collections.abc import Callable

import pytest

from device_plugin.adapters import name_sums
from device_plugin.adapters.name_sums import compiled, name_sum, sum_by_numpy
from tests.requirement import require

Sum = Callable[[bytes], int | None]


@pytest.fixture(params=["compiled", "numpy"])
def summed(request: pytest.FixtureRequest) -> Sum:
    if request.param == "numpy":
        return sum_by_numpy
    require(compiled(), "needs the compiled sum: make native")
    return name_sum


def _text(names: list[str]) -> bytes:
    return json.dumps(names, separators=(",", ":")).encode()


def _names(rng: random.Random) -> list[str]:
    kind = rng.choice(["node-{:05}", "node-{}", "ip-10-{}-7.eu-west-1.compute.internal", "{:x}", "n{:0>252}"])
    return [kind.format(number) for number in rng.sample(range(3000), rng.randint(1, 60))]


@pytest.mark.parametrize("seed", range(20))
def test_equal_names_in_any_order_have_one_sum_and_others_another(summed: Sum, seed: int) -> None:
    rng = random.Random(seed)
    seen: dict[int, frozenset[str]] = {}
    for _ in range(100):
        names = _names(rng)
        found = summed(_text(names))
        assert found is not None
        assert summed(_text(rng.sample(names, len(names)))) == found
        assert seen.setdefault(found, frozenset(names)) == frozenset(names), f"seed {seed}"


@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 15, 16, 17, 41, 252])
def test_what_two_names_exchange_changes_the_sum(summed: Sum, length: int) -> None:
    """Differences that would cancel each other in a plain sum, at every place of a name."""
    for place in range(length):
        one, two, three, four = (
            "a" * place + letter + "a" * (length - place - 1) + other
            for letter, other in (("1", "x"), ("4", "y"), ("2", "x"), ("3", "y"))
        )
        assert summed(_text([one, two])) != summed(_text([three, four]))
        assert summed(_text([f"{one}1", two])) != summed(_text([one, f"{two}1"]))


@pytest.mark.parametrize(
    "text",
    [b"[]", b"null", b"{}", b"", b"[", b'["', b'["a', b'["a"', b'["a",', b'["a","', b'["a" ]', b'["a", "b"]',
     b'["a""b"]', b'["a","b\\"c"]', b'["a",1]', b'["a","b",["c"]]', b'["a","b",null]'],
)  # fmt: skip
def test_what_has_another_form_has_no_sum(summed: Sum, text: bytes) -> None:
    assert summed(text) is None


def test_a_list_that_is_cut_off_has_no_sum(summed: Sum) -> None:
    whole = _text([f"node-{number}" for number in range(100)])
    assert [length for length in range(len(whole)) if summed(whole[:length]) is not None] == []


def test_empty_names_count(summed: Sum) -> None:
    assert summed(b'["","a"]') == summed(b'["a",""]') != summed(b'["a"]')


def test_a_name_of_more_bytes_than_an_objects_has_no_sum_by_numpy() -> None:
    assert sum_by_numpy(b'["' + b"a" * 257 + b'"]') is None


def test_numpy_sums_where_nothing_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_sums, "compiled", lambda: None)
    text = _text(["node-1", "node-2"])
    assert name_sum(text) == sum_by_numpy(text)
