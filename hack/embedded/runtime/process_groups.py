"""Records the pods with live processes in files, in place of the cgroups of a real node."""

import os
import subprocess
import threading
from pathlib import Path

SANDBOX = "sandbox"


class ProcessGroups:
    """Writes one file per live container, `pod<UID>/<container-id>`, with its process group, in place of a cgroup.

    A pod's sandbox has a file too. One idle process, in the process group `idle`, stands for all sandboxes and for
    containers without processes. It ends when `close` is called or this process ends.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            ["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        )
        self.idle = self._process.pid

    def close(self) -> None:
        """End every sandbox and the idle process."""
        for uid in self.sandboxes():
            self.close_sandbox(uid)
        self._process.communicate()

    def add(self, pod_uid: str, name: str, pgid: int) -> None:
        """Record a live container; its file appears atomically."""
        with self._lock:
            folder = self._folder / f"pod{pod_uid}"
            folder.mkdir(exist_ok=True)
            partial = self._folder / f".{name}"
            partial.write_text(f"{pgid}\n")
            partial.rename(folder / name)

    def remove(self, pod_uid: str, name: str) -> None:
        """Remove a container, and after the last container the pod's folder."""
        with self._lock:
            folder = self._folder / f"pod{pod_uid}"
            (folder / name).unlink(missing_ok=True)
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()

    def open_sandbox(self, pod_uid: str) -> None:
        """Record that a pod has a sandbox."""
        self.add(pod_uid, SANDBOX, self.idle)

    def close_sandbox(self, pod_uid: str) -> None:
        """Record that the pod has no sandbox any more."""
        self.remove(pod_uid, SANDBOX)

    def sandboxes(self) -> set[str]:
        """The UIDs of pods that have a sandbox."""
        return {path.parent.name.removeprefix("pod") for path in self._folder.glob(f"pod*/{SANDBOX}")}


class LiveGroups:
    """Reads the folder of ProcessGroups for an agent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def live(self, pod: str) -> bool:
        """True while a process exists in a process group of the pod of this UID."""
        try:
            files = list((self._folder / f"pod{pod}").iterdir())
        except OSError:
            return False
        return any(_exists(file) for file in files)


def _exists(file: Path) -> bool:
    try:
        group = int(file.read_text(encoding="ascii"))
        os.killpg(group, 0)
    except (OSError, ValueError) as error:
        return isinstance(error, PermissionError)
    return True
