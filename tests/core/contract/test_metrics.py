"""Samples are few, whatever there is to count."""

from hypothesis import given
from hypothesis import strategies as st

from device_plugin.core.contract.metrics import OTHERS, largest

NAMES = st.tuples(st.text("ab", min_size=1, max_size=4), st.sampled_from(["dcu", "gpu"]))


def test_a_few_amounts_are_all_there_in_order() -> None:
    assert largest({("b",): 1.0, ("a",): 2.0}, 2, lambda _: (OTHERS,)) == [(("a",), 2.0), (("b",), 1.0)]


def test_equal_amounts_go_by_name_so_that_the_same_ones_are_named_each_time() -> None:
    found = largest({("c",): 1.0, ("a",): 1.0, ("b",): 1.0}, 2, lambda _: (OTHERS,))
    assert dict(found) == {("a",): 1.0, ("b",): 1.0, (OTHERS,): 1.0}


@given(st.dictionaries(NAMES, st.integers(0, 9).map(float), max_size=30), st.integers(0, 9))
def test_no_sum_changes_and_the_number_is_bounded(amounts: dict[tuple[str, str], float], most: int) -> None:
    found = dict(largest(amounts, most, lambda labels: (OTHERS, labels[1])))
    assert len(found) <= most + 2
    for family in ("dcu", "gpu"):
        before, after = (sum(v for (_, f), v in each.items() if f == family) for each in (amounts, found))
        assert before == after
    kept = [amount for labels, amount in found.items() if labels in amounts]
    assert sorted(kept) == sorted(amounts.values())[len(amounts) - len(kept) :]
