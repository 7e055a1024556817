"""Images with busybox: the image of the tests' pods, with real HIP, and the image of pods' sandboxes."""

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
    """Build the image with busybox, Debian's libc, HIP and the probes of a checkout; returns the archive.

    It also has LLVM, without which HIP finds no card.
    """
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
    """Build the image of the sandbox, which only sleeps; returns the archive."""
    packages = debian.versions("busybox-static")

    def fill(root: Path) -> None:
        debian.unpack(packages, root)
        link_applets(root)

    return archive("pause", oci.Image(PAUSE, [layer("busybox", fill, packages)], {"Entrypoint": _SLEEP}))


def link_applets(root: Path) -> None:
    """Link the name of each busybox command in /bin to busybox."""
    listed = subprocess.run([root / "bin/busybox", "--list"], check=True, capture_output=True, text=True)
    for applet in listed.stdout.split():
        if applet != "busybox":
            (root / "bin" / applet).symlink_to("busybox")
