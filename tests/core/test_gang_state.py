"""A gang's phases, and what follows from each event in each of them."""

from collections.abc import Callable

import pytest

from device_plugin.core.contract.grants import Grant
from device_plugin.core.contract.reasons import Reason
from device_plugin.core.gang import BINDING_SECONDS, Asked, GangPod, GangState, GangView, Phase
from device_plugin.core.ledger import Reservation, ReservationStage
from device_plugin.core.placement import Refusal
from device_plugin.core.pods import Pod
from device_plugin.core.requests import Gang, PodRequest

NO_ROOM = Refusal.saying(Reason.GANG_ROOM, "no room")


def member(name: str, size: int = 3) -> GangPod:
    gang = Gang("g", size)
    return GangPod.of(Pod("ns", name, name), PodRequest(name, (), gang=gang), gang)


def reserved(name: str, stage: ReservationStage = ReservationStage.WAITING) -> Reservation:
    made = member(name)
    return Reservation.for_pod(made.pod, made.request, Grant(name, "n", {}), 0.0, stage)


def view(waiting: str = "", held: str = "", sent: str = "", bound: int = 0, finished: int = 0) -> GangView:
    """A gang of three; a letter for each pod that waits, has a reservation, or whose Binding was sent."""
    reservations = (*map(reserved, held), *(reserved(name, ReservationStage.BINDING) for name in sent))
    names = (*waiting, *held, *sent, *(f"there-{number}" for number in range(bound + finished)))
    sizes = frozenset({3}) if names else frozenset[int]()
    return GangView("g", names, tuple(map(member, waiting)), reservations, bound, finished, sizes, classes=1)


def refused() -> GangState:
    state = GangState()
    state.refuse(Asked.of([member("a")], {}, None, 0), NO_ROOM)
    return state


@pytest.mark.parametrize(
    ("state", "now", "phase"),
    [
        (GangState(), view(), Phase.WAITING),
        (GangState(), view("ab"), Phase.WAITING),
        (GangState(), view("abc"), Phase.WAITING),
        (refused(), view("abc"), Phase.REFUSED),
        (refused(), view("ab"), Phase.WAITING),
        (GangState(), view(held="abc"), Phase.RESERVED),
        (GangState(), view("c", held="ab"), Phase.RESERVED),
        (GangState(), view(held="ab", sent="c"), Phase.BINDING),
        (GangState(), view("a", bound=2), Phase.BINDING),
        (refused(), view("a", bound=2), Phase.BINDING),
        (GangState(), view(held="a", bound=1, finished=1), Phase.BINDING),
        (GangState(), view(bound=3), Phase.PLACED),
        (GangState(), view("d", bound=3), Phase.PLACED),
        (GangState(), view(bound=1, finished=2), Phase.PLACED),
    ],
)
def test_the_phase_follows_from_what_the_pods_have(state: GangState, now: GangView, phase: Phase) -> None:
    assert state.phase(now) is phase


@pytest.mark.parametrize(
    ("now", "lost", "expired"),
    [
        (view("abc"), "", ""),
        (view(held="abc"), "", "abc"),
        (view(held="ab"), "ab", "ab"),
        (view("c", held="ab"), "ab", "ab"),
        (view(held="ab", finished=1), "", "ab"),
        (view(held="a", sent="b"), "", "a"),
        (view(held="a", bound=1), "", "a"),
        (view(sent="abc"), "", ""),
        (view(bound=3), "", ""),
    ],
)
def test_reservations_end_together_until_a_binding_was_sent(now: GangView, lost: str, expired: str) -> None:
    state = GangState()
    assert state.lose(now) == () == state.expire(now, 1e9), "nothing was reserved"
    state.reserve(10.0)
    assert state.lose(now) == tuple(lost)
    assert state.expire(now, 9.9) == ()
    assert state.expire(now, 10.0) == tuple(expired)
    assert state.deadline is None
    assert state.lose(now) == () == state.expire(now, 1e9), "once"


@pytest.mark.parametrize(
    ("event", "deadline"),
    [
        (lambda state: state.keep(5.0), 10.0),
        (lambda state: state.keep(15.0), 15.0),
        (lambda state: state.bind(2.0), 2.0 + BINDING_SECONDS),
        (lambda state: state.reserve(20.0), 20.0),
        (lambda state: state.refuse(Asked.of((), {}, None, 0), NO_ROOM), 10.0),
    ],
)
def test_a_deadline_is_put_off_and_never_comes_nearer(
    event: Callable[[GangState], None], deadline: float
) -> None:
    state = GangState()
    state.reserve(10.0)
    event(state)
    assert state.deadline == deadline


def test_as_many_are_placed_with_the_first_as_the_gang_lacks() -> None:
    state = GangState()
    for now, pods in (
        (view("abc"), "cab"), (view("abcd"), "cab"), (view("bc", held="a"), "cb"), (view("c", bound=2), "c"),
        (view("cd", bound=3), "c"),
    ):  # fmt: skip
        assert "".join(each.pod.name for each in state.lacking(now, member("c"))) == pods, now


def test_a_refusal_holds_for_the_same_pods_and_nodes_until_something_becomes_free() -> None:
    state, pods = GangState(), [member("a"), member("b")]
    asked = Asked.of(pods, {}, ("n1",), 7)
    assert asked == Asked(frozenset({"a", "b"}), {pods[0].equivalence: ("n1",)}, 7)
    assert state.known(asked) is None
    state.refuse(asked, NO_ROOM)
    assert state.known(Asked.of(pods[::-1], {}, ("n1",), 7)) is NO_ROOM
    for other in (
        Asked.of(pods[:1], {}, ("n1",), 7),
        Asked.of(pods, {}, ("n2",), 7),
        Asked.of(pods, {}, ("n1",), 8),
    ):
        assert state.known(other) is None
    assert not state.may_fit(view("abc"), 7)
    assert state.may_fit(view("abc"), 8)
    assert not state.may_fit(view("ab"), 8), "one is missing"
    assert state.why(view("abc")) is NO_ROOM
    assert state.why(view(held="abc")) is None
    state.reserve(1.0)
    assert state.known(asked) is None


def test_pods_for_which_no_nodes_were_offered_get_those_of_the_others() -> None:
    first, other = member("a"), member("b", size=4)
    asked = Asked.of([first, other], {other.equivalence: ("n2",)}, ("n1",), 0)
    assert asked.offered == {first.equivalence: ("n1",), other.equivalence: ("n2",)}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            GangView("g", ("a", "b"), sizes=frozenset({2, 3})),
            "write one vgpu.io/group-size on all of its pods",
        ),
        (
            GangView("g", ("a",), sizes=frozenset({1}), classes=33),
            "more than 32 different requests: make their requests alike, or split the group",
        ),
        (GangView("g", ("a",), sizes=frozenset({2})), "waits for 1 more pod (1 of 2 exist)"),
        (GangView("g", ("a",), sizes=frozenset({4})), "waits for 3 more pods (1 of 4 exist)"),
    ],
)
def test_a_gang_whose_pods_are_wrong_or_missing_says_so(wrong: GangView, words: str) -> None:
    why = GangState().why(wrong)
    assert why is not None
    assert words in why.text
