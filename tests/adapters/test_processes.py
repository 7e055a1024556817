"""Whether a pod lives, read from every layout of cgroups and from the one-machine cluster's process groups."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from device_plugin.adapters.processes import (
    MOUNT_BYTES,
    OPEN_FILE_BYTES,
    OPEN_FILES,
    PROCESSES,
    SETTLED_SECONDS,
    CgroupProcesses,
    ProcProcesses,
)

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


class Proc:
    """A /proc that the test writes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = 0.0
        self.host = ProcProcesses(root, lambda: self.now)

    def run(self, process: int, cgroup: str, mounts: str = "1 0 0:1 / / rw - a b c\n") -> None:
        folder = self.root / str(process)
        folder.mkdir(exist_ok=True)
        (folder / "cgroup").write_text(cgroup)
        (folder / "mountinfo").write_text(mounts)

    def look(self, later: float = 0.0) -> Sequence[int]:
        """The processes of the pod after so much more time."""
        self.now += later
        self.host.look()
        return self.host.of(UID)


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    (tmp_path / "sys").mkdir()
    return Proc(tmp_path)


@pytest.mark.parametrize("path", V2)
@pytest.mark.parametrize("line", ["0::/{}\n", "0::/../../{}\n", "11:pids:/{0}\n1:name=systemd:/{0}\n"])
def test_a_process_is_found_by_the_cgroup_of_its_container(proc: Proc, path: str, line: str) -> None:
    proc.run(1, "0::/init.scope\n")
    proc.run(40, line.format(f"{path}/cri-containerd-1.scope"))
    proc.run(41, line.format(f"{path}/cri-containerd-1.scope").replace(UID, OTHER).replace(FLAT, OTHER))
    proc.run(42, "0::/kubepods.slice\n")
    assert proc.look() == [40]
    assert set(proc.host.live_pods()) == {UID, OTHER}
    assert proc.host.mounts(40) == ("1 0 0:1 / / rw - a b c\n", True)
    assert not proc.host.problem()


@pytest.mark.parametrize(
    "name", ["cri-containerd-1a.scope", "crio-1a.scope", "docker-1a.scope", "1a", "crio-1a.scope/container"]
)
@pytest.mark.parametrize("path", [V2[1], V2[4]])
def test_the_container_of_one_process_is_known_at_once(proc: Proc, path: str, name: str) -> None:
    proc.run(40, f"0::/{path}/{name}\n")
    assert proc.host.container(40) == (UID, name.partition("/")[0])
    assert proc.host.mounts(40) == ("1 0 0:1 / / rw - a b c\n", True)
    proc.run(40, "0::/system.slice\n")
    assert proc.host.container(40) is None
    assert proc.host.container(41) is None


def test_a_new_process_is_followed_into_its_cgroup_and_an_old_one_is_not_read_again(proc: Proc) -> None:
    proc.run(40, "0::/system.slice/containerd.service\n")
    assert proc.look() == []
    proc.run(40, f"0::/kubepods/pod{UID}/1\n")
    assert proc.look(SETTLED_SECONDS / 2) == [40]
    proc.run(41, "0::/system.slice/sshd.service\n")
    assert proc.look() == [40]
    assert proc.look(SETTLED_SECONDS) == [40]
    proc.run(41, f"0::/kubepods/pod{UID}/1\n")
    (proc.root / "40" / "cgroup").unlink()
    assert proc.look() == [40]
    assert proc.host.mounts(40) is None, "it may be another by now"


def test_of_a_container_with_many_processes_only_the_oldest_few_are_named(proc: Proc) -> None:
    for process in range(100, 400):
        proc.run(process, f"0::/kubepods/pod{UID}/{process % 2}\n")
    assert sorted(proc.look()) == list(range(100, 100 + 2 * PROCESSES))


def test_a_long_list_of_mounts_is_cut(proc: Proc) -> None:
    proc.run(40, f"0::/kubepods/pod{UID}/1\n", "x" * (2 * MOUNT_BYTES))
    proc.look()
    found = proc.host.mounts(40)
    assert found is not None
    assert (len(found[0]), found[1]) == (MOUNT_BYTES, False)


def test_a_process_that_is_gone_has_no_mounts(proc: Proc) -> None:
    assert proc.host.mounts(40) is None
    assert "procRoot" in proc.host.problem()


def test_our_own_processes_mounts_are_read_from_the_kernel() -> None:
    host = ProcProcesses(Path("/proc"))
    host.look()
    assert " / " in host.own_mounts()
    assert not host.problem()


def test_the_first_open_files_of_a_process_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "100" / "fdinfo"
    folder.mkdir(parents=True)
    for number in range(OPEN_FILES + 1):
        (folder / str(number)).write_text(f"{number} " + "x" * OPEN_FILE_BYTES)
    texts = list(ProcProcesses(tmp_path).open_files(100))
    assert [text.split()[0] for text in texts] == [str(number) for number in range(OPEN_FILES)]
    assert {len(text) for text in texts} == {OPEN_FILE_BYTES}
    assert list(ProcProcesses(tmp_path).open_files(101)) == []
