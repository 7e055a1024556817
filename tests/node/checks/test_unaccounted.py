"""Memory of a card that no slice accounts for: when it is told, whom the text names, and when it is over."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from device_plugin.node.checks.kernel_checks import LOOK_SECONDS
from device_plugin.node.checks.unaccounted import SURE_SECONDS
from device_plugin.node.slices.writable import USAGE
from tests.node.kfd_tree import KfdTree
from tests.node.looping import Looping
from tests.node.owned_slot import OwnedSlot
from vgpu_runtime import rocm
from vgpu_runtime.paths import SOURCES

BEYOND, OVER = "CardMemoryUnaccounted", "CardMemoryAccounted"
LIMIT_MIB = 2046


class Node(Looping):
    """A node with the container `a` on its first card, of which driver and library say what the test writes."""

    def start(self) -> "Node":
        super().start()
        self.kfd = KfdTree(self.parts.machine)
        self.card = next(iter(self.parts.cards().values()))
        self.slot = OwnedSlot(self.parts.writable.path(("uid-a", "main"), USAGE))
        return self

    def in_use(self, mib: int) -> None:
        """Write the memory of the first card that is in use by its driver."""
        path = self.parts.machine / f"sys/bus/pci/devices/{self.card.card.pci}/mem_info_vram_used"
        path.unlink(missing_ok=True)
        path.write_text(f"{mib << 20}\n")

    def check(self, seconds: float = 0.0) -> list[str]:
        """The reasons of all events after `seconds` more."""
        for _ in range(int(seconds / LOOK_SECONDS) + 1):
            self.parts.now += LOOK_SECONDS
            self.kernel.step()
        return [reason for reason, _ in self.peer.events]

    def unaccounted(self) -> int:
        """MiB of the first card."""
        self.check()
        return self.unaccounted_memory.found()[self.card.card.uuid] >> 20


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    node.start()
    yield node
    node.slot.close()


def test_the_reserve_is_the_librarys() -> None:
    text = (SOURCES / "native/rocm/held.c").read_text()
    (reserve,) = re.findall(r"^#define RESERVE_BYTES \(UINT64_C\((\d+)\) << 20\)", text, re.MULTILINE)
    assert int(reserve) << 20 == rocm.RESERVE_BYTES


def test_what_the_library_counts_is_accounted_for(node: Node) -> None:
    node.slot.hold(1024)
    node.in_use(1024 + 60)
    assert node.check(10 * SURE_SECONDS) == []
    assert node.unaccounted() == 60


def test_more_than_the_setting_for_long_is_told_once_and_so_is_its_end(node: Node) -> None:
    node.in_use(65)
    assert node.check(SURE_SECONDS - LOOK_SECONDS) == []
    assert node.check(LOOK_SECONDS) == [BEYOND]
    assert "65 MiB in use that no slice accounts for; by the kernel no container" in node.peer.events[0][1]
    assert node.check(10 * SURE_SECONDS) == [BEYOND]
    node.in_use(64)
    assert node.check(SURE_SECONDS - LOOK_SECONDS) == [BEYOND]
    assert node.check(LOOK_SECONDS) == [BEYOND, OVER]
    assert node.check(10 * SURE_SECONDS) == [BEYOND, OVER]


def test_what_a_driver_frees_late_is_not_told(node: Node) -> None:
    for _ in range(10):
        node.in_use(10_000)
        node.check(SURE_SECONDS - 2 * LOOK_SECONDS)
        node.in_use(0)
        assert node.check() == []


def test_the_text_names_the_container_that_holds_more_than_its_library_counts(node: Node) -> None:
    node.slot.hold(100)
    node.host.mounted["uid-a"] = {7: ""}
    node.kfd.use(7, node.card, mib=14_700)
    node.in_use(14_700)
    node.check(SURE_SECONDS)
    ((_, text),) = node.peer.events
    assert "14600 MiB in use that no slice accounts for" in text
    assert "container main of default/a holds 14600 MiB more than its library counts" in text


def shared_by_the_maker(node: Node, process: int) -> None:
    """A process gets a buffer of 500 MiB from another one, which then ends: nobody's library counts it any more."""
    node.host.mounted["uid-a"] = {process: ""}
    node.kfd.use(process, node.card, mib=0)
    node.in_use(500)


def test_memory_that_outlives_its_maker_in_another_process_is_told(node: Node) -> None:
    shared_by_the_maker(node, 7)
    assert node.unaccounted() == 500
    assert node.check(SURE_SECONDS - LOOK_SECONDS) == [BEYOND]
    assert "500 MiB in use that no slice accounts for; by the kernel no container" in node.peer.events[0][1]


def test_its_holder_is_named_by_the_kernels_texts_on_render_files(node: Node) -> None:
    shared_by_the_maker(node, 7)
    node.host.opened[7] = [
        f"drm-pdev:\t{node.card.card.pci}\ndrm-client-id:\t9\ndrm-resident-vram:\t500 MiB\ndrm-shared-vram:\t500 MiB\n"
    ]
    node.check(SURE_SECONDS)
    ((reason, text),) = node.peer.events
    assert reason == BEYOND
    assert "500 MiB in use that no slice accounts for" in text
    assert "container main of default/a holds 500 MiB more than its library counts" in text


def test_a_tenant_that_writes_more_than_it_may_use_hides_nobody(node: Node) -> None:
    node.slot.hold(1 << 20)
    node.in_use(10_000)
    assert node.unaccounted() == 10_000 - LIMIT_MIB - (rocm.RESERVE_BYTES >> 20)


@pytest.mark.parametrize(("kernel", "counted"), [(None, LIMIT_MIB + 32), (300, 300)])
def test_of_a_ruined_region_the_kernel_or_the_grant_is_taken(
    node: Node, kernel: int | None, counted: int
) -> None:
    node.parts.writable.path(("uid-a", "main"), USAGE).write_bytes(b"")
    if kernel is not None:
        node.host.mounted["uid-a"] = {7: ""}
        node.kfd.use(7, node.card, mib=kernel)
    node.in_use(10_000)
    assert node.unaccounted() == 10_000 - counted


def test_a_card_whose_driver_measures_nothing_is_not_judged(node: Node) -> None:
    (node.parts.machine / f"sys/bus/pci/devices/{node.card.card.pci}/mem_info_vram_used").unlink()
    assert node.check(10 * SURE_SECONDS) == []
    assert node.card.card.uuid not in node.unaccounted_memory.found()
