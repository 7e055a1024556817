"""Records: the agent's state of each container with slices, on disk next to the container's files.

`<state>/slices/<pod uid>/<container>/record.json` says which pod, which tickets and which slices; the mounted files lie
in the same folder. The agent forgets a container by removing this folder: no other place has to be kept in step.
"""

import contextlib
import logging
import shutil
import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from device_plugin.core.contract.annotations import MAX_CARDS
from device_plugin.core.contract.claims import AllocatedDevice
from device_plugin.core.contract.codec import Amount, Reader, Text, write_object
from device_plugin.core.contract.grants import Slices, slices_fault
from device_plugin.core.errors import AnnotationError
from device_plugin.kube.api import Ref
from vgpu_runtime import config

log = logging.getLogger(__name__)

RECORD = "record.json"
CONFIG = "vgpu.conf"
# Most characters of a record: more than 64 whole cards and 4,096 tickets of each resource take.
MAX_RECORD = 4 * 1024 * 1024
# The key of the CDI name of a container that asked by a ResourceClaim; no resource has such a name.
CLAIM = "claim"
# Most resources of which a container has names and tickets.
MOST_RESOURCES = 16


class Record(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A container that holds slices, with its CDI names (`names`) and its tickets (device IDs), both by resource.

    `vendor_ids` are the ids by which drivers distinguish its slices, by card uuid. Only some vendors give ids.

    A container that asked by a ResourceClaim has no tickets, and one CDI name, by the key CLAIM. `claim` is the UID of
    the ResourceClaim, and `devices` are the claim's devices in the order of the slices. `devices` is empty in a record
    that was restored after a loss.
    """

    pod: Text
    namespace: Text
    pod_name: Text = msgspec.field(name="podName")
    container: Text
    slices: Slices
    names: Annotated[Mapping[str, str], Meta(max_length=MOST_RESOURCES)]
    tickets: Annotated[Mapping[str, tuple[str, ...]], Meta(max_length=MOST_RESOURCES)]
    vendor_ids: Annotated[Mapping[str, Amount], Meta(max_length=MAX_CARDS)] = msgspec.field(name="vendorIds")
    claim: str = ""
    devices: Annotated[tuple[AllocatedDevice, ...], Meta(max_length=MAX_CARDS)] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Pod UID and container name."""
        return self.pod, self.container

    @property
    def pod_ref(self) -> Ref:
        """The reference to the container's pod in the API."""
        return Ref(self.pod_name, self.namespace, self.pod)


@dataclass(frozen=True, slots=True)
class Damaged:
    """A container's record (state on disk) that cannot be read. `why` is the reason.

    `cards` are the uuids of the container's cards; None if they are unknown.
    """

    why: str
    cards: frozenset[str] | None

    def closed(self, cards: Collection[str]) -> frozenset[str]:
        """The uuids of the cards that get no new slices, because the container of this record may still run on them.

        They are the container's own cards; if these are unknown, or if one of them is not in `cards`, they are all
        `cards`.
        """
        return self.cards if self.cards is not None and self.cards.issubset(cards) else frozenset(cards)


class Records:
    """All records (states of containers) of the node, in memory and on disk. Safe from any thread."""

    def __init__(self, state: Path) -> None:
        self._root = state / "slices"
        self._lock = threading.Lock()
        self._records: dict[tuple[str, str], Record] = {}
        self._damaged: dict[tuple[str, str], Damaged] = {}
        self._stuck: set[Path] = set()

    def load(self) -> None:
        """Read the records (states of containers) that an earlier agent wrote.

        A container whose record is missing or damaged may still run: its folder stays, and reclaim makes a new record.
        A folder with neither a record nor a vgpu.conf was never mounted, and is removed.
        """
        self._root.mkdir(parents=True, exist_ok=True)
        for folder in sorted(self._root.glob("*/*")):
            key = folder.parent.name, folder.name
            try:
                record = _decode((folder / RECORD).read_text(encoding="utf-8"))
                if record.key != key:
                    raise AnnotationError(f"record: of container {record.container} of pod {record.pod}")
                self._records[key] = record
            except (OSError, UnicodeDecodeError, AnnotationError) as error:
                if isinstance(error, FileNotFoundError) and not (folder / CONFIG).exists():
                    log.warning("removing %s: it has no record", folder)
                    self._remove(folder)
                    continue
                self._damaged[key] = Damaged(str(error), self._cards_of(folder))
                log.warning("the record in %s is damaged: %s", folder, self._damaged[key].why)

    def damaged(self) -> Mapping[tuple[str, str], Damaged]:
        """The damaged records of containers that are not restored yet, by pod UID and container name."""
        with self._lock:
            return dict(self._damaged)

    def all(self) -> tuple[Record, ...]:
        """The records (state: pod, tickets, slices) of all containers."""
        with self._lock:
            return tuple(self._records.values())

    def get(self, pod: str, container: str) -> Record | None:
        """The record (state) of this container of the pod of this UID; None if the container has none."""
        with self._lock:
            return self._records.get((pod, container))

    def of_claim(self, uid: str) -> Record | None:
        """The record (state) of the container that uses the ResourceClaim of this UID; None if there is none."""
        with self._lock:
            return next((each for each in self._records.values() if each.claim == uid), None)

    def folder(self, pod: str, container: str) -> Path:
        """The folder with the files of a container of the pod with UID `pod`."""
        return self._root / pod / container

    def put(self, record: Record) -> None:
        """Store a container's record on disk, atomically, and then in memory; it replaces a damaged record."""
        folder = self.folder(*record.key)
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / RECORD, write_object(msgspec.to_builtins(record)))
        with self._lock:
            self._records[record.key] = record
            self._damaged.pop(record.key, None)

    def forget(self, pod: str, container: str) -> None:
        """Remove a container's files, then its record. The record stays while a file cannot be removed: call again."""
        if self._remove(self.folder(pod, container)):
            with self._lock:
                self._records.pop((pod, container), None)
                self._damaged.pop((pod, container), None)

    def _cards_of(self, folder: Path) -> frozenset[str] | None:
        """The uuids of the cards in the folder's vgpu.conf; None if vgpu.conf cannot be read."""
        try:
            text = (folder / CONFIG).read_text(encoding="utf-8")
            return frozenset(config.card_uuids(text))
        except (OSError, ValueError):  # ConfigError and UnicodeDecodeError among them
            return None

    def _remove(self, folder: Path) -> bool:
        """Remove a folder as far as possible; returns true if nothing is left. A failure is logged once."""
        with contextlib.suppress(OSError):  # first: with the config alone, the record would count as lost
            (folder / CONFIG).unlink()
        errors: list[BaseException] = []
        shutil.rmtree(folder, onerror=lambda _do, _path, error: errors.append(error[1]))
        left = [error for error in errors if not isinstance(error, FileNotFoundError)]
        if left:
            if folder not in self._stuck:
                log.warning("%s cannot be removed: %s", folder, left[0])
            self._stuck.add(folder)
            return False
        self._stuck.discard(folder)
        with contextlib.suppress(OSError):  # another container of the pod may still be there
            folder.parent.rmdir()
        return True


def ticket_use(records: Iterable[Record], resource: str) -> Mapping[str, set[str]]:
    """By card uuid, the tickets (device IDs) of `resource` that containers with a slice of the card hold."""
    used: dict[str, set[str]] = {}
    for record in records:
        for slice_ in record.slices:
            used.setdefault(slice_.card, set()).update(record.tickets.get(resource, ()))
    return used


def write_file(path: Path, text: str, aside: Path | None = None) -> None:
    """Write a file of mode 0644 atomically: after a crash the old file or the new one is there.

    The text goes to a temporary file in the folder `aside`, on the same disk as `path`, or next to `path`. Then the
    temporary file is renamed.
    """
    temporary = (aside or path.parent) / f".{path.name}.tmp"
    temporary.write_text(text, encoding="utf-8")
    temporary.chmod(0o644)
    temporary.replace(path)


_READER = Reader(Record, "record", longest=MAX_RECORD)


def _decode(text: str) -> Record:
    """The record of a container in `text`. Raises AnnotationError if it is damaged."""
    record = _READER.read(text)
    if fault := slices_fault(record.slices):
        raise AnnotationError(f"record: {fault}")
    return record
