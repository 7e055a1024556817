"""Whether a pod lives, read from every layout of cgroups and from the one-machine cluster's process groups."""

import os
import subprocess
from pathlib import Path

import pytest

from device_plugin.adapters.processes import CgroupProcesses, ProcessGroups

UID = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
OTHER = "00000000-4b5a-6978-8796-a5b4c3d2e1f0"
FLAT = UID.replace("-", "_")

V2 = [
    f"kubepods.slice/kubepods-pod{FLAT}.slice",
    f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{FLAT}.slice",
    f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{FLAT}.slice",
    f"kubepods/pod{UID}",
    f"kubepods/burstable/pod{UID}",
    f"kubepods/besteffort/pod{UID}",
    f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod{FLAT}.slice",
]
V1 = [f"{tree}/{path}" for tree in ("pids", "systemd") for path in V2]


@pytest.mark.parametrize("path", [*V2, *V1])
def test_a_pod_lives_while_a_process_is_in_its_cgroup(tmp_path: Path, path: str) -> None:
    if path in V2:
        (tmp_path / "cgroup.controllers").write_text("pids\n")
    container = tmp_path / path / "cri-containerd-1234.scope"
    container.mkdir(parents=True)
    (tmp_path / path / "cgroup.procs").write_text("")
    (container / "cgroup.procs").write_text("4711\n")
    processes = CgroupProcesses(tmp_path)
    assert processes.live(UID)
    assert not processes.live(OTHER)
    (container / "cgroup.procs").write_text("")
    assert not processes.live(UID)


@pytest.mark.parametrize(
    ("path", "file", "full", "empty"),
    [
        (V2[1], "cgroup.events", "populated 1\nfrozen 0\n", "populated 0\nfrozen 0\n"),
        (f"pids/{V2[4]}", "pids.current", "3\n", "0\n"),
    ],
)
def test_the_kernel_counts_processes_that_a_container_cannot_see(
    tmp_path: Path, path: str, file: str, full: str, empty: str
) -> None:
    if not path.startswith("pids"):
        (tmp_path / "cgroup.controllers").write_text("pids\n")
    (tmp_path / path).mkdir(parents=True)
    (tmp_path / path / "cgroup.procs").write_text("")
    (tmp_path / path / file).write_text(full)
    assert CgroupProcesses(tmp_path).live(UID)
    (tmp_path / path / file).write_text(empty)
    assert not CgroupProcesses(tmp_path).live(UID)


def test_a_process_group_file_counts_only_while_its_group_exists(tmp_path: Path) -> None:
    folder = tmp_path / f"pod{UID}"
    folder.mkdir()
    groups = ProcessGroups(tmp_path)
    assert not groups.live(UID)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True) as process:
        (folder / "main").write_text(f"{process.pid}\n")
        assert groups.live(UID)
        assert not groups.live(OTHER)
        process.communicate()
    assert not groups.live(UID)


def test_garbage_in_a_process_group_file_is_no_process(tmp_path: Path) -> None:
    folder = tmp_path / f"pod{UID}"
    folder.mkdir()
    (folder / "main").write_text("what\n")
    assert not ProcessGroups(tmp_path).live(UID)
    (folder / "main").write_text(f"{os.getpgid(0)}\n")
    assert ProcessGroups(tmp_path).live(UID)
