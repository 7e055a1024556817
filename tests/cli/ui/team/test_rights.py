"""Rights are asked for once, confirmed soon, and count as none while nobody confirms them."""

import pytest

from device_plugin.cli.ui.spaces import UNKNOWN, Space
from device_plugin.cli.ui.team import rights as module
from device_plugin.cli.ui.team.rights import Rights
from device_plugin.cli.ui.team.visitor import Person
from device_plugin.kube.errors import UnknownError

ANNA, BERT = Person("anna"), Person("bert")
A, B = Space("pods", "team-a"), Space("pods", "team-b")


class Api:
    """An API server that knows rights by the names of persons, and counts questions. `now` is the time in seconds."""

    def __init__(self, allowed: dict[str, set[Space]]) -> None:
        self.allowed = allowed
        self.asked: list[tuple[str, Space]] = []
        self.now = 1000.0
        self.silent = False

    def may(self, person: Person, space: Space) -> bool:
        self.asked.append((person.name, space))
        if self.silent:
            raise UnknownError("no answer")
        return space in self.allowed.get(person.name, set())

    def clock(self) -> float:
        return self.now


def test_each_person_sees_the_own_namespaces_and_is_asked_about_once() -> None:
    api = Api({"anna": {A}, "bert": {B}})
    rights = Rights(api.may, api.clock)
    for _ in range(3):
        assert rights.sight(ANNA, frozenset({A, B})).spaces == {A}
        assert rights.sight(BERT, frozenset({A, B})).spaces == {B}
    assert len(api.asked) == len(set(api.asked)) == 2 * 4


def test_who_may_list_everything_costs_two_questions() -> None:
    api = Api({"anna": {Space("pods", ""), Space("jobs", "")}})
    rights = Rights(api.may, api.clock)
    many = frozenset(Space("pods", f"n{i}") for i in range(4000))
    sight = rights.sight(ANNA, many)
    assert sight.everything
    assert sight.shows(many | UNKNOWN)
    assert len(api.asked) == 2


def test_all_pods_without_all_jobs_are_not_everything() -> None:
    api = Api({"anna": {Space("pods", ""), A}})
    sight = Rights(api.may, api.clock).sight(ANNA, frozenset({A}))
    assert (sight.everything, sight.shows(UNKNOWN), sight.spaces) == (False, False, frozenset({A}))


def test_a_withdrawn_right_ends_and_a_new_one_begins() -> None:
    api = Api({"anna": {A}})
    rights = Rights(api.may, api.clock)
    assert rights.sight(ANNA, frozenset({A, B})).spaces == {A}
    api.allowed["anna"] = {B}
    api.now += module.ALLOWED_SECONDS
    assert rights.sight(ANNA, frozenset({A, B})).spaces == set()
    api.now += module.DENIED_SECONDS
    assert rights.sight(ANNA, frozenset({A, B})).spaces == {B}


def test_without_answers_a_right_lasts_for_a_while_and_a_new_person_has_none() -> None:
    api = Api({"anna": {A}, "bert": {B}})
    rights = Rights(api.may, api.clock)
    rights.sight(ANNA, frozenset({A}))
    api.silent = True
    api.now += module.ALLOWED_SECONDS
    assert rights.sight(ANNA, frozenset({A})).spaces == {A}
    assert rights.sight(BERT, frozenset({B})).spaces == set()
    api.now += module.STALE_SECONDS
    assert rights.sight(ANNA, frozenset({A})).spaces == set()


def test_four_thousand_namespaces_cost_a_bounded_number_of_questions_at_a_time() -> None:
    many = frozenset(Space("pods", f"n{i}") for i in range(4000))
    api = Api({"anna": {Space("pods", "n3999")}})
    rights = Rights(api.may, api.clock)
    rights.sight(ANNA, many)
    assert len(api.asked) == module.MOST_ASKED + 2
    looks = 0
    while Space("pods", "n3999") not in rights.sight(ANNA, many).spaces:
        api.now += 1
        looks += 1
        assert looks < 4000 / module.MOST_ASKED + 10
    # The right that is known is confirmed before the thousands that are refused are asked about again.
    api.now += module.ALLOWED_SECONDS
    del api.asked[:]
    rights.sight(ANNA, many)
    assert ("anna", Space("pods", "n3999")) in api.asked


def test_questions_of_all_persons_together_are_bounded() -> None:
    api = Api({})
    rights = Rights(api.may, api.clock)
    spaces = frozenset(Space("pods", f"n{i}") for i in range(40))
    for number in range(100):
        rights.sight(Person(f"p{number}"), spaces)
    assert len(api.asked) == module.BURST - module.KEPT


def test_persons_with_many_questions_take_no_right_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ASKED_PER_SECOND", 5.0), ("BURST", 20.0), ("KEPT", 10.0), ("MOST_ASKED", 6)):
        monkeypatch.setattr(module, name, value)
    api = Api({"anna": {A}})
    rights = Rights(api.may, api.clock)
    assert rights.sight(ANNA, frozenset({A})).spaces == {A}
    many = frozenset(Space("pods", f"n{i}") for i in range(400))
    for _ in range(120):
        api.now += 2
        for number in range(10):
            rights.sight(Person(f"p{number}"), many)
        assert rights.sight(ANNA, frozenset({A})).spaces == {A}
    # The withdrawal of a right is noticed as soon as ever.
    del api.allowed["anna"]
    api.now += module.ALLOWED_SECONDS
    for number in range(10):
        rights.sight(Person(f"p{number}"), many)
    assert rights.sight(ANNA, frozenset({A})).spaces == set()


def test_answers_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ANSWERS", 100)
    api = Api({})
    rights = Rights(api.may, api.clock)
    for number in range(1000):
        api.now += 1
        rights.sight(Person(f"p{number}"), frozenset({A, B}))
    assert sum(map(len, rights._known.values())) == rights._answers <= 100
