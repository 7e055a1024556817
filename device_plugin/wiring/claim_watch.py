"""Watches ResourceClaims for a service, and says why they cannot be listed."""

import logging
import threading
from typing import Any

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.watch import ListWatch, feed
from device_plugin.kube.api import RESOURCE_CLAIMS
from device_plugin.kube.errors import ApiError, GoneError
from device_plugin.state.view import ClusterView

log = logging.getLogger(__name__)

_ABSENT = (
    f"the API server has no {RESOURCE_CLAIMS.plural} of {RESOURCE_CLAIMS.api_version}: slices by ResourceClaim need"
    " Kubernetes 1.36 or newer; upgrade it, or leave out the component dra (setting claims: false)"
)


class ClaimWatch:
    """Passes ResourceClaims on to the cluster's state (its view) until `stop` is set."""

    def __init__(self, api: KubeClient, view: ClusterView, stop: threading.Event) -> None:
        self._view = view
        self._stop = stop
        self._error = ""
        self.watch: ListWatch[Any] = ListWatch(api, RESOURCE_CLAIMS)

    def run(self) -> None:
        """Follow the ResourceClaims; returns once `stop` is set."""
        feed(self.watch, self._stop, self._view.claim_news, on_error=self._failed)

    def why_not_listed(self) -> str:
        """The reason why no ResourceClaims could be listed, as text; empty if they were, or nothing has failed yet."""
        return "" if "claims" in self._view.listed else self._error

    def _failed(self, error: ApiError) -> None:
        said = _ABSENT if isinstance(error, GoneError) else f"claims cannot be read: {error}"
        if said != self._error:
            log.error("%s", said)
        self._error = said
