import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from vgpu_runtime import sim
from vgpu_runtime.sim import hip


@dataclass(frozen=True)
class Machine:
    """A machine of simulated cards, and the probes that look at it, from a container with this root folder."""

    folder: Path
    build: Path
    libraries: Path | None = None
    root: Path = Path("/")

    @property
    def log(self) -> Path:
        return self.folder / "driver.log"

    def environment(self) -> dict[str, str]:
        return os.environ | {
            "LD_PRELOAD": str(self.build / "libsimkfd.so"),
            "LD_LIBRARY_PATH": str(self.libraries or ""),
            "SIMKFD_DIR": str(self.folder),
            "SIMKFD_ROOT": str(self.root),
            "SIMKFD_LOG": str(self.log),
            "VGPU_PROBE_HIP": hip.LIBRARY,
        }

    def start(self, *arguments: str | int, program: str = "vgpu-kfd-probe") -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [self.build / program, *map(str, arguments)],
            env=self.environment(),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def ask(self, *arguments: str | int, program: str = "vgpu-kfd-probe") -> dict[str, Any]:
        """What the probe prints."""
        with self.start(*arguments, program=program) as process:
            output, errors = process.communicate(timeout=60)
        assert output, errors
        return dict(json.loads(output))

    def hip(self, *arguments: str | int) -> dict[str, Any]:
        """The same through the real HIP runtime."""
        return self.ask(*arguments, program="vgpu-probe")

    def logged(self, what: str) -> list[dict[str, str]]:
        """The calls of one kind that reached the driver."""
        lines = [line.split() for line in self.log.read_text().splitlines()]
        return [dict(word.split("=") for word in words if "=" in word) for words in lines if what in words]


@pytest.fixture
def kfd_machine(native: Path, tmp_path: Path) -> Callable[[str], Machine]:
    """Builds a machine from the list of cards in YAML; it has no HIP."""

    def build(cards: str) -> Machine:
        sim.build(sim.parse(f"version: v1\ncards: {cards}"), tmp_path / "machine")
        return Machine(tmp_path / "machine", native)

    return build


@pytest.fixture
def machine(kfd_machine: Callable[[str], Machine], hip_libraries: Path) -> Callable[[str], Machine]:
    """The same with the real HIP runtime."""

    def build(cards: str) -> Machine:
        without = kfd_machine(cards)
        return Machine(without.folder, without.build, hip_libraries)

    return build
