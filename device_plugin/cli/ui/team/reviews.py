"""Asks the API server who the owner of a token is, and what a person may list."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from device_plugin.cli.ui.spaces import Space
from device_plugin.cli.ui.team.visitor import Person
from device_plugin.core.errors import VgpuError
from device_plugin.kube.api import Kind, Object

Item = TypeVar("Item")


class RefusedTokenError(VgpuError):
    """The API server does not accept a token, or it is for another audience.

    Cure: log in with a token that `kubectl auth whoami --token=TOKEN` accepts; if the page has the setting `audiences`,
    with a token for one of these.
    """


class Creates(Protocol):
    """The only call of the API that reviews need: to create an object."""

    def create(self, kind: Kind[Item], body: Object, namespace: str = "") -> Item:
        """Create an object; returns the API server's answer. Raises ApiError."""


def _status(review: Object) -> dict[str, Any]:
    status = review["status"]
    if not isinstance(status, dict):
        raise TypeError("the review has no status")
    return status


TOKEN_REVIEWS: Kind[dict[str, Any]] = Kind(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", dict, _status
)
ACCESS_REVIEWS: Kind[bool] = Kind(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", bool,
    lambda review: review["status"]["allowed"] is True,
)  # fmt: skip
_GROUPS = {"pods": "", "jobs": "batch"}


def owner_of(api: Creates, token: str, audiences: Sequence[str]) -> Person:
    """Returns the owner of a token. Raises RefusedTokenError, ApiError.

    With `audiences`, the token must be for one of them. An answer without audiences is then refused too: it is from an
    authenticator that does not know audiences, and says only that the API server itself accepts the token.
    """
    spec = {"token": token, **({"audiences": [*audiences]} if audiences else {})}
    status = api.create(
        TOKEN_REVIEWS, {"apiVersion": TOKEN_REVIEWS.api_version, "kind": TOKEN_REVIEWS.name, "spec": spec}
    )
    if status.get("authenticated") is not True:
        raise RefusedTokenError("the API server does not accept this token")
    if audiences and not set(audiences) & set(status.get("audiences") or ()):
        raise RefusedTokenError(f"this token is not for {' or '.join(audiences)}")
    try:
        return Person.read(status["user"])
    except (AttributeError, LookupError, TypeError, ValueError):
        raise RefusedTokenError("the API server does not name the owner of this token") from None


def may_list(api: Creates, person: Person, space: Space) -> bool:
    """True if a person may list the objects of a space (pods or Jobs of a namespace). Raises ApiError.

    An empty namespace stands for all.
    """
    asked = {
        "verb": "list", "group": _GROUPS[space.resource], "version": "v1", "resource": space.resource,
        **({"namespace": space.namespace} if space.namespace else {}),
    }  # fmt: skip
    spec = {
        "user": person.name, "groups": [*person.groups], "resourceAttributes": asked,
        **({"uid": person.uid} if person.uid else {}),
        **({"extra": {key: [*values] for key, values in person.extra}} if person.extra else {}),
    }  # fmt: skip
    return api.create(
        ACCESS_REVIEWS, {"apiVersion": ACCESS_REVIEWS.api_version, "kind": ACCESS_REVIEWS.name, "spec": spec}
    )
