"""Tokens and rights are asked of the API server in Kubernetes' own words."""

from typing import Any

import pytest

from device_plugin.cli.ui.spaces import Space
from device_plugin.cli.ui.team.reviews import RefusedTokenError, may_list, owner_of
from device_plugin.cli.ui.team.visitor import Person
from device_plugin.kube.api import Kind, Object


class Api:
    """An API server that answers every review with one status."""

    def __init__(self, **status: object) -> None:
        self.status = status
        self.body: Object = {}

    def create(self, kind: Kind[Any], body: Object, namespace: str = "") -> Any:
        assert namespace == ""
        self.body = body
        assert kind.parse is not None
        return kind.parse({**body, "status": self.status})


USER = {"username": "anna", "uid": "u1", "groups": ["b", "a"], "extra": {"scopes": ["x"]}}


def test_the_owner_of_a_token() -> None:
    api = Api(authenticated=True, user=USER)
    assert owner_of(api, "t", []) == Person("anna", "u1", ("a", "b"), (("scopes", ("x",)),))
    assert api.body == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "t"},
    }


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"authenticated": False, "user": USER}, "does not accept"),
        ({"authenticated": "true", "user": USER}, "does not accept"),
        ({"user": USER}, "does not accept"),
        ({"authenticated": True}, "does not name"),
        ({"authenticated": True, "user": {"username": ""}}, "does not name"),
        ({"authenticated": True, "user": {"username": "a\nb"}}, "does not name"),
    ],
)
def test_a_token_that_is_not_accepted(status: dict[str, object], why: str) -> None:
    with pytest.raises(RefusedTokenError, match=why):
        owner_of(Api(**status), "t", [])


@pytest.mark.parametrize(
    ("audiences", "good"), [(["ui"], True), (["api", "ui"], True), (["api"], False), ([], False)]
)
def test_a_token_for_another_audience_is_refused(audiences: list[str], *, good: bool) -> None:
    api = Api(authenticated=True, user=USER, audiences=audiences)
    if good:
        assert owner_of(api, "t", ["ui", "page"]).name == "anna"
    else:
        with pytest.raises(RefusedTokenError, match="not for ui or page"):
            owner_of(api, "t", ["ui", "page"])
    assert api.body["spec"]["audiences"] == ["ui", "page"]


def test_the_rights_of_a_person_are_asked_with_all_that_is_known_of_the_person() -> None:
    api = Api(allowed=True)
    person = Person.read(USER)
    assert may_list(api, person, Space("jobs", "team-a"))
    assert api.body["spec"] == {
        "user": "anna", "uid": "u1", "groups": ["a", "b"], "extra": {"scopes": ["x"]},
        "resourceAttributes": {
            "verb": "list", "group": "batch", "version": "v1", "resource": "jobs", "namespace": "team-a",
        },
    }  # fmt: skip
    assert may_list(api, Person("bert"), Space("pods", ""))
    assert api.body["spec"] == {
        "user": "bert", "groups": [],
        "resourceAttributes": {"verb": "list", "group": "", "version": "v1", "resource": "pods"},
    }  # fmt: skip
    assert not may_list(Api(allowed=False), person, Space("pods", "a"))
    assert not may_list(Api(allowed="yes"), person, Space("pods", "a"))
