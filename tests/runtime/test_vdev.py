import re

import pytest

from tests.runtime.conftest import MIB, card
from vgpu_runtime import vdev
from vgpu_runtime.config import ConfigError


def test_fields_in_the_vendors_order() -> None:
    text = vdev.render(card(mem_bytes=4092 * MIB), vdev_id=2, pipe_id=1)
    assert text == (
        "PciBusId: 0000:19:00.0\n"
        "cu_mask: 0x0000000001fffc00\n"
        "cu_mask: 0x0000000000000000\n"
        "cu_count: 15\n"
        "mem: 4092 MiB\n"
        "device_id: 0\n"
        "vdev_id: 2\n"
        "pipe_id: 1\n"
        "enable: 1\n"
    )
    assert vdev.file_name(2) == "vdev2.conf"


def test_count_is_the_number_of_bits_in_both_lines() -> None:
    text = vdev.render(card(compute_units=120, mask=0x3F << 61), vdev_id=0, pipe_id=0)
    low, high = (int(word, 16) for word in re.findall("cu_mask: (.*)", text))
    assert (low, high) == (0x7 << 61, 0x7)
    assert "cu_count: 6\n" in text


@pytest.mark.parametrize(
    ("changes", "pipe"), [({"compute_units": 304, "mask": 1 << 200}, 0), ({}, 20), ({}, -1)]
)
def test_what_the_format_cannot_express(changes: dict[str, object], pipe: int) -> None:
    with pytest.raises(ConfigError):
        vdev.render(card(**changes), vdev_id=0, pipe_id=pipe)


def test_the_first_pipes_go_round() -> None:
    assert vdev.free_pipe([]) == 0
    assert vdev.free_pipe([0, 1], last=1) == 2
    assert vdev.free_pipe([], last=3) == 0
    assert vdev.free_pipe([0, 2], last=2) == 3
    assert vdev.free_pipe([0, 2, 3], last=1) == 1
    assert vdev.free_pipe([], last=7) == 0


def test_the_others_are_for_where_the_first_are_busy() -> None:
    assert vdev.free_pipe(range(4)) == 4
    assert vdev.free_pipe([0, 1, 2, 3, 4, 6], last=4) == 5
    assert vdev.free_pipe(range(20)) is None
