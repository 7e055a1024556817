"""The simulated driver through the kernel's interface alone."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.requirement import require
from tests.runtime.sim.conftest import Machine
from vgpu_runtime.sim import vram

ONE = "[{preset: hygon-60cu-16gib}]"
TWO = "[{preset: hygon-60cu-16gib, count: 2}]"


def test_processes_share_a_cards_memory(kfd_machine: Callable[[str], Machine]) -> None:
    machine = kfd_machine(TWO)
    with machine.start("hold", 10000) as first:
        assert first.stdout
        assert "hipSuccess" in first.stdout.readline()
        assert machine.ask("info")["free_mib"] == 6368
        assert machine.ask("alloc", 6369)["error"] == "hipErrorOutOfMemory"
        assert machine.ask("alloc", 6368)["error"] == "hipSuccess"
        assert machine.ask("--device", 1, "info")["free_mib"] == 16368
        assert vram.used(machine.folder) == [10000 << 20, 0]
        first.communicate(timeout=60)
    assert vram.used(machine.folder) == [0, 0]


def test_a_killed_process_frees_its_memory(kfd_machine: Callable[[str], Machine]) -> None:
    machine = kfd_machine(ONE)
    with machine.start("hold", 16000) as holder:
        assert holder.stdout
        holder.stdout.readline()
        assert machine.ask("alloc", 1000)["error"] == "hipErrorOutOfMemory"
        holder.send_signal(signal.SIGKILL)
        holder.communicate(timeout=60)
    assert machine.ask("alloc", 16000)["error"] == "hipSuccess"


def test_sysfs_shows_the_memory_in_use(kfd_machine: Callable[[str], Machine]) -> None:
    machine = kfd_machine(TWO)
    shown = machine.folder / "sys/class/drm/card1/device/mem_info_vram_used"
    with machine.start("--device", 1, "hold", 100) as holder:
        assert holder.stdout
        holder.stdout.readline()
        assert int(shown.read_text()) == 100 << 20
        holder.communicate(timeout=60)
    vram.refresh(machine.folder)
    assert int(shown.read_text()) == 0


def test_a_card_without_its_render_node_is_hidden(kfd_machine: Callable[[str], Machine]) -> None:
    machine = kfd_machine("[{preset: hygon-60cu-16gib}, {preset: hygon-120cu-64gib}]")
    (machine.folder / "dev/dri/renderD128").unlink()
    shown = machine.ask("info")
    assert (shown["devices"], shown["total_mib"]) == (1, 65520)
    (machine.folder / "dev/dri/renderD129").unlink()
    assert machine.ask("info") == {"devices": 0, "error": "hipErrorNoDevice"}


def test_hip_does_not_see_a_hidden_card(machine: Callable[[str], Machine]) -> None:
    two = machine("[{preset: hygon-60cu-16gib}, {preset: hygon-120cu-64gib}]")
    (two.folder / "dev/dri/renderD128").unlink()
    assert two.hip("info")["total_mib"] == 65520
    assert two.hip("alloc", 100)["error"] == "hipSuccess"


def test_without_dev_kfd_there_is_no_device(machine: Callable[[str], Machine]) -> None:
    one = machine(ONE)
    (one.folder / "dev/kfd").unlink()
    assert one.ask("info") == {"devices": 0, "error": "hipErrorNoDevice"}
    assert one.hip("info") == {"devices": 0, "error": "hipErrorNoDevice"}


def test_kernels_take_longer_on_fewer_units(kfd_machine: Callable[[str], Machine]) -> None:
    machine = kfd_machine(ONE)
    whole = machine.ask("run", 100)["seconds"]
    quarter = machine.ask("run", 100, "--mask", "7fff")["seconds"]
    assert quarter > 0.04 > 0.01 <= whole  # 100 µs each on the whole card, four times that on a quarter


@pytest.mark.parametrize(
    ("card", "mask", "error"),
    [
        ("hygon-60cu-16gib", "1", "hipSuccess"),
        ("amd-rdna-80cu-16gib", "3", "hipSuccess"),
        ("amd-rdna-80cu-16gib", "6", "hipErrorInvalidValue"),  # half of two pairs
        ("amd-304cu-192gib", "f" * 76, "hipSuccess"),
    ],
)
def test_masks_are_judged_as_the_kernel_does(
    kfd_machine: Callable[[str], Machine], card: str, mask: str, error: str
) -> None:
    machine = kfd_machine(f"[{{preset: {card}}}]")
    assert machine.ask("queue", "--mask", mask)["error"] == error
    (call,) = machine.logged("queue-mask")
    assert int(call["mask"], 16) == int(mask, 16)
    assert (call["error"] == "0") == (error == "hipSuccess")


FORK = """
import fcntl, os, struct, sys

GPU = int(sys.argv[1])


def opened():
    kfd, render = os.open("/dev/kfd", os.O_RDWR), os.open("/dev/dri/renderD128", os.O_RDWR)
    fcntl.ioctl(kfd, 0x40084B15, struct.pack("II", render, GPU))
    return kfd


def alloc(kfd, gib):
    try:
        fcntl.ioctl(kfd, 0xC0284B16, struct.pack("QQQQII", 0, gib << 30, 0, 0, GPU, 1))
    except OSError as error:
        return error.strerror
    return "ok"


child_ready, ready = os.pipe()
parent_lives, parent_end = os.pipe()
kfd = opened()
print("parent", alloc(kfd, 10), flush=True)
if os.fork() == 0:
    os.close(parent_end)
    print("child on the parent's descriptor", alloc(kfd, 1))
    kfd = opened()
    print("child beside the parent", alloc(kfd, 10), alloc(kfd, 5), flush=True)
    os.write(ready, b"1")
    os.read(parent_lives, 1)  # until the parent has ended
    print("child alone", alloc(kfd, 10))
else:
    os.read(child_ready, 1)
    os._exit(0)
"""


def test_a_forked_child_starts_without_its_parents_memory(kfd_machine: Callable[[str], Machine]) -> None:
    machine = kfd_machine(ONE)
    gpu = (machine.folder / "sys/devices/virtual/kfd/kfd/topology/nodes/1/gpu_id").read_text().strip()
    done = subprocess.run(
        [sys.executable, "-c", FORK, gpu],
        env=machine.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "parent ok",
        "child on the parent's descriptor Inappropriate ioctl for device",
        "child beside the parent Cannot allocate memory ok",
        "child alone ok",
    ]


CONTAINER = """
set -e
mount -t tmpfs tmpfs /opt
mkdir /opt/vgpu-sim
for item in sys driver.conf state; do
    if [ -d "$MACHINE/$item" ]; then mkdir /opt/vgpu-sim/$item; else touch /opt/vgpu-sim/$item; fi
    mount --bind "$MACHINE/$item" /opt/vgpu-sim/$item
done
mount -t tmpfs tmpfs /dev
mkdir /dev/dri
touch /dev/kfd /dev/dri/renderD129
LD_PRELOAD="$DRIVER" exec "$PROBE" info
"""


def test_in_a_container_its_own_files_count(kfd_machine: Callable[[str], Machine], tmp_path: Path) -> None:
    namespaces = ["unshare", "--user", "--map-root-user", "--mount"]
    allowed = subprocess.run([*namespaces, "true"], capture_output=True, check=False).returncode == 0
    require(allowed, "needs user namespaces: sysctl kernel.unprivileged_userns_clone=1")
    machine = kfd_machine("[{preset: hygon-60cu-16gib}, {preset: hygon-120cu-64gib}]")
    environment = os.environ | {
        "DRIVER": str(machine.build / "libsimkfd.so"),
        "MACHINE": str(machine.folder),
        "PROBE": str(machine.build / "vgpu-kfd-probe"),
        "SIMKFD_DIR": str(tmp_path / "another"),  # a program's own environment changes nothing
    }
    done = subprocess.run(
        [*namespaces, "sh", "-c", CONTAINER], env=environment, capture_output=True, text=True, check=True
    )
    shown = json.loads(done.stdout)
    assert (shown["devices"], shown["total_mib"]) == (1, 65520)
