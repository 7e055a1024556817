"""Limits pods' card memory in the kernel: dmem.max of cgroup v2 (Documentation/admin-guide/cgroup-v2.rst, DMEM)."""

from collections.abc import Mapping
from pathlib import Path

from device_plugin.adapters.processes import pod_folders


class DmemCgroups:
    """Writes dmem.max of pods in the cgroup v2 tree at `root` (/sys/fs/cgroup)."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def limit_card_memory(self, pod: str, limits: Mapping[str, int]) -> str:
        """Set the limits of the pod of this UID, in bytes by the kernel's name of the memory (drm/<PCI>/vram).

        Returns the reason of a failure as text; empty after success.
        """
        folder = next(pod_folders([self._root], pod), None)
        if folder is None:
            return f"no cgroup of a pod in {self._root} (dmem needs cgroup v2)"
        file = folder / "dmem.max"
        if not file.exists():
            return (
                "cgroups of pods have no dmem.max (it needs Linux 6.14, cgroup v2, and +dmem in the"
                " cgroup.subtree_control of all folders above)"
            )
        try:
            for memory, limit in limits.items():
                file.write_text(f"{memory} {limit}\n", encoding="ascii")  # the kernel takes one at a time
        except OSError as error:
            return f"dmem.max cannot be written ({error.strerror}): add the component kernel-limits"
        return ""
