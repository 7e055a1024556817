"""Errors of calls to the Kubernetes API, one class for each case that callers must distinguish.

VgpuError
└── ApiError            the call failed; `status` is the HTTP status, 0 without an answer
    ├── GoneError       404, or another object has the name by now
    ├── ConflictError   409: the object exists or has changed, perhaps by an earlier write of ours
    ├── ExpiredError    410: the resource version is too old to continue from, list again
    ├── RefusedError    nothing was written: malformed, forbidden, protected, too many requests
    │   └── ForbiddenError   403: RBAC, admission or a quota forbids it
    └── UnknownError    no answer, or an unclear one: the call may or may not have been carried out
"""

from device_plugin.core.errors import VgpuError


class ApiError(VgpuError):
    """A call to the API server failed. `reason` is the reason in Kubernetes' Status object."""

    def __init__(self, message: str, status: int = 0, reason: str = "") -> None:
        super().__init__(f"{message} ({f'{status} {reason}'.strip()})" if status else message)
        self.status = status
        self.reason = reason


class GoneError(ApiError):
    """The object does not exist, or another object has its name."""


class ConflictError(ApiError):
    """The object exists already, changed meanwhile, or has another UID."""


class ExpiredError(ApiError):
    """The resource version is too old: list again."""


class RefusedError(ApiError):
    """The API server refused the call; nothing was written."""


class ForbiddenError(RefusedError):
    """RBAC, admission or a quota forbids the call; nothing was written."""


class UnknownError(ApiError):
    """No answer, or an unclear one: the call may or may not have been carried out.

    Cure: check that the API server is reachable (`kubectl get --raw /readyz`); services try again by themselves.
    """


# Statuses that the server answers before anything is written. 409 is not among them: see ConflictError.
_BY_STATUS: dict[int, type[ApiError]] = {
    404: GoneError,
    409: ConflictError,
    410: ExpiredError,
    **dict.fromkeys((400, 401, 413, 415, 422, 429), RefusedError),
    403: ForbiddenError,
}


def from_status(status: int, reason: str, message: str) -> ApiError:
    """Returns the error for an answer with this HTTP status."""
    return _BY_STATUS.get(status, UnknownError)(message, status, reason)
