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
from packaging.requirements import Requirement

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
        f"device_plugin.cli.{name}"
        for name in ("cordon", "uncordon", "drain", "defrag", "top", "convert.command")
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


# All that runs in `make demo KEEP=1`: the story, the cluster, the agent, both services, and the commands.
DEMO = (
    "hack.demo.command", "hack.demo.serve", "hack.embedded.node", "device_plugin.wiring.node",
    "device_plugin.wiring.cluster", "device_plugin.wiring.jobs", "device_plugin.cli.convert.command",
)  # fmt: skip
# Nothing imports what installs a distribution in place.
INSTALLS = {"setuptools"}


def test_the_demo_installs_what_it_imports_and_no_more() -> None:
    asked = subprocess.run(
        [sys.executable, "-c", IMPORTED, *DEMO], cwd=PROJECT, check=True, capture_output=True, text=True
    )
    distributions = importlib.metadata.packages_distributions()
    imported = {_canonical(name) for top in asked.stdout.split() for name in distributions.get(top, ())}
    laboratory = tomllib.loads((PROJECT / "hack/pyproject.toml").read_text())["project"]["dependencies"]
    extras = DECLARED["optional-dependencies"]
    declared = {*DECLARED["dependencies"], *extras["agent"], *extras["cluster"], *laboratory}
    assert declared - INSTALLS <= imported
    assert _locked("demo").keys() == _needed(declared)


def test_the_environment_for_development_is_the_demos_and_more() -> None:
    """So that make demo and make test come in any order."""
    demo, dev = _locked("demo"), _locked("dev")
    assert {name: dev.get(name) for name in demo} == demo


@pytest.mark.parametrize("name", ["demo", "dev", "cli", "run"])
def test_a_lock_names_no_index(name: str) -> None:
    text = (PROJECT / f"requirements/{name}.lock").read_text()
    assert "://" not in text
    assert "--hash=sha256:" in text


def _locked(name: str) -> dict[str, set[str]]:
    """The versions of each package in a lock file."""
    found: dict[str, set[str]] = {}
    for line in (PROJECT / f"requirements/{name}.lock").read_text().splitlines():
        if match := re.match(r"([a-z0-9-]+)==([^ ;]+)", line):
            found.setdefault(match[1], set()).add(match[2])
    return found


def _needed(names: set[str]) -> set[str]:
    """These packages, and all that they need themselves."""
    found: set[str] = set()
    while names - found:
        name = min(names - found)
        found.add(name)
        needs = (Requirement(text) for text in importlib.metadata.requires(name) or ())
        names = names | {_canonical(one.name) for one in needs if not one.marker or one.marker.evaluate()}
    return found


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
