"""What the agent remembers of each container, on disk beside the container's files.

`<state>/slices/<pod uid>/<container>/record.json` says which pod, which tickets and which slices; the mounted files
lie in the same folder. To forget a container is to remove its folder: there is no second place to keep in step.
"""

import contextlib
import json
import logging
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from device_plugin.core.annotations import Fields
from device_plugin.core.card_names import unique
from device_plugin.core.errors import AnnotationError
from device_plugin.core.grants import Slice

log = logging.getLogger(__name__)

RECORD = "record.json"


@dataclass(frozen=True, slots=True)
class Record:
    """A container that holds slices. `names` are its CDI names by resource, `tickets` its tickets by resource.

    `pipes` are the vendor's pipe ids by card uuid, on Hygon's cards.
    """

    pod: str
    namespace: str
    pod_name: str
    container: str
    slices: tuple[Slice, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    tickets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pipes: Mapping[str, int] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """Pod UID and container name."""
        return self.pod, self.container


class Records:
    """All records of `node`, in memory and on disk. Safe from any thread."""

    def __init__(self, state: Path, node: str) -> None:
        self._node = node
        self._root = state / "slices"
        self._lock = threading.Lock()
        self._records: dict[tuple[str, str], Record] = {}
        self._stuck: set[Path] = set()

    def load(self) -> None:
        """Read what an earlier agent left; a folder without a readable record was never mounted, and goes."""
        self._root.mkdir(parents=True, exist_ok=True)
        for folder in sorted(self._root.glob("*/*")):
            try:
                record = _decode((folder / RECORD).read_text(encoding="utf-8"), self._node)
            except (OSError, UnicodeDecodeError, ValueError, AnnotationError) as error:
                log.warning("removing %s: its record cannot be read (%s)", folder, error)
                self._remove(folder)
                continue
            self._records[record.key] = record

    def all(self) -> tuple[Record, ...]:
        """Every record."""
        with self._lock:
            return tuple(self._records.values())

    def get(self, pod: str, container: str) -> Record | None:
        """The record of a container."""
        with self._lock:
            return self._records.get((pod, container))

    def folder(self, pod: str, container: str) -> Path:
        """Where the container's files are."""
        return self._root / pod / container

    def put(self, record: Record) -> None:
        """Remember a container: on disk first, at once and whole."""
        folder = self.folder(*record.key)
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / RECORD, _encode(record))
        with self._lock:
            self._records[record.key] = record

    def forget(self, pod: str, container: str) -> None:
        """Remove a container's files, then its record. If files are left, the record stays: try again later."""
        if self._remove(self.folder(pod, container)):
            with self._lock:
                self._records.pop((pod, container), None)

    def _remove(self, folder: Path) -> bool:
        """Remove all that can be; True if nothing is left."""
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
    """For each card's uuid the tickets of `resource` that containers granted on it hold."""
    used: dict[str, set[str]] = {}
    for record in records:
        for slice_ in record.slices:
            used.setdefault(slice_.card, set()).update(record.tickets.get(resource, ()))
    return used


def write_file(path: Path, text: str, aside: Path | None = None) -> None:
    """Write a file that everybody may read, at once and whole; a crash leaves the old one or the new one.

    Until it is whole it lies in `aside`, a folder on the same disk, or beside its place.
    """
    temporary = (aside or path.parent) / f".{path.name}.tmp"
    temporary.write_text(text, encoding="utf-8")
    temporary.chmod(0o644)
    temporary.replace(path)


def _encode(record: Record) -> str:
    body = {
        "pod": record.pod,
        "namespace": record.namespace,
        "podName": record.pod_name,
        "container": record.container,
        "slices": [{"card": s.card, "memMiB": s.mem_mib, "cores": list(s.cores)} for s in record.slices],
        "names": dict(record.names),
        "tickets": {name: list(ids) for name, ids in record.tickets.items()},
        "pipes": dict(record.pipes),
    }
    return json.dumps(body)


def _decode(text: str, node: str) -> Record:
    fields = Fields(json.loads(text), "record")
    return Record(
        pod=fields.text("pod"),
        namespace=fields.text("namespace"),
        pod_name=fields.text("podName"),
        container=fields.text("container"),
        slices=tuple(_slices(fields, node)),
        names=fields.mapping("names", most=16),
        tickets={name: tuple(ids) for name, ids in fields.mapping("tickets", most=16).items()},
        pipes={unique(card, node): pipe for card, pipe in fields.mapping("pipes", most=64).items()},
    )


def _slices(fields: Fields, node: str) -> Iterator[Slice]:
    for entry in fields.items("slices", most=64):
        one = Fields(entry, "record: slice")
        yield Slice(
            unique(one.text("card"), node), one.integer("memMiB"), tuple(one.items("cores", most=1024))
        )
