"""Nodes and pods on the embedded API server, as nobody runs them, and a kubeconfig for it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from device_plugin.core.contract import annotations
from device_plugin.core.contract.cards import Inventory, ReportedSlice, SliceState
from device_plugin.core.contract.grants import Grant, Slice
from hack.embedded.apiserver import EmbeddedApiServer
from hack.embedded.kubeconfig import kubeconfig_text
from tests.builders import objects
from tests.builders.cards import MEM, card, inventory
from tests.contract.cluster import PODS, Cluster

ADMIN = "token-of-admin"
USERS = {
    ADMIN: "system:admin",
    "token-of-allocator": "system:serviceaccount:vgpu-system:vgpu-cluster",
    **{
        f"token-of-{node}": f"system:serviceaccount:vgpu-system:vgpu-node@{node}"
        for node in ("n1", "n2", "n3")
    },
    "token-of-controller": "system:serviceaccount:kube-system:job-controller",
    "token-of-collector": "system:serviceaccount:kube-system:pod-garbage-collector",
}


class Fleet:
    def __init__(self, server: EmbeddedApiServer, folder: Path) -> None:
        identities = {
            token.removeprefix("token-of-"): {"Authorization": f"Bearer {token}"} for token in USERS
        }
        self.server = server
        self.url = server.url
        self._api = Cluster(server.url.removeprefix("http://"), identities)
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(kubeconfig_text(server.url, ADMIN, "c"))

    def close(self) -> None:
        self._api.close()

    def stop(self) -> None:
        """The API server is away until it is started again."""
        self._api.close()
        self.server.stop()

    def start(self) -> None:
        """The API server is back, with the objects of before."""
        self.server.start()

    def node(self, name: str, count: int = 1, uuid: str = "", *, claims: bool = False) -> None:
        """A node with cards `NAME-0`, `NAME-1` of 16 units and 60 core groups, or with the one card `uuid`.

        With `claims` its agent prepares ResourceClaims.
        """
        self._api.post("/api/v1/nodes", objects.node(name))
        shown = Inventory((card(uuid),)) if uuid else inventory(name, count)
        self._annotate(name, replace(shown, claims=claims))

    def publish(self, node: str, uuid: str) -> None:
        """The node's agent shows one card, under this name."""
        self._annotate(node, Inventory((card(uuid),)))

    def outlived(self, node: str, *pods: str, serving: bool = True) -> None:
        """Processes of these pods, which are gone, hold a slice of the node's first card; with none, no more."""
        slices = (Slice(f"{node}-0", 1023, (0,)),)
        self._annotate(
            node,
            replace(
                inventory(node),
                serving=serving,
                slices=tuple(
                    ReportedSlice(f"uid-{pod}", "default", pod, "main", SliceState.OUTLIVING, slices)
                    for pod in pods
                ),
            ),
        )

    def _annotate(self, node: str, shared: Inventory) -> None:
        cards = {"metadata": {"annotations": {annotations.CARDS: shared.encode()}}}
        answer = self._api.patch(f"/api/v1/nodes/{node}", cards, role=node)
        assert answer.code == 200, answer.body

    def pod(
        self, name: str, mem: int, card: str = "", owner: str = "ReplicaSet", grace: int = 0,
        labels: Mapping[str, str] | None = None, node: str = "", grant_of: str = "", percent: int = 0,
        idle_limit: str = "",
    ) -> None:  # fmt: skip
        """A pod that asks for `mem` units; with a `card` (of `node`) it holds them there, from core group 0.

        With `grant_of`, its grant is that of the pod with this UID; with `percent` it says that percent were asked.
        """
        controller = {"apiVersion": "apps/v1", "kind": owner, "name": "owner", "uid": "u", "controller": True}
        metadata = {"labels": labels or {}, "ownerReferences": [controller] if owner else []}
        metadata["annotations"] = {annotations.IDLE_LIMIT: idle_limit} if idle_limit else {}
        spec = {"schedulerName": "vgpu-scheduler", "terminationGracePeriodSeconds": grace}
        body = objects.pod(name, {MEM: mem}, metadata, **spec)
        made = self._api.post(PODS, body)
        assert made.code == 201, made.body
        if card:
            node = node or card.partition("-")[0]
            given = Slice(card, mem * 1023, tuple(range(mem * 60 // 16 + (mem * 60 % 16 > 0))), percent)
            grant = Grant(grant_of or made.body["metadata"]["uid"], node, {"main": (given,)})
            bind = objects.binding(name, node, annotations={annotations.GRANT: grant.encode()})
            answer = self._api.post(f"{PODS}/{name}/binding", bind, "allocator")
            assert answer.code == 201, answer.body

    def pods(self) -> dict[str, Any]:
        """The pods by name."""
        return {item["metadata"]["name"]: item for item in self._api.get(PODS).body["items"]}

    def get(self, path: str) -> Any:
        """An object of the API."""
        return self._api.get(path).body

    def post(self, path: str, body: object) -> None:
        """Create an object."""
        made = self._api.post(path, body)
        assert made.code == 201, made.body

    def patch(self, path: str, change: object) -> None:
        """Merge a change into an object."""
        changed = self._api.patch(path, change)
        assert changed.code == 200, changed.body

    def say(self, pod: str, **status: Any) -> None:
        """Merge this into the status of a pod, as one who may end it: here no kubelet runs."""
        said = self._api.patch(f"{PODS}/{pod}/status", {"status": status}, "collector")
        assert said.code == 200, said.body

    def remove(self, name: str) -> None:
        """The pod's kubelet has ended it."""
        self._api.delete(f"{PODS}/{name}?gracePeriodSeconds=0")

    def cordoned(self, node: str) -> str:
        """The node's annotation."""
        found = self._api.get(f"/api/v1/nodes/{node}").body["metadata"].get("annotations", {})
        return str(found.get(annotations.CORDONED, ""))

    def delete(self, path: str) -> None:
        """Delete an object, with what it owns."""
        gone = self._api.delete(f"{path}?propagationPolicy=Background")
        assert gone.code == 200, gone.body
