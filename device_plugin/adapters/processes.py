"""Reads the processes of pods on this machine, with their mounts and open files, from /proc and from cgroups.

A pod's cgroup, v1 or v2, is named by the cgroupfs driver (`pod<uid>`) or by systemd
(`kubepods-burstable-pod<uid with _>.slice`).
"""

import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

# In cgroup v1 every controller has a tree of its own; each of these shows a pod's processes.
V1_TREES = ("pids", "memory", "cpu,cpuacct", "cpu", "systemd", "devices")
KUBEPODS = ("kubepods", "kubepods.slice", "kubelet.slice/kubelet-kubepods.slice", "kubelet/kubepods")
DEPTH = 3
# The file with the kernel's count of processes (v2, and v1's tree `pids`), and its line when there is no process.
COUNTS = {"cgroup.events": "populated 0", "pids.current": "0"}


# Seconds in which a container runtime moves a new process into its cgroup.
SETTLED_SECONDS = 5.0
# Most bytes of mountinfo that are read: most containers have a few tens of mounts of 150 bytes, but a tenant can make
# tens of thousands. Reading 1 MiB takes the agent's loop 130 ms.
MOUNT_BYTES = 1 << 18
# Most bytes of a process's cgroup file: cgroup v1 has a line for each of a dozen trees.
CGROUP_BYTES = 1 << 14
# Most open files of a process that are read, lowest descriptor first, and most bytes of each: a render node's text has
# some 1 KiB, and runtimes open it before a program opens its data.
OPEN_FILES = 256
OPEN_FILE_BYTES = 1 << 12
# Processes read of each container: those with the lowest numbers, which include the first one unless the numbers have
# wrapped round.
PROCESSES = 4
_CONTAINER = re.compile(r"[/-]pod([0-9a-f]{8}(?:[_-][0-9a-f]{4}){3}[_-][0-9a-f]{12})(?:\.slice)?/([^/\n]+)")


class ProcProcesses:
    """Reads the host's /proc, mounted read-only at `proc`.

    A container without the host's process namespace can find other containers' processes only there: in cgroup.procs it
    sees none. To read mountinfo needs no privilege. `look` reads the cgroups of new processes only.
    """

    def __init__(self, proc: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._proc = proc
        self._clock = clock
        # By process: the time when it was first seen, its pod and its container.
        self._known: dict[int, tuple[float, tuple[str, str] | None]] = {}
        self._by_pod: dict[str, dict[str, list[int]]] = {}

    def look(self) -> None:
        """Update the list of processes, with the pod and the container of each."""
        now = self._clock()
        before, self._known, self._by_pod = self._known, {}, {}
        for process in sorted(int(name) for name in os.listdir(self._proc) if name.isdigit()):  # noqa: PTH208
            since, container = before.get(process, (now, None))
            if container is None and now - since < SETTLED_SECONDS:
                container = self.container(process)
            self._known[process] = since, container
            if container is not None:
                self._by_pod.setdefault(container[0], {}).setdefault(container[1], []).append(process)

    def of(self, pod: str, most: int | None = None) -> Sequence[int]:
        """Returns the processes with the lowest numbers in each container of the pod of this UID, its sandbox included.

        At most `most` processes of each container are returned, as the last `look` found them; PROCESSES if None.
        """
        return [
            process for each in self._by_pod.get(pod, {}).values() for process in each[: most or PROCESSES]
        ]

    def live_pods(self) -> Collection[str]:
        """Returns the UIDs of the pods that had processes at the last `look`."""
        return list(self._by_pod)

    def mounts(self, process: int) -> tuple[str, bool] | None:
        """Returns mountinfo of a process, cut to MOUNT_BYTES, and whether it is whole; None if the process is gone."""
        try:
            with (self._proc / str(process) / "mountinfo").open("rb") as file:
                text = file.read(MOUNT_BYTES + 1)
        except OSError:
            return None
        # The number may belong to another process by now.
        known = self._known.get(process)
        if known is not None and self.container(process) != known[1]:
            return None
        return text[:MOUNT_BYTES].decode(errors="replace"), len(text) <= MOUNT_BYTES

    def open_files(self, process: int) -> Iterator[str]:
        """Yields the kernel's text (fdinfo) for each of the first OPEN_FILES open files of a process.

        Empty if the process is gone, or the agent lacks the capability SYS_PTRACE.
        """
        folder = f"{self._proc}/{process}/fdinfo"
        try:
            # A process may have a million files. The kernel lists them by number.
            with os.scandir(folder) as entries:
                first = [entry.name for entry in islice(entries, 4 * OPEN_FILES)]
            names = sorted(first, key=int)[:OPEN_FILES]
        except OSError:
            return
        for name in names:
            with suppress(OSError):
                yield _head(f"{folder}/{name}", OPEN_FILE_BYTES)

    def own_mounts(self) -> str:
        """Returns the mountinfo of our own process."""
        return Path("/proc/self/mountinfo").read_bytes().decode(errors="replace")

    def problem(self) -> str:
        """Returns the reason why the host's processes are not visible, as text; empty if they are."""
        try:
            (self._proc / "1" / "mountinfo").read_bytes()
        except OSError as error:
            return (
                f"cannot read the host's processes in {self._proc} ({error.strerror}), so a mount that hides the files"
                " that limit a container is not noticed: mount the host's /proc there, without the option hidepid, or"
                " set procRoot"
            )
        return ""

    def container(self, process: int) -> tuple[str, str] | None:
        """Returns the pod's UID and the container's cgroup of a process; None if it is in no pod, or gone."""
        try:
            text = _head(f"{self._proc}/{process}/cgroup", CGROUP_BYTES)
        except OSError:
            return None
        match = _CONTAINER.search(text)
        return (match[1].replace("_", "-"), match[2]) if match else None


def _head(path: str, most: int) -> str:
    """Returns at most the first `most` bytes of a file as text, from one read. Raises OSError."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, most).decode(errors="replace")
    finally:
        os.close(file)


class CgroupProcesses:
    """Finds which pods still have processes, by the pods' cgroups. `root` is the cgroup tree (/sys/fs/cgroup)."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._trees = [root] if (root / "cgroup.controllers").exists() else [root / name for name in V1_TREES]

    def live(self, pod: str) -> bool:
        """True while a process is in the pod's cgroup or below it; also true if there is no cgroup tree to read."""
        return bool(self.problem()) or any(_populated(folder) for folder in pod_folders(self._trees, pod))

    def problem(self) -> str:
        """Returns the reason why cgroups cannot show which pods have processes, as text; empty if they can."""
        if any((tree / top).is_dir() for tree in self._trees for top in KUBEPODS):
            return ""
        return (
            f"no cgroups of pods in {self._root}, so nothing says which pods still run: mount the host's cgroup tree"
            " there, or set cgroupRoot"
        )


def pod_folders(trees: Iterable[Path], pod: str) -> Iterator[Path]:
    """Yields the cgroups of the pod of this UID in these trees, found by the names that the kubelet gives them."""
    names = (f"pod{pod}", f"pod{pod.replace('-', '_')}.slice")
    for tree in trees:
        for top in KUBEPODS:
            yield from (path for path in _below(tree / top, DEPTH) if path.name.endswith(names))


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
    """True if the kernel counts a process in this cgroup or below it.

    Without such a count cgroup.procs is read, which in cgroup v1 leaves out processes of other pid namespaces.
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
