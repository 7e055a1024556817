"""The real rocm-smi of Debian 12, on a machine's files below /sys: of our card it shows the slice."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hack.testbed.images import cache
from tests.requirement import require
from tests.runtime.conftest import MIB, card
from tests.runtime.test_preload import user_namespaces
from tests.runtime.test_smi import own_slots, put
from vgpu_runtime import config, region, sim
from vgpu_runtime.config import SliceConfig
from vgpu_runtime.sim.debian import Apt, DebianUnavailableError

PACKAGES = ("rocm-smi", "librocm-smi64-1")
LIMIT, CARD, USED = 4092 * MIB, 16368 * MIB, 9000 * MIB
# Files of a driver that rocm-smi wants, and that the simulated machine has elsewhere or not at all.
ENTER = f"""
set -e
mount -t tmpfs tmpfs /sys
cp -a "$MACHINE/sys/." /sys/
mkdir -p /sys/module/amdgpu
echo live > /sys/module/amdgpu/initstate
for device in /sys/class/drm/card*/device; do
    rm -f $device/mem_info_vram_used
    echo {USED} > $device/mem_info_vram_used
    echo 1 > $device/vbios_version
done
LD_PRELOAD="$LIBRARY" exec "$PYTHON" "$ROOT/usr/libexec/rocm_smi/rocm_smi.py" --showmeminfo vram
"""


@pytest.fixture(scope="session")
def root() -> Path:
    """A folder that stands for / with rocm-smi, fetched once into the cache."""

    def make(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            Apt(Path(scratch), PACKAGES[0], "bookworm").unpack(PACKAGES, folder)

    try:
        return cache.keep(cache.folder() / f"rocm-smi-{cache.fingerprint(*PACKAGES)}", make)
    except DebianUnavailableError as error:
        require(False, str(error))  # noqa: FBT003 - it is what require asks
        raise


def test_of_our_card_it_shows_the_slice_and_its_use(root: Path, native: Path, tmp_path: Path) -> None:
    require(user_namespaces(), "needs user namespaces: sysctl kernel.unprivileged_userns_clone=1")
    machine = tmp_path / "machine"
    sim.build(sim.parse("version: v1\ncards: [{preset: amd-60cu-16gib, count: 2}]"), machine)
    gpu_id = int((machine / "sys/devices/virtual/kfd/kfd/topology/nodes/1/gpu_id").read_text())
    limit = card(gpu_id=gpu_id, pci="0000:19:00.0", mem_bytes=LIMIT)
    environment = os.environ | {
        "LIBRARY": str(native / "libvgpu-test.so"), "VGPU_TEST_FOLDER": str(tmp_path),
        "MACHINE": str(machine), "PYTHON": sys.executable, "ROOT": str(root),
    }  # fmt: skip

    def shown() -> list[int]:
        """Total and used bytes of the first card, then of the second."""
        command = ["unshare", "-Urm", "bash", "-c", ENTER]
        done = subprocess.run(
            command, env=environment, text=True, capture_output=True, timeout=60, check=False
        )
        return [int(value) for value in re.findall(r"Memory \(B\): (\d+)", done.stdout)]

    assert shown() == [CARD, USED, CARD, USED], "without a config"
    (tmp_path / "vgpu.conf").write_text(config.render(SliceConfig("pod", "main", (limit,))))
    region.create(tmp_path / "usage")
    owner = own_slots(tmp_path, 5, 1)
    put(owner, region.USED_OFFSET + 5 * 8, 1500 * MIB)
    assert shown() == [LIMIT, 1500 * MIB, CARD, USED]
    os.close(owner)
