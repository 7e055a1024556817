"""The time that long refusals may take: bounded for a namespace and for all together, and fair."""

import pytest

from device_plugin.cluster.refused.refusal_budget import (
    BURST,
    MOST_BURSTS,
    SHARE,
    TICK,
    TOTAL_BURST,
    TOTAL_SHARE,
    RefusalBudget,
)  # fmt: skip

HOUR = 3600.0


def spent(askers: list[tuple[str, str]], seconds: float = 0.5) -> dict[tuple[str, str], float]:
    """What each takes of an hour of placing, if each is tried whenever it may, and refused after `seconds`."""
    budget, now, taken = RefusalBudget(), 0.0, dict.fromkeys(askers, 0.0)
    while now < HOUR:
        now += 0.1
        for asker in askers:
            if budget.allows(*asker, now):
                budget.spend(*asker, now, now + seconds)
                now += seconds
                taken[asker] += seconds
    return {asker: each / now for asker, each in taken.items()}


def test_one_namespace_takes_its_share() -> None:
    (share,) = spent([("a", "")]).values()
    assert 0.9 * SHARE <= share <= SHARE + BURST / HOUR + 0.01


@pytest.mark.parametrize("count", [5, 10, 40])
def test_all_namespaces_together_take_no_more_than_the_total_in_equal_parts(count: int) -> None:
    shares = spent([(f"ns-{number}", "") for number in range(count)])
    most = TOTAL_SHARE + MOST_BURSTS * TOTAL_BURST / HOUR + 0.02
    assert 0.8 * TOTAL_SHARE <= sum(shares.values()) <= most
    assert max(shares.values()) <= 1.5 * min(shares.values())


def test_a_namespace_of_many_gangs_takes_no_more_than_one_of_one_gang() -> None:
    shares = spent([("many", f"g{number}") for number in range(20)] + [("one", "g")])
    many = sum(share for (namespace, _), share in shares.items() if namespace == "many")
    assert many <= SHARE + 2 * MOST_BURSTS * BURST / HOUR
    assert shares["one", "g"] >= 0.9 * SHARE


def test_new_names_do_not_help_a_namespace() -> None:
    budget, now, tried = RefusalBudget(), 0.0, 0
    for number in range(10_000):
        now += 0.1
        if budget.allows("a", f"g{number}", now):
            budget.spend("a", f"g{number}", now, now + 1.0)
            now += 1.0
            tried += 1
    assert tried <= SHARE * now + MOST_BURSTS * BURST + 1


def test_a_namespace_that_was_not_refused_is_tried_whatever_the_others_do() -> None:
    budget = RefusalBudget()
    for number in range(1000):
        budget.spend(f"ns-{number}", "", 0.0, 100.0)
    assert budget.allows("new", "", 0.0)
    assert not budget.allows("ns-1", "", 0.0)


def test_what_is_refilled_is_forgotten() -> None:
    budget = RefusalBudget()
    budget.spend("a", "g", 0.0, 2.0)
    budget.spend("b", "", 2.0, 2.0)
    assert len(budget) == 1
    assert budget.allows("a", "g", 2.0 + 2.0 / SHARE + 2 * TICK)
    assert len(budget) == 0
