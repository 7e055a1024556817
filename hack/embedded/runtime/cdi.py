"""Reads CDI spec files, and caches them to find devices by name, as a runtime does.

Format and rules: https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md and its Go library, which
containerd uses. Every `.json` file of the folder is read, and malformed files are skipped. A file with a device without
edits is malformed. A device that two files define does not exist.
"""

import json
import logging
import os
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hack.embedded.runtime.inotify import FolderWatch

log = logging.getLogger(__name__)

_KIND = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*/[A-Za-z][A-Za-z0-9_-]*")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")


class CdiError(Exception):
    """A spec is malformed, or a name resolves to no device."""


@dataclass(frozen=True, slots=True)
class CdiMount:
    """A host path to mount in the container, with options of mount(8)."""

    source: str
    target: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Edits:
    """The changes that CDI devices make to a container. `devices` are (host path, container path)."""

    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[CdiMount, ...] = ()
    devices: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.env or self.mounts or self.devices)

    def __add__(self, other: "Edits") -> "Edits":
        return Edits({**self.env, **other.env}, self.mounts + other.mounts, self.devices + other.devices)


def read_spec(text: str) -> dict[str, Edits]:
    """The devices of one spec file, by full name (`vgpu.io/slice=dcu-mem-0123`). Raises CdiError."""
    try:
        spec = json.loads(text)
        kind = spec["kind"]
        if not _KIND.fullmatch(kind) or not re.fullmatch(r"0\.\d+\.\d+|1\.\d+\.\d+", spec["cdiVersion"]):
            raise CdiError(f"kind {kind!r} or cdiVersion {spec['cdiVersion']!r} is not valid")
        shared = _edits(spec.get("containerEdits", {}))
        found = {}
        for device in spec["devices"]:
            own = _edits(device["containerEdits"])
            if not _NAME.fullmatch(device["name"]) or not own:
                raise CdiError(f"device {device['name']!r}: invalid name, or empty device edits")
            found[f"{kind}={device['name']}"] = shared + own
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CdiError(f"malformed spec: {error!r}") from error
    if not found:
        raise CdiError("no devices")
    return found


def _edits(raw: Mapping[str, Any]) -> Edits:
    unknown = set(raw) - {"env", "mounts", "deviceNodes"}
    if unknown:
        raise CdiError(f"this runtime does not apply {', '.join(sorted(unknown))}")
    return Edits(
        dict(entry.split("=", 1) for entry in raw.get("env", ())),
        tuple(
            CdiMount(mount["hostPath"], mount["containerPath"], tuple(mount.get("options", ())))
            for mount in raw.get("mounts", ())
        ),
        tuple((node.get("hostPath", node["path"]), node["path"]) for node in raw.get("deviceNodes", ())),
    )


class CdiCache:
    """The devices of a CDI folder; a change is seen after a random delay of at most `lag` seconds."""

    def __init__(self, folder: Path, lag: float, seed: int) -> None:
        self._folder = folder
        self._lag = lag
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._watch = FolderWatch(folder)
        self._parsed: dict[str, tuple[object, dict[str, Edits]]] = {}
        self._devices = self._read()
        self._thread = threading.Thread(target=self._follow, name="cdi-cache", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop following the folder."""
        self._stop.set()
        self._watch.wake()
        self._thread.join()
        self._watch.close()

    def resolve(self, names: Iterable[str]) -> Edits:
        """The edits of all named devices, in order. Raises CdiError with the names that were not found."""
        devices = self._devices
        missing = [name for name in names if name not in devices]
        if missing:
            raise CdiError(f"CDI device injection failed: unresolvable CDI devices {', '.join(missing)}")
        edits = sum((devices[name] for name in names), Edits())
        for source, _ in edits.devices:
            if not Path(source).exists():
                raise CdiError(
                    "CDI device injection failed: failed to inject devices: failed to stat CDI host device"
                    f' "{source}": no such file or directory'
                )
        return edits

    def _follow(self) -> None:
        while True:
            self._watch.wait()
            if self._stop.is_set():
                return
            time.sleep(self._random.uniform(0, self._lag))
            self._devices = self._read()

    def _read(self) -> dict[str, Edits]:
        parsed = {}
        for entry in os.scandir(self._folder):
            if entry.name.endswith(".json"):
                try:
                    parsed[entry.name] = self._read_file(entry)
                except FileNotFoundError:
                    continue  # removed meanwhile
        self._parsed = parsed
        definitions = Counter(name for _, devices in parsed.values() for name in devices)
        for name, files in definitions.items():
            if files > 1:
                log.warning("CDI device %s is defined by %d files: in none", name, files)
        return {
            name: edits
            for _, devices in parsed.values()
            for name, edits in devices.items()
            if definitions[name] == 1
        }

    def _read_file(self, entry: "os.DirEntry[str]") -> tuple[object, dict[str, Edits]]:
        """The version and the devices of a file; an unchanged file is not read again."""
        status = entry.stat()
        version = (status.st_ino, status.st_mtime_ns, status.st_size)
        known = self._parsed.get(entry.name)
        if known is not None and known[0] == version:
            return known
        try:
            return version, read_spec(Path(entry.path).read_text())
        except (CdiError, UnicodeDecodeError) as error:
            log.warning("CDI spec %s skipped: %s", entry.name, error)
            return version, {}
