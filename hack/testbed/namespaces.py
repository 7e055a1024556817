"""Turns a process into a node, with its own namespaces, mounts, cgroups and a virtual cable to the bridge."""

import ctypes
import os
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from hack.testbed import layout

CGROUPS = Path("/sys/fs/cgroup")
# Settings that the kubelet requires and would change for the whole machine; each node gets its own file instead.
SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
# Folders that each node has for itself. At the node's end, /run and all mounts below STATE are removed, as at the end
# of any machine (see `forget_mounts`).
STATE = ("/var/lib", "/var/log")
_NEWNS, _NEWCGROUP, _NEWUTS, _NEWNET = 0x00020000, 0x02000000, 0x04000000, 0x40000000


def bridge() -> None:
    """Create the bridge to which all nodes are connected, in the control plane's namespaces."""
    _run("mount", "--make-rprivate", "/")
    _ip(
        "link set lo up",
        "link add br0 type bridge",
        f"address add {layout.GATEWAY}/24 dev br0",
        "link set br0 up",
    )
    _forward()


def become(node: str, folder: Path, cgroup: str) -> None:
    """Turn this process, which must have only one thread, into the first process of a new node."""
    _join_cgroup(f"{cgroup}/{node}")
    if ctypes.CDLL(None, use_errno=True).unshare(_NEWNS | _NEWCGROUP | _NEWUTS | _NEWNET):
        raise OSError(ctypes.get_errno(), "unshare: no new namespaces")
    socket.sethostname(node)
    _run("mount", "--make-rprivate", "/")
    _mount_cgroups()
    for path in STATE:
        _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", path)
        _run("mount", "--make-rshared", path)
    fresh_run()
    _mask_sysctls(folder / "sysctl")
    _plug_in(node)


def fresh_run() -> None:
    """Mount an empty /run, as after a boot."""
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    _run("mount", "--make-rshared", "/run")
    Path("/run/cdi").mkdir()


def forget_mounts() -> None:
    """Unmount /run and all mounts below it, and all mounts below the folders of STATE."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    below = [point for point in points if any(point.startswith(f"{path}/") for path in STATE)]
    for point in (*reversed(below), "/run"):
        subprocess.run(["umount", "--lazy", "--recursive", point], capture_output=True, check=False)


def processes() -> set[int]:
    """The pids of all processes of this node."""
    found: set[int] = set()
    # The folder of a container that ends meanwhile disappears.
    for folder, _, _ in os.walk(CGROUPS / "pids"):
        with suppress(OSError):
            found.update(map(int, Path(folder, "cgroup.procs").read_text().split()))
    return found


def forget_cgroups() -> None:
    """Remove the cgroups of this node's containers, whose processes have been killed: after a boot there are none.

    A kubelet that starts waits for 3 s at each cgroup of a container without processes. The folder of a process that
    has not quite ended stays.
    """
    for tree in CGROUPS.iterdir():
        for folder, _, _ in os.walk(tree, topdown=False):
            with suppress(OSError):
                Path(folder).rmdir()


def remove_cgroups(cgroup: str) -> None:
    """Remove the cluster's folders in the machine's cgroup trees, after all its processes have ended."""
    for tree in CGROUPS.glob(f"*/{cgroup}"):
        for folder, _, _ in os.walk(tree, topdown=False):
            Path(folder).rmdir()


def _join_cgroup(path: str) -> None:
    for controller in _controllers():
        folder = CGROUPS / controller / path
        folder.mkdir(parents=True, exist_ok=True)
        if controller == "cpuset":  # a new cpuset is empty, and accepts no process
            for name in ("cpuset.cpus", "cpuset.mems"):
                for below in (folder.parent, folder):
                    (below / name).write_text((below.parent / name).read_text())
        (folder / "cgroup.procs").write_text(str(os.getpid()))


def _mount_cgroups() -> None:
    """Mount the cgroup trees again: in the cgroup namespace, the root of each tree is the node's own folder."""
    controllers = _controllers()
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(CGROUPS))
    for controller in controllers:
        (CGROUPS / controller).mkdir()
        options = "none,name=systemd" if controller == "systemd" else controller
        _run("mount", "-t", "cgroup", "-o", options, "cgroup", str(CGROUPS / controller))


def _controllers() -> list[str]:
    lines = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    return [
        Path(words[1]).name for words in lines if words[2] == "cgroup" and Path(words[1]).parent == CGROUPS
    ]


def _mask_sysctls(folder: Path) -> None:
    folder.mkdir()
    for name, value in SYSCTLS.items():
        target = Path("/proc/sys") / name
        if target.exists():
            source = folder / name.replace("/", "_")
            source.write_text(f"{value}\n")
            _run("mount", "--bind", str(source), str(target))


def _plug_in(node: str) -> None:
    """Connect the node to the bridge, which is in the network namespace of process 1, by a pair of veth devices."""
    port, address = f"port-{node}", layout.address(node)
    _ip(
        "link set lo up",
        f"link add eth0 type veth peer name {port} netns 1",
        f"address add {address}/24 dev eth0",
        "link set eth0 up",
        f"route add default via {layout.GATEWAY}",
    )
    _forward()
    enter = ("nsenter", "--target", "1", "--net")
    _ip(f"link set {port} master br0 up", f"route add {layout.pods(node)} via {address}", enter=enter)


def _forward() -> None:
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _ip(*commands: str, enter: tuple[str, ...] = ()) -> None:
    subprocess.run([*enter, "ip", "-batch", "-"], input="\n".join(commands), text=True, check=True)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
