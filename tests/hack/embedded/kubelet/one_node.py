"""One embedded node under test: API server, kubelet, plugins, and what tests do with them."""

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import urllib3

from hack.embedded.apiserver import EmbeddedApiServer
from hack.embedded.kubelet import Kubelet, KubeletTiming
from tests.contract.kubelet.late_plugin import Folders, LatePlugin
from tests.files import found

MEM, CORES = "lab.io/dcu-mem", "lab.io/dcu-cores"
FAST = KubeletTiming(
    retry=0.02, backoff=0.02, backoff_limit=0.1, node_status=0.01, create=0.02, api_retry=0.05
)
DEADLINE = 20.0


def until(condition: Callable[[], object], what: str = "", seconds: float = DEADLINE) -> None:
    """Return once `condition` holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not in time: {what or condition}"
        time.sleep(0.005)


def container(name: str = "main", mem: int = 0, cores: int = 0, **more: Any) -> dict[str, Any]:
    limits = {MEM: str(mem)} if mem else {}
    if cores:
        limits[CORES] = str(cores)
    extra = more.pop("limits", {})
    return {"name": name, "image": "host", "resources": {"limits": {**limits, **extra}}, **more}


class OneNode:
    """Started on construction; `close` ends everything and checks that nothing is left."""

    def __init__(self, timing: KubeletTiming = FAST, seed: int = 1, **options: Any) -> None:
        # Not pytest's tmp_path: unix socket paths are short.
        self.root = Path(tempfile.mkdtemp(prefix="kubelet-"))
        self.api = EmbeddedApiServer()
        self.api.start()
        self.http = urllib3.PoolManager()
        self.kubelet = Kubelet(
            "n1", self.root, self.api.url, "system:node:n1", seed, timing=timing, **options
        )
        self.kubelet.start()
        self.plugins: list[LatePlugin] = []

    def close(self) -> None:
        self.kubelet.stop()
        for plugin in self.plugins:
            plugin.close()
        self.http.clear()
        self.api.stop()
        left = [path for path in found(self.root, "groups/**/*") if path.is_file()]
        shutil.rmtree(self.root)
        assert not left, f"containers left behind: {left}"

    def plugin(self, resource: str, count: int) -> LatePlugin:
        """A plugin that serves, registered and counted."""
        slices = self.root / "slices"
        folders = Folders(self.kubelet.kubelet_dir, self.kubelet.cdi_dir, slices, slices)
        plugin = LatePlugin(folders, resource, count)
        self.plugins.append(plugin)
        plugin.serve()
        until(
            lambda: self.node()["status"].get("allocatable", {}).get(resource) == str(count),
            f"{resource} advertised",
        )
        return plugin

    def call(self, method: str, path: str, body: object = None, content: str = "application/json") -> Any:
        headers = {"Content-Type": content}
        response = self.http.request(method, self.api.url + path, json=body, headers=headers)
        assert response.status < 300 or response.status == 404, response.data
        return response.json()

    def node(self) -> dict[str, Any]:
        """The Node, or one without capacity until the kubelet made it."""
        found = self.call("GET", "/api/v1/nodes/n1")
        # The kubelet makes the node first, and then says how it is.
        return {"status": {}, **found} if found["kind"] == "Node" else {"status": {}}

    def create(self, name: str, *containers: dict[str, Any], **spec: object) -> Any:
        """A pod that is bound to the node."""
        body = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": "n1", "containers": list(containers or [container()]), **spec},
        }
        return self.call("POST", "/api/v1/namespaces/default/pods", body)

    def pod(self, name: str) -> Any:
        """The pod, or an answer without `spec` if it is gone."""
        return self.call("GET", f"/api/v1/namespaces/default/pods/{name}")

    def gone(self, name: str) -> bool:
        return "spec" not in self.pod(name)

    def status(self, name: str) -> Any:
        return self.pod(name).get("status", {})

    def phase(self, name: str) -> str:
        return str(self.status(name).get("phase", ""))

    def until_phase(self, name: str, phase: str) -> Any:
        until(lambda: self.phase(name) == phase, f"{name} {phase}")
        return self.status(name)

    def delete(self, name: str, grace: int | None = None) -> None:
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        self.call("DELETE", f"/api/v1/namespaces/default/pods/{name}", options)

    def events(self, name: str) -> list[tuple[str, str]]:
        """(reason, message) of the events about a pod."""
        items = self.call("GET", "/api/v1/namespaces/default/events")["items"]
        return [(e["reason"], e["message"]) for e in items if e["involvedObject"]["name"] == name]

    def log(self, name: str, container_name: str = "main") -> str:
        return (self.kubelet.logs / f"default_{name}_{container_name}.log").read_text()

    def groups(self, pod: dict[str, Any]) -> list[Path]:
        """The process-group files of a pod's live containers."""
        return found(self.kubelet.process_groups, f"pod{pod['metadata']['uid']}/*")
