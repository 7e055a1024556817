"""Our own processes of the cluster: `python -m hack.testbed.machine init ROOT COUNT`.

cluster.py runs `init` in new mount, network and pid namespaces. It is process 1 of the pid namespace: it starts the
control plane and the nodes as machines (see supervisor.py), and reaps ended processes.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from hack.testbed import control_plane, namespaces, node
from hack.testbed.certificates import Authority
from hack.testbed.layout import CONTROL_PLANE, Layout, node_names
from hack.testbed.supervisor import Supervisor


def _init(root: str, count: str) -> None:
    """Start all machines, and reap ended processes: orphans of all machines become children of process 1."""
    namespaces.bridge()
    layout = Layout(Path(root))
    for name in (CONTROL_PLANE, *node_names(int(count))):
        with (layout.machine(name) / "machine.log").open("wb") as log:
            command = [sys.executable, "-m", "hack.testbed.machine", name, root]
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def _control_plane(layout: Layout) -> None:
    programs = control_plane.programs(layout, Authority(layout.certificates))
    _serve(layout, CONTROL_PLANE, Supervisor(layout.machine(CONTROL_PLANE), programs))


def _node(layout: Layout, name: str) -> None:
    folder = layout.machine(name)
    namespaces.become(name, folder, layout.cgroup)
    supervisor = NodeSupervisor(folder, node.programs(layout, name))
    supervisor.start("containerd")
    node.await_containerd()  # without containerd the kubelet would end, and be started again
    _serve(layout, name, supervisor)


class NodeSupervisor(Supervisor):
    """The supervisor of a node, which also has containers and their files in /run."""

    def crash(self) -> None:
        """Cut the node's power: all programs are stopped first, so that none can see and report another's end."""
        self._signal_others(signal.SIGSTOP)
        super().crash()
        while self._signal_others(signal.SIGKILL):
            continue
        namespaces.forget_cgroups()
        namespaces.forget_mounts()
        namespaces.fresh_run()

    def _signal_others(self, number: int) -> int:
        """Send a signal to all other processes of the node; returns their number."""
        others = namespaces.processes() - {os.getpid()}
        for pid in others:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return len(others)


def _serve(layout: Layout, name: str, supervisor: Supervisor) -> None:
    supervisor.boot()
    supervisor.serve(layout.control(name))


def main() -> None:
    role, root, *rest = sys.argv[1:]
    layout = Layout(Path(root))
    if role == "init":
        _init(root, *rest)
    elif role == CONTROL_PLANE:
        _control_plane(layout)
    else:
        _node(layout, role)


if __name__ == "__main__":
    main()
