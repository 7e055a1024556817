"""Every compute queue carries the granted mask, whatever the program asks for."""

import errno
import random
import subprocess
from pathlib import Path

import pytest

from tests.runtime.conftest import GPU, Slice, card
from vgpu_runtime import region
from vgpu_runtime.config import SliceConfig, render
from vgpu_runtime.rocm import RocmLimit

GRANT = 0x7FFF << 10


def masks(container: Slice) -> list[tuple[int, int]]:
    """(queue, mask) of each SET_CU_MASK that reached the driver."""
    words = [line.split() for line in container.log if line.startswith("mask")]
    return [(int(queue), int(mask, 16)) for _, queue, mask in words]


@pytest.mark.parametrize("kind", [0, 2, 77])
def test_compute_queues_are_masked_at_birth(container: Slice, kind: int) -> None:
    container.configure()
    assert container.output(f"print(kfd.create_queue(GPU, {kind}), kfd.create_queue(GPU, {kind}))") == ["1 2"]
    assert masks(container) == [(1, GRANT), (2, GRANT)]


@pytest.mark.parametrize("kind", [1, 3, 4])
def test_dma_queues_have_no_mask(container: Slice, kind: int) -> None:
    container.configure()
    container.output(f"kfd.create_queue(GPU, {kind})")
    assert masks(container) == []


def test_queue_that_cannot_be_masked_is_destroyed(container: Slice) -> None:
    container.configure()
    script = "try: kfd.create_queue(GPU)\nexcept OSError as error: print(error.errno)"
    assert container.output(script, STUB_FAIL="0x1a") == ["5"]
    assert [line for line in container.log if line.startswith("call")] == [
        "call 0x2",
        "call 0x1a",
        "call 0x3",
    ]


def test_queue_on_a_card_that_is_not_ours(container: Slice) -> None:
    container.configure()
    script = "try: kfd.create_queue(99)\nexcept OSError as error: print(os.strerror(error.errno))"
    assert container.output(script) == ["Operation not permitted"]
    assert container.log == []


def test_programs_mask_counts_granted_units(container: Slice) -> None:
    container.configure()
    container.output("q = kfd.create_queue(GPU); kfd.set_mask(q, 0b1001, 32); kfd.set_mask(q, 2**64 - 1, 64)")
    assert masks(container)[1:] == [(1, 0b1001 << 10), (1, GRANT)]


def test_mask_beyond_the_grant_or_empty_is_the_whole_grant(container: Slice) -> None:
    container.configure()
    container.output("q = kfd.create_queue(GPU); kfd.set_mask(q, 0, 32); kfd.set_mask(q, 1 << 40, 64)")
    assert masks(container)[1:] == [(1, GRANT), (1, GRANT)]


@pytest.mark.parametrize(
    ("queue", "bits", "answer"), [(9, 32, errno.EFAULT), (1, 0, errno.EINVAL), (1, 16, errno.EINVAL)]
)
def test_masks_the_driver_would_refuse(container: Slice, queue: int, bits: int, answer: int) -> None:
    container.configure()
    attempt = f"try: kfd.set_mask({queue}, 1, {bits})\nexcept OSError as error: print(error.errno)"
    assert container.output(f"kfd.create_queue(GPU)\n{attempt}") == [str(answer)]


def test_ids_of_destroyed_queues_are_forgotten(container: Slice) -> None:
    container.configure(card(), card(gpu_id=7, mask=1))
    script = (
        "a = kfd.create_queue(GPU); b = kfd.create_queue(7); kfd.destroy_queue(a)\n"
        "kfd.set_mask(b, 1, 32)\n"
        "try: kfd.set_mask(a, 1, 32)\n"
        "except OSError as error: print(error.errno)"
    )
    assert container.output(script) == [str(errno.EFAULT)]
    assert masks(container) == [(1, GRANT), (2, 1), (2, 1)]


def test_a_queue_alone_shows_the_process_to_the_agent(container: Slice) -> None:
    container.configure()
    script = (
        f"from vgpu_runtime import region; from pathlib import Path; path = Path({str(container.region)!r})\n"
        "print(region.read(path).live_slots); kfd.create_queue(GPU); print(region.read(path).live_slots)"
    )
    assert container.output(script) == ["0", "1"]
    assert region.read(container.region).live_slots == 0


def test_masks_of_the_makers_driver_are_the_programs(container: Slice) -> None:
    container.configure(card(vendor_masks=True))
    container.output("q = kfd.create_queue(GPU); kfd.set_mask(q, 0b1001, 32); kfd.set_mask(q, 2**64 - 1, 64)")
    assert masks(container) == [(1, 0b1001), (1, 2**64 - 1)]


def test_the_makers_driver_judges_a_mask(container: Slice) -> None:
    container.configure(card(vendor_masks=True))
    attempt = "try: kfd.set_mask(q, 1, 32)\nexcept OSError as error: print(error.errno)"
    assert container.output(f"q = kfd.create_queue(GPU)\n{attempt}", STUB_FAIL="0x1a") == ["5"]
    assert "call 0x3" not in container.log, "its queue goes on"


def mapped(limit: RocmLimit, wanted: int, bits: int) -> int:
    """The rule, written once more: granted units by rank, one on each XCC, whole pairs."""
    granted = [unit for unit in range(limit.compute_units) if limit.mask >> unit & 1]
    chosen = {unit for rank, unit in enumerate(granted) if rank < bits and wanted >> rank & 1}
    if not chosen:
        return limit.mask
    for xcc in range(limit.xcc):
        if not any(unit % limit.xcc == xcc for unit in chosen):
            chosen.add(next(unit for unit in granted if unit % limit.xcc == xcc))
    if limit.paired:
        chosen |= {unit ^ 1 for unit in chosen}
    return sum(1 << unit for unit in chosen)


@pytest.mark.parametrize(
    ("units", "xcc", "paired"),
    [
        (60, 1, False),
        (64, 1, False),
        (80, 1, True),
        (104, 1, False),
        (120, 1, False),
        (128, 1, True),
        (304, 8, False),
        (48, 2, True),
    ],
)
def test_rules_of_each_shape_of_card(
    built: Path, tmp_path: Path, rng: random.Random, units: int, xcc: int, paired: bool
) -> None:
    group = xcc * (2 if paired else 1)
    for _ in range(5):
        groups = rng.sample(range(units // group), rng.randint(1, units // group))
        grant = sum(((1 << group) - 1) << group * index for index in groups)
        limit = card(gpu_id=GPU, compute_units=units, xcc=xcc, paired=paired, mask=grant)
        (tmp_path / "vgpu.conf").write_text(render(SliceConfig("p", "c", (limit,))))
        arguments, expected = [], []
        for _ in range(40):
            bits = rng.choice([32, 64, 128, 320])
            wanted = rng.getrandbits(bits) & rng.getrandbits(bits) & rng.getrandbits(bits)
            arguments += [str(bits), f"{wanted:0{bits // 4}x}"]
            expected.append(mapped(limit.family, wanted, bits))
        done = subprocess.run(
            [built / "mask", tmp_path / "vgpu.conf", *arguments], text=True, capture_output=True, check=True
        )
        results = [int(line, 16) for line in done.stdout.split()]
        assert results == expected
        assert all(result and not result & ~grant for result in results)
