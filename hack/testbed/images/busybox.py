"""Images around busybox: what the tests' pods run, with the real HIP in it, and the sandbox of every pod."""

import subprocess
from pathlib import Path

from hack.testbed.images import debian, oci, ours
from hack.testbed.images.layers import archive, layer
from hack.testbed.layout import PAUSE
from vgpu_runtime.sim import hip

WORKLOAD = "vgpu.io/workload:0.1.0"
PROBES = ("vgpu-probe", "vgpu-kfd-probe")
_SLEEP = ("/bin/busybox", "sleep", "infinity")


def build_workload(source: Path) -> Path:
    """busybox, Debian's libc and HIP (with LLVM, without which it finds no card), and the probes of a checkout."""
    ours.native(source)
    packages = debian.versions(hip.PACKAGES[0], "busybox-static")
    probes = {f"usr/local/bin/{name}": source / "build" / name for name in PROBES}

    def system(root: Path) -> None:
        debian.unpack(packages, root)
        link_applets(root)

    layers = (
        layer("hip", system, packages),
        layer("probes", lambda root: ours.copy(probes, root), *probes.values()),
    )
    config = {"Cmd": _SLEEP, "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]}
    return archive("workload", oci.Image(WORKLOAD, layers, config))


def build_pause() -> Path:
    """A program that sleeps."""
    packages = debian.versions("busybox-static")

    def fill(root: Path) -> None:
        debian.unpack(packages, root)
        link_applets(root)

    return archive("pause", oci.Image(PAUSE, [layer("busybox", fill, packages)], {"Entrypoint": _SLEEP}))


def link_applets(root: Path) -> None:
    """Give every command that busybox is its name in /bin."""
    listed = subprocess.run([root / "bin/busybox", "--list"], check=True, capture_output=True, text=True)
    for applet in listed.stdout.split():
        if applet != "busybox":
            (root / "bin" / applet).symlink_to("busybox")
