"""The largest smaller requests that fit, for one container."""

import pytest

from device_plugin.core.placement.smaller import Fits, smaller
from device_plugin.core.requests import PodRequest, Request
from tests.builders.cards import FAMILY
from tests.builders.requests import slice_request, whole_request


def fits(mem: int, cores: int, whole: int = 0) -> Fits:
    """True for requests that take no more than these amounts."""

    def decide(request: PodRequest) -> bool:
        asked = request.containers[0][1]
        return (asked.mem or 0) <= mem and (asked.cores or 0) <= cores and asked.whole <= whole

    return decide


@pytest.mark.parametrize(
    ("asked", "free", "expected"),
    [
        ((8, 30), (5, 60), [(5, 30)]),
        ((8, 30), (16, 10), [(8, 10)]),
        ((8, 30), (4, 15), [(4, 15)]),
        ((8, 30), (4, 7), [(2, 7)]),
        ((8, None), (5, 60), [(5, None)]),
        ((None, 30), (16, 12), [(None, 12)]),
        ((8, 30), (0, 0), []),
        ((2**31, 1), (7, 60), [(7, 1)]),
    ],
)
def test_the_largest_that_fits_is_found(
    asked: tuple[int | None, int | None], free: tuple[int, int], expected: list[tuple[int | None, int | None]]
) -> None:
    found = smaller(slice_request("p", *asked), fits(*free))
    assert found == tuple(Request(FAMILY, 0, *each) for each in expected)


def test_both_ways_are_told_where_either_helps() -> None:
    def either(request: PodRequest) -> bool:
        asked = request.containers[0][1]
        return (asked.mem or 0) + (asked.cores or 0) <= 30

    found = smaller(slice_request("p", 16, 20), either)
    assert found == (Request(FAMILY, 0, 10, 20), Request(FAMILY, 0, 16, 14))


def test_fewer_whole_cards_are_found_and_nothing_for_several_containers() -> None:
    assert smaller(whole_request("p", 4), fits(0, 0, 3)) == (Request(FAMILY, 3),)
    two = PodRequest("p", (("a", Request(FAMILY, 0, 4)), ("b", Request(FAMILY, 0, 4))))
    assert smaller(two, fits(16, 60)) == ()


def test_slices_of_fewer_cards_are_found() -> None:
    three = PodRequest("p", (("main", Request(FAMILY, 0, 4, 15, count=3)),))
    assert smaller(three, lambda less: less.containers[0][1].count <= 2) == (
        Request(FAMILY, 0, 4, 15, count=2),
    )
