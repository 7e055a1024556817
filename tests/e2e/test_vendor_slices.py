"""The agents are killed anywhere while containers with slices of Hygon's cards start and end: each has its own slice.

A container of a lost slice would end by itself: its program ends if it cannot hold card memory.
"""

import glob
import json
import os
import random
import re
import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.deadline import eventually as soon
from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl, is_ready
from tests.e2e.machines import Machines
from tests.e2e.slices import Held, check_disjoint, held
from tests.e2e.waiting import eventually
from tests.e2e.workloads import slice_pod
from vgpu_runtime.sim import records

pytestmark = pytest.mark.disturbs

# In each round every agent is killed once. The kubelet starts an agent again later after each kill: 0, 10, 20, 40 s.
ROUNDS = int(os.environ.get("VGPU_E2E_KILL_ROUNDS", "1"))
# Most pods at a time: more would keep a slow machine from all else.
MOST = 12
# Most programs that are killed in a round; their containers start again.
KILLED_PROGRAMS = 2
# Memory units and core groups; any four of these fit on a card, and more slices does no card give.
SIZES = ((1, 5), (2, 10), (3, 15), (4, 15))
HOLD = ("vgpu-probe", "hold", "100")
AGENT = "vgpu node"
# The reason of a pod that the kubelet rejects because no agent answers. Its owner makes another pod.
REJECTED = "UnexpectedAdmissionError"

Slice = tuple[str, int, int]
"""The PCI address of the card, the pipe, and the memory limit in MiB."""


class Node:
    """Reads the agent's vdev files on a node's disk, and the records that the node's simulated driver keeps."""

    def __init__(self, machines: Machines, name: str) -> None:
        self.name = name
        process = machines.run(name, "sh", "-c", "echo $PPID").strip()
        self._root = Path(f"/proc/{process}/root")
        self._cards = re.findall(r" pci=(\S+) ", (self._sim / "driver.conf").read_text())

    @property
    def _sim(self) -> Path:
        return self._root / "var/lib/vgpu-sim"

    def files(self) -> dict[str, list[Slice]]:
        """The slices in the vdev files on the node, by pod UID."""
        found: dict[str, list[Slice]] = {}
        # Path.glob of Python 3.11 fails if a folder is removed meanwhile.
        for path in map(Path, glob.glob(f"{self._root}/var/lib/vgpu/slices/*/*/vdev*.conf")):  # noqa: PTH207
            try:
                values = dict(re.findall(r"^(\w+): (\S+)", path.read_text(), re.MULTILINE))
            except FileNotFoundError:
                continue
            one = (values["PciBusId"], int(values["pipe_id"]), int(values["mem"]))
            found.setdefault(path.parent.parent.name, []).append(one)
        return found

    def records(self) -> list[Slice]:
        """The slices that the driver holds now."""
        return [
            (self._cards[each.card], each.pipe, each.vram_bytes >> 20) for each in records.read(self._sim)
        ]


class Load:
    """Pods that come and go while agents are killed. `rejected` counts the pods that the kubelet rejected meanwhile."""

    def __init__(self, kubectl: Kubectl, rng: random.Random) -> None:
        self._kubectl = kubectl
        self._rng = rng
        # By pod name: its memory units and core groups; how often its program was killed.
        self.sizes: dict[str, tuple[int, int]] = {}
        self._killed: Counter[str] = Counter()
        # By node: the pod that was created last.
        self._last: dict[str, str] = {}
        self.rejected = 0

    def __str__(self) -> str:
        """The numbers of pods, of killed programs, and of pods that the kubelet rejected."""
        killed = self._killed.total()
        return (
            f"{len(self.sizes)} pods, {killed} programs killed, {self.rejected} pods rejected by the kubelet"
        )

    def round(self, on: Sequence[Node]) -> None:
        """In random order: delete some pods, kill the programs of others, create new pods, and kill each agent once."""
        names = [pod["metadata"]["name"] for pod in self._kubectl.items()]
        self._rng.shuffle(names)
        ended = self._rng.randint(0, len(names))
        steps: list[Callable[[], None]] = [
            *(partial(self._delete, name) for name in names[:ended]),
            *(partial(self._kill_program, name) for name in names[ended : ended + KILLED_PROGRAMS]),
            *[self._create] * (MOST - len(names) + ended),
            *(partial(self._kill_agent, node) for node in on),
        ]
        self._rng.shuffle(steps)
        self._last.clear()
        for step in steps:
            step()

    def _create(self) -> None:
        name, node, size = f"p{len(self.sizes)}", self._rng.choice(nodes.names()), self._rng.choice(SIZES)
        self.sizes[name] = size
        self._kubectl.create(
            slice_pod(name, *size, command=HOLD, restartPolicy="OnFailure", **nodes.on(node))
        )
        self._last[node] = str(self._kubectl.pod(name)["metadata"]["uid"])

    def _delete(self, name: str) -> None:
        self._kubectl("delete", "pod", name, "--wait=false")

    def _kill_program(self, name: str) -> None:
        (process,) = service.processes(str(self._kubectl.pod(name)["metadata"]["uid"]), " ".join(HOLD))
        os.kill(process, signal.SIGKILL)
        self._killed[name] += 1

    def _kill_agent(self, node: Node) -> None:
        """Kill it at once, or when the node has the files of its newest pod, or the driver's record of that pod."""
        last = self._last.get(node.name, "")
        moments: dict[str, Callable[[], bool]] = {
            "at once": lambda: True,
            "at its files": lambda: last in node.files(),
            "at its record": lambda: not {*node.files().get(last, ())}.isdisjoint(node.records()),
        }
        moment = self._rng.choice([*moments] if last else ["at once"])
        # The pod may wait for room until a later step deletes another one.
        soon(moments[moment], 20)
        service.signal_all(service.agent(node.name), AGENT, signal.SIGKILL)
        print(f"{node.name}: killed with {len(self.sizes)} pods, {moment}: {moments[moment]()}")

    def running(self) -> list[Any] | None:
        """The pods, once each one runs or was rejected; None before that. Those that were rejected are deleted."""
        pods = self._kubectl.items()
        for pod in pods:
            if pod["status"]["phase"] == "Failed" and not _deleted(pod):
                assert (pod["status"].get("reason"), bool(pod["status"]["message"])) == (REJECTED, True)
                self.rejected += 1
                self._delete(pod["metadata"]["name"])
        return list(pods) if all(map(self._runs, pods)) else None

    def _runs(self, pod: Any) -> bool:
        """True if its program runs, again after each kill; asserts that no program ended by itself."""
        status, killed = pod["status"], self._killed[pod["metadata"]["name"]]
        restarts = sum(each["restartCount"] for each in status.get("containerStatuses", ()))
        found_no_card = restarts > killed or (status["phase"] == "Succeeded" and not _deleted(pod))
        assert not found_no_card, (pod["metadata"]["name"], killed, status)
        return is_ready(pod) and not _deleted(pod) and restarts == killed


def _deleted(pod: Any) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def check_node(node: Node, pods: AbstractSet[str]) -> None:
    """Each of these pods has a pipe of its own and a record of the driver, and nobody else has."""
    assert eventually(lambda: node.files().keys() == pods, 30), (node.name, node.files(), pods)
    slices = sorted(one for each in node.files().values() for one in each)
    pipes = {(card, pipe) for card, pipe, _ in slices}
    assert len(pipes) == len(slices) == len(pods), slices
    assert eventually(lambda: sorted(node.records()) == slices, 10), (node.name, node.records(), slices)


def check_limits(kubectl: Kubectl, name: str, cores: int) -> Held:
    """The slice of a pod; a program there sees the memory and the units of that slice."""
    (own,) = held(kubectl, name)
    seen = json.loads(kubectl.inside(name, "vgpu-probe", "info"))
    assert (seen["total_mib"], seen["units"]) == (own.mem_bytes >> 20, cores), name
    return own


def test_killed_agents_lose_no_slice_and_give_no_pipe_twice(
    kubectl: Kubectl, machines: Machines, rng: random.Random
) -> None:
    on, load = [Node(machines, name) for name in nodes.names()], Load(kubectl, rng)
    assert eventually(lambda: min(map(service.restarts, nodes.names())) >= 0, 60), "all agents are Ready"
    checked = 0
    for _ in range(ROUNDS):
        restarts = {name: service.restarts(name) for name in nodes.names()}
        load.round(on)
        assert eventually(partial(all_started_again, restarts), 120)
        pods = eventually(load.running, 120)
        assert pods is not None, kubectl("get", "pods", "--output=wide")
        for node in on:
            check_node(
                node, {each["metadata"]["uid"] for each in pods if each["spec"]["nodeName"] == node.name}
            )
        names = [each["metadata"]["name"] for each in pods]
        check_disjoint([check_limits(kubectl, name, load.sizes[name][1]) for name in names])
        checked += len(pods)
    print(f"{ROUNDS * len(on)} agents killed, {load}, {checked} slices checked")
    assert checked
    kubectl("delete", "pod", "--all", "--wait=false")
    for node in on:
        check_node(node, set())


def all_started_again(restarts: Mapping[str, int]) -> bool:
    """True if the agents of all nodes are Ready, after one more restart."""
    return all(service.restarts(name) > count for name, count in restarts.items())
