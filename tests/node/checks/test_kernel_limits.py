"""The kernel's own limit of a pod's card memory: whose it is, how much, and what becomes of a pod without it."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from device_plugin.adapters.card_memory import DmemCgroups
from device_plugin.core.contract.grants import Slice
from device_plugin.core.enforcement import Enforcement
from device_plugin.node.checks.kernel_limits import KernelLimits
from device_plugin.node.vendors.local_card import LocalCard
from tests.node.parts import Parts, Peer
from vgpu_runtime.rocm import RESERVE_BYTES

UID = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
POD = f"kubepods/burstable/pod{UID}"
MIB = 1 << 20


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    parts = Parts(tmp_path, Peer())
    parts.start()
    return parts


def enforced(parts: Parts, mode: Enforcement = Enforcement.ENFORCE) -> Mapping[str, LocalCard]:
    """The node's cards, in this mode."""
    return {uuid: replace(local, enforcement=mode) for uuid, local in parts.cards().items()}


@pytest.mark.parametrize("mode", list(Enforcement))
def test_a_pod_is_limited_before_its_container_starts_if_the_mode_asks_for_it(
    parts: Parts, mode: Enforcement
) -> None:
    parts.shared._now = enforced(parts, mode)
    parts.run(2046)
    memory = f"drm/{parts.shared()[parts.uuids[0]].card.pci}/vram"
    wanted = {} if mode is Enforcement.OBSERVE else {"uid-a": {memory: 2046 * MIB + RESERVE_BYTES}}
    assert parts.peer.limited == wanted


def test_the_limit_is_the_sum_of_the_pods_slices_on_each_card(parts: Parts, tmp_path: Path) -> None:
    cgroup = tmp_path / "cgroup" / POD
    cgroup.mkdir(parents=True)
    (cgroup / "dmem.max").write_text("")
    first, second = parts.uuids
    slices = [Slice(first, 1023, (0,)), Slice(first, 2046, (1,)), Slice(second, 4092, (0,))]
    written: list[str] = []

    class Kernel(DmemCgroups):
        """The kernel takes what is written, and the file does not become longer by it."""

        def limit_card_memory(self, pod: str, limits: Mapping[str, int]) -> str:
            for memory, limit in limits.items():
                assert super().limit_card_memory(pod, {memory: limit}) == ""
                written.append((cgroup / "dmem.max").read_text())
            return ""

    KernelLimits(lambda: enforced(parts), Kernel(tmp_path / "cgroup")).limit(UID, slices)
    pci = [parts.shared()[uuid].card.pci for uuid in (first, second)]
    assert written == [
        f"drm/{pci[0]}/vram {3069 * MIB + 2 * RESERVE_BYTES}\n",
        f"drm/{pci[1]}/vram {4092 * MIB + RESERVE_BYTES}\n",
    ]


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ((), "no cgroup of a pod"),
        ((POD,), "no dmem.max"),
        ((POD, f"{POD}/dmem.max"), "cannot be written (Is a directory): add the component kernel-limits"),
    ],
)
def test_a_kernel_that_cannot_is_told_of_once_and_stops_nobody(
    parts: Parts, tmp_path: Path, made: tuple[str, ...], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    for folder in made:
        (tmp_path / "cgroup" / folder).mkdir(parents=True)
    limits = KernelLimits(lambda: enforced(parts), DmemCgroups(tmp_path / "cgroup"))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            limits.limit(UID, [Slice(parts.uuids[0], 1023, (0,))])
    assert [why in record.message for record in caplog.records] == [True]
