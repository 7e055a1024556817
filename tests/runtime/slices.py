"""A slice of one simulated card, outside a container, and what programs on the real runtimes see of it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vgpu_runtime import config, region, vdev
from vgpu_runtime.config import CardLimit, SliceConfig
from vgpu_runtime.rocm import UNITS_VARIABLE, RocmLimit
from vgpu_runtime.sim import Kernel, SimCard, hip, number, tree
from vgpu_runtime.sim.cards import PRESETS
from vgpu_runtime.sim.userlands import Root

LIMIT_MIB = 2048
REPOSITORY = Path(__file__).parents[2]
# By card, the first and the last HIP that gives it a queue; "" for no last one.
_KNOWN = {
    "hygon-60cu-16gib": (hip.VERSION, ""),
    "hygon-120cu-64gib": (hip.VERSION, ""),
    "amd-rdna-80cu-16gib": (hip.VERSION, ""),
    "amd-104cu-64gib": (hip.VERSION, ""),
    "amd-304cu-192gib": (hip.VERSION, hip.VERSION),
    "amd-gfx942-304cu-192gib": ("5.7.1", ""),
    "amd-gfx1100-96cu-48gib": ("5.7.1", ""),
    "amd-gfx1201-64cu-16gib": ("6.4.3", ""),
    "amd-gfx950-256cu-288gib": ("7.2.4", ""),
}


def shapes(version: str) -> dict[str, SimCard]:
    """The cards that HIP of this version knows."""
    return {
        name: PRESETS[name]
        for name, (first, last) in _KNOWN.items()
        if first <= version and (not last or version <= last)
    }


SHAPES = shapes(hip.VERSION)
# The release of HIP that the suites run on, and its cards: hack/nightly sets the variable.
CHOSEN = os.environ.get("VGPU_HIP", hip.VERSION)
CHOSEN_SHAPES = shapes(CHOSEN)


def group_units(card: SimCard) -> int:
    """Compute units that are granted together: one on each XCC, whole pairs."""
    return card.xcc * (2 if card.paired else 1)


def all_groups(card: SimCard) -> int:
    """The core groups of the whole card."""
    return card.compute_units // group_units(card)


def sizes(card: SimCard) -> list[int]:
    """Five sizes of a slice, in core groups: the least, one to three quarters of the card, and all but one group."""
    groups = all_groups(card)
    return [1, groups // 4, groups // 2, groups * 3 // 4, groups - 1]


@dataclass(frozen=True)
class Outcome:
    """What became of a program's queues. `wrong` masks at the driver are not exactly the grant."""

    error: str
    units: int
    queues: int
    wrong: int


@dataclass(frozen=True)
class SimSlice:
    """`grant` is the mask of the card's units; `build` holds what `make native` builds.

    Programs of HIP run in the userland `root`, without one on this machine's libc. With `vendor` the maker's runtime
    and driver make a virtual device of the slice, by a vdev file.
    """

    folder: Path
    build: Path
    card: SimCard
    grant: int
    environment: dict[str, str]
    vendor: bool = False
    root: Root | None = None

    @property
    def units(self) -> int:
        """The compute units of the grant."""
        return self.grant.bit_count()

    @property
    def hip_units(self) -> int:
        """The same as HIP counts them: RDNA's pairs (workgroup processors) as one."""
        return self.units // 2 if self.card.paired else self.units

    def on_hip(self, program: Path) -> list[str]:
        """The command that runs a program of this machine on the HIP of the slice."""
        return self.root.command(program) if self.root else [str(program)]

    def run(self, *command: str | Path, **extra: str) -> "subprocess.CompletedProcess[str]":
        """A program of the slice, ended."""
        return subprocess.run(
            command, env=self.environment | extra, text=True, capture_output=True, timeout=120, check=False
        )

    def python(self, script: str, **extra: str) -> "subprocess.CompletedProcess[str]":
        """A Python program with `kfd`, GPU and MIB in scope (its device is the stub's until `kfd.use`)."""
        prelude = f"import os\nfrom tests.runtime import kfd\nGPU, MIB = {self.card.gpu_id}, {1 << 20}\n"
        return self.run(sys.executable, "-S", "-c", prelude + script, PYTHONPATH=str(REPOSITORY), **extra)

    def probe(self, *arguments: str, program: str = "vgpu-probe", **extra: str) -> dict[str, Any]:
        """What the probe prints; {} if it does not come to that."""
        lines = self.run(*self.on_hip(self.build / program), *arguments, **extra).stdout.splitlines()
        return dict(json.loads(lines[-1])) if lines else {}

    def holding(self, mib: int) -> AbstractContextManager[None]:
        """Another process of the slice holds so much memory."""
        command = [*self.on_hip(self.build / "vgpu-probe"), "hold", str(mib)]
        return holding(command, self.environment)

    def calls(self, what: str) -> list[dict[str, str]]:
        """The calls of one kind that reached the driver."""
        log = self.folder / "driver.log"
        lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        return [dict(word.split("=") for word in words if "=" in word) for words in lines if what in words]

    def queue_masks(self) -> dict[tuple[str, str], list[int]]:
        """The masks of each queue (process, queue) that reached the driver, in order."""
        masks: dict[tuple[str, str], list[int]] = {
            (call["pid"], call["queue"]): [] for call in self.calls("queue-create")
        }
        for call in self.calls("queue-mask"):
            masks[call["pid"], call["queue"]].append(int(call["mask"], 16))
        return masks

    def outcome(self, program: str = "vgpu-probe", **extra: str) -> Outcome:
        """Of a program that asks for its number of units, and of one that creates queues."""
        units = self.probe("info", program=program, **extra).get("units", 0)
        error = self.probe("queue", program=program, **extra).get("error", "it died")
        masks = list(self.queue_masks().values())
        wrong = sum(not queue or set(queue) != {self.grant} for queue in masks)
        return Outcome(error, units, len(masks), wrong)

    def resized(self, groups: int) -> "SimSlice":
        """The slice of so many core groups in its place; the first group is left out where there is one to spare."""
        card, units = self.card, groups * group_units(self.card)
        grant = ((1 << units) - 1) << min(group_units(card), card.compute_units - units)
        family = RocmLimit(card.gpu_id, 128, card.compute_units, card.xcc, card.paired, grant, self.vendor)
        limit = CardLimit("D", card.pci, "Z100", "hygon.com/dcu-mem:2", LIMIT_MIB << 20, family)
        if self.vendor:
            vdev_file = self.folder / "root/etc/vdev/docker/vdev0.conf"
            vdev_file.parent.mkdir(parents=True, exist_ok=True)
            (self.folder / "root/opt/hyhal").mkdir(parents=True, exist_ok=True)
            vdev_file.write_text(vdev.render(limit, vdev_id=0, pipe_id=0))
        (self.folder / "vgpu.conf").write_text(config.render(SliceConfig("pod", "main", (limit,))))
        region.create(self.folder / "usage")
        (self.folder / "driver.log").write_text("")
        return replace(self, grant=grant)


@contextmanager
def holding(command: Sequence[str | Path], environment: Mapping[str, str]) -> Iterator[None]:
    """The probe's command `hold` has memory, as another process of the slice."""
    with subprocess.Popen(
        command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout
        assert "hipSuccess" in holder.stdout.readline()
        yield
        holder.communicate(timeout=60)


def make(
    folder: Path,
    build: Path,
    hip_libraries: Path | Root | None,
    card: SimCard,
    groups: int,
    kernel: Kernel = Kernel.EQUAL,
    *,
    vendor: bool = False,
) -> SimSlice:
    """A machine with this card, and a slice of so many of its core groups.

    `hip_libraries` is a folder with the HIP of Debian 12, or a userland with a newer one.
    """
    (card,) = number([card])
    tree.build([card], folder / "sim", kernel)
    root = hip_libraries if isinstance(hip_libraries, Root) else None
    environment = os.environ | {
        "LD_LIBRARY_PATH": str(hip_libraries or "") if root is None else "",
        "LD_PRELOAD": f"{build / 'libvgpu-test.so'}:{build / 'libsimkfd.so'}",
        "SIMKFD_DIR": str(folder / "sim"),
        "SIMKFD_LOG": str(folder / "driver.log"),
        "VGPU_TEST_FOLDER": str(folder),
        "VGPU_PROBE_HIP": root.userland.library if root else hip.LIBRARY,
    }
    environment.pop(UNITS_VARIABLE, None)
    if vendor:
        environment["SIMKFD_ROOT"] = str(folder / "root")
    return SimSlice(folder, build, card, 0, environment, vendor, root).resized(groups)
