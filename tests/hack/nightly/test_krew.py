"""krew itself installs the plugin's archive into an empty home, kubectl runs it, and krew removes it."""

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from device_plugin.core.contract import annotations
from hack.releases import krew
from hack.releases.command import VERSION
from hack.testbed.images import ours
from tests.builders.cards import inventory
from tests.hack.nightly.conftest import Commands
from tests.requirement import require

KREW = shutil.which("krew") or shutil.which("kubectl-krew")
ARCHITECTURE = {machine: name for name, machine in ours.MACHINES.items()}.get(platform.machine(), "")


@pytest.fixture
def home(commands: Commands, tmp_path: Path) -> Mapping[str, str]:
    """The environment of a person with an empty home, and an index of plugins without any."""
    require(KREW, "needs krew on the PATH: https://krew.sigs.k8s.io/docs/user-guide/setup/install")
    index = tmp_path / "index"
    (index / "plugins").mkdir(parents=True)
    (index / "plugins/.keep").touch()
    author = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (("init", "--quiet"), ("add", "."), (*author, "commit", "--quiet", "--message=empty")):
        subprocess.run(["git", *words], cwd=index, check=True)
    (tmp_path / "home").mkdir()
    root = tmp_path / "home/.krew"
    return {
        **commands.environment,
        "HOME": str(tmp_path / "home"),
        "KREW_ROOT": str(root),
        "KREW_DEFAULT_INDEX_URI": str(index),
        "KREW_NO_UPGRADE_CHECK": "1",
        "PATH": f"{root / 'bin'}:{commands.environment['PATH']}",
    }


def run(home: Mapping[str, str], *command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, env=home, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def test_krew_installs_it_kubectl_runs_it_and_krew_removes_it(
    commands: Commands, home: Mapping[str, str], tmp_path: Path
) -> None:
    archive = krew.archive(tmp_path / "plugin.tar.gz", ARCHITECTURE)
    manifest = tmp_path / "krew.yaml"
    # The other architecture's archive is not looked at here.
    archives = dict.fromkeys(ours.MACHINES, archive)
    manifest.write_text(krew.manifest(VERSION, "https://mirror.example.com", archives))
    node = {"metadata": {"name": "n1", "annotations": {annotations.CARDS: inventory("n1").encode()}}}
    commands(
        "kubectl", "apply", "--filename=-", stdin=json.dumps({"apiVersion": "v1", "kind": "Node", **node})
    )

    def did(*command: str) -> str:
        done = run(home, *command)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    did(str(KREW), "update")
    (tmp_path / "other.tar.gz").write_bytes(archive.read_bytes() + b"\0")
    install = (str(KREW), "install", f"--manifest={manifest}")
    assert "checksum" in run(home, *install, f"--archive={tmp_path / 'other.tar.gz'}").stderr
    did(*install, f"--archive={archive}")
    assert did("kubectl", "vgpu", "--version") == f"vgpu {VERSION}\n"
    assert "n1" in did("kubectl", "vgpu", "cards")
    (link,) = [line for line in caveats(manifest).splitlines() if line.startswith("ln -s ")]
    did("sh", "-c", link)
    assert "cards\t" in did("kubectl", "__complete", "vgpu", "ca")
    did(str(KREW), "uninstall", "vgpu")
    assert run(home, "kubectl", "vgpu", "--version").returncode != 0
    assert not os.path.lexists(Path(home["KREW_ROOT"]) / "store/vgpu")


def caveats(manifest: Path) -> str:
    """What krew tells after an installation."""
    text: str = yaml.safe_load(manifest.read_text())["spec"]["caveats"]
    return text
