"""downwardAPI volumes: labels and annotations of a pod as files in its containers, updated when the pod changes.

The folder of each volume is mounted, so that a file in it can be replaced by a rename. The real kubelet replaces all
files of a volume together; here each file is replaced on its own.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

from hack.embedded import pod_spec
from hack.embedded.pod_spec import Json


class DownwardVolumes:
    """The volumes of all pods of a kubelet, below `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, pod: Json) -> None:
        """Write the present metadata of the pod into the files of its volumes."""
        for name, volume in _volumes(pod):
            folder = self._of(pod) / name
            folder.mkdir(parents=True, exist_ok=True)
            for item in volume["items"]:
                file, text = folder / item["path"], pod_spec.field(pod, item["fieldRef"]["fieldPath"])
                if not file.exists() or file.read_text(encoding="utf-8") != text:
                    fresh = folder / f".{item['path']}"
                    fresh.write_text(text, encoding="utf-8")
                    fresh.replace(file)

    def mounts(self, pod: Json, container: str) -> tuple[tuple[str, str], ...]:
        """The folders of the volumes that the container mounts, each with its path in the container."""
        names = {name for name, _ in _volumes(pod)}
        listed = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
        wanted = (
            mount for raw in listed if raw["name"] == container for mount in raw.get("volumeMounts") or ()
        )
        return tuple((str(self._of(pod) / m["name"]), m["mountPath"]) for m in wanted if m["name"] in names)

    def remove(self, pod: Json) -> None:
        """Remove the files of a pod whose containers have ended."""
        shutil.rmtree(self._of(pod), ignore_errors=True)

    def _of(self, pod: Json) -> Path:
        return self._folder / pod_spec.uid(pod)


def _volumes(pod: Json) -> Iterator[tuple[str, Json]]:
    for volume in pod["spec"].get("volumes") or ():
        if "downwardAPI" in volume:
            yield volume["name"], volume["downwardAPI"]
