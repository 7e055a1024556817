"""The few API calls of a person with kubectl: create, get, list, delete, events, logs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import urllib3
import yaml

from device_plugin.cli.demo.session import Session
from device_plugin.core.errors import VgpuError

NAMESPACE = "default"
USER = "demo-user"
Object = dict[str, Any]


class ApiError(VgpuError):
    """The API server said no; the text is its own."""


class Api:
    """The API server of a session, as an ordinary user sees it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._http = urllib3.PoolManager(
            headers={"Authorization": f"Bearer {USER}"}, timeout=10.0, retries=False
        )

    def create(self, manifest: Object) -> Object:
        """Create a pod in the default namespace."""
        return self._call("POST", self._pods(), manifest)

    def pod(self, name: str) -> Object | None:
        """The pod, or None if there is none of that name."""
        return next((pod for pod in self.pods() if pod["metadata"]["name"] == name), None)

    def pods(self) -> list[Object]:
        """All pods, oldest first."""
        items: list[Object] = self._call("GET", self._pods())["items"]
        return sorted(items, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def delete(self, name: str) -> None:
        """Delete a pod, as kubectl does."""
        self._call("DELETE", f"{self._pods()}/{name}")

    def nodes(self) -> list[Object]:
        """All nodes."""
        items: list[Object] = self._call("GET", "/api/v1/nodes")["items"]
        return items

    def events(self, pod: str) -> list[str]:
        """What events say of a pod: `Reason: message`, oldest first."""
        items: list[Object] = self._call("GET", f"/api/v1/namespaces/{NAMESPACE}/events")["items"]
        return [f"{e['reason']}: {e['message']}" for e in items if e["involvedObject"]["name"] == pod]

    def logs(self, pod: str) -> str:
        """What the pod's containers printed so far."""
        files = sorted(Path(self._session.root).glob(f"*/logs/{NAMESPACE}_{pod}_*.log"))
        return "".join(file.read_text(errors="replace") for file in files)

    def explain(self) -> Object:
        """The cluster service's ledger."""
        url = f"{self._session.explain}/explain"
        return self._decode(self._http.request("GET", url, headers={"Accept": "application/json"}))

    def cards(self) -> list[Object]:
        """Every card in that ledger."""
        return [card for node in self.explain()["nodes"] for card in node["cards"]]

    def metrics(self, service: str) -> list[str]:
        """The sample lines of one service's /metrics."""
        text = self._http.request("GET", f"{self._session.metrics[service]}/metrics").data.decode()
        return [line for line in text.splitlines() if line and not line.startswith("#")]

    def _pods(self) -> str:
        return f"/api/v1/namespaces/{NAMESPACE}/pods"

    def _call(self, method: str, path: str, body: Object | None = None) -> Object:
        content = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {USER}", "Content-Type": "application/json"}
        return self._decode(
            self._http.request(method, self._session.api + path, body=content, headers=headers)
        )

    @staticmethod
    def _decode(response: urllib3.BaseHTTPResponse) -> Object:
        value: Object = json.loads(response.data)
        if response.status >= 400:
            raise ApiError(value.get("message", f"HTTP {response.status}"))
        return value


def manifests(file: Path) -> Iterator[Object]:
    """The pods of a YAML file. Raises ApiError that names the file."""
    try:
        documents = [d for d in yaml.safe_load_all(file.read_text(encoding="utf-8")) if d is not None]
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise ApiError(f"{file}: {error}") from None
    for document in documents:
        if not isinstance(document, dict) or document.get("kind") != "Pod":
            raise ApiError(f"{file}: the demo cluster runs pods: every document needs `kind: Pod`")
        yield document
