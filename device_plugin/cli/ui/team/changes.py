"""Makes the page's changes with the token of the person who asks for them, and with no other credentials."""

import threading
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.cli.ui import changes
from device_plugin.cli.ui.changes import ChangeError

COMPONENT = "vgpu-ui"
# Most changes that are made at the same time.
MOST_AT_ONCE = 8


class PersonalChanges:
    """Makes changes at the API server of `endpoint`; only its address and its certificate authority are used."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._free = threading.BoundedSemaphore(MOST_AT_ONCE)

    def make(self, token: str, wanted: Mapping[str, Any]) -> str:
        """Make a change as the owner of a token; returns what was done, as text.

        Raises ChangeError, ApiError, and the errors of the commands.
        """
        if not self._free.acquire(blocking=False):
            raise ChangeError("too many changes at the same time")
        try:
            with closing(KubeClient(self._as_owner(token), COMPONENT)) as client:
                return changes.make(client, wanted)
        finally:
            self._free.release()

    def _as_owner(self, token: str) -> Endpoint:
        """Returns the endpoint with no credentials but the token: no certificate or header of ours goes with it."""
        known = self._endpoint
        return Endpoint(
            known.url, lambda: f"Bearer {token}", known.ca, name=known.name, verified=known.verified
        )
