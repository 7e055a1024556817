"""What can go wrong between us and the API server.

VgpuError
└── KubeError             the server answered no (status, reason, message)
    ├── NotFoundError     404
    ├── ConflictError     409: somebody else was first, or the uid is another one's
    ├── ExpiredError      410: the resource version is too old, list again
    └── UnreachableError  no answer: it may or may not have happened (status 0)
"""

from device_plugin.core.errors import VgpuError


class KubeError(VgpuError):
    """The API server answered no. `status` is the HTTP status, `reason` Kubernetes' word for it."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{message} ({status} {reason})" if status else message)
        self.status = status
        self.reason = reason


class NotFoundError(KubeError):
    """There is no such object."""


class ConflictError(KubeError):
    """The object changed meanwhile, or has another uid."""


class ExpiredError(KubeError):
    """The watch's resource version is too old."""


class UnreachableError(KubeError):
    """The server did not answer, or not completely."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "Unreachable", message)


BY_STATUS = {404: NotFoundError, 409: ConflictError, 410: ExpiredError}


def refused(status: int, reason: str, message: str) -> KubeError:
    """The exception for an answer of this status."""
    return BY_STATUS.get(status, KubeError)(status, reason, message)
