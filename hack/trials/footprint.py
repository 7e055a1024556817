"""Measure the idle node agent: memory, CPU and API writes with 8 cards and 32 slices.

    hack/agent-footprint [--seconds 30]

API server and kubelet are stand-ins in this process, the agent is a process of its own. Exits non-zero above 60 MiB,
1 % of a core, or a single write.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import urllib3

from device_plugin.core.cards import Inventory
from device_plugin.core.grants import Grant, Slice
from hack.embedded.apiserver import EmbeddedApiServer
from hack.embedded.cluster import AGENT_USER, ALLOCATOR_USER
from hack.embedded.kubelet import Kubelet
from hack.embedded.services import ServiceProcess
from hack.process_cost import cpu_seconds, rss_mib
from vgpu_runtime import sim

CARDS, SLICES = 8, 32
AGENT = f"{AGENT_USER}@n1"
MOST_MIB, MOST_CPU, MOST_WRITES = 50.0, 1.0, 0
T = TypeVar("T")
PODS = "/api/v1/namespaces/default/pods"


def main() -> int:
    """Start it all, wait until it is quiet, measure."""
    parser = argparse.ArgumentParser(prog="hack/agent-footprint", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    seconds = parser.parse_args().seconds
    root = Path(tempfile.mkdtemp(prefix="foot-"))
    api = EmbeddedApiServer()
    api.start()
    started: list[str] = []
    kubelet = Kubelet(
        "n1",
        root,
        api.url,
        "system:node:n1",
        on_start=lambda pod, *_: started.append(pod["metadata"]["name"]),
    )
    kubelet.start()
    agent = start_agent(root, api.url, kubelet)
    try:
        cards = until("an inventory that serves", lambda: serving(api.url))
        place(api.url, cards)
        until(f"{SLICES} containers", lambda: len(started) == SLICES)
        time.sleep(3)
        return measure(agent.pid, api, seconds)
    finally:
        agent.kill()
        kubelet.stop()
        api.stop()
        shutil.rmtree(root)


def start_agent(root: Path, url: str, kubelet: Kubelet) -> ServiceProcess:
    """The agent's process on a machine of simulated cards."""
    sim.build(
        sim.parse(f"version: v1\ncards: [{{preset: hygon-60cu-16gib, count: {CARDS}}}]"), root / "machine"
    )
    sim.add_driver(root / "machine")
    (root / "token").write_text(AGENT)
    flags = {
        "kube-server": url, "kube-token-file": root / "token", "node-name": "n1", "root": root / "machine",
        "kubelet-dir": kubelet.kubelet_dir, "cdi-dir": kubelet.cdi_dir,
        "process-groups": kubelet.process_groups, "state-dir": root / "state", "http-listen": "127.0.0.1:0",
    }  # fmt: skip
    words = [word for flag, value in flags.items() for word in (f"--{flag}", str(value))]
    agent = ServiceProcess("agent", ["node", *words], root / "agent.log", {})
    agent.start()
    agent.wait()
    return agent


def serving(url: str) -> Inventory | None:
    """The node's inventory once its agent serves."""
    node = urllib3.request("GET", f"{url}/api/v1/nodes/n1").json()
    text = node.get("metadata", {}).get("annotations", {}).get("vgpu.io/cards")
    found = Inventory.decode(text) if text else None
    return found if found is not None and found.serving else None


def place(url: str, inventory: Inventory) -> None:
    """Four slices on each card, with grants of our own: this script plays the allocator."""
    headers = {"Authorization": f"Bearer {ALLOCATOR_USER}"}
    for i in range(SLICES):
        quarter = i // CARDS
        slice_ = Slice(inventory.cards[i % CARDS].uuid, 4092, tuple(range(15 * quarter, 15 * quarter + 15)))
        limits = {"hygon.com/dcu-mem": "4", "hygon.com/dcu-cores": "15"}
        spec = {
            "schedulerName": "vgpu-scheduler",
            "containers": [{"name": "main", "image": "host", "resources": {"limits": limits}}],
        }
        pod = {"metadata": {"name": f"p{i}"}, "spec": spec}
        uid = urllib3.request("POST", url + PODS, json=pod, headers=headers).json()["metadata"]["uid"]
        grant = Grant(uid, "n1", {"main": (slice_,)}).encode()
        metadata = {"name": f"p{i}", "uid": uid, "annotations": {"vgpu.io/grant": grant}}
        binding = {"metadata": metadata, "target": {"kind": "Node", "name": "n1"}}
        answer = urllib3.request("POST", f"{url}{PODS}/p{i}/binding", json=binding, headers=headers)
        if answer.status >= 300:
            raise SystemExit(answer.data.decode())


def measure(pid: int, api: EmbeddedApiServer, seconds: float) -> int:
    """Watch it do nothing; returns the exit status."""
    api.forget_requests()
    before = cpu_seconds(pid)
    time.sleep(seconds)
    cpu = 100 * (cpu_seconds(pid) - before) / seconds
    writes = api.writes[AGENT]
    rss = rss_mib(pid)
    print(f"{CARDS} cards, {SLICES} slices, {seconds:.0f} s idle")
    print(f"RSS {rss:.1f} MiB (at most {MOST_MIB:.0f}), CPU {cpu:.2f} % of a core (at most {MOST_CPU:.0f})")
    print(f"API writes {writes} (at most {MOST_WRITES})")
    return int(rss > MOST_MIB or cpu > MOST_CPU or writes > MOST_WRITES)


def until(what: str, look: Callable[[], T | None]) -> T:
    """The first true result of `look`. Exits the program after 60 s."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.1)
    raise SystemExit(f"no {what} within 60 s")


if __name__ == "__main__":
    sys.exit(main())
