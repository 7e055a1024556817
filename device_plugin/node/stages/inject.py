"""Inject: writes the files of a container, and the CDI spec by which the runtime brings them into the container.

CDI: github.com/cncf-tags/container-device-interface, SPEC.md 0.6.0. Each container has one spec file, with a device for
each of its CDI names: if two files named one device, the runtime would ignore both. A spec is written in the folder
.vgpu and moved in whole; then `announce` makes runtimes read it (CdiReload).

CDI names are used again, so a runtime may still have an old spec of a name. Every file that a spec mounts lies in the
folder of its own container, which is removed before the name gets another container: an old spec then mounts files that
do not exist. Each device also has a guard, a device node in the same folder. The runtime looks for the guard before it
creates the container; if the guard is missing, the kubelet tries again. A missing mount alone would count as a failed
start, after which a pod that never restarts is Failed for good (tests/contract/kubelet/test_injection.py).
"""

import errno
import filecmp
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from device_plugin.core.contract.cards import Card
from device_plugin.core.contract.claims import MEMORY, device_class, memory_mib
from device_plugin.core.contract.grants import Slice
from device_plugin.core.contract.units import MIB
from device_plugin.core.enforcement import strongest
from device_plugin.core.machine import DeviceNode, Mount
from device_plugin.node.checks.preflight import not_executable
from device_plugin.node.slices.admission import Wanted
from device_plugin.node.slices.records import CLAIM, CONFIG, Record, Records, write_file
from device_plugin.node.slices.slice_ids import SliceIds
from device_plugin.node.slices.writable import PROGRESS, USAGE, WritableFiles
from device_plugin.node.vendors.families import CARD_VARIABLES
from device_plugin.node.vendors.local_card import LocalCard
from device_plugin.node.vendors.port import CardSlice, ContainerFiles, Vendor
from vgpu_runtime import config, paths
from vgpu_runtime.config import FamilyLimit

KIND = "vgpu.io/slice"
CDI_VERSION = "0.6.0"
# Only files that a tenant can write need more options; specs are kept short, as a runtime reads all after each change.
READ_ONLY = ["ro", "bind"]
READ_WRITE = ["rw", "bind", "nosuid", "nodev", "noexec"]
# The name of a FIFO that marks a slice as present: the one kind of device node that needs no privilege to make.
PRESENT = "present"
# The variable with the path of the file in which a program may report its progress.
PROGRESS_VARIABLE = "VGPU_PROGRESS"
# Seconds between two changes of specs, per spec and at most: then a runtime spends 1/50 of its time reading them. A
# container that comes alone does not wait.
SECONDS_A_SPEC = 0.01
MOST_SECONDS = 0.5


class CdiReload:
    """Makes runtimes read a folder of CDI specs again, once for all containers that wait for it. Safe from any thread.

    A runtime with CDI's own Go library (containerd, CRI-O) reads every spec of the folder whenever a file there is
    renamed or removed, at some 0.2 ms of CPU each. The runtime does not notice a spec that is moved in from another
    folder. So specs are moved in first, and then the runtimes are notified: when many containers start, several share
    one reading. `clock` is monotonic, in seconds, and `sleep` takes seconds.
    """

    def __init__(
        self,
        folder: Path,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._sleep = sleep
        self._count = threading.Lock()
        self._changes = 0
        self._turn = threading.Lock()
        self._notified = 0
        self._notified_at = float("-inf")

    def changed(self) -> None:
        """Note that a CDI spec has been moved into the folder."""
        with self._count:
            self._changes += 1

    def notify(self) -> None:
        """Make runtimes read all CDI specs moved in so far; returns when they were notified. Raises OSError."""
        wanted = self._changes
        with self._turn:
            if self._notified >= wanted:
                return  # another thread has notified them of our changes as well
            specs = sum(1 for _ in self._folder.iterdir())
            wait = self._notified_at + min(SECONDS_A_SPEC * specs, MOST_SECONDS) - self._clock()
            if wait > 0:
                self._sleep(wait)
            notified = self._changes
            # Runtimes react to the removal.
            notice = self._folder / ".vgpu-reload"
            notice.touch()
            notice.unlink()
            self._notified, self._notified_at = notified, self._clock()


class Injector:
    """Writes and removes the records (state on disk) and files of containers; the caller holds one lock for both."""

    def __init__(
        self,
        records: Records,
        writable: WritableFiles,
        vendors: Sequence[Vendor[Any]],
        cards: Callable[[], Mapping[str, LocalCard]],
        state: Path,
        cdi: Path,
        library: Path,
        tools: Sequence[Path],
    ) -> None:
        self._records = records
        self._writable = writable
        self._vendors = vendors
        self._cards = cards
        self._ids = SliceIds(records, cards)
        self._cdi = cdi
        self._aside = cdi / ".vgpu"
        self._reload = CdiReload(cdi)
        self._library = library
        self._tools = tools
        # Next to the containers' folders, so that each of them has a link and no copy.
        self._copies = state / "lib"

    def prepare(self) -> None:
        """Make the folders, copy the library and the tools, and remove unfinished files of an agent that was killed.

        Raises OSError if a folder cannot be made, or the library or a tool is not there.
        """
        self._aside.mkdir(parents=True, exist_ok=True)
        for leftover in (*self._cdi.glob(".vgpu-*"), *self._aside.iterdir()):
            leftover.unlink(missing_ok=True)
        self._reload.changed()  # the killed agent may not have notified the runtimes
        self._reload.notify()
        self._copies.mkdir(parents=True, exist_ok=True)
        for source in (self._library, *self._tools):
            copy = self._copies / source.name
            if not copy.exists() or not filecmp.cmp(source, copy, shallow=False):
                fresh = copy.with_name(f".{copy.name}.tmp")
                shutil.copyfile(source, fresh)
                fresh.chmod(0o755)
                fresh.replace(copy)

    def carry(self, wanted: Wanted, carrier: str) -> Record:
        """Write the container's record (state), files and CDI spec; returns the record, with new ids for its slices.

        The device of the resource `carrier` mounts the files; CLAIM is the carrier for a ResourceClaim. The devices of
        the container's other resources have only the guard (a device node), because a CDI device must not be empty.
        Runtimes read the spec after `announce`. Raises NoVendorIdError if no id is free now, ConfigError if vgpu.conf
        cannot express the slices, and OSError.
        """
        record = wanted.record(self._ids.claim(wanted.key, wanted.slices))
        self._records.put(record)
        if problem := not_executable(self._copies):
            raise OSError(errno.ENOEXEC, problem)
        folder = self._records.folder(*record.key)
        vendors = self._vendor_files(record, carrier)
        limits = {limit.uuid: limit for limit in vendors.limits}
        mode = strongest(self._cards()[s.card].enforcement for s in record.slices)
        contents = config.SliceConfig(
            record.pod, record.container, tuple(limits[s.card] for s in record.slices), mode.value
        )
        write_file(folder / CONFIG, config.render(contents))
        preloads = [paths.CONTAINER_LIBRARY, *vendors.preloads]
        write_file(folder / "ld.so.preload", "".join(f"{path}\n" for path in preloads))
        for source in (self._library, *self._tools):
            self._link(folder / source.name)
        self._writable.claim(record.key)
        self._write_texts(folder, vendors.texts)
        with suppress(FileExistsError):
            os.mkfifo(folder / PRESENT)
        edits = {
            record.names[resource]: self._guarded(record, resource)
            for resource in record.names.keys() - {carrier}
        }
        # Runtimes apply these variables after those of image, Allocate and pod spec. "void" asks for no cards.
        environment = {
            **CARD_VARIABLES,
            PROGRESS_VARIABLE: paths.CONTAINER_PROGRESS,
            **vendors.environment,
        }
        edits[record.names[carrier]] = {
            "env": [f"{name}={value}" for name, value in environment.items()],
            "mounts": self._mounts(record, vendors.mounts),
            **self._guarded(record, carrier, vendors.devices),
        }
        self._publish(record.names[carrier], edits)
        return record

    def written(self, record: Record) -> bool:
        """True if the container's files, and the CDI specs that mount them, are all there."""
        files = (path for path, _ in self.files(record))
        return all(path.exists() for path in (*files, *map(self._spec, record.names.values())))

    def files(self, record: Record) -> list[tuple[Path, str]]:
        """The files that enforce the container's limits: for each its path on this machine, and in the container."""
        folder = self._records.folder(*record.key)
        return [
            (folder / CONFIG, paths.CONTAINER_CONFIG),
            (folder / "ld.so.preload", paths.CONTAINER_PRELOAD),
            (folder / self._library.name, paths.CONTAINER_LIBRARY),
            (self._writable.path(record.key, USAGE), paths.CONTAINER_REGION),
            *self._texts(folder),
        ]

    def restore(self, wanted: Wanted) -> None:
        """Write the record (state) of a running container again after it was lost.

        The drivers' ids of the container's slices are read from its files.
        """
        self._records.put(wanted.record(self._ids.read(wanted.key, wanted.slices)))

    def renew(self, record: Record) -> None:
        """Give the slices of a container with a ResourceClaim new driver ids, in its record and in its files.

        The files are written in place: a container that is just being created reads the new ids too. Raises
        NoVendorIdError if no id is free now, and OSError.
        """
        fresh = replace(record, vendor_ids=self._ids.claim(record.key, record.slices))
        self._records.put(fresh)
        folder = self._records.folder(*record.key)
        for name, text in self._vendor_files(fresh, CLAIM).texts.items():
            with (folder / name).open("r+", encoding="utf-8") as file:
                file.write(text)
                file.truncate()

    def announce(self) -> None:
        """Make runtimes read all CDI specs that were written so far; returns when the runtimes were notified.

        Callers hold no lock. Raises OSError.
        """
        self._reload.notify()

    def remove(self, record: Record) -> None:
        """Remove a container's CDI specs, files and record (state), and release its slices' ids. Raises OSError."""
        self.withdraw(record.names.values())
        self.forget(record.key)
        self._ids.release(record)

    def forget(self, key: tuple[str, str]) -> None:
        """Remove the files of a container, then its record (state on disk), which may be damaged. Raises OSError."""
        self._writable.release(key)
        self._records.forget(*key)

    def withdraw(self, names: Collection[str]) -> None:
        """Remove the spec files of these CDI devices."""
        for name in names:
            self._spec(name).unlink(missing_ok=True)

    def unrecorded(self) -> list[str]:
        """The names of our CDI devices that belong to no known container; a crash between two writes leaves them.

        While records are damaged, devices of ResourceClaims are left out: no call of the kubelet would write them
        again.
        """
        known = {name for record in self._records.all() for name in record.names.values()}
        found = (
            path.name.removeprefix("vgpu-").removesuffix(".json") for path in self._cdi.glob("vgpu-*.json")
        )
        kept = f"{CLAIM}-" if self._records.damaged() else None
        return [name for name in found if name not in known and not (kept and name.startswith(kept))]

    def _vendor_files(self, record: Record, carrier: str) -> ContainerFiles[FamilyLimit]:
        """The vendors' files, devices and variables for the slices, each reduced to the present size of its card.

        `carrier` is the resource whose limit decides the slices' memory, or CLAIM for a ResourceClaim.
        """
        by_vendor: dict[Vendor[Any], list[CardSlice[Any]]] = {}
        for s in record.slices:
            local = self._cards()[s.card]
            by_vendor.setdefault(local.vendor, []).append(
                CardSlice(
                    card=local.card,
                    payload=local.payload,
                    mem_bytes=min(s.mem_mib, local.card.mem_mib) * MIB,
                    cores=[core for core in s.cores if core < local.card.core_groups],
                    vendor_id=record.vendor_ids.get(s.card),
                    request=_request(record, carrier, local.card, s),
                )
            )
        parts = [vendor.files(slices) for vendor, slices in by_vendor.items()]
        return ContainerFiles(
            limits=[limit for part in parts for limit in part.limits],
            devices=[device for part in parts for device in part.devices],
            texts={name: text for part in parts for name, text in part.texts.items()},
            mounts=[mount for part in parts for mount in part.mounts],
            preloads=[path for part in parts for path in part.preloads],
            environment={name: value for part in parts for name, value in part.environment.items()},
        )

    def _mounts(self, record: Record, more: Iterable[Mount]) -> list[dict[str, object]]:
        own = [
            _mount(path, inside, READ_WRITE if inside == paths.CONTAINER_REGION else READ_ONLY)
            for path, inside in self.files(record)
        ]
        progress = self._writable.path(record.key, PROGRESS)
        own.append(_mount(progress, paths.CONTAINER_PROGRESS, READ_WRITE))
        folder = self._records.folder(*record.key)
        own += [
            _mount(folder / tool.name, inside, READ_ONLY)
            for tool in self._tools
            for inside in paths.CONTAINER_TOOLS[tool.name]
        ]
        return own + [_mount(m.host, m.path, READ_ONLY if m.read_only else READ_WRITE) for m in more]

    def _texts(self, folder: Path) -> list[tuple[Path, str]]:
        """The vendors' files in a container's folder: for each its path on this machine, and in the container."""
        found = (
            (path, v.container_path(path.name)) for path in sorted(folder.glob("*")) for v in self._vendors
        )
        return [(path, inside) for path, inside in found if inside is not None]

    def _write_texts(self, folder: Path, texts: Mapping[str, str]) -> None:
        for path, _ in self._texts(folder):
            if path.name not in texts:
                path.unlink()
        for name, text in texts.items():
            write_file(folder / name, text)

    def _link(self, target: Path) -> None:
        fresh = target.with_name(f".{target.name}.tmp")
        fresh.unlink(missing_ok=True)
        os.link(self._copies / target.name, fresh)
        fresh.replace(target)

    def _spec(self, name: str) -> Path:
        return self._cdi / f"vgpu-{name}.json"

    def _guarded(
        self, record: Record, resource: str, devices: Iterable[DeviceNode] = ()
    ) -> Mapping[str, object]:
        """The given device nodes and then the guard, as the CDI device of `resource` has them.

        The guard is a device node in the container's folder, for which the runtime looks before it creates the
        container.
        """
        nodes = [{"path": d.path, "hostPath": d.host, "permissions": "rw"} for d in devices]
        present = self._records.folder(*record.key) / PRESENT
        guard = {"path": f"/dev/vgpu/{record.names[resource]}", "hostPath": str(present)}
        return {"deviceNodes": [*nodes, guard]}

    def _publish(self, name: str, edits: Mapping[str, Mapping[str, object]]) -> None:
        devices = [{"name": each, "containerEdits": edit} for each, edit in sorted(edits.items())]
        body = {"cdiVersion": CDI_VERSION, "kind": KIND, "devices": devices}
        text = json.dumps(body, separators=(",", ":"))
        if not self._spec(name).exists() or self._spec(name).read_text(encoding="utf-8") != text:
            write_file(self._spec(name), text, self._aside)
            self._reload.changed()


def _request(record: Record, carrier: str, card: Card, slice_: Slice) -> str:
    """The limit, or the claim's capacity, that decides the memory of the slice, as vgpu.conf has it.

    `carrier` is the resource of the limit.
    """
    if record.claim:
        return config.request_value(f"{device_class(card.family)}/{MEMORY}", f"{memory_mib(card, slice_)}Mi")
    # The carrier is the limit that decides the slice's memory, and has a ticket for each unit of it.
    return config.request_value(carrier, len(record.tickets[carrier]))


def _mount(host: Path | str, inside: str, options: Sequence[str]) -> dict[str, object]:
    return {"hostPath": str(host), "containerPath": inside, "options": list(options)}
