"""The agent's reader, on whatever a tenant makes of the file, and the layout that it shares with the library."""

import fcntl
import os
import random
import re
import struct
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from tests.runtime.conftest import MIB, Slice
from tests.runtime.regions import read_damaged
from vgpu_runtime import region
from vgpu_runtime.paths import SOURCES
from vgpu_runtime.region import RegionError

HEADER_CONSTANTS = {
    "MAGIC": region.MAGIC,
    "VERSION": region.VERSION,
    "SLOTS": region.SLOTS,
    "CARDS": region.CARDS,
    "PIDS_OFFSET": region.PIDS_OFFSET,
    "USED_OFFSET": region.USED_OFFSET,
    "DENIED_OFFSET": region.DENIED_OFFSET,
    "SIZE": region.SIZE,
    "LOCK_SLOT": region.LOCK_SLOT,
}


def test_constants_equal_the_librarys() -> None:
    text = (SOURCES / "include" / "vgpu_region.h").read_text()
    defines = dict(re.findall(r"^#define VGPU_REGION_(\w+) (.+?)(?: /\*.*)?$", text, re.MULTILINE))
    values: dict[str, int] = {}
    for name, expression in defines.items():
        plain = re.sub(r"VGPU_REGION_|UINT64_C", "", expression)
        values[name] = eval(plain, {}, values)  # noqa: S307 - arithmetic of our own header
    assert values == HEADER_CONSTANTS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    region.create(tmp_path / "usage")
    return tmp_path / "usage"


def put(path: Path, offset: int, value: int) -> None:
    with path.open("r+b") as file:
        os.pwrite(file.fileno(), struct.pack("<Q", value), offset)


def cell(card: int, slot: int, base: int = region.USED_OFFSET) -> int:
    return base + (card * region.SLOTS + slot) * 8


def test_new_region_is_empty_and_writable_by_all(path: Path) -> None:
    usage = region.read(path)
    assert (set(usage.used_bytes), set(usage.denied), usage.live_slots) == ({0}, {0}, 0)
    assert path.stat().st_mode & 0o777 == 0o666
    assert path.stat().st_size == region.SIZE


def test_only_locked_slots_count(path: Path) -> None:
    put(path, cell(1, 5), 7 * MIB)
    put(path, cell(1, 6), 9 * MIB)
    put(path, cell(1, 6, region.DENIED_OFFSET), 3)
    with path.open("r+b") as owner:
        lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, region.LOCK_SLOT + 5, 1, 0)
        fcntl.fcntl(owner, fcntl.F_OFD_SETLK, lock)
        usage = region.read(path)
    assert (usage.used_bytes[1], usage.denied[1], usage.live_slots) == (7 * MIB, 3, 1)
    assert region.read(path).live_slots == 0


def lock_slots(owner: int, first: int, count: int) -> None:
    """Lock slots for the open file; a `count` of 0 locks everything behind the first."""
    query = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, region.LOCK_SLOT + first, count, 0)
    fcntl.fcntl(owner, fcntl.F_OFD_SETLK, query)


def test_slots_are_found_however_their_locks_are_cut(path: Path) -> None:
    rng = random.Random(0)
    for _ in range(200):
        wanted: set[int] = set()
        owners = [os.open(path, os.O_RDWR) for _ in range(rng.randint(0, 6))]
        for owner in owners:
            first, length = rng.randrange(-2, region.SLOTS), rng.randint(1, 40)
            free = not wanted & set(range(first, first + length))
            if free:
                lock_slots(owner, first, length)
                wanted |= set(range(max(first, 0), min(first + length, region.SLOTS)))
        assert region.read(path).live_slots == len(wanted), wanted
        for owner in owners:
            os.close(owner)


def test_a_lock_on_all_that_follows_counts_for_every_slot(path: Path) -> None:
    with path.open("r+b") as owner:
        lock_slots(owner.fileno(), 3, 0)
        assert region.read(path).live_slots == region.SLOTS - 3


def test_few_queries_are_made_whatever_is_locked(path: Path, mocker: MockerFixture) -> None:
    """Each query takes the longer the more locks the tenant has made."""
    queries = mocker.spy(fcntl, "fcntl")
    assert region.read(path).live_slots == 0
    assert queries.call_count == 1
    with path.open("r+b") as owner:
        lock_slots(owner.fileno(), 7, 1)
        queries.reset_mock()
        assert region.read(path).live_slots == 1
    assert queries.call_count == 3


def test_the_search_for_locks_gives_up_in_time(path: Path) -> None:
    """Each query seems to take 2 ms, as with some hundred thousand locks."""
    now = iter(range(1000))
    with path.open("r+b") as owner:
        for slot in range(0, region.SLOTS, 2):
            lock_slots(owner.fileno(), slot, 1)
        with pytest.raises(RegionError, match="so many locks"):
            region.read(path, lambda: next(now) * 0.002)
    assert next(now) < 6


@pytest.mark.parametrize("size", [0, 1, 24, 4096, region.SIZE - 1, region.SIZE + 1])
def test_wrong_size_is_refused(path: Path, size: int) -> None:
    os.truncate(path, size)
    with pytest.raises(RegionError):
        region.read(path)


@pytest.mark.parametrize("version", [0, region.VERSION - 1, region.VERSION + 1])
def test_another_version_is_refused(path: Path, version: int) -> None:
    assert region.read(path).live_slots == 0
    with path.open("r+b") as file:
        os.pwrite(file.fileno(), struct.pack("<I", version), 8)
    with pytest.raises(RegionError, match=f"of version {region.VERSION}"):
        region.read(path)


def test_garbage_is_refused(path: Path, rng: random.Random) -> None:
    path.write_bytes(rng.randbytes(region.SIZE))
    with pytest.raises(RegionError):
        region.read(path)


def test_garbage_behind_the_header_is_refused_only_in_live_slots(path: Path) -> None:
    put(path, cell(0, 3), region.USED_MAX + 1)
    assert region.read(path).used_bytes[0] == 0
    with path.open("r+b") as owner:
        lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, region.LOCK_SLOT + 3, 1, 0)
        fcntl.fcntl(owner, fcntl.F_OFD_SETLK, lock)
        with pytest.raises(RegionError):
            region.read(path)


def test_whatever_a_tenant_changes_the_agent_gets_figures_or_a_refusal(
    tmp_path: Path, rng: random.Random
) -> None:
    """`hack/fuzz agent` does this for longer."""
    for _ in range(300):
        read_damaged(tmp_path / "usage", rng)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        region.read(tmp_path / "usage")


def test_link_in_its_place_is_not_followed(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        region.read(path)


def test_what_the_library_wrote(container: Slice) -> None:
    container.configure()
    script = (
        "kfd.alloc(GPU, 300 * MIB); kfd.alloc(GPU, 200 * MIB)\n"
        "try: kfd.alloc(GPU, 600 * MIB)\n"
        "except OSError: print('refused', flush=True)\n"
        "input()"
    )
    with container.start(script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "refused\n"
        usage = region.read(container.region)
        (pid,) = struct.unpack_from("<Q", container.region.read_bytes(), region.PIDS_OFFSET)
        process.kill()
    assert (usage.used_bytes[0], usage.denied[0], usage.live_slots) == (500 * MIB, 1, 1)
    assert pid == process.pid
    assert region.read(container.region).used_bytes[0] == 0
