"""What is installed: the wheel holds the product only, and each extra what its part imports."""

import importlib.metadata
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from hack.testbed.images import ours
from vgpu_runtime.paths import SOURCES

PROJECT = SOURCES.parent
DECLARED = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
PARTS = {
    "agent": ("device_plugin.wiring.node_command", "device_plugin.wiring.node"),
    "cluster": (
        "device_plugin.wiring.cluster_command",
        "device_plugin.wiring.cluster",
        "device_plugin.wiring.fitting",
    ),
    "cli": tuple(
        f"device_plugin.cli.{name}" for name in ("cordon", "uncordon", "drain", "defrag", "convert.command")
    ),
}
# Loaded only where a kubeconfig is read.
LATER = {"kubernetes", "pyyaml"}
IMPORTED = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(*{name.partition(".")[0] for name in sys.modules})
"""


def test_the_wheel_holds_the_product_only(tmp_path: Path) -> None:
    source = tmp_path / "source"  # setuptools leaves its own files beside what it packs
    for name in ("device_plugin", "hack", "tests", "vgpu_runtime"):
        shutil.copytree(PROJECT / name, source / name)
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(PROJECT / name, source / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, f"--wheel-dir={tmp_path}", source], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {PurePosixPath(name) for name in archive.namelist()}
    code = {name for name in names if not name.parts[0].endswith(".dist-info")}
    product = {
        place.removeprefix("opt/vgpu/") for place in ours.product_files(PROJECT) if place.endswith(".py")
    }
    assert {str(name) for name in code if name.suffix == ".py"} == product
    page = {
        f"device_plugin/cli/ui/page/{path.name}" for path in (PROJECT / "device_plugin/cli/ui/page").iterdir()
    }
    others = {str(name) for name in code if name.suffix not in (".py", ".pyi", ".typed")}
    assert others == page


@pytest.mark.parametrize("part", PARTS)
def test_an_extra_is_what_its_part_imports(part: str) -> None:
    asked = subprocess.run(
        [sys.executable, "-c", IMPORTED, *PARTS[part]],
        cwd=PROJECT,
        check=True,
        capture_output=True,
        text=True,
    )
    distributions = importlib.metadata.packages_distributions()
    imported = {_canonical(name) for top in asked.stdout.split() for name in distributions.get(top, ())}
    declared = {*DECLARED["dependencies"], *DECLARED["optional-dependencies"][part]}
    known = {name for extra in DECLARED["optional-dependencies"].values() for name in extra} | declared
    assert imported & known - set(DECLARED["optional-dependencies"]["dev"]) <= declared
    assert declared - LATER <= imported


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
