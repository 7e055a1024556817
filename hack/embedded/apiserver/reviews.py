"""Answers questions about users: who asks, whose token it is, and what a user may do."""

from typing import TYPE_CHECKING

from hack.embedded.apiserver import errors
from hack.embedded.apiserver.resources import (
    ACCESS_REVIEWS,
    SELF_REVIEWS,
    SUBJECT_REVIEWS,
    TOKEN_REVIEWS,
    ApiResource,
)
from hack.embedded.apiserver.store import Object

if TYPE_CHECKING:
    from hack.embedded.apiserver.server import EmbeddedApiServer

KINDS = (SELF_REVIEWS, ACCESS_REVIEWS, TOKEN_REVIEWS, SUBJECT_REVIEWS)
# The audience of the tokens of a real API server, as kubeadm sets it.
AUDIENCE = "https://kubernetes.default.svc.cluster.local"
_MASTERS = "system:masters"


def status(api: "EmbeddedApiServer", user: str, kind: ApiResource, spec: Object) -> Object:
    """The status (the answer) of a review that `user` creates, such as a TokenReview or SubjectAccessReview."""
    if kind is SELF_REVIEWS:
        return {"userInfo": {"username": user}}
    if kind is ACCESS_REVIEWS:
        # Every known user may do everything on this server.
        return {"allowed": True}
    return _token(api, spec) if kind is TOKEN_REVIEWS else {"allowed": _allowed(api, spec)}


def _token(api: "EmbeddedApiServer", spec: Object) -> Object:
    audiences = [each for each in spec.get("audiences") or [AUDIENCE] if each == AUDIENCE]
    try:
        user = api.user(f"Bearer {spec['token']}")
    except errors.StatusError:
        return {"user": {}, "error": "[invalid bearer token]"}
    if not audiences:
        return {
            "user": {},
            "error": "[invalid bearer token, token audiences are invalid for the target audiences]",
        }
    return {
        "authenticated": True, "audiences": audiences, "user": {"username": user, "groups": ["system:authenticated"]},
    }  # fmt: skip


def _allowed(api: "EmbeddedApiServer", spec: Object) -> bool:
    """True for a right of system:masters, or one in the server's `grants`."""
    asked = spec["resourceAttributes"]
    wanted = (
        spec.get("user", ""),
        asked.get("verb", ""),
        asked.get("resource", ""),
        asked.get("namespace", ""),
    )
    return _MASTERS in (spec.get("groups") or ()) or wanted in api.grants
