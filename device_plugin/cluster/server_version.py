"""The API server's version, which shows what kube-scheduler understands.

kube-scheduler has the API server's minor version or the one before it (Kubernetes' version skew policy).
"""

import logging
from collections.abc import Callable

from device_plugin.core.versions import minor_version
from device_plugin.kube.api import git_version
from device_plugin.kube.errors import ApiError

log = logging.getLogger(__name__)

# Seconds until the version is read again, once it is known and while it is not: an upgrade may change it.
AGAIN_SECONDS, SOON_SECONDS = 600.0, 10.0
# From kube-scheduler 1.32 on a node that a refusal does not name counts as one on which no preemption helps: its
# NodeToStatus has this status for absent nodes.
ABSENT_IS_HOPELESS = (1, 33)


class ServerVersion:
    """Reads the version with `text`, which returns the API server's answer at a path. Any thread may ask."""

    def __init__(self, text: Callable[[str], str]) -> None:
        self._text = text
        self._minor = (0, 0)

    def step(self) -> float:
        """Read the version, and keep it for `absent_is_hopeless`; returns the seconds until the next read."""
        try:
            found = minor_version(git_version(self._text))
        except (ApiError, ValueError, LookupError, TypeError) as error:
            log.info("the API server's version cannot be read: %s", error)
            return AGAIN_SECONDS if self.absent_is_hopeless() else SOON_SECONDS
        self._minor = found or (0, 0)
        return AGAIN_SECONDS

    def absent_is_hopeless(self) -> bool:
        """True if kube-scheduler looks for no victims on nodes that a refusal does not name.

        False while the version is not known.
        """
        return self._minor >= ABSENT_IS_HOPELESS
