"""Starts and ends the cluster, and runs commands inside it, from outside."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from hack.testbed import archives, control_plane, namespaces, node
from hack.testbed.certificates import Authority
from hack.testbed.layout import CONTROL_PLANE, Layout, node_names
from hack.testbed.programs import Programs
from hack.testbed.supervisor import order

READY_SECONDS = 240.0
PROJECT = Path(__file__).resolve().parents[2]
# The environment variable of commands that already run inside the cluster.
INSIDE = "VGPU_TESTBED_INSIDE"
DOWN = "no cluster is up: hack/cluster up"
# Go programs collect garbage when their memory has grown to five times the live memory, not to twice. Garbage
# collection takes much of the CPU time of Kubernetes on one machine, which has enough memory.
GO = {"GOGC": "400"}


class ClusterError(Exception):
    """The cluster is not up, or did not come up; the text has advice."""


class Cluster:
    """The cluster in the folders of `layout`, running or not."""

    def __init__(self, layout: Layout, programs: Programs) -> None:
        self.layout = layout
        self._programs = programs
        self._pid = layout.root / "pid"

    def up(self, nodes: int, images: Sequence[Path], gates: Mapping[str, bool] | None = None) -> None:
        """Start the cluster, with the images in these archives on every node, and wait until all nodes are Ready.

        `gates` are feature gates of the kubelets. If it fails, all processes are ended, and ClusterError is raised.
        """
        self.down()
        self._prepare(nodes, archives.imported(images, self._programs.containerd), gates or {})
        command = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command += [sys.executable, "-m", "hack.testbed.machine", "init", str(self.layout.root), str(nodes)]
        with (self.layout.root / "init.log").open("wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=PROJECT,
                env={**os.environ, **GO, "PATH": self._programs.path()}, start_new_session=True,
            )  # fmt: skip
        self._pid.write_text(f"{process.pid} {_started(process.pid)}")
        try:
            self._wait(nodes, process)
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """End the cluster, if it is up, and remove all of its files except the logs."""
        if (pid := self.pid()) is not None:
            first = _first(pid)
            os.kill(pid, signal.SIGKILL)  # because of --kill-child, process 1 ends with unshare
            while _alive(first):  # process 1 is gone only after all of its descendants
                time.sleep(0.01)
        self._pid.unlink(missing_ok=True)
        namespaces.remove_cgroups(self.layout.cgroup)
        for folder in self.layout.root.glob("*/containerd"):
            shutil.rmtree(folder)

    def pid(self) -> int | None:
        """The pid of the process that keeps the cluster up; None if the cluster is down."""
        try:
            pid, started = self._pid.read_text().split()
            return int(pid) if _started(int(pid)) == started else None
        except (OSError, ValueError):
            return None

    def require(self) -> None:
        """Raise ClusterError if the cluster is down."""
        if not os.environ.get(INSIDE) and self.pid() is None:
            raise ClusterError(DOWN)

    def nodes(self) -> list[str]:
        """The names of the nodes, in the order of their numbers."""
        return sorted(
            (path.parent.name for path in self.layout.root.glob("n*/kubelet.yaml")), key=lambda n: int(n[1:])
        )

    def run(self, command: Sequence[str], **variables: str) -> int:
        """Run `command` in the control plane's namespaces, with kubectl and $KUBECONFIG; returns the exit status."""
        return subprocess.run(
            [*self._enter(), *command], env=self._environment() | variables, check=False
        ).returncode

    def output(self, command: Sequence[str], **variables: str) -> tuple[int, str]:
        """Run `command` as `run` does; returns the exit status and the output."""
        done = subprocess.run(
            [*self._enter(), *command], env=self._environment() | variables, check=False, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return done.returncode, done.stdout

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            **GO,
            "KUBECONFIG": str(self.layout.kubeconfig),
            "KUBECACHEDIR": str(self.layout.root / "kubectl-cache"),
            "PATH": f"{self._programs.kubernetes}:{self._programs.helm}:{os.environ['PATH']}",
            "VGPU_TESTBED": str(self.layout.root),
            INSIDE: "1",
        }

    def _enter(self) -> list[str]:
        if os.environ.get(INSIDE):
            return []
        pid = self.pid()
        if pid is None:
            raise ClusterError(DOWN)
        return ["nsenter", "--target", str(_first(pid)), "--mount", "--net", "--pid", f"--wd={Path.cwd()}"]

    def order(self, machine: str, do: str, **details: object) -> dict[str, object]:
        """Give an order to a machine's supervisor, and return the answer. Raises OrderError, ClusterError."""
        self.know(machine)
        try:
            return order(self.layout.control(machine), do, **details)
        except OSError as error:
            raise ClusterError(
                f"{machine} takes no orders ({error.strerror}): hack/cluster logs {machine}"
            ) from None

    def know(self, machine: str) -> None:
        """Raise ClusterError if the cluster has no machine of this name."""
        known = (CONTROL_PLANE, *self.nodes())
        if machine not in known:
            raise ClusterError(f"there is no machine {machine}; there are: {', '.join(known)}")

    def _prepare(self, nodes: int, imported: Path, gates: Mapping[str, bool]) -> None:
        shutil.rmtree(self.layout.root, ignore_errors=True)
        self.layout.root.mkdir(parents=True)
        authority = Authority(self.layout.certificates)
        authority.create()
        self.layout.machine(CONTROL_PLANE).mkdir()
        control_plane.prepare(self.layout, authority)
        for name in node_names(nodes):
            self.layout.machine(name).mkdir()
            node.prepare(self.layout, authority, name, imported, gates)

    def _wait(self, nodes: int, process: "subprocess.Popen[bytes]") -> None:
        end = time.monotonic() + READY_SECONDS
        while not self._ready(nodes):
            if process.poll() is not None or time.monotonic() > end:
                raise ClusterError(f"the cluster does not come up; its logs are in {self.layout.root}")
            time.sleep(0.2)

    def _ready(self, nodes: int) -> bool:
        """True if all nodes are Ready and pods can be created."""
        status_of_each = 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}'
        try:
            account, _ = self.output(["kubectl", "get", "serviceaccount", "default"])
            _, ready = self.output(["kubectl", "get", "nodes", f"--output={status_of_each}"])
        except (ClusterError, IndexError, FileNotFoundError):
            return False  # process 1 does not exist yet
        return account == 0 and ready.split().count("True") == nodes


def _started(pid: int) -> str:
    """The start time of a process, in ticks since boot; pid and start time together identify a process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def _first(pid: int) -> int:
    """The pid, outside of the cluster, of process 1 in the pid namespace that the process `pid` (unshare) has made."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
