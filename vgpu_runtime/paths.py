"""Paths of the native half: its sources, and what `make -C vgpu_runtime` builds from them."""

from pathlib import Path

SOURCES = Path(__file__).resolve().parent
BUILD = SOURCES.parent / "build"
LIBRARY = BUILD / "libvgpu.so"
TELL = BUILD / "vgpu-tell"

# The container's side of the contract (see include/vgpu_paths.h).
CONTAINER_CONFIG = "/etc/vgpu/vgpu.conf"
CONTAINER_REGION = "/var/run/vgpu/usage"
CONTAINER_PROGRESS = "/var/run/vgpu/progress"
CONTAINER_LIBRARY = "/usr/local/vgpu/libvgpu.so"
# One program of two names.
CONTAINER_TOOLS = ("/usr/local/vgpu/vgpu-progress", "/usr/local/vgpu/vgpu-checkpoint")
CONTAINER_VDEV_FOLDER = "/etc/vdev/docker"
