"""Builds the images of the project and of its tests, as OCI archives, without Docker and without a registry."""

from pathlib import Path

from hack.testbed.images import busybox, oci, ours, scheduler, trainer
from vgpu_runtime.paths import SOURCES

NAMES = {
    "vgpu": "both services",
    "simulated": "the same on simulated cards",
    "scheduler": "kube-scheduler, for the pods of vgpu-cluster",
    "workload": "what the tests' pods run: busybox, the real HIP, the probes",
    "pause": "the sandbox of every pod",
    "trainer": "elastic PyTorch, for the tests that train",
}
# Images that only some clusters have.
SPECIAL = ("trainer",)
PROJECT = SOURCES.parent


def build(
    name: str, *, source: Path = PROJECT, tag: str = ours.TAG, architecture: str = oci.ARCHITECTURE
) -> Path:
    """The path of an image's archive in the cache; it is built unless it was already built from equal inputs.

    Only `vgpu` is made for other architectures than this machine's.

    Raises DebianUnavailableError, MissingError, CalledProcessError.
    """
    match name:
        case "vgpu":
            return ours.build(source, tag, architecture)
        case "simulated":
            return ours.build_simulated(source, tag)
        case "scheduler":
            return scheduler.build()
        case "workload":
            return busybox.build_workload(source)
        case "pause":
            return busybox.build_pause()
        case "trainer":
            return trainer.build(source)
    raise LookupError(name)


def build_all() -> list[Path]:
    """The archives of the images that every cluster has, built from this checkout."""
    return [build(name) for name in NAMES if name not in SPECIAL]
