"""`vgpu-smi`: what it shows of a slice, whatever the container's processes have made of its files."""

import json
import os
import random
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from device_plugin.core.contract import masks
from tests.runtime.conftest import GPU, MIB, STRICT, Slice, card
from tests.runtime.slices import SHAPES, all_groups, group_units
from tests.runtime.test_region import lock_slots
from vgpu_runtime import config, region
from vgpu_runtime.config import CardLimit, SliceConfig
from vgpu_runtime.paths import SOURCES
from vgpu_runtime.rocm import RocmLimit

NO_LIBC = (
    *("-ffreestanding", "-fno-stack-protector", "-fno-pie", "-fno-tree-loop-distribute-patterns"),
    *("-static", "-nostdlib", "-no-pie"),
)
UNKNOWN = "vgpu-smi: what is used is not known: missing or damaged is {}\n"


@dataclass(frozen=True)
class Smi:
    """The program, and the folder of the files that it reads."""

    program: Path
    folder: Path

    def configure(self, *cards: CardLimit[RocmLimit]) -> None:
        (self.folder / "vgpu.conf").write_text(
            config.render(SliceConfig("pod-1", "main", cards or (card(),)))
        )
        region.create(self.folder / "usage")

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [self.program, *words], env={}, capture_output=True, text=True, check=False, timeout=60
        )

    def json(self, status: int = 0) -> Any:
        done = self.run("--json")
        assert done.returncode == status
        return json.loads(done.stdout)


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the product, built for a folder of its own."""
    folder = tmp_path_factory.mktemp("smi")
    files = {"CONFIG": folder / "files" / "vgpu.conf", "REGION": folder / "files" / "usage"}
    defines = [f'-DVGPU_{name}_PATH="{path}"' for name, path in files.items()]
    sources = [str(SOURCES / "tools" / f"{name}.c") for name in ("smi", "output", "region_usage", "strings")]
    includes = [f"-I{SOURCES / each}" for each in ("include", "native/common")]
    command = ["cc", *STRICT, *NO_LIBC, "-DVGPU_PATHS_H", *defines, *includes, *sources]
    subprocess.run(
        [*command, str(SOURCES / "native/common/config.c"), "-o", str(folder / "vgpu-smi")], check=True
    )
    return folder / "vgpu-smi"


@pytest.fixture
def smi(program: Path) -> Iterator[Smi]:
    folder = program.parent / "files"
    folder.mkdir()
    yield Smi(program, folder)
    for path in folder.iterdir():
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    folder.rmdir()


def own_slots(folder: Path, first: int, count: int) -> int:
    """A descriptor that keeps slots, as a process with the library does."""
    owner = os.open(folder / "usage", os.O_RDWR)
    lock_slots(owner, first, count)
    return owner


def put(owner: int, offset: int, *values: int) -> None:
    os.pwrite(owner, struct.pack(f"<{len(values)}Q", *values), offset)


def test_what_the_library_wrote(smi: Smi, container: Slice) -> None:
    container.folder = smi.folder
    container.configure()
    script = (
        "kfd.alloc(GPU, 300 * MIB + 1)\n"
        "try: kfd.alloc(GPU, 900 * MIB)\n"
        "except OSError: print('refused', flush=True)\n"
        "input()"
    )
    with container.start(script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "refused\n"
        table, found = smi.run(), smi.json()
        name = Path(f"/proc/{process.pid}/comm").read_text().strip()
        process.kill()
    assert table.stderr == ""
    assert table.stdout.splitlines() == [
        "pod pod-1, container main (hygon.com/dcu-mem: 1)",
        "",
        "CARD   MODEL  LIMIT         IN USE              REFUSED    UNITS       CORE GROUPS",
        "DCU-1  Z100   1024 MiB      301 MiB (29 %)      1          15 of 60    10-24",
        "",
        "PROCESS  NAME             CARD   IN USE",
        f"{process.pid:<9}{name:<17}DCU-1  301 MiB",
    ]
    used = 300 * MIB + 4096
    assert found == {
        "pod": "pod-1",
        "container": "main",
        "enforcement": "observe",
        "cards": [
            {
                "uuid": "DCU-1",
                "pci": "0000:19:00.0",
                "model": "Z100",
                "request": "hygon.com/dcu-mem:1",
                "memoryLimitBytes": 1024 * MIB,
                "memoryUsedBytes": used,
                "refusedAllocations": 1,
                "units": 15,
                "cardUnits": 60,
                "coreGroups": list(range(10, 25)),
            }
        ],
        "processes": [{"pid": process.pid, "name": name, "memoryUsedBytes": [used]}],
    }


def test_idle_slice(smi: Smi) -> None:
    smi.configure(card(uuid="GPU-0123456789abcdef", model="RX 6950 XT", mem_bytes=4092 * MIB))
    done = smi.run()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[2:] == [
        "CARD                  MODEL       LIMIT         IN USE              REFUSED    UNITS       CORE GROUPS",
        "GPU-0123456789abcdef  RX 6950 XT  4092 MiB      0 MiB (0 %)         0          15 of 60    10-24",
    ]
    assert smi.json()["processes"] == []


def test_a_request_that_is_not_known_is_not_shown(smi: Smi) -> None:
    smi.configure(card(request="?"))
    assert smi.run().stdout.splitlines()[0] == "pod pod-1, container main"
    assert smi.json()["cards"][0]["request"] is None


@pytest.mark.parametrize("shape", SHAPES)
def test_core_groups_of_every_shape(smi: Smi, shape: str) -> None:
    hardware = SHAPES[shape]
    size, rng = group_units(hardware), random.Random(shape)
    groups = sorted(rng.sample(range(all_groups(hardware)), all_groups(hardware) // 2))
    mask = masks.unit_mask(groups, size)
    limit = card(compute_units=hardware.compute_units, xcc=hardware.xcc, paired=hardware.paired, mask=mask)
    smi.configure(limit)
    (found,) = smi.json()["cards"]
    assert (found["coreGroups"], found["units"], found["cardUnits"]) == (
        groups,
        mask.bit_count(),
        hardware.compute_units,
    )


def test_processes_on_several_cards(smi: Smi) -> None:
    smi.configure(card(), card(gpu_id=GPU + 1, uuid="DCU-2"))
    owner = own_slots(smi.folder, 3, 2)
    put(owner, region.PIDS_OFFSET + 3 * 8, os.getpid(), 1)
    for index in range(2):
        put(owner, region.USED_OFFSET + (index * region.SLOTS + 3) * 8, (index + 1) * MIB)
    rows = smi.run().stdout.splitlines()
    assert [row.split()[2:] for row in rows[-3:]] == [
        ["DCU-1", "1", "MiB"],
        ["DCU-2", "2", "MiB"],
        ["DCU-1", "0", "MiB"],
    ]
    assert [p["memoryUsedBytes"] for p in smi.json()["processes"]] == [[MIB, 2 * MIB], [0, 0]]
    os.close(owner)
    assert smi.json()["processes"] == []


def test_a_slot_without_a_pid_names_none(smi: Smi) -> None:
    smi.configure()
    owner = own_slots(smi.folder, 0, 1)
    put(owner, region.USED_OFFSET, 5 * MIB)
    assert smi.json()["processes"] == [{"pid": None, "name": "", "memoryUsedBytes": [5 * MIB]}]
    assert smi.run().stdout.splitlines()[-1].split() == ["-", "DCU-1", "5", "MiB"]


@pytest.mark.parametrize(
    "damage", ["missing", "short", "long", "garbage", "fifo", "folder", "link", "version"]
)
def test_damaged_region_is_use_that_is_not_known(smi: Smi, damage: str) -> None:
    smi.configure()
    path = smi.folder / "usage"
    content = bytearray(path.read_bytes())
    path.unlink()
    match damage:
        case "short":
            path.write_bytes(content[:-1])
        case "long":
            path.write_bytes(content + b"\0")
        case "garbage":
            path.write_bytes(random.Random(1).randbytes(region.SIZE))
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "link":
            (smi.folder / "elsewhere").write_bytes(content)
            path.symlink_to("elsewhere")
        case "version":
            content[8] = region.VERSION + 1
            path.write_bytes(content)
    done = smi.run()
    assert (done.returncode, done.stderr) == (1, UNKNOWN.format(path))
    assert done.stdout.splitlines()[-1].split()[:8] == [
        "DCU-1",
        "Z100",
        "1024",
        "MiB",
        "not",
        "known",
        "not",
        "known",
    ]
    found = smi.json(status=1)
    assert (found["processes"], found["cards"][0]["memoryUsedBytes"]) == (None, None)


def test_garbage_in_every_cell(smi: Smi) -> None:
    """All slots are taken, and every cell says the most or random numbers."""
    smi.configure(*(card(gpu_id=GPU + i, uuid=f"DCU-{'x' * 200}{i}") for i in range(region.CARDS)))
    owner = own_slots(smi.folder, 0, region.SLOTS)
    rng = random.Random(2)
    cells = region.CARDS * region.SLOTS
    put(owner, region.PIDS_OFFSET, *(rng.getrandbits(64) for _ in range(region.SLOTS)))
    put(owner, region.DENIED_OFFSET, *(rng.getrandbits(64) for _ in range(cells)))
    put(owner, region.USED_OFFSET, *[region.USED_MAX] * cells)
    found = smi.json()
    assert len(found["processes"]) == region.SLOTS
    assert {p["pid"] for p in found["processes"]} == {None}
    assert {c["memoryUsedBytes"] for c in found["cards"]} == {region.USED_MAX * region.SLOTS}
    assert smi.run().returncode == 0
    put(owner, region.USED_OFFSET, region.USED_MAX + 1)
    assert smi.json(status=1)["processes"] is None
    os.close(owner)


def test_names_are_shown_as_text(smi: Smi) -> None:
    """A hostile name neither writes to the terminal nor breaks the JSON."""
    smi.configure(card(uuid='D"\\C', model='a"\\ b', request='a"\\:1'))
    owner = own_slots(smi.folder, 0, 1)
    rename = r"""printf '\033[2J\n"\\\377' > /proc/$$/comm; echo renamed; read -r end"""
    with subprocess.Popen(["sh", "-c", rename], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"renamed\n"
        put(owner, region.PIDS_OFFSET, process.pid)
        found, table = smi.json(), smi.run().stdout
        process.kill()
    assert (found["processes"][0]["name"], found["cards"][0]["uuid"]) == ('?[2J?"\\?', 'D"\\C')
    assert (found["cards"][0]["model"], found["cards"][0]["request"]) == ('a"\\ b', 'a"\\:1')
    assert table.replace("\n", " ").isprintable()
    os.close(owner)


def test_container_without_a_slice(smi: Smi) -> None:
    done = smi.run()
    path = smi.folder / "vgpu.conf"
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"vgpu-smi: this container has no slice: it cannot read {path}\n"


def test_config_that_the_library_refuses(smi: Smi) -> None:
    smi.configure()
    path = smi.folder / "vgpu.conf"
    path.write_text("mem=4\n")
    done = smi.run()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"vgpu-smi: {path}: a line is not 'key = value'")


def test_watch_shows_it_again(smi: Smi) -> None:
    smi.configure()
    with subprocess.Popen(
        [smi.program, "--json", "--watch", "1"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        owner = own_slots(smi.folder, 0, 1)
        second = json.loads(process.stdout.readline())
        process.kill()
    os.close(owner)
    assert (len(first["processes"]), len(second["processes"])) == (0, 1)


def test_watch_ends_with_its_reader(smi: Smi) -> None:
    smi.configure()
    command = f"trap '' PIPE; {smi.program} --watch 1; echo $? >&2"
    with subprocess.Popen(
        ["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == "1\n"


def test_output_that_cannot_be_written(smi: Smi) -> None:
    smi.configure()
    with Path("/dev/full").open("w") as full:
        assert subprocess.run([smi.program], stdout=full, check=False).returncode == 1


@pytest.mark.parametrize(
    "words",
    [
        ["--wrong"],
        ["x"],
        ["--watch", "0"],
        ["--watch", "x"],
        ["--watch", "1.5"],
        ["--watch", "3601"],
        ["--watch", "1" * 50],
    ],
)
def test_wrong_arguments(smi: Smi, words: list[str]) -> None:
    done = smi.run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: vgpu-smi")


def test_help(smi: Smi) -> None:
    done = smi.run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "--watch [SECONDS]" in done.stdout


def test_it_needs_no_libc_and_no_loader(native: Path) -> None:
    content = (native / "vgpu-smi").read_bytes()
    assert b"ld-linux" not in content
    assert b"libc.so" not in content
    assert len(content) < 32768
    done = subprocess.run([native / "vgpu-smi", "--help"], env={}, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: vgpu-smi")
