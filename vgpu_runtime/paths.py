"""Paths of the C library: its sources, the files that `make -C vgpu_runtime` builds, and paths in a container."""

from pathlib import Path

SOURCES = Path(__file__).resolve().parent
BUILD = SOURCES.parent / "build"
LIBRARY = BUILD / "libvgpu.so"
TELL = BUILD / "vgpu-tell"
SMI = BUILD / "vgpu-smi"
LOADS = BUILD / "vgpu-loads"

# The container's side of the contract (see include/vgpu_paths.h).
CONTAINER_CONFIG = "/etc/vgpu/vgpu.conf"
CONTAINER_REGION = "/var/run/vgpu/usage"
CONTAINER_PROGRESS = "/var/run/vgpu/progress"
CONTAINER_LIBRARY = "/usr/local/vgpu/libvgpu.so"
CONTAINER_PRELOAD = "/etc/ld.so.preload"
# Programs, by the names of the files that are built, and their paths in a container: one of them has two names.
CONTAINER_TOOLS = {
    TELL.name: ("/usr/local/vgpu/vgpu-progress", "/usr/local/vgpu/vgpu-checkpoint"),
    SMI.name: ("/usr/local/vgpu/vgpu-smi",),
}
CONTAINER_VDEV_FOLDER = "/etc/vdev/docker"
