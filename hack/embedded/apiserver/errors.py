"""Refusals as Status objects, which Kubernetes sends as answers.

Wording follows k8s.io/apimachinery/pkg/api/errors and k8s.io/apiserver/pkg/storage/errors, because clients
and people read it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Cause:
    """One wrong field: `field` is its path, `message` the error text without the path."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


class StatusError(Exception):
    """A request that ends with a Status of kind Failure and HTTP status `code`."""

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details

    def status(self) -> dict[str, Any]:
        """The Status object, as the server sends it."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            **({} if self.details is None else {"details": self.details}),
            "code": self.code,
        }


def bad_request(message: str) -> StatusError:
    """Status 400: the request is malformed."""
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    """Status 401: the bearer token is unknown."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def not_found(plural: str, name: str) -> StatusError:
    """Status 404: no such object; `plural` is qualified by its group (`leases.coordination.k8s.io`)."""
    return StatusError(404, "NotFound", f'{plural} "{name}" not found', _about(plural, name))


def no_such_path() -> StatusError:
    """Status 404: the server has no resource at this path."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> StatusError:
    """Status 405: the path does not support this method."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, {})


def already_exists(plural: str, name: str) -> StatusError:
    """Status 409: an object of that name exists."""
    return StatusError(409, "AlreadyExists", f'{plural} "{name}" already exists', _about(plural, name))


def conflict(plural: str, name: str, why: str) -> StatusError:
    """Status 409: the object is not in the state that the request expects."""
    message = f'Operation cannot be fulfilled on {plural} "{name}": {why}'
    return StatusError(409, "Conflict", message, _about(plural, name))


def expired(message: str) -> StatusError:
    """Status 410: the requested resource version is too old."""
    return StatusError(410, "Expired", message)


def unsupported_media_type() -> StatusError:
    """Status 415: the method does not accept this format of the body."""
    return StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def invalid(kind: str, name: str, causes: Sequence[Cause]) -> StatusError:
    """Status 422: the object is invalid; `kind` is qualified by its group (`Lease.coordination.k8s.io`)."""
    lines = [f"{cause.field}: {cause.message}" for cause in causes]
    text = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    details = {
        **_about(kind, name),
        "causes": [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes],
    }
    return StatusError(422, "Invalid", f'{kind} "{name}" is invalid: {text}', details)


def too_new(wanted: int, current: int) -> StatusError:
    """Status 504: the client asks for a resource version that this server has not reached."""
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    return StatusError(504, "Timeout", message, {"retryAfterSeconds": 1})


def _about(qualified: str, name: str) -> dict[str, Any]:
    kind, _, group = qualified.partition(".")
    return {"name": name, **({"group": group} if group else {}), "kind": kind}
