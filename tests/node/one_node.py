"""A node with a real agent process, and a test that plays the allocator: it binds pods with grants of its own."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import urllib3

from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.grants import Grant, Slice
from hack.embedded.apiserver import EmbeddedApiServer
from hack.embedded.apiserver.admission import ADMIN
from hack.embedded.kubelet import Kubelet, KubeletTiming
from hack.embedded.services import ServiceProcess
from tests.builders import objects
from tests.builders.cards import CARDS, CORES, MEM
from tests.deadline import until
from tests.files import found
from vgpu_runtime import sim

ALLOCATOR = "system:serviceaccount:vgpu-system:vgpu-cluster"
AGENT = "system:serviceaccount:vgpu-system:vgpu-node@n1"
FAST = KubeletTiming(
    retry=0.02, backoff=0.02, backoff_limit=0.1, node_status=0.01, create=0.02, api_retry=0.05
)


class OneNode:
    """API server, kubelet with minimal containers, agent. `seen` has the files of each container that started."""

    def __init__(self, cards: str = CARDS, flags: Sequence[str] = (), *, kubelet: bool = True) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="node-"))
        self.machine, self.state = self.root / "machine", self.root / "state"
        sim.build(sim.parse(cards), self.machine)
        sim.add_driver(self.machine)
        self.api = EmbeddedApiServer()
        self.api.start()
        self.http = urllib3.PoolManager()
        self.seen: dict[str, list[Mapping[str, bytes]]] = {}
        self.kubelet = Kubelet(
            "n1", self.root, self.api.url, "system:node:n1", 1, timing=FAST, on_start=self._started
        )
        token = self.root / "token"
        token.write_text(AGENT)
        arguments = {
            "--kube-server": self.api.url, "--kube-token-file": token, "--node-name": "n1", "--root": self.machine,
            "--kubelet-dir": self.kubelet.kubelet_dir, "--cdi-dir": self.kubelet.cdi_dir,
            "--process-groups": self.kubelet.process_groups, "--state-dir": self.state,
            "--http-listen": "127.0.0.1:0", "--drain-seconds": "0",
        }  # fmt: skip
        self._words = ["node", *(str(word) for pair in arguments.items() for word in pair), *flags]
        self.agent = self.service()
        if kubelet:
            self.kubelet.start()
        self.agent.start()
        self.agent.wait()

    def service(self, *flags: str) -> ServiceProcess:
        """An agent for this node, not started."""
        return ServiceProcess("agent", [*self._words, *flags], self.root / "agent.log", {})

    def close(self) -> None:
        self.agent.kill()
        self.kubelet.stop()
        self.http.clear()
        self.api.stop()
        shutil.rmtree(self.root)

    def _started(
        self, pod: Mapping[str, Any], _name: str, files: Mapping[str, bytes], _env: Mapping[str, str]
    ) -> None:
        self.seen.setdefault(pod["metadata"]["name"], []).append(files)

    def call(self, method: str, path: str, body: object = None, user: str = ALLOCATOR) -> Any:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {user}"}
        response = self.http.request(method, self.api.url + path, json=body, headers=headers)
        assert response.status < 300 or response.status == 404, response.data
        return response.json()

    def inventory(self) -> Inventory | None:
        text = (
            self.call("GET", "/api/v1/nodes/n1")
            .get("metadata", {})
            .get("annotations", {})
            .get("vgpu.io/cards")
        )
        return Inventory.decode(text) if text else None

    def until_serving(self) -> Inventory:
        until(lambda: (found := self.inventory()) is not None and found.serving, self.agent.log_tail())
        found = self.inventory()
        assert found is not None
        return found

    def place(self, name: str, slice_: Slice, mem: int, cores: int) -> str:
        """Create and bind a pod; returns its UID."""
        limits = {MEM: str(mem), CORES: str(cores)}
        pod = self.call("POST", self._pods(), objects.pod(name, limits, schedulerName="vgpu-scheduler"))
        uid = str(pod["metadata"]["uid"])
        grant = Grant(uid, "n1", {"main": (slice_,)})
        carried = {"vgpu.io/grant": grant.encode()}
        body = objects.binding(name, "n1", uid=uid, annotations=carried)
        self.call("POST", f"{self._pods()}/{name}/binding", body)
        return uid

    def phase(self, name: str) -> str:
        pod = self.call("GET", f"{self._pods()}/{name}")
        return str(pod["status"].get("phase")) if pod["kind"] == "Pod" else "gone"

    def delete(self, name: str) -> None:
        self.call("DELETE", f"{self._pods()}/{name}", {"gracePeriodSeconds": 0}, ADMIN)

    def probe(self, path: str) -> tuple[int, str]:
        """Status and body of the agent's own HTTP."""
        answer = self.http.request("GET", f"http://{self.agent.addresses['http']}{path}")
        return answer.status, answer.data.decode()

    def left(self) -> list[Path]:
        """Files of slices, and specs."""
        slices = [path for path in found(self.state / "slices", "**/*") if path.is_file()]
        return [*slices, *self.kubelet.cdi_dir.glob("*.json")]

    def events(self) -> list[str]:
        """The messages of all events of the node."""
        listed = self.call("GET", "/api/v1/namespaces/default/events")["items"]
        return [event["message"] for event in listed if event["involvedObject"]["kind"] == "Node"]

    def allocatable(self) -> dict[str, str]:
        """What the node offers; nothing until the kubelet has made it."""
        found = self.call("GET", "/api/v1/nodes/n1")
        return dict(found["status"].get("allocatable", {})) if found["kind"] == "Node" else {}

    @staticmethod
    def _pods() -> str:
        return "/api/v1/namespaces/default/pods"
