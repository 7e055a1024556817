"""A slice of one simulated card, outside a container, and what programs on the real runtimes see of it."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vgpu_runtime import config, region
from vgpu_runtime.config import CardLimit, SliceConfig
from vgpu_runtime.rocm import UNITS_VARIABLE, RocmLimit
from vgpu_runtime.sim import Kernel, SimCard, number, tree
from vgpu_runtime.sim.cards import PRESETS

LIMIT_MIB = 2048
REPOSITORY = Path(__file__).parents[2]
SHAPES = {
    name: PRESETS[name]
    for name in (
        "hygon-60cu-16gib",
        "hygon-120cu-64gib",
        "amd-rdna-80cu-16gib",
        "amd-104cu-64gib",
        "amd-304cu-192gib",
    )
}


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
    """`grant` is the mask of the card's units; `build` holds what `make native` builds."""

    folder: Path
    build: Path
    card: SimCard
    grant: int
    environment: dict[str, str]

    @property
    def units(self) -> int:
        """The compute units of the grant."""
        return self.grant.bit_count()

    @property
    def hip_units(self) -> int:
        """The same as HIP counts them: RDNA's pairs (workgroup processors) as one."""
        return self.units // 2 if self.card.paired else self.units

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
        lines = self.run(self.build / program, *arguments, **extra).stdout.splitlines()
        return dict(json.loads(lines[-1])) if lines else {}

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
        family = RocmLimit(card.gpu_id, 128, card.compute_units, card.xcc, card.paired, grant)
        limit = CardLimit("D", card.pci, "Z100", "hygon.com/dcu-mem:2", LIMIT_MIB << 20, family)
        (self.folder / "vgpu.conf").write_text(config.render(SliceConfig("pod", "main", (limit,))))
        region.create(self.folder / "usage")
        (self.folder / "driver.log").write_text("")
        return replace(self, grant=grant)


def make(
    folder: Path,
    build: Path,
    libraries: Path | None,
    card: SimCard,
    groups: int,
    kernel: Kernel = Kernel.EQUAL,
) -> SimSlice:
    """A machine with this card, and a slice of so many of its core groups."""
    (card,) = number([card])
    tree.build([card], folder / "sim", kernel)
    environment = os.environ | {
        "LD_LIBRARY_PATH": str(libraries or ""),
        "LD_PRELOAD": f"{build / 'libvgpu-test.so'}:{build / 'libsimkfd.so'}",
        "SIMKFD_DIR": str(folder / "sim"),
        "SIMKFD_LOG": str(folder / "driver.log"),
        "VGPU_TEST_FOLDER": str(folder),
    }
    environment.pop(UNITS_VARIABLE, None)
    return SimSlice(folder, build, card, 0, environment).resized(groups)
