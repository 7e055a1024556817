"""Calls that a person makes with kubectl: create pods, read them, delete them. Used by the demo and the trials."""

import json
from typing import Any

import urllib3

from device_plugin.core.errors import VgpuError

NAMESPACE = "default"
Object = dict[str, Any]


class ApiServerError(VgpuError):
    """The API server said no; the text is its own, `status` the HTTP status."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Person:
    """An ordinary user of an API server, in the namespace `default`."""

    def __init__(self, url: str, user: str = "demo-user") -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {user}", "Content-Type": "application/json"}
        self._http = urllib3.PoolManager(timeout=10.0, retries=False, maxsize=16)

    def create(self, manifest: Object) -> Object:
        """Create a pod from a manifest."""
        return self.call("POST", _pods(), manifest)

    def pods(self) -> list[Object]:
        """All pods, oldest first."""
        items: list[Object] = self.call("GET", _pods())["items"]
        return sorted(items, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def pod(self, name: str) -> Object | None:
        """The pod, or None if there is none of that name."""
        return next((pod for pod in self.pods() if pod["metadata"]["name"] == name), None)

    def delete(self, name: str, grace: int | None = None) -> None:
        """Delete a pod; `grace` 0 is `kubectl delete --force`."""
        self.call("DELETE", f"{_pods()}/{name}", None if grace is None else {"gracePeriodSeconds": grace})

    def remove(self, name: str, grace: int | None = None) -> None:
        """Delete a pod, without an error if it is gone already."""
        try:
            self.delete(name, grace)
        except ApiServerError as error:
            if error.status != 404:
                raise

    def events(self, pod: str) -> list[str]:
        """The events of a pod as `Reason: message`, oldest first."""
        items: list[Object] = self.call("GET", f"/api/v1/namespaces/{NAMESPACE}/events")["items"]
        return [f"{e['reason']}: {e['message']}" for e in items if e["involvedObject"]["name"] == pod]

    def call(self, method: str, path: str, body: Object | None = None) -> Object:
        """Send one request; returns the answer. Raises ApiServerError with the server's message."""
        content = None if body is None else json.dumps(body).encode()
        response = self._http.request(method, self._url + path, body=content, headers=self._headers)
        return decoded(response)


def decoded(response: urllib3.BaseHTTPResponse) -> Object:
    """The JSON of an answer. Raises ApiServerError for an answer that says no."""
    value: Object = json.loads(response.data)
    if response.status >= 400:
        raise ApiServerError(value.get("message", f"HTTP {response.status}"), response.status)
    return value


def _pods() -> str:
    return f"/api/v1/namespaces/{NAMESPACE}/pods"
