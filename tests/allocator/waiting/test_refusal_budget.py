"""The time that long refusals may take: bounded for a namespace and for all together, and fair."""

from dataclasses import replace
from functools import cache

import pytest

from device_plugin.allocator.waiting.refusal_budget import (
    BURST,
    MOST_BURSTS,
    SHARE,
    TICK,
    TOTAL_BURST,
    TOTAL_SHARE,
    LaterError,
    RefusalBudget,
)  # fmt: skip
from device_plugin.core.contract.grants import Grant
from device_plugin.core.contract.reasons import Reason
from device_plugin.core.placement import Refusal, Refused
from device_plugin.core.requests import Gang, PodRequest
from tests.builders.requests import slice_request
from tests.cluster.world import Clock

SPAN = 1200.0


@cache
def asked(gang: str) -> PodRequest:
    """A request of a pod of this gang; without a name, of a pod of several containers."""
    alone = slice_request("p", 4)
    return replace(alone, gang=Gang(gang, 2)) if gang else replace(alone, containers=2 * alone.containers)


class Asker:
    """Asks for decisions of gangs, or of pods of several containers where the gang has no name."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.budget = RefusalBudget(self.clock)

    def tries(self, namespace: str, gang: str, seconds: float, answer: object = None) -> bool:
        """True if the decision is made, which takes `seconds`."""
        request = asked(gang)

        def decide() -> object:
            self.clock.now += seconds
            return answer

        try:
            assert self.budget.decided(namespace, request, decide) is answer
        except LaterError:
            return False
        return True


def spent(askers: list[tuple[str, str]], seconds: float = 0.5) -> dict[tuple[str, str], float]:
    """The share of the time that the refusals of each asker (namespace, gang) take in SPAN seconds.

    Each asker is tried as often as the budget allows, and each try ends in a refusal after `seconds`.
    """
    asker, taken = Asker(), dict.fromkeys(askers, 0.0)
    started = asker.clock.now
    while asker.clock.now < started + SPAN:
        asker.clock.now += 0.1
        for each in askers:
            if asker.tries(*each, seconds):
                taken[each] += seconds
    return {each: seconds_taken / (asker.clock.now - started) for each, seconds_taken in taken.items()}


@pytest.mark.no_cover
def test_one_namespace_takes_its_share() -> None:
    (share,) = spent([("a", "")]).values()
    assert 0.9 * SHARE <= share <= SHARE + BURST / SPAN + 0.01


@pytest.mark.no_cover
@pytest.mark.parametrize("count", [5, 10, 40])
def test_all_namespaces_together_take_no_more_than_the_total_in_equal_parts(count: int) -> None:
    shares = spent([(f"ns-{number}", "") for number in range(count)])
    most = TOTAL_SHARE + MOST_BURSTS * TOTAL_BURST / SPAN + 0.02
    assert 0.8 * TOTAL_SHARE <= sum(shares.values()) <= most
    assert max(shares.values()) <= 1.5 * min(shares.values())


@pytest.mark.no_cover
def test_a_namespace_of_many_gangs_takes_no_more_than_one_of_one_gang() -> None:
    shares = spent([("many", f"g{number}") for number in range(20)] + [("one", "g")])
    many = sum(share for (namespace, _), share in shares.items() if namespace == "many")
    assert many <= SHARE + 2 * MOST_BURSTS * BURST / SPAN
    assert shares["one", "g"] >= 0.9 * SHARE


@pytest.mark.no_cover
def test_new_names_do_not_help_a_namespace() -> None:
    asker, tried = Asker(), 0
    started = asker.clock.now
    for number in range(10_000):
        asker.clock.now += 0.1
        tried += asker.tries("a", f"g{number}", 1.0)
    assert tried <= SHARE * (asker.clock.now - started) + MOST_BURSTS * BURST + 1


def test_a_namespace_that_was_not_refused_is_tried_whatever_the_others_do() -> None:
    asker = Asker()
    at_once = asker.clock.now
    for number in range(1000):
        assert asker.tries(f"ns-{number}", "", 100.0)
        asker.clock.now = at_once
    assert asker.tries("new", "", 1.0)
    assert not asker.tries("ns-1", "", 1.0)


def test_what_is_refilled_is_forgotten() -> None:
    asker = Asker()
    asker.tries("a", "g", 2.0)
    asker.tries("b", "", 0.0)
    assert len(asker.budget) == 1
    asker.clock.now += 2.0 / SHARE + 2 * TICK
    assert asker.tries("a", "g", 0.0)
    assert len(asker.budget) == 0


REFUSAL = Refusal({}, {Reason.GANG: 1})


@pytest.mark.parametrize(
    ("answer", "charged"),
    [
        (None, True),
        (REFUSAL, True),
        (Refused(lambda: REFUSAL), True),
        (Grant("p", "n1", {}), False),
        ([], False),
    ],
)
def test_only_refusals_are_charged(answer: object, *, charged: bool) -> None:
    asker = Asker()
    assert asker.tries("a", "g", 2 * BURST, answer)
    assert asker.tries("a", "g", 1.0) is not charged


def test_a_pod_of_one_container_is_never_charged() -> None:
    clock = Clock()
    budget = RefusalBudget(clock)

    def slow() -> None:
        clock.now += 2 * BURST

    for _ in range(3):
        budget.decided("a", slice_request("p", 4), slow)
    assert len(budget) == 0


@pytest.mark.parametrize(
    ("gang", "waits"),
    [("g", "group g waits for its turn"), ("", "pods of several containers in a wait for their turn")],
)
def test_the_text_says_what_waits(gang: str, waits: str) -> None:
    asker = Asker()
    asker.tries("a", gang, 2 * BURST)
    with pytest.raises(LaterError, match=f"{waits} to be tried; kube-scheduler tries again by itself"):
        asker.budget.decided("a", asked(gang), lambda: None)
