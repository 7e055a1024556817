"""Slices of Hygon's cards start, end, are killed and restart at random, with real processes on the simulated driver.

hack/hygon-slices runs this test for longer.
"""

import os
import random
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from device_plugin.core.contract.grants import Slice
from device_plugin.core.pods import Pod
from device_plugin.node.slices.admission import NotNowError
from device_plugin.node.stages import allocate, inject
from device_plugin.node.vendors.port import NoVendorIdError
from tests.builders.cards import MEM
from tests.node.parts import Parts, Peer
from vgpu_runtime.sim import records

STARTS = int(os.environ.get("HYGON_SLICES_STARTS", "250"))
CARDS = "version: v1\ncards: [{preset: hygon-80cu-64gib, count: 8}, {preset: hygon-120cu-64gib, count: 8}]\n"
PLACES, GROUPS, MIB = 4, 10, 2046
# A record rests for a second after its last process; reading it takes a moment more.
REST_SECONDS = 1.5


@dataclass
class Place:
    """A quarter of a card, and the container in it: its pod, its processes, and the pipe of its last start.

    `claimed` is true if the pod asked by a ResourceClaim.
    """

    number: int
    card: str
    cores: tuple[int, ...]
    root: Path
    pod: Pod | None = None
    claimed: bool = False
    pipe: int | None = None
    processes: list["subprocess.Popen[str]"] = field(default_factory=list)

    @property
    def tickets(self) -> list[str]:
        return [f"dcu-mem-{2 * self.number}", f"dcu-mem-{2 * self.number + 1}"]


class Node:
    """A node of 16 cards, on which containers come and go. `lost` are programs that found no device."""

    def __init__(self, folder: Path, probe: Path, rng: random.Random) -> None:
        self.folder, self.probe, self.rng = folder, probe, rng
        self.peer = Peer()
        self.parts = Parts(folder, self.peer, CARDS)
        self.parts.start()
        uuids = self.parts.uuids
        self.places = [
            Place(
                number,
                uuids[number // PLACES],
                tuple(range(first, first + GROUPS)),
                folder / f"root-{number}",
            )
            for number in range(PLACES * len(uuids))
            for first in [number % PLACES * GROUPS]
        ]
        self.starts = self.waits = self.pods = 0
        self.lost: list[str] = []
        self.left: dict[tuple[str, int], float] = {}

    def step(self) -> None:
        """Something happens in one place: a start, a second process, a kill and a restart, or the pod's end."""
        place = self.rng.choice(self.places)
        chance = self.rng.random()
        if place.pod is None or not place.processes:
            self.start(place)
        elif chance < 0.2:
            self.run(place)
        elif chance < 0.6:
            self.kill(place)
            self.start(place)
        elif chance < 0.99:
            self.kill(place)
            self.end(place)
        else:
            self.restart_agent()

    def start(self, place: Place) -> None:
        """The kubelet starts the container, of a new pod if there is none; it tries again later after a refusal."""
        pod = place.pod or self.bind(place)
        try:
            if place.claimed:
                self.prepare(pod)
            else:
                self.parts.starts.pre_start(MEM, place.tickets)
        except (NotNowError, NoVendorIdError):
            self.waits += 1
            return
        (record,) = [each for each in self.parts.records.all() if each.pod == pod.uid]
        place.pipe = record.vendor_ids[place.card]
        (name,) = record.names.values()
        (source,) = [mount.source for mount in self.parts.edits(f"vgpu.io/slice={name}").mounts
                     if mount.target == "/etc/vdev/docker/vdev0.conf"]  # fmt: skip
        link = place.root / "etc/vdev/docker/vdev0.conf"
        link.parent.mkdir(parents=True, exist_ok=True)
        (place.root / "opt/hyhal").mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(source)
        self.peer.living.add(pod.uid)
        self.run(place)

    def bind(self, place: Place) -> Pod:
        """A new pod is placed here, which asks by a claim or in its limits."""
        self.pods += 1
        name, slices = f"p{self.pods}", [Slice(place.card, MIB, place.cores)]
        place.claimed = self.rng.random() < 0.5
        if place.claimed:
            place.pod = self.parts.bind_claims(name, {"main": slices})
        else:
            place.pod = self.parts.bind(name, slices, {MEM: "2"})
            self.parts.hold(place.pod, {MEM: place.tickets})
        return place.pod

    def prepare(self, pod: Pod) -> None:
        """The kubelet asks once for a claim; before a further start the agent renews the pipe by itself."""
        record = self.parts.records.get(pod.uid, "main")
        if record is None:
            self.parts.prepare(pod)
        else:
            self.parts.injector.renew(record)

    def run(self, place: Place) -> None:
        """A program of the container opens the driver and allocates memory of the card."""
        self.starts += 1
        device = str(self.parts.uuids.index(place.card))
        process = subprocess.Popen(
            [self.probe, "--device", device, "hold", "100"],
            env={
                "LD_PRELOAD": str(self.probe.parent / "libsimkfd.so"),
                "SIMKFD_DIR": str(self.parts.machine),
                "SIMKFD_ROOT": str(place.root),
            },
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout
        answer = process.stdout.readline()
        place.processes.append(process)
        if "hipSuccess" not in answer:
            self.lost.append(f"start {self.starts}, card {device}, pipe {place.pipe}: {answer}")

    def kill(self, place: Place) -> None:
        """All processes of the container are killed."""
        for process in place.processes:
            process.kill()
            process.communicate()
        place.processes.clear()
        assert place.pipe is not None
        self.left[place.card, place.pipe] = time.monotonic()

    def end(self, place: Place) -> None:
        assert place.pod is not None
        self.peer.living.discard(place.pod.uid)
        if place.claimed:
            self.parts.claims.unprepare(f"claim-{place.pod.uid}-main", 0.0)
        self.parts.end(place.pod)
        self.parts.reclaimer.sweep()
        place.pod = None

    def restart_agent(self) -> None:
        """The agent is killed; its successor knows only its records and what the driver shows."""
        self.parts = Parts(self.folder, self.peer, CARDS)
        self.parts.start()

    def check(self) -> None:
        """No two live pipes are alike, each live slice has a record, and each record is a slice's."""
        live = [(place.card, place.pipe) for place in self.places if place.processes]
        assert len(live) == len(set(live))
        uuids, now = self.parts.uuids, time.monotonic()
        shown = {(uuids[record.card], record.pipe) for record in records.read(self.parts.machine)}
        assert set(live) <= shown
        strangers = {each for each in shown - set(live) if now - self.left.get(each, 0.0) > REST_SECONDS}
        assert not strangers


@pytest.mark.no_cover
def test_no_start_loses_its_card_and_each_record_is_a_slices(
    tmp_path: Path, native: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = int(os.environ.get("HYGON_SLICES_SEED", random.randrange(1 << 30)))
    print(f"seed {seed}")
    monkeypatch.setattr(allocate, "WAIT_SECONDS", 0.0)
    monkeypatch.setattr(inject, "MOST_SECONDS", 0.0)
    node = Node(tmp_path, native / "vgpu-kfd-probe", random.Random(seed))
    try:
        checked = 0
        while node.starts < STARTS:
            node.step()
            if node.starts // 50 > checked:
                checked = node.starts // 50
                node.check()
    finally:
        for place in node.places:
            for process in place.processes:
                process.kill()
                process.communicate()
    print(f"{node.starts} starts of {node.pods} pods, {node.waits} waits, {len(node.lost)} without a card")
    assert not node.lost
