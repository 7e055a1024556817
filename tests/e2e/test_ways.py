"""Ways past the library that a program takes without ill will, in a pod: each is held, and no neighbour notices."""

import base64
import errno
import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from math import nan
from pathlib import Path

import pytest

from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl
from tests.e2e.slices import held
from tests.e2e.waiting import eventually
from tests.e2e.workloads import container, pod, slice_of, slice_pod
from tests.exposed import families
from vgpu_runtime import rocm
from vgpu_runtime.paths import SOURCES

HERE = Path(__file__).parent
MIB = 1 << 20
GIB = 4
NEIGHBOUR_MIB = 1024
# Of a slice of 4,092 MiB: once it fits, twice not.
MOST_MIB = 2500
TOO_MUCH_MIB = 4100
REFUSED = errno.ENOMEM
# As a profiler or a tracer has it: whatever is read at an offset seems to be zeroes.
OTHER_PRELOAD = r"""
#include <string.h>
#include <sys/types.h>
ssize_t pread(int fd, void *data, size_t size, off_t at)
{
    (void)fd, (void)at;
    memset(data, 0, size);
    return (ssize_t)size;
}
ssize_t pread64(int fd, void *data, size_t size, off_t at) { return pread(fd, data, size, at); }
"""
# The word that tests/e2e/ways.c knows, and what starts the program.
WAYS = {
    "plain": ("plain",),
    "cleared environment": ("plain", "env", "-i"),
    "another preload": ("plain", "env", "LD_PRELOAD=/ways/preload.so"),
    "RTLD_DEEPBIND": ("deepbind",),
    "render node": ("render",),
    "_Fork": ("_Fork",),
    "closed descriptors": ("closed",),
    "zeroes in the region": ("zeroed",),
}
SCRAPES = 5


def built(folder: Path) -> str:
    """The programs of these tests as a tar archive, in base64."""
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{SOURCES / 'include'}"]
    flags.append(f"-I{SOURCES / 'sim' / 'driver'}")
    (folder / "preload.c").write_text(OTHER_PRELOAD)
    shared = ["-shared", "-fPIC"]
    for source, target, more in (
        (HERE / "ways.c", "ways", []),
        (HERE / "take.c", "take.so", shared),
        (folder / "preload.c", "preload.so", shared),
    ):
        subprocess.run(["cc", *flags, *more, source, "-o", folder / target], check=True)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in ("ways", "take.so", "preload.so"):
            archive.add(folder / name, f"ways/{name}")
    return base64.b64encode(packed.getvalue()).decode()


class Pair:
    """Two pods on one card; `inside` has the programs, `beside` holds NEIGHBOUR_MIB and what HIP itself takes."""

    def __init__(self, kubectl: Kubectl) -> None:
        self.kubectl = kubectl
        config = rocm.parse(kubectl.inside("inside", "cat", "/etc/vgpu/vgpu.conf"))
        (card,) = config.cards
        self.card = card
        self._device = (str(card.family.gpu_id), str(card.family.render_minor))
        assert eventually(lambda: "hipSuccess" in kubectl("logs", "beside"), 20)
        self.read_again()
        self.beside_bytes = self.of_slice("memory_used_bytes", "beside")
        assert self.beside_bytes >= NEIGHBOUR_MIB * MIB
        self.others_bytes = self.on_card()

    def read_again(self) -> None:
        """Return once the agent's figures are of a moment after this call: its text is kept for a second."""
        age = self.sample("vgpu_inventory_age_seconds")
        assert eventually(lambda: self.sample("vgpu_inventory_age_seconds") != age, 10)

    @contextmanager
    def took(self, way: str, mib: int, *starter: str) -> Iterator[list[int]]:
        """The three errors that tests/e2e/ways.c prints; the program runs until the end of the context."""
        command = " ".join([*starter, "/ways/ways", way, "/ways/take.so", *self._device, str(mib)])
        # The file is there before the program is: the shell may return before its child has opened it.
        shell = f": > /ways/said; {command} > /ways/said 2> /ways/errors & echo $! > /ways/pid"
        self.kubectl.inside("inside", "sh", "-c", shell)
        try:
            said = eventually(lambda: self.kubectl.inside("inside", "cat", "/ways/said"), 20)
            assert said, self.kubectl.inside("inside", "cat", "/ways/errors")
            yield [int(word) for word in said.split()]
        finally:
            self.kubectl.inside("inside", "sh", "-c", "kill $(cat /ways/pid)")
            self.read_again()
            assert eventually(lambda: self.on_card() == self.others_bytes, 10), "the memory is free again"
            assert eventually(lambda: self.of_slice("processes", "inside") == 0, 10), (
                "all processes have ended"
            )

    def sample(self, metric: str, **labels: str) -> float:
        """The one sample of the node's agent with these labels; not a number while it has none."""
        found = families(service.SYSTEM.metrics(service.agent(nodes.first()), service.AGENT_PORT))
        samples = found[metric].samples if metric in found else []
        (value,) = [each.value for each in samples if labels.items() <= each.labels.items()] or [nan]
        return value

    def on_card(self) -> float:
        """Bytes that all processes hold, by the accounts of the simulated driver."""
        return self.sample("vgpu_card_memory_used_bytes", card=self.card.uuid)

    def of_slice(self, metric: str, name: str) -> float:
        """A sample of a pod's slice."""
        return self.sample(f"vgpu_slice_{metric}", namespace=self.kubectl.namespace, pod=name)


@pytest.fixture(scope="module")
def pair(kubectl_of_module: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    kubectl = kubectl_of_module
    here = nodes.on(nodes.first())
    hold = container(command=["vgpu-probe", "hold", str(NEIGHBOUR_MIB)], resources=slice_of(GIB, 15))
    kubectl.create(pod("beside", hold, **here), slice_pod("inside", GIB, 15, **here))
    kubectl.running()
    assert held(kubectl, "beside")[0].card == held(kubectl, "inside")[0].card, "the default policy packs"
    unpack = ("exec", "--stdin", "inside", "--", "sh", "-c", "base64 -d | tar -x -C /")
    kubectl(*unpack, given=built(tmp_path_factory.mktemp("ways")))
    return Pair(kubectl)


@pytest.fixture(autouse=True)
def neighbour(pair: Pair) -> Iterator[None]:
    """The neighbour notices nothing: its memory, what is left of its slice and its container are as they were."""
    yield
    assert pair.of_slice("memory_used_bytes", "beside") == pair.beside_bytes
    assert pair.of_slice("denied_allocations_total", "beside") == 0
    more = pair.kubectl.inside("beside", "vgpu-probe", "alloc", str(MOST_MIB))
    assert '"error":"hipSuccess"' in more
    # The node's figures may be of the moment in which it held that.
    assert eventually(lambda: pair.of_slice("memory_used_bytes", "beside") == pair.beside_bytes, 10)
    (status,) = pair.kubectl.pod("beside")["status"]["containerStatuses"]
    assert status["restartCount"] == 0


@pytest.mark.parametrize("name", WAYS)
def test_a_slice_is_held(pair: Pair, name: str) -> None:
    way, *starter = WAYS[name]
    with pair.took(way, MOST_MIB, *starter) as errors:
        assert errors == [0, REFUSED, REFUSED]
        pair.read_again()
        assert eventually(lambda: pair.on_card() == pair.others_bytes + MOST_MIB * MIB, 10), pair.on_card()
        assert pair.of_slice("memory_used_bytes", "inside") == MOST_MIB * MIB


def test_a_namespace_of_dlmopen_is_held(pair: Pair) -> None:
    """The simulated driver, a preload, is not in the namespace: an allocation that is not refused ends with ENOTTY."""
    with pair.took("namespace", MOST_MIB) as errors:
        assert errors[:2] == [errno.ENOTTY, errno.ENOTTY]
    denied = pair.of_slice("denied_allocations_total", "inside")
    with pair.took("namespace", TOO_MUCH_MIB) as errors:
        assert errors == [REFUSED] * 3
        assert eventually(lambda: pair.of_slice("denied_allocations_total", "inside") == denied + 3, 10)
        assert pair.on_card() == pair.others_bytes


def agent_seconds() -> float:
    """Seconds of CPU that the node's agent has used, but in its main thread, which turns a loop all the time.

    What the loop uses depends on how long the scrapes take, so on what else the machine does.
    """
    agent = service.SYSTEM.pod(service.agent(nodes.first()))
    (process,) = service.processes(str(agent["metadata"]["uid"]), "vgpu node")
    folder = Path(f"/proc/{process}")
    return cpu_seconds(folder) - cpu_seconds(folder / "task" / str(process))


def cpu_seconds(folder: Path) -> float:
    """Seconds of CPU of the process or the thread whose folder this is."""
    fields = (folder / "stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def scrapes(pair: Pair) -> float:
    """Seconds of CPU that the agent uses until it has read its sources SCRAPES times, which it does once a second."""
    before, ages = agent_seconds(), set[float]()

    def all_read() -> bool:
        ages.add(pair.sample("vgpu_inventory_age_seconds"))
        return len(ages) > SCRAPES

    assert eventually(all_read, 20)
    return agent_seconds() - before


def test_20000_locks_on_the_region_cost_the_agent_little(pair: Pair) -> None:
    usual = scrapes(pair)
    with pair.took("locks", MOST_MIB) as errors:
        assert errors == [0, REFUSED, REFUSED]
        beside = scrapes(pair)
    print(f"{SCRAPES} scrapes: {usual:.2f} s of CPU, {beside:.2f} s beside 20,000 locks")
    # With one query for each of the region's 128 slots it is 0.03 s more for each scrape.
    assert beside - usual < 0.02 * SCRAPES
