"""The vendor's files and devices of the node, for all containers with its cards."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from device_plugin.adapters.cards.host import HostMachine
from device_plugin.core.machine import Mount
from device_plugin.node.vendors import host_stack
from device_plugin.node.vendors.host_stack import CARD_NODE
from device_plugin.node.vendors.hygon import Hygon
from device_plugin.node.vendors.port import CardSlice, ContainerFiles
from hack.simulated.cards import SimulatedMachine
from tests.node.vendors.test_kfd import shared
from vgpu_runtime import sim
from vgpu_runtime.paths import CONTAINER_CONFIG, CONTAINER_LIBRARY, CONTAINER_REGION, CONTAINER_VDEV_FOLDER

STATE = "/var/lib/vgpu"
OWN = (CONTAINER_CONFIG, CONTAINER_LIBRARY, CONTAINER_REGION, f"{CONTAINER_VDEV_FOLDER}/vdev0.conf")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    sim.build(sim.parse("version: v1\ncards: [{preset: hygon-60cu-16gib, count: 2}]"), tmp_path)
    (tmp_path / "opt/hyhal/lib").mkdir(parents=True)
    (tmp_path / "opt/empty").mkdir()
    (tmp_path / "opt/file").write_text("")
    return tmp_path


def files(machine: Path, wanted: Sequence[str]) -> ContainerFiles:
    """Of a container with a slice of the machine's second card."""
    hygon = Hygon(SimulatedMachine(machine), wanted)
    found = hygon.scan().cards[1]
    return hygon.files([CardSlice(shared(found), found.payload, 1 << 30, (0,), 0, "?")])


def test_what_is_on_the_node_is_mounted_at_its_own_path(machine: Path) -> None:
    mounts = files(machine, ["/opt/hyhal", "/opt/file"]).mounts
    assert mounts[-2:] == [
        Mount(f"{machine}/opt/hyhal", "/opt/hyhal"),
        Mount(f"{machine}/opt/file", "/opt/file"),
    ]
    assert all(mount.read_only for mount in mounts[-2:])


def test_what_is_not_on_the_node_is_left_out_and_said(machine: Path) -> None:
    wanted = ["/opt/hyhal", "/opt/dtk", "/opt/empty"]
    assert [mount.path for mount in files(machine, wanted).mounts if mount.path.startswith("/opt/")] == [
        "/opt/vgpu-sim",
        "/opt/vgpu-sim/state",
        "/opt/hyhal",
    ]
    assert Hygon(SimulatedMachine(machine), wanted).missing_mounts() == ["/opt/dtk", "/opt/empty"]
    (machine / "opt/dtk/bin").mkdir(parents=True)
    assert Hygon(SimulatedMachine(machine), wanted).missing_mounts() == ["/opt/empty"]


def test_a_real_node_is_mounted_from_its_own_paths(machine: Path) -> None:
    assert HostMachine(machine).host_file("/opt/hyhal") == Mount("/opt/hyhal", "/opt/hyhal")


def test_the_primary_node_is_that_of_the_granted_card(machine: Path) -> None:
    paths = [device.path for device in files(machine, [CARD_NODE]).devices]
    assert paths == ["/dev/kfd", "/dev/dri/renderD129", "/dev/dri/card1"]
    assert not [device for device in files(machine, []).devices if "card" in device.path]


@pytest.mark.parametrize(
    "path", ["/opt/hyhal", "/opt/dtk-25.04", "/opt/vgpu2", "/usr/local/hyhal", CARD_NODE, "/etc/hyhal.conf"]
)
def test_paths_that_can_be_given(path: str) -> None:
    assert host_stack.problem(path, STATE) == ""


@pytest.mark.parametrize(
    "path",
    [
        *(
            "",
            "opt/hyhal",
            "/opt/../etc",
            "/opt/./hyhal",
            "/opt//hyhal",
            "/opt/hyhal/",
            "//opt",
            "/opt/a b",
            "/opt/a:b",
        ),
        *(
            "/opt/*",
            "/opt/\n",
            "/" + "x" * 255,
            "/",
            "/usr",
            "/usr/local",
            "/etc",
            "/etc/vgpu",
            "/etc/vdev/docker/x",
        ),
        *(
            "/etc/ld.so.preload",
            "/var",
            "/run",
            "/var/run/docker.sock",
            "/var/lib",
            "/var/lib/kubelet/pods",
            STATE,
        ),
        *(
            "/proc",
            "/sys/class/drm",
            "/dev",
            "/dev/mem",
            "/dev/dri",
            "/dev/dri/card0",
            "/dev/dri/renderD128",
            *OWN,
            "/opt",
            "/opt/vgpu",
        ),
    ],
)
def test_paths_that_would_hide_our_files_or_show_the_nodes(path: str) -> None:
    assert host_stack.problem(path, STATE)


def test_the_agents_own_folder_is_not_for_containers() -> None:
    assert host_stack.problem("/data/vgpu/slices", "/data/vgpu")
    assert host_stack.problem("/data", "/data/vgpu")
