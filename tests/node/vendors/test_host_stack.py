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
from device_plugin.node.vendors.rocm import Rocm
from hack.simulated.cards import SimulatedMachine
from tests.node.vendors.test_kfd import shared
from vgpu_runtime import sim
from vgpu_runtime.paths import CONTAINER_CONFIG, CONTAINER_LIBRARY, CONTAINER_REGION, CONTAINER_VDEV_FOLDER
from vgpu_runtime.rocm import RocmLimit

STATE = "/var/lib/vgpu"
OWN = (CONTAINER_CONFIG, CONTAINER_LIBRARY, CONTAINER_REGION, f"{CONTAINER_VDEV_FOLDER}/vdev0.conf")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    sim.build(sim.parse("version: v1\ncards: [{preset: hygon-60cu-16gib, count: 2}]"), tmp_path)
    (tmp_path / "opt/hyhal/lib").mkdir(parents=True)
    (tmp_path / "opt/empty").mkdir()
    (tmp_path / "opt/file").write_text("")
    return tmp_path


def files(machine: Path, wanted: Sequence[str]) -> ContainerFiles[RocmLimit]:
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


def test_a_file_of_the_node_is_mounted_at_another_path_where_the_entry_names_one(machine: Path) -> None:
    wanted = ["/opt/hyhal:/opt/driver", "/opt/none:/opt/x"]
    assert files(machine, wanted).mounts[-1] == Mount(f"{machine}/opt/hyhal", "/opt/driver")
    assert Hygon(SimulatedMachine(machine), wanted).missing_mounts() == ["/opt/none"]


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


@pytest.mark.parametrize("wanted", [[], [CARD_NODE]])
def test_the_primary_node_is_that_of_the_granted_card(machine: Path, wanted: Sequence[str]) -> None:
    paths = [device.path for device in files(machine, wanted).devices]
    assert paths == ["/dev/kfd", "/dev/dri/renderD129", "/dev/dri/card1"]


def test_other_vendors_have_no_defaults(machine: Path) -> None:
    found = Hygon(SimulatedMachine(machine)).scan().cards[1]
    rocm = Rocm(SimulatedMachine(machine))
    given = rocm.files([CardSlice(shared(found), found.payload, 1 << 30, (0,), 0, "?")])
    assert not [device for device in given.devices if "card" in device.path]
    assert "/opt/hyhal" not in [mount.path for mount in given.mounts]


def stack(machine: Path, wanted: Sequence[str] = ()) -> dict[str, str]:
    """The mounts of the vendor's stack: the paths on the node by those in the container."""
    return {
        mount.path: mount.host.removeprefix(str(machine))
        for mount in files(machine, wanted).mounts
        if "vgpu-sim" not in mount.path
    }


def test_hygons_containers_get_the_makers_folders_that_the_node_has(machine: Path) -> None:
    assert stack(machine) == {"/opt/hyhal": "/opt/hyhal"}
    (machine / "usr/local/hyhal/lib").mkdir(parents=True)
    (machine / "opt/dtk/bin").mkdir(parents=True)
    assert stack(machine) == {
        "/opt/hyhal": "/opt/hyhal",
        "/usr/local/hyhal": "/usr/local/hyhal",
        "/opt/hygondriver": "/opt/dtk",
    }


def test_the_makers_folders_are_optional_and_those_that_the_operator_names_are_not(machine: Path) -> None:
    assert Hygon(SimulatedMachine(machine)).missing_mounts() == []
    assert Hygon(SimulatedMachine(machine), ["/usr/local/hyhal"]).missing_mounts() == ["/usr/local/hyhal"]


def test_at_one_path_of_the_container_is_what_the_operator_names(machine: Path) -> None:
    (machine / "opt/dtk/bin").mkdir(parents=True)
    wanted = ["/opt/file:/opt/hygondriver", "/opt/dtk"]
    assert stack(machine, wanted) == {
        "/opt/hyhal": "/opt/hyhal",
        "/opt/hygondriver": "/opt/file",
        "/opt/dtk": "/opt/dtk",
    }
    assert "/opt/hygondriver" not in stack(machine, ["/opt/none:/opt/hygondriver"])


def test_the_defaults_are_written_as_the_setting_lets_them_in() -> None:
    assert not [path for path in Hygon.MOUNTS if host_stack.problem(path, STATE)]


@pytest.mark.parametrize(
    "path",
    [
        *("/opt/hyhal", "/opt/dtk-25.04", "/opt/vgpu2", "/usr/local/hyhal", CARD_NODE, "/etc/hyhal.conf"),
        *("/opt/dtk:/opt/hygondriver", "/opt/dtk:/opt/dtk"),
    ],
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
            ":",
            "/opt/a:",
            ":/opt/a",
            "/opt/a:/opt/b:/opt/c",
            "/opt/a:/opt/b/",
            "/opt/a:/etc",
            "/etc:/opt/a",
            f"/opt/a:{CARD_NODE}",
            f"{CARD_NODE}:/opt/a",
            f"/opt/a:{STATE}",
            f"/opt/a:{CONTAINER_VDEV_FOLDER}/vdev1.conf",
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
