"""What a machine lacks is said, each with the command that helps, before anything is started."""

import shutil
from pathlib import Path

import pytest

from hack.testbed import programs


def test_versions_are_those_of_the_go_modules() -> None:
    assert programs.version("k8s.io/kubernetes") == "v1.36.3"
    assert programs.version("github.com/containerd/containerd/v2").startswith("v2.")
    assert programs.version("sigs.k8s.io/prometheus-adapter").startswith("v0.")
    with pytest.raises(LookupError):
        programs.version("example.com/none")


def test_another_kubernetes_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(programs.RELEASE, "1.34")
    assert programs.version("k8s.io/kubernetes").startswith("v1.34.")
    assert programs.installed().kube.parent.name.startswith("kubernetes-v1.34.")
    monkeypatch.setenv(programs.RELEASE, "1.9")
    with pytest.raises(programs.MissingError, match=r"VGPU_KUBERNETES may be 1\.34, 1\.35, or empty"):
        programs.version("k8s.io/kubernetes")


def test_all_that_is_missing_is_said_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VGPU_CACHE", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(programs.MissingError) as error:
        programs.check()
    lines = str(error.value).splitlines()
    assert [line.split(":")[1].strip() for line in lines] == [
        "root",
        "Debian packages",
        "Go 1.26 or newer, to build Kubernetes, containerd and helm",
    ]
    assert "apt-get install" in lines[1]
    assert "runc" in lines[1]


def test_a_control_plane_needs_neither_root_nor_what_nodes_need(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VGPU_CACHE", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(programs.MissingError) as error:
        programs.kubernetes()
    assert str(error.value).splitlines() == [
        "missing: Debian packages: apt-get install --no-install-recommends openssl",
        "missing: Go 1.26 or newer, to build Kubernetes: https://go.dev/doc/install",
    ]
    monkeypatch.setattr(shutil, "which", lambda name: name if name == "openssl" else None)
    folder = programs.installed().kubernetes
    folder.mkdir(parents=True)
    programs.installed().kube.touch()
    assert programs.kubernetes() == folder


def test_go_is_not_needed_once_the_programs_are_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VGPU_CACHE", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "go" else name)
    monkeypatch.setattr(programs, "CNI", tmp_path)
    (tmp_path / "ptp").touch()
    with pytest.raises(programs.MissingError, match="Go"):
        programs.check()
    found = programs.installed()
    for file in (found.kube, found.containerd / "containerd", found.helm / "helm"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    programs.check()
