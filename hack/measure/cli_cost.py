"""CPU time and memory of a command of `vgpu` on a large cluster, and of kubectl for the lists of `cards`, in pairs.

    hack/cli-cost
    hack/cli-cost --nodes 500 --slices 6800 --kubectl ~/bin/kubectl
    hack/cli-cost why          # of a pod that fits nowhere
    hack/cli-cost fit          # of 8 pods, and how many more fit

A server on this machine answers with pages that were made before the first measurement, in the wire format of a real
API server: lists of metadata for `vgpu cards`, whole objects for `why` and `fit`, and for `kubectl get` Tables with the
metadata of their rows.
"""

import argparse
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

from hack.embedded.kubeconfig import kubeconfig_text
from hack.measure.large_cluster import (
    METADATA,
    TABLE,
    WAITS,
    WHOLE,
    as_bytes,
    pages,
    waiting_pod,
    whole_pages,
)


class ProgramCost(NamedTuple):
    """The cost of a program: its CPU seconds (user and system), and its largest resident memory in MiB."""

    cpu: float
    mib: float


EMPTY = as_bytes({
    "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
    "metadata": {"resourceVersion": "1"}, "items": [],
})  # fmt: skip
NOT_FOUND = as_bytes({
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


COMMANDS = {
    "cards": ["cards"],
    "why": ["why", WAITS, "-n", "default"],
    "fit": ["fit", "--mem", "4", "--cores", "15", "--count", "8"],
}
MOST_CPU, MOST_MIB = 2.0, 300.0
"""The limits for `vgpu cards`: CPU seconds, and MiB."""


def serve(node_count: int, slices: int, whole: bool, ready: Connection, stop: Any) -> None:
    """Make the pages of all lists, and answer requests with them until `stop` is set."""
    made = (whole_pages if whole else pages)(node_count, slices)
    single = {path: as_bytes(answer) for path, answer in DISCOVERY.items()}
    single[f"/api/v1/namespaces/default/pods/{WAITS}"] = as_bytes(waiting_pod())
    form = WHOLE if whole else METADATA

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1  # head and body in one write

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            asked = TABLE if "as=Table" in (self.headers.get("Accept") or "") else form
            if "phase!=Running" in query.get("fieldSelector", ""):
                self._answer(EMPTY)
            elif (found := made.get((url.path, asked))) is not None:
                self._answer(found[int(query.get("continue", "0"))])
            else:
                self._answer(single.get(url.path, NOT_FOUND), 200 if url.path in single else 404)

        def _answer(self, body: bytes, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    size = sum(map(len, (*made["/api/v1/pods", form], *made["/api/v1/nodes", form])))
    per_pod = sum(map(len, made["/api/v1/pods", form])) / slices
    ready.send((server.server_address[1], size, per_pod))
    Thread(target=server.serve_forever, daemon=True).start()
    stop.wait()
    os._exit(0)  # skip freeing the pages, which takes time


def cost(words: Sequence[str], environment: Mapping[str, str]) -> ProgramCost:
    """Run a program and measure it. Raises SystemExit if it fails."""
    with subprocess.Popen(words, env={**os.environ, **environment}, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{words[0]} fails")
    return ProgramCost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


@contextmanager
def served(node_count: int, slices: int, *, whole: bool) -> Iterator[tuple[str, int, float]]:
    """Start a server with these objects; yields its kubeconfig's folder, the bytes of its lists, and of one pod."""
    ours, theirs = Pipe()
    stop = Event()
    process = Process(target=serve, args=(node_count, slices, whole, theirs, stop))
    process.start()
    port, size, per_pod = ours.recv()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config").write_text(kubeconfig_text(f"http://127.0.0.1:{port}", "none"))
        try:
            yield folder, size, per_pod
        finally:
            stop.set()
            process.join()


def main() -> int:
    """Measure vgpu and kubectl, in pairs; returns 1 if `vgpu cards` exceeds a limit."""
    parser = argparse.ArgumentParser(
        prog="hack/cli-cost", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", nargs="?", choices=COMMANDS, default="cards", help="default: cards")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--slices", type=int, default=68_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument(
        "--kubectl", default=shutil.which("kubectl"), help="default: that of $PATH; without one, no pairs"
    )
    args = parser.parse_args()
    vgpu = [sys.executable, "-m", "device_plugin", *COMMANDS[args.command]]
    cards = args.command == "cards"
    ours, theirs = list[ProgramCost](), list[ProgramCost]()
    with served(args.nodes, args.slices, whole=not cards) as (folder, size, per_pod):
        environment = {"KUBECONFIG": f"{folder}/config", "HOME": folder}
        print(f"lists: {size / 2**20:.0f} MiB, {per_pod:.0f} bytes a pod")
        for _ in range(args.pairs):
            ours.append(cost(vgpu, environment))
            print(f"vgpu {args.command}: {ours[-1].cpu:.2f} s of CPU, {ours[-1].mib:.0f} MiB", flush=True)
            if args.kubectl and cards:
                both = [
                    cost([args.kubectl, "get", *what], environment) for what in (["nodes"], ["pods", "-A"])
                ]
                theirs.append(ProgramCost(sum(each.cpu for each in both), max(each.mib for each in both)))
                print(f"kubectl get nodes, pods -A: {theirs[-1].cpu:.2f} s of CPU, {theirs[-1].mib:.0f} MiB")
    cpu, mib = statistics.median(each.cpu for each in ours), max(each.mib for each in ours)
    print(f"median of vgpu {args.command}: {cpu:.2f} s of CPU; largest: {mib:.0f} MiB")
    failed = cards and (cpu > MOST_CPU or mib > MOST_MIB)
    if theirs:
        times = statistics.median(one.cpu / other.cpu for one, other in zip(ours, theirs, strict=True))
        print(f"median of the pairs: {times:.2f} of kubectl's CPU time")
        failed = failed or times > 0.5
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
