"""Texts of numbers and of lists."""

from device_plugin.core.counted import counted, few_of


def test_a_number_has_its_noun() -> None:
    assert [counted(number, "more pod") for number in (0, 1, 2)] == [
        "0 more pods",
        "1 more pod",
        "2 more pods",
    ]


def test_a_list_names_a_few_and_counts_the_others() -> None:
    assert [few_of(["a", "b", "c"], most) for most in (1, 2, 3)] == [
        "a and 2 more",
        "a, b and 1 more",
        "a, b, c",
    ]
    assert few_of([], 2) == ""
