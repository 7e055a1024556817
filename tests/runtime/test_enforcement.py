"""With a config, without one, with one that nobody can read; and with a region that the tenant has ruined."""

import os

import pytest

from tests.runtime.conftest import Slice
from tests.runtime.test_memory import REFUSED, TRY
from vgpu_runtime import region


def test_without_a_config_nothing_happens(container: Slice) -> None:
    lines = container.output(
        TRY + "print(attempt(1 << 40) > 0, kfd.create_queue(99)); print(kfd.available(GPU) > 0)"
    )
    assert lines[0] == "True 1"
    assert not [line for line in container.log if line.startswith("mask")]
    assert sorted(path.name for path in container.folder.iterdir()) == ["log"]


@pytest.mark.parametrize("text", ["", "mem=4\n", "\x00" * 1000, "version = 1\n"])
def test_malformed_config_fails_closed_with_one_line(container: Slice, text: str) -> None:
    container.configure()
    (container.folder / "vgpu.conf").write_text(text)
    done = container.run(
        TRY + "print(attempt(4096)); print(attempt(4096)); print(attempt(4096, flags=2) > 0)\n"
        "for _ in range(2):\n"
        "    try: kfd.create_queue(GPU)\n"
        "    except OSError as error: print(os.strerror(error.errno))\n"
    )
    assert done.stdout.splitlines() == [REFUSED, REFUSED, "True", REFUSED, REFUSED]
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("vgpu: the card is refused, because of /etc/vgpu/vgpu.conf: ")


def test_unreadable_config_fails_closed(container: Slice) -> None:
    (container.folder / "vgpu.conf").mkdir()
    done = container.run(TRY + "print(attempt(4096))")
    assert done.stdout == f"{REFUSED}\n"
    assert done.stderr == "vgpu: the card is refused, because of /etc/vgpu/vgpu.conf: it cannot be read\n"


def damage_none(container: Slice) -> None:
    container.region.unlink()


def damage_truncated(container: Slice) -> None:
    os.truncate(container.region, 100)


def damage_garbage(container: Slice) -> None:
    container.region.write_bytes(os.urandom(region.SIZE))


def damage_link(container: Slice) -> None:
    container.region.rename(container.folder / "elsewhere")
    container.region.symlink_to(container.folder / "elsewhere")


def damage_pipe(container: Slice) -> None:
    container.region.unlink()
    os.mkfifo(container.region)


@pytest.mark.parametrize("damage", [damage_none, damage_truncated, damage_garbage, damage_link, damage_pipe])
def test_ruined_region_refuses_with_one_line(container: Slice, damage: object) -> None:
    container.configure()
    damage(container)  # type: ignore[operator]
    done = container.run(
        TRY + "print(attempt(MIB)); print(attempt(MIB)); print(kfd.available(GPU) // MIB)\n"
        "try: kfd.create_queue(GPU)\n"
        "except OSError as error: print(os.strerror(error.errno))"
    )
    assert done.stdout.splitlines() == [REFUSED, REFUSED, "1024", REFUSED]
    assert len(done.stderr.splitlines()) == 1
    assert "usage region" in done.stderr


@pytest.mark.parametrize(
    "attack",
    [
        "os.truncate(path, 0)",
        "os.truncate(path, 5000)",
        "os.truncate(path, 1 << 30)",
        "open(path, 'r+b').write(bytes(40000))",
        "open(path, 'r+b').write(os.urandom(36864))",
    ],
)
def test_attack_while_in_use_neither_crashes_nor_raises_the_limit(container: Slice, attack: str) -> None:
    container.configure()
    done = container.run(
        TRY + f"path = {str(container.region)!r}\n"
        "total, handles = 0, []\n"
        "for turn in range(40):\n"
        "    handle = attempt(100 * MIB)\n"
        "    if isinstance(handle, int): handles.append(handle)\n"
        f"    {attack}\n"
        "print(len(handles) <= 10)\n"
        "for handle in handles: kfd.free(handle)\n"
        "print(kfd.available(GPU) <= 1024 * MIB)"
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, ["True", "True"])
    assert len(done.stderr.splitlines()) <= 1


def test_garbage_in_dead_slots_is_reaped(container: Slice) -> None:
    container.configure()
    with container.region.open("r+b") as file:
        file.seek(region.USED_OFFSET)
        file.write(b"\xff" * 8 * region.SLOTS)
    assert container.output(TRY + "print(attempt(1000 * MIB) > 0)") == ["True"]


def test_every_slot_taken(container: Slice) -> None:
    container.configure()
    script = (
        "import fcntl, struct\n"
        f"owner = open({str(container.region)!r}, 'r+b')\n"
        f"lock = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, {region.LOCK_SLOT}, {region.SLOTS}, 0)\n"
        "fcntl.fcntl(owner, fcntl.F_OFD_SETLK, lock)\n"
        "print(attempt(MIB)); owner.close(); print(attempt(MIB) > 0)"
    )
    done = container.run(TRY + script)
    assert done.stdout.splitlines() == [REFUSED, "True"]
