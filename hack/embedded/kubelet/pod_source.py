"""The pods bound to this node: list, then watch, for ever."""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from hack.embedded.kubelet.api import WATCH_SECONDS, Api, ApiError, UnreachableError

log = logging.getLogger(__name__)


class PodSource:
    """Calls `on_list(pods)` after each list and `on_event(kind, pod)` for each change, all on one thread."""

    def __init__(
        self,
        api: Api,
        node: str,
        on_list: Callable[[list[Mapping[str, Any]]], None],
        on_event: Callable[[str, Mapping[str, Any]], None],
        retry: float,
    ) -> None:
        self._api = api
        self._node = node
        self._on_list = on_list
        self._on_event = on_event
        self._retry = retry
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"pods-{node}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; the API client must be closed first or at the same time, for a watch to let go."""
        self._stop.set()
        self._api.close()
        self._thread.join()

    def _run(self) -> None:
        version = ""
        while not self._stop.is_set():
            try:
                version = self._follow(version)
            except ApiError as error:
                log.warning("watching pods: %s", error)
                version = ""
                self._stop.wait(self._retry)
            except UnreachableError as error:
                log.debug("watching pods: %s", error)
                self._stop.wait(self._retry)

    def _follow(self, version: str) -> str:
        selector = {"fieldSelector": f"spec.nodeName={self._node}"}
        if not version:
            answer = self._api.call("GET", f"/api/v1/pods?{urlencode(selector)}")
            version = answer["metadata"]["resourceVersion"]
            self._on_list(answer["items"])
        query = {**selector, "watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true",
                 "timeoutSeconds": str(WATCH_SECONDS)}  # fmt: skip
        try:
            for event in self._api.watch(f"/api/v1/pods?{urlencode(query)}"):
                if self._stop.is_set():
                    break
                if event["type"] == "ERROR":
                    return ""
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    self._on_event(event["type"], event["object"])
        except UnreachableError:
            self._stop.wait(self._retry)
        return version
