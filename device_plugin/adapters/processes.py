"""Whether any process of a pod still runs on this machine.

On a real node the kernel knows: the pod's cgroup, v1 or v2, named by the cgroupfs driver (`pod<uid>`) or by systemd
(`kubepods-burstable-pod<uid with _>.slice`). In the one-machine cluster a process group stands for a cgroup.
"""

import os
from collections.abc import Iterator
from pathlib import Path

# In v1 every controller has a tree of its own; any of these shows a pod's processes.
V1_TREES = ("pids", "memory", "cpu,cpuacct", "cpu", "systemd", "devices")
KUBEPODS = ("kubepods", "kubepods.slice", "kubelet.slice/kubelet-kubepods.slice", "kubelet/kubepods")
DEPTH = 3
# The file in which the kernel counts (v2; v1's tree `pids`), and the line that says: none.
COUNTS = {"cgroup.events": "populated 0", "pids.current": "0"}


class CgroupProcesses:
    """Reads the cgroup tree at `root` (/sys/fs/cgroup)."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._trees = [root] if (root / "cgroup.controllers").exists() else [root / name for name in V1_TREES]

    def live(self, pod: str) -> bool:
        """True while any process is in the pod's cgroup or one below it, and while there is no tree to tell."""
        return bool(self.problem()) or any(_populated(folder) for folder in self._folders(pod))

    def problem(self) -> str:
        """Why nobody can tell which pods live; empty if all is well."""
        if any((tree / top).is_dir() for tree in self._trees for top in KUBEPODS):
            return ""
        return f"no cgroups of pods below {self._root}: mount the host's cgroup tree there, or set cgroupRoot"

    def _folders(self, pod: str) -> Iterator[Path]:
        names = (f"pod{pod}", f"pod{pod.replace('-', '_')}.slice")
        for tree in self._trees:
            for top in KUBEPODS:
                yield from (path for path in _below(tree / top, DEPTH) if path.name.endswith(names))


class ProcessGroups:
    """Reads `root`: a file `pod<uid>/<container id>` holds the process group of a container that was started."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def live(self, pod: str) -> bool:
        """True while any process of one of the pod's groups exists."""
        try:
            files = list((self._root / f"pod{pod}").iterdir())
        except OSError:
            return False
        return any(_exists(file) for file in files)

    def problem(self) -> str:
        """None: no file, no process."""
        return ""


def _below(folder: Path, depth: int) -> Iterator[Path]:
    try:
        entries = [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for entry in entries:
        yield entry
        if depth > 1:
            yield from _below(entry, depth - 1)


def _populated(folder: Path) -> bool:
    """The kernel's own count, for the pod and all below it.

    Only where it keeps none are processes read: cgroup v1 leaves out those of other pid namespaces than the reader's.
    """
    for name, empty in COUNTS.items():
        try:
            lines = (folder / name).read_text(encoding="ascii").splitlines()
        except OSError:
            continue  # another version of cgroups, or a pod that ended just now
        return empty not in lines
    return any(_processes(Path(path)) for path, _, files in os.walk(folder) if "cgroup.procs" in files)


def _processes(folder: Path) -> bool:
    try:
        return bool((folder / "cgroup.procs").read_text(encoding="ascii").strip())
    except OSError:
        return False  # a container that ended just now


def _exists(file: Path) -> bool:
    try:
        group = int(file.read_text(encoding="ascii"))
        os.killpg(group, 0)
    except (OSError, ValueError) as error:
        return isinstance(error, PermissionError)
    return True
