"""The kubelet's calls to the API server: JSON over kept connections, and a watch that can be interrupted."""

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import urllib3

WATCH_SECONDS = 300
MERGE = "application/merge-patch+json"


class ApiError(Exception):
    """The API server answered with an error; `status` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class UnreachableError(Exception):
    """The API server did not answer."""


class Api:
    """The API server at `url`, for the user whose bearer token is `token`."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._pool = urllib3.PoolManager(maxsize=4, retries=False)
        self._lock = threading.Lock()
        self._watching: urllib3.BaseHTTPResponse | None = None
        self._closed = False

    def call(self, method: str, path: str, body: object = None, content: str = "application/json") -> Any:
        """One request; returns the decoded answer. Raises ApiError and UnreachableError."""
        headers = {**self._headers, "Content-Type": content, "Accept": "application/json"}
        try:
            response = self._pool.request(
                method, self._url + path, body=None if body is None else json.dumps(body), headers=headers,
                timeout=urllib3.Timeout(connect=2, read=10),
            )  # fmt: skip
        except urllib3.exceptions.HTTPError as error:
            raise UnreachableError(str(error)) from error
        if response.status >= 400:
            raise ApiError(response.status, response.data.decode(errors="replace"))
        return json.loads(response.data)

    def watch(self, path: str) -> Iterator[Mapping[str, Any]]:
        """The events of a watch until the server or `close` ends it. Raises ApiError and UnreachableError."""
        timeout = urllib3.Timeout(connect=2, read=WATCH_SECONDS + 30)
        try:
            response = self._pool.request(
                "GET", self._url + path, headers=self._headers, preload_content=False, timeout=timeout
            )
            with self._lock:
                self._watching = response
                closed = self._closed
            try:
                if response.status >= 400:
                    raise ApiError(response.status, response.data.decode(errors="replace"))
                if not closed:
                    yield from self._events(response)
            finally:
                with self._lock:
                    self._watching = None
                response.close()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise UnreachableError(str(error)) from error

    def close(self) -> None:
        """End a running watch and close all connections."""
        with self._lock:
            self._closed = True
            if self._watching is not None:
                # It may be at its end already.
                with contextlib.suppress(OSError, RuntimeError):
                    self._watching.shutdown()
        self._pool.clear()

    @staticmethod
    def _events(response: urllib3.BaseHTTPResponse) -> Iterator[Mapping[str, Any]]:
        pending = b""
        for chunk in response.stream(amt=None):
            pending += chunk
            *lines, pending = pending.split(b"\n")
            for line in lines:
                if line.strip():
                    yield json.loads(line)
