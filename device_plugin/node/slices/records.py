"""Records: the agent's state of each container with slices, on disk next to the container's files.

`<state>/slices/<pod uid>/<container>/record.json` says which pod, which tickets and which slices; the mounted files
lie in the same folder. To forget a container is to remove its folder: there is no second place to keep in step.
"""

import contextlib
import json
import logging
import shutil
import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from device_plugin.core.contract.annotations import MAX_CARDS, VERSION, Fields, checked_int
from device_plugin.core.contract.card_names import unique
from device_plugin.core.contract.grants import Slice, read_slices, slice_objects
from device_plugin.core.errors import AnnotationError
from device_plugin.kube.api import Ref
from vgpu_runtime import config

log = logging.getLogger(__name__)

RECORD = "record.json"
CONFIG = "vgpu.conf"


@dataclass(frozen=True, slots=True)
class Record:
    """A container that holds slices. `names` are its CDI names by resource, `tickets` its tickets by resource.

    `vendor_ids` are the ids of its slices by card uuid, on cards whose vendor gives out any.
    """

    pod: str
    namespace: str
    pod_name: str
    container: str
    slices: tuple[Slice, ...]
    names: Mapping[str, str]
    tickets: Mapping[str, tuple[str, ...]]
    vendor_ids: Mapping[str, int]

    @property
    def key(self) -> tuple[str, str]:
        """Pod UID and container name."""
        return self.pod, self.container

    @property
    def pod_ref(self) -> Ref:
        """Its pod's name in the API."""
        return Ref(self.pod_name, self.namespace, self.pod)


@dataclass(frozen=True, slots=True)
class Damaged:
    """A record that cannot be read: why not, and the `cards` that its container may hold, by uuid; None if unknown."""

    why: str
    cards: frozenset[str] | None

    def closed(self, cards: Collection[str]) -> frozenset[str]:
        """The cards that get no new slices while the container may run."""
        return self.cards if self.cards is not None and self.cards.issubset(cards) else frozenset(cards)


class Records:
    """All records of `node`, in memory and on disk. Safe from any thread."""

    def __init__(self, state: Path, node: str) -> None:
        self._node = node
        self._root = state / "slices"
        self._lock = threading.Lock()
        self._records: dict[tuple[str, str], Record] = {}
        self._damaged: dict[tuple[str, str], Damaged] = {}
        self._stuck: set[Path] = set()

    def load(self) -> None:
        """Read the records of the agent before this one. A folder in which only the record is missing has lost it.

        The container of a lost or damaged record may run: its folder stays, and reclaim makes a new record. A folder
        without record and config was never mounted and is removed.
        """
        self._root.mkdir(parents=True, exist_ok=True)
        for folder in sorted(self._root.glob("*/*")):
            key = folder.parent.name, folder.name
            try:
                record = _decode((folder / RECORD).read_text(encoding="utf-8"), self._node)
                if record.key != key:
                    raise AnnotationError(f"record: of container {record.container} of pod {record.pod}")
                self._records[key] = record
            except (OSError, ValueError, RecursionError, AnnotationError) as error:
                if isinstance(error, FileNotFoundError) and not (folder / CONFIG).exists():
                    log.warning("removing %s: it has no record", folder)
                    self._remove(folder)
                    continue
                self._damaged[key] = Damaged(str(error), self._cards_of(folder))
                log.warning("the record in %s is damaged: %s", folder, self._damaged[key].why)

    def damaged(self) -> Mapping[tuple[str, str], Damaged]:
        """The containers (pod UID and name) with a damaged record that is not restored yet."""
        with self._lock:
            return dict(self._damaged)

    def all(self) -> tuple[Record, ...]:
        """The records of all containers."""
        with self._lock:
            return tuple(self._records.values())

    def get(self, pod: str, container: str) -> Record | None:
        """The record of a container."""
        with self._lock:
            return self._records.get((pod, container))

    def folder(self, pod: str, container: str) -> Path:
        """The folder of the container's files."""
        return self._root / pod / container

    def put(self, record: Record) -> None:
        """Store a container's record: on disk first, atomically."""
        folder = self.folder(*record.key)
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / RECORD, _encode(record))
        with self._lock:
            self._records[record.key] = record
            self._damaged.pop(record.key, None)

    def forget(self, pod: str, container: str) -> None:
        """Remove a container's files, then its record, which stays while a file cannot be removed: call again later."""
        if self._remove(self.folder(pod, container)):
            with self._lock:
                self._records.pop((pod, container), None)
                self._damaged.pop((pod, container), None)

    def _cards_of(self, folder: Path) -> frozenset[str] | None:
        """The cards of the config that lies next to a record; None if that cannot be read either."""
        try:
            text = (folder / CONFIG).read_text(encoding="utf-8")
            return frozenset(unique(uuid, self._node) for uuid in config.card_uuids(text))
        except (OSError, ValueError):  # ConfigError and UnicodeDecodeError among them
            return None

    def _remove(self, folder: Path) -> bool:
        """Remove a folder as far as possible; True if nothing is left."""
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
    """By card uuid, the tickets of `resource` that containers with slices of the card hold."""
    used: dict[str, set[str]] = {}
    for record in records:
        for slice_ in record.slices:
            used.setdefault(slice_.card, set()).update(record.tickets.get(resource, ()))
    return used


def write_file(path: Path, text: str, aside: Path | None = None) -> None:
    """Write a file of mode 0644 atomically: a crash leaves the old one or the new one.

    It is written in the folder `aside`, which is on the same disk, or next to its place, and then renamed.
    """
    temporary = (aside or path.parent) / f".{path.name}.tmp"
    temporary.write_text(text, encoding="utf-8")
    temporary.chmod(0o644)
    temporary.replace(path)


def _encode(record: Record) -> str:
    body = {
        "v": VERSION,
        "pod": record.pod,
        "namespace": record.namespace,
        "podName": record.pod_name,
        "container": record.container,
        "slices": slice_objects(record.slices),
        "names": dict(record.names),
        "tickets": {name: list(ids) for name, ids in record.tickets.items()},
        "vendorIds": dict(record.vendor_ids),
    }
    return json.dumps(body)


def _decode(text: str, node: str) -> Record:
    """The record in `text`. Raises ValueError or AnnotationError, and nothing else, if it is damaged."""
    fields = Fields(json.loads(text), "record")
    version = fields.integer("v", least=1)
    if version != VERSION:
        raise AnnotationError(f"record: version {version}, this program reads version {VERSION}")
    tickets = fields.mapping("tickets", most=16)
    return Record(
        pod=fields.text("pod"),
        namespace=fields.text("namespace"),
        pod_name=fields.text("podName"),
        container=fields.text("container"),
        slices=read_slices(fields.items("slices", most=MAX_CARDS), "record", node),
        names=_texts(fields.mapping("names", most=16), "names"),
        tickets={name: _ticket_ids(ids) for name, ids in tickets.items()},
        vendor_ids={
            unique(card, node): checked_int(number, "record: vendorIds", least=0)
            for card, number in fields.mapping("vendorIds", most=MAX_CARDS).items()
        },
    )


def _texts(values: Mapping[str, object], key: str) -> dict[str, str]:
    found = {name: value for name, value in values.items() if isinstance(value, str)}
    if len(found) != len(values):
        raise AnnotationError(f"record: {key} must be texts")
    return found


def _ticket_ids(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(ticket, str) for ticket in value):
        raise AnnotationError("record: tickets must be lists of texts")
    return tuple(value)
