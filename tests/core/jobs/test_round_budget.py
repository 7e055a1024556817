"""The budget of a round: what one user's jobs cost is not taken from another's."""

from device_plugin.core.jobs.round_budget import USER_LOOKS, RoundBudget, Share
from device_plugin.core.placement.fit import LOOKS


def spend(budget: RoundBudget, user: str, count: int, most: int = LOOKS) -> Share | None:
    share = budget.of(user, most)
    if share is not None:
        share.spend(count)
        budget.charge(user, share)
    return share


def test_each_user_has_as_many_looks() -> None:
    budget = RoundBudget(("a", "b"), looks=10_000)
    assert spend(budget, "a", 5_000) is not None
    assert budget.of("a", LOOKS) is None
    assert budget.cut
    assert spend(budget, "b", 4_000) is not None, "what one has used is not another's"
    assert budget.of("b", LOOKS) is not None


def test_among_many_users_each_has_enough_for_a_few_searches_while_there_are_any() -> None:
    budget = RoundBudget([f"u{number}" for number in range(1000)], looks=5 * USER_LOOKS)
    served = [spend(budget, f"u{number}", USER_LOOKS) is not None for number in range(6)]
    assert served == [True] * 5 + [False]


def test_a_search_that_ended_early_for_its_users_sake_is_no_answer() -> None:
    budget = RoundBudget(("a", "b"), looks=2 * USER_LOOKS)
    own = budget.of("a", USER_LOOKS)
    assert own is not None
    own.spend(USER_LOOKS)
    assert budget.charge("a", own), "it had all that any search has"
    assert not budget.cut
    less = budget.of("b", USER_LOOKS + 1)
    assert less is not None
    less.spend(USER_LOOKS)
    assert not budget.charge("b", less)
    assert budget.cut
