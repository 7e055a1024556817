"""The generated gRPC stubs are what the .proto files beside them give."""

import subprocess
import sys
from pathlib import Path

from vgpu_runtime.paths import SOURCES

REPOSITORY = SOURCES.parent
PB = Path("device_plugin/adapters/kubelet/pb")


def test_the_committed_stubs_are_those_that_protoc_makes(tmp_path: Path) -> None:
    protos = sorted(path.relative_to(REPOSITORY) for path in (REPOSITORY / PB).glob("*.proto"))
    outputs = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", "-I.", *outputs, *protos], cwd=REPOSITORY, check=True
    )
    made = sorted(path.name for path in (tmp_path / PB).iterdir())
    assert len(made) == 3 * len(protos)
    for name in made:
        assert (tmp_path / PB / name).read_text() == (REPOSITORY / PB / name).read_text(), (
            f"{name}: run make protos"
        )
