"""The plugin's archive starts with any Python that it has packages for, and its manifest names what was packed."""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from hack.releases import krew


def test_what_all_versions_share_is_there_once(tmp_path: Path) -> None:
    for python in krew.PYTHONS:
        folder = tmp_path / f"packages-{python}"
        for name, text in (
            ("pure/a.py", "a"),
            ("pure/b.py", "b"),
            ("compiled/c.so", python),
            ("top.py", "t"),
        ):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    (tmp_path / "packages-3.12" / "only.py").write_text("only")
    krew.share(tmp_path)
    assert {path.name for path in (tmp_path / "packages").iterdir()} == {"pure", "top.py"}
    assert {path.name for path in (tmp_path / "packages-3.11").iterdir()} == {"compiled"}
    assert {path.name for path in (tmp_path / "packages-3.12").iterdir()} == {"compiled", "only.py"}


def test_the_manifest_has_no_empty_place_and_the_digests_of_the_archives(tmp_path: Path) -> None:
    archives = {each: tmp_path / f"vgpu-{each}.tar.gz" for each in ("amd64", "arm64")}
    for each, file in archives.items():
        file.write_text(each)
    text = krew.manifest("1.2", "https://mirror.example.com/1.2", archives)
    found = yaml.safe_load(text)["spec"]
    assert found["version"] == "v1.2"
    assert [
        (each["selector"]["matchLabels"]["arch"], each["uri"], each["sha256"]) for each in found["platforms"]
    ] == [
        (each, f"https://mirror.example.com/1.2/{file.name}", hashlib.sha256(each.encode()).hexdigest())
        for each, file in archives.items()
    ]
    assert "{" not in text.replace("{name: vgpu}", "").replace("{matchLabels: {", "")


def test_manifest_launcher_and_page_name_the_versions_that_have_packages() -> None:
    *others, last = krew.PYTHONS
    launcher = krew.LAUNCHER.read_text()
    for text in (krew.TEMPLATE.read_text(), launcher):
        assert f"Python {', '.join(others)} or {last}" in text
    assert " ".join(f"python{version}" for version in reversed(krew.PYTHONS)) in launcher
    assert f"Python ({others[0]} to {last})" in (krew.PROJECT / "docs/kubectl.md").read_text()


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """A plugin whose program says how it was called, with packages for one version of Python."""
    for name in krew.PROGRAMS:
        (tmp_path / name).write_bytes(krew.LAUNCHER.read_bytes())
        (tmp_path / name).chmod(0o755)
    (tmp_path / "main.py").write_text("import sys, mark; print(sys.argv[1:], mark.VERSION)")
    (tmp_path / "packages-3.11").mkdir()
    (tmp_path / "packages-3.11/mark.py").write_text("VERSION = '3.11'")
    return tmp_path


def start(program: Path, *words: str, version: str) -> "subprocess.CompletedProcess[str]":
    """Run it with a Python that says it is of this version."""
    python = program.parent / "python"
    python.write_text(f'#!/bin/sh\nif [ "$1" = -c ]; then echo {version}; else exec python3 "$@"; fi\n')
    python.chmod(0o755)
    environment = {"PATH": os.environ["PATH"], "VGPU_PYTHON": str(python)}
    return subprocess.run([program, *words], env=environment, capture_output=True, text=True, check=False)


def test_it_runs_with_the_packages_of_the_machines_python(unpacked: Path) -> None:
    done = start(unpacked / "kubectl-vgpu", "cards", "-o", "json", version="3.11")
    assert done.stdout == "['kubectl-vgpu', 'cards', '-o', 'json'] 3.11\n"
    link = unpacked / "elsewhere"
    link.mkdir()
    (link / "kubectl_complete-vgpu").symlink_to(unpacked / "kubectl_complete-vgpu")
    environment = {"PATH": os.environ["PATH"], "VGPU_PYTHON": str(unpacked / "python")}
    command = [str(link / "kubectl_complete-vgpu"), "ca"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "['kubectl_complete-vgpu', 'ca'] 3.11\n"


def test_without_such_a_python_it_says_which_it_needs(unpacked: Path) -> None:
    done = start(unpacked / "kubectl-vgpu", "cards", version="3.9")
    assert (done.returncode, done.stdout) == (1, "")
    assert "needs Python 3.11, 3.12 or 3.13" in done.stderr
