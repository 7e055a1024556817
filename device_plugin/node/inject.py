"""Inject: the files of a grant, and the CDI spec through which the runtime brings them into the container.

CDI: github.com/cncf-tags/container-device-interface, SPEC.md 0.6.0. One spec file for each container, with a device for
each of its names (two files with one device cancel each other), moved in whole from a folder beside; `announce` then
makes runtimes read it (see bell.py). Every mount source lies in the folder of the container that it is for, so a stale
spec of a reused name points at nothing. Each device names a device node there as well: the runtime looks for that one
before there is a container, and the kubelet tries again. A mount that fails counts as a failed start, after which a pod
that never restarts is Failed for good (tests/contract/kubelet/test_injection.py).
"""

import filecmp
import hashlib
import json
import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from device_plugin.core.grants import Slice
from device_plugin.core.masks import unit_mask
from device_plugin.node.bell import Bell
from device_plugin.node.discover import LocalCard
from device_plugin.node.ports import Cards
from device_plugin.node.records import Record, Records, write_file
from vgpu_runtime import config, paths, region, rocm, vdev
from vgpu_runtime.config import CardLimit
from vgpu_runtime.rocm import RocmLimit

KIND = "vgpu.io/slice"
CDI_VERSION = "0.6.0"
# Only what a tenant can write needs more; every word counts, because a runtime reads all specs after each change.
READ_ONLY = ["ro", "bind"]
READ_WRITE = ["rw", "bind", "nosuid", "nodev", "noexec"]
# A FIFO that nobody opens: the one kind of device node that needs no privilege to make.
PRESENT = "present"
CONFIG = "vgpu.conf"
MIB = 1 << 20


def cdi_name(resource: str, tickets: Collection[str]) -> str:
    """The CDI device of a set of tickets: `dcu-mem-` and a hash. Any order of the same tickets gives the same name."""
    digest = hashlib.sha256(",".join(sorted(tickets)).encode()).hexdigest()[:16]
    return f"{resource.rpartition('/')[2]}-{digest}"


class Injector:
    """Writes and withdraws what containers get. Callers see to it that one container is not written twice at once."""

    def __init__(self, records: Records, cards: Cards, state: Path, cdi: Path, library: Path) -> None:
        self._records = records
        self._cards = cards
        self._cdi = cdi
        self._aside = cdi / ".vgpu"
        self._bell = Bell(cdi)
        self._library = library
        self._copy = state / "lib" / library.name

    def prepare(self) -> None:
        """Make the folders, take a copy of the library, and remove what a crash left half-written.

        Raises OSError if a folder or the library is not there.
        """
        self._aside.mkdir(parents=True, exist_ok=True)
        for leftover in (*self._cdi.glob(".vgpu-*"), *self._aside.iterdir()):
            leftover.unlink(missing_ok=True)
        self._bell.changed()  # if it was killed before it could say so
        self._bell.ring()
        self._copy.parent.mkdir(parents=True, exist_ok=True)
        if not self._copy.exists() or not filecmp.cmp(self._library, self._copy, shallow=False):
            fresh = self._copy.with_name(f".{self._copy.name}.tmp")
            shutil.copyfile(self._library, fresh)
            fresh.chmod(0o755)
            fresh.replace(self._copy)

    def carry(self, record: Record, carrier: str, locals_: Mapping[str, LocalCard]) -> None:
        """Write the container's files, then the spec: the device of the resource `carrier` mounts them.

        The devices of its other resources bring nothing along but their guard, for an edit cannot be empty. A runtime
        need not know of it before `announce`.
        """
        folder = self._records.folder(*record.key)
        limits = [_limit(locals_[s.card], s.mem_mib, s.cores) for s in record.slices]
        contents = config.SliceConfig(record.pod, record.container, tuple(limits))
        write_file(folder / CONFIG, config.render(contents))
        preloads = (paths.CONTAINER_LIBRARY, *self._cards.preloads())
        write_file(folder / "ld.so.preload", "".join(f"{path}\n" for path in preloads))
        self._link(folder / self._library.name)
        (folder / "region").mkdir(exist_ok=True)
        region.create(folder / "region" / "usage")
        self._write_vdevs(record, limits)
        mounts = [
            _mount(path, inside, READ_WRITE if inside == paths.CONTAINER_REGION else READ_ONLY)
            for path, inside in self.files(record)
        ]
        mounts += [
            _mount(m.host, m.path, READ_ONLY if m.read_only else READ_WRITE) for m in self._cards.extras()
        ]
        devices = self._cards.devices([locals_[s.card].found for s in record.slices])
        nodes = [{"path": d.path, "hostPath": d.host, "permissions": "rw"} for d in devices]
        with suppress(FileExistsError):
            os.mkfifo(folder / PRESENT)
        edits = {
            record.names[resource]: self._guarded(record, resource)
            for resource in record.names.keys() - {carrier}
        }
        edits[record.names[carrier]] = {
            **_variables(limits),
            "mounts": mounts,
            **self._guarded(record, carrier, nodes),
        }
        self._publish(record.names[carrier], edits)

    def files(self, record: Record) -> list[tuple[Path, str]]:
        """The files that the container's limits rest on: where they are here, and in the container."""
        folder = self._records.folder(*record.key)
        vdevs = sorted(folder.glob(vdev.file_name("*")))
        return [
            (folder / CONFIG, paths.CONTAINER_CONFIG),
            (folder / "ld.so.preload", "/etc/ld.so.preload"),
            (folder / self._library.name, paths.CONTAINER_LIBRARY),
            (folder / "region" / "usage", paths.CONTAINER_REGION),
            *((path, f"{paths.CONTAINER_VDEV_FOLDER}/{path.name}") for path in vdevs),
        ]

    def pipes(self, key: tuple[str, str], slices: Sequence[Slice]) -> Mapping[str, int]:
        """By card, the vendor's pipes that the files of a container name; none of files that cannot be read."""
        found: dict[str, int] = {}
        for number, slice_ in enumerate(slices):
            with suppress(OSError, UnicodeDecodeError):
                text = (self._records.folder(*key) / vdev.file_name(number)).read_text(encoding="utf-8")
                if (pipe := vdev.pipe_of(text)) is not None:
                    found[slice_.card] = pipe
        return found

    def announce(self) -> None:
        """Return when runtimes have been told to read all that was carried; hold no lock meanwhile. Raises OSError."""
        self._bell.ring()

    def carried(self, key: tuple[str, str]) -> bool:
        """True if the files of the container of this key were written before."""
        return (self._records.folder(*key) / CONFIG).exists()

    def withdraw(self, names: Collection[str]) -> None:
        """Remove the specs of these CDI devices."""
        for name in names:
            self._spec(name).unlink(missing_ok=True)

    def strays(self) -> list[str]:
        """CDI devices of ours that no record names: what a crash between two writes leaves."""
        known = {name for record in self._records.all() for name in record.names.values()}
        found = (
            path.name.removeprefix("vgpu-").removesuffix(".json") for path in self._cdi.glob("vgpu-*.json")
        )
        return [name for name in found if name not in known]

    def _write_vdevs(self, record: Record, limits: Sequence[CardLimit[RocmLimit]]) -> None:
        folder = self._records.folder(*record.key)
        wanted = {vdev.file_name(number): (number, limit) for number, limit in enumerate(limits)}
        for stale in folder.glob(vdev.file_name("*")):
            if stale.name not in wanted:
                stale.unlink()
        for name, (number, limit) in wanted.items():
            if limit.uuid in record.pipes:
                pipe = record.pipes[limit.uuid]
                write_file(folder / name, vdev.render(limit, vdev_id=number, pipe_id=pipe, device_id=number))

    def _link(self, target: Path) -> None:
        fresh = target.with_name(f".{target.name}.tmp")
        fresh.unlink(missing_ok=True)
        os.link(self._copy, fresh)
        fresh.replace(target)

    def _spec(self, name: str) -> Path:
        return self._cdi / f"vgpu-{name}.json"

    def _guarded(
        self, record: Record, resource: str, nodes: Sequence[Mapping[str, object]] = ()
    ) -> Mapping[str, object]:
        present = self._records.folder(*record.key) / PRESENT
        guard = {"path": f"/dev/vgpu/{record.names[resource]}", "hostPath": str(present)}
        return {"deviceNodes": [*nodes, guard]}

    def _publish(self, name: str, edits: Mapping[str, Mapping[str, object]]) -> None:
        devices = [{"name": each, "containerEdits": edit} for each, edit in sorted(edits.items())]
        body = {"cdiVersion": CDI_VERSION, "kind": KIND, "devices": devices}
        text = json.dumps(body, separators=(",", ":"))
        # What an agent of before wrote for one of the other names alone would cancel the device out.
        self.withdraw(edits.keys() - {name})
        if not self._spec(name).exists() or self._spec(name).read_text(encoding="utf-8") != text:
            write_file(self._spec(name), text, self._aside)
            self._bell.changed()


def _variables(limits: Sequence[CardLimit[RocmLimit]]) -> dict[str, object]:
    """The CDI edit with the slice's environment variables; empty if it has none.

    Runtimes apply it after image, Allocate and pod spec.
    """
    variables = [
        f"{name}={value}" for name, value in rocm.environment([limit.family for limit in limits]).items()
    ]
    return {"env": variables} if variables else {}


def _mount(host: Path | str, inside: str, options: Sequence[str] = READ_ONLY) -> dict[str, object]:
    return {"hostPath": str(host), "containerPath": inside, "options": list(options)}


def _limit(local: LocalCard, mem_mib: int, cores: Sequence[int]) -> CardLimit[RocmLimit]:
    """The limit of one card: the granted memory and core groups, reduced to what the card still has."""
    card, found = local.card, local.found
    return CardLimit(
        uuid=card.uuid,
        pci=card.pci,
        mem_bytes=min(mem_mib, card.mem_mib) * MIB,
        family=RocmLimit(
            gpu_id=found.gpu_id,
            render_minor=found.render_minor,
            compute_units=card.compute_units,
            xcc=found.xcc,
            paired=found.paired,
            mask=unit_mask([core for core in cores if core < card.core_groups], card.group_units),
        ),
    )
