"""CPU time and memory of `vgpu cards` on a large cluster, and of kubectl for the same lists, in pairs.

    hack/cli-cost
    hack/cli-cost --nodes 500 --slices 6800 --kubectl ~/bin/kubectl

A server on this machine answers with pages that were made before the first measurement, in the wire format of a real
API server: lists of metadata for `vgpu`, Tables with the metadata of their rows for `kubectl get`. Objects are as large
as those of a cluster: pods of a ReplicaSet with the managed fields of controller, allocator and kubelet.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import Event, Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from device_plugin.core import annotations
from device_plugin.core.cards import Card, Inventory
from device_plugin.core.grants import CardSize, Grant, Slice

CARDS, MEM_MIB, UNITS, GROUPS, MOST = 8, 16368, 16, 60, 4
PAGE = 500
LIST, TABLE = "list", "table"
TIME = "2026-01-01T00:00:00Z"
POD_COLUMNS = (
    "Name",
    "Ready",
    "Status",
    "Restarts",
    "Age",
    "IP",
    "Node",
    "Nominated Node",
    "Readiness Gates",
)
NODE_COLUMNS = (
    "Name", "Status", "Roles", "Age", "Version", "Internal-IP", "External-IP", "OS-Image", "Kernel-Version",
    "Container-Runtime",
)  # fmt: skip
Pages = Mapping[tuple[str, str], Sequence[bytes]]
"""By path and format, the pages of a list."""


class ProgramCost(NamedTuple):
    """What a program took: CPU seconds, user and system, and its largest resident memory in MiB."""

    cpu: float
    mib: float


def uuid(node: int, card: int) -> str:
    """The name of a card."""
    return f"GPU-{node:012x}{card:04x}"


def metadata(
    name: str, namespace: str, number: int, kept: Mapping[str, str], managers: Sequence[Any]
) -> dict[str, Any]:
    """The metadata of an object, as the API server writes it."""
    return {
        "name": name, **({"namespace": namespace} if namespace else {}),
        "uid": f"{number:08x}-0000-4000-8000-{number:012x}", "resourceVersion": str(1_000_000 + number),
        "creationTimestamp": TIME, "annotations": dict(kept), "managedFields": managers,
    }  # fmt: skip


def managed(manager: str, fields: Mapping[str, Any], subresource: str = "") -> dict[str, Any]:
    """An entry of managedFields."""
    entry = {
        "manager": manager, "operation": "Update", "apiVersion": "v1", "time": TIME, "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }  # fmt: skip
    return entry | ({"subresource": subresource} if subresource else {})


def tree(*names: str, depth: int = 2) -> dict[str, Any]:
    """Fields as managedFields has them."""
    return {
        f"f:{name}": {".": {}, **{f"f:{part}{i}": {} for i, part in enumerate(names[:depth])}}
        for name in names
    }


def nodes(count: int) -> list[dict[str, Any]]:
    """The metadata of nodes with their inventories."""
    made = []
    for n in range(count):
        cards = tuple(
            Card(
                uuid(n, c),
                "hygon.com/dcu",
                "Z100",
                f"0000:{c:02x}:00.0",
                MEM_MIB,
                UNITS,
                GROUPS,
                GROUPS,
                1,
                MOST,
                0,
            )
            for c in range(CARDS)
        )
        kept = {
            annotations.CARDS: Inventory(cards).encode(),
            "node.alpha.kubernetes.io/ttl": "30",
            "volumes.kubernetes.io/controller-managed-attach-detach": "true",
        }
        fields = [
            managed("kubelet", {"f:metadata": tree("annotations", "labels")}),
            managed(
                "kube-controller-manager",
                {"f:metadata": tree("annotations"), "f:spec": tree("podCIDR", "podCIDRs")},
            ),
            managed("vgpu-node", {"f:metadata": tree("annotations")}),
            managed(
                "kubelet",
                {"f:status": tree("allocatable", "capacity", "conditions", "images", "nodeInfo")},
                "status",
            ),
        ]
        labels = {
            "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "kubernetes.io/hostname": f"node-{n:05}", "kubernetes.io/os": "linux", "vgpu.io/node": "true",
        }  # fmt: skip
        made.append({**metadata(f"node-{n:05}", "", n, kept, fields), "labels": labels})
    return made


def pods(node_count: int, count: int) -> list[dict[str, Any]]:
    """The metadata of pods, each with a slice, spread over all cards."""
    made = []
    status = tree(
        "conditions",
        "containerStatuses",
        "hostIP",
        "hostIPs",
        "phase",
        "podIP",
        "podIPs",
        "startTime",
        depth=5,
    )
    for p in range(count):
        place, round_ = p % (node_count * CARDS), p // (node_count * CARDS)
        n, c = divmod(place, CARDS)
        meta = metadata(f"worker-6c5d8f7b9-{p:05x}", f"team-{p % 100}", 10_000_000 + p, {}, [
            managed("kube-controller-manager", {
                "f:metadata": tree("generateName", "labels", "ownerReferences"),
                "f:spec": tree("containers", "dnsPolicy", "restartPolicy", "schedulerName", "securityContext", depth=4),
            }),
            managed("kubelet", {"f:status": status}, "status"),
        ])  # fmt: skip
        held = Slice(uuid(n, c), 4092, tuple(range(round_ * 15, round_ * 15 + 15)))
        grant = Grant(
            meta["uid"], f"node-{n:05}", {"main": (held,)}, cards={held.card: CardSize(MEM_MIB, MOST)}
        )
        meta["annotations"][annotations.GRANT] = grant.encode()
        owner = {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "worker-6c5d8f7b9", "uid": meta["uid"],
            "controller": True, "blockOwnerDeletion": True,
        }  # fmt: skip
        labels = {"app": "worker", "pod-template-hash": "6c5d8f7b9", "team": f"team-{p % 100}"}
        made.append(
            {**meta, "generateName": "worker-6c5d8f7b9-", "labels": labels, "ownerReferences": [owner]}
        )
    return made


def paged(items: Sequence[Mapping[str, Any]], cells: Sequence[str]) -> Iterator[tuple[bytes, bytes]]:
    """The pages of a list: as metadata, and as a Table."""
    for start in range(0, len(items), PAGE):
        part, rest = items[start : start + PAGE], len(items) - start - PAGE
        token = {"continue": str(start // PAGE + 1), "remainingItemCount": rest} if rest > 0 else {}
        meta = {"resourceVersion": "2000000", **token}
        group = {"apiVersion": "meta.k8s.io/v1"}
        partial: list[dict[str, Any]] = [
            {"kind": "PartialObjectMetadata", **group, "metadata": item} for item in part
        ]
        columns = [
            {"name": name, "type": "string", "format": "", "description": name, "priority": int(i > 4)}
            for i, name in enumerate(cells)
        ]
        rows = [{"cells": [item["metadata"]["name"], *cells[1:]], "object": item} for item in partial]
        yield (
            _bytes(
                {
                    "kind": "PartialObjectMetadataList",
                    **group,
                    "metadata": meta,
                    "items": [_bare(i) for i in partial],
                }
            ),
            _bytes({"kind": "Table", **group, "metadata": meta, "columnDefinitions": columns, "rows": rows}),
        )


def _bare(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """An object of a list, which names no kind."""
    return {"metadata": item["metadata"]}


def _bytes(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def pages(node_count: int, slices: int) -> Pages:
    """All pages."""
    made: dict[tuple[str, str], Sequence[bytes]] = {}
    for path, items, cells in (
        ("/api/v1/nodes", nodes(node_count), NODE_COLUMNS),
        ("/api/v1/pods", pods(node_count, slices), POD_COLUMNS),
    ):
        both = [*paged(items, cells)]
        made[path, LIST] = [page for page, _ in both]
        made[path, TABLE] = [table for _, table in both]
    return made


EMPTY = _bytes({
    "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
    "metadata": {"resourceVersion": "1"}, "items": [],
})  # fmt: skip
NOT_FOUND = _bytes({
    "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
    "message": "the server could not find the requested resource",
})  # fmt: skip
DISCOVERY: dict[str, dict[str, Any]] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {
        "kind": "APIResourceList", "groupVersion": "v1",
        "resources": [
            {"name": name, "singularName": name[:-1], "namespaced": name == "pods", "kind": name[:-1].title(),
             "verbs": ["get", "list", "watch"]}
            for name in ("pods", "nodes")
        ],
    },
}  # fmt: skip


def serve(node_count: int, slices: int, ready: Connection, stop: Any) -> None:
    """Make the pages, and answer with them until `stop` is set."""
    made = pages(node_count, slices)
    discovery = {path: _bytes(answer) for path, answer in DISCOVERY.items()}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1  # head and body in one write

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            form = TABLE if "as=Table" in (self.headers.get("Accept") or "") else LIST
            if "phase!=Running" in query.get("fieldSelector", ""):
                self._answer(EMPTY)
            elif (found := made.get((url.path, form))) is not None:
                self._answer(found[int(query.get("continue", "0"))])
            else:
                self._answer(discovery.get(url.path, NOT_FOUND), 200 if url.path in discovery else 404)

        def _answer(self, body: bytes, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    size = sum(map(len, (*made["/api/v1/pods", LIST], *made["/api/v1/nodes", LIST])))
    per_pod = sum(map(len, made["/api/v1/pods", LIST])) / slices
    ready.send((server.server_address[1], size, per_pod))
    Thread(target=server.serve_forever, daemon=True).start()
    stop.wait()
    os._exit(0)  # the pages need no tidy end


def cost(words: Sequence[str], environment: Mapping[str, str]) -> ProgramCost:
    """Run a program and measure it. Raises SystemExit if it fails."""
    with subprocess.Popen(words, env={**os.environ, **environment}, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{words[0]} fails")
    return ProgramCost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


@contextmanager
def served(node_count: int, slices: int) -> Iterator[tuple[str, int, float]]:
    """A server with these objects: a kubeconfig for it, the bytes of its lists of metadata, and those of one pod."""
    ours, theirs = Pipe()
    stop = Event()
    process = Process(target=serve, args=(node_count, slices, theirs, stop))
    process.start()
    port, size, per_pod = ours.recv()
    with tempfile.TemporaryDirectory() as folder:
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "c", "user": {"token": "none"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        }  # fmt: skip
        (Path(folder) / "config").write_text(json.dumps(config))
        try:
            yield folder, size, per_pod
        finally:
            stop.set()
            process.join()


def main() -> int:
    """Measure both, in pairs; the exit status is 1 where `vgpu cards` costs more than it may."""
    parser = argparse.ArgumentParser(
        prog="hack/cli-cost", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--slices", type=int, default=68_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument(
        "--kubectl", default=shutil.which("kubectl"), help="default: that of $PATH; without one, no pairs"
    )
    args = parser.parse_args()
    vgpu = [sys.executable, "-m", "device_plugin", "cards"]
    ours, theirs = list[ProgramCost](), list[ProgramCost]()
    with served(args.nodes, args.slices) as (folder, size, per_pod):
        environment = {"KUBECONFIG": f"{folder}/config", "HOME": folder}
        print(f"lists of metadata: {size / 2**20:.0f} MiB, {per_pod:.0f} bytes a pod")
        for _ in range(args.pairs):
            ours.append(cost(vgpu, environment))
            print(f"vgpu cards: {ours[-1].cpu:.2f} s of CPU, {ours[-1].mib:.0f} MiB")
            if args.kubectl:
                both = [
                    cost([args.kubectl, "get", *what], environment) for what in (["nodes"], ["pods", "-A"])
                ]
                theirs.append(ProgramCost(sum(each.cpu for each in both), max(each.mib for each in both)))
                print(f"kubectl get nodes, pods -A: {theirs[-1].cpu:.2f} s of CPU, {theirs[-1].mib:.0f} MiB")
    cpu, mib = statistics.median(each.cpu for each in ours), max(each.mib for each in ours)
    print(f"median of vgpu cards: {cpu:.2f} s of CPU; largest: {mib:.0f} MiB")
    failed = cpu > 2 or mib > 300
    if theirs:
        times = statistics.median(one.cpu / other.cpu for one, other in zip(ours, theirs, strict=True))
        print(f"median of the pairs: {times:.2f} of kubectl's CPU time")
        failed = failed or times > 0.5
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
