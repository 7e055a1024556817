"""The kernel's texts on open files of render nodes: work, and the memory that processes hold."""

import pytest

from device_plugin.node.checks.render_files import RenderFile, held_bytes, render_file, workers

CARD, OTHER = "0000:19:00.0", "0000:1a:00.0"
MIB = 1 << 20
# As Linux 6.12 writes it of a render node.
RENDER_NODE = f"""pos:	0
flags:	02100002
mnt_id:	1164
ino:	527
drm-driver:	amdgpu
drm-client-id:	68
drm-pdev:	{CARD}
pasid:	32785
drm-total-vram:	3072 KiB
drm-shared-vram:	256 KiB
drm-memory-vram:	1048576 KiB
drm-engine-gfx:	5000000 ns
drm-engine-compute:	7 ns
drm-engine-dma:	900 ns
drm-engine-dec:	900 ns
"""


def test_work_of_compute_units_and_memory_are_read() -> None:
    own, shared = (1 << 30) - 256 * 1024, 256 * 1024
    assert render_file(RENDER_NODE) == RenderFile(CARD, "68", 5_000_007, own, shared)


@pytest.mark.parametrize(
    ("lines", "own", "shared"),
    [
        ("drm-resident-vram:	3 MiB\ndrm-memory-vram:	9 MiB\ndrm-shared-vram:	1 MiB\n", 2 * MIB, MIB),
        ("drm-total-vram:	3 MiB\ndrm-shared-vram:	0\n", 3 * MIB, 0),
        ("drm-total-vram:	3145728\ndrm-shared-vram:	5 MiB\n", 0, 3 * MIB),
        ("drm-memory-vram:	3 MiB\n", 0, 3 * MIB),
        ("drm-shared-vram:	3 MiB\n", 0, 0),
    ],
    ids=["resident first", "total", "no more shared than held", "sharing not said", "nothing held"],
)
def test_memory_of_several_kernels(lines: str, own: int, shared: int) -> None:
    assert render_file(f"drm-pdev:	{CARD}\n{lines}") == RenderFile(CARD, "", 0, own, shared)


@pytest.mark.parametrize("text", ["", "pos:	0\nflags:	0100000\n", "drm-engine-gfx:	5 ns\n"])
def test_other_files_have_no_figures(text: str) -> None:
    assert render_file(text) is None


@pytest.mark.parametrize(
    "line",
    [
        "drm-engine-gfx:	-5 ns",
        f"drm-engine-compute:	{'9' * 21} ns",
        "drm-engine-compute:	5 KiB",
        f"drm-memory-vram:	{(1 << 50) + 1}",
        f"drm-memory-vram:	{1 << 42} MiB",
        "drm-memory-vram:	5 GiB",
        "drm-memory-vram:	0x5 KiB",
    ],
)
def test_what_is_no_figure_is_nothing(line: str) -> None:
    assert render_file(f"drm-pdev:	{CARD}\n{line}\n") == RenderFile(CARD, "")


def test_workers_are_the_processes_that_had_one_of_the_cards_work() -> None:
    idle, worked = RenderFile(CARD, "1"), RenderFile(CARD, "2", work_ns=1)
    files = {1: [idle], 2: [idle, worked], 3: [RenderFile(OTHER, "3", work_ns=1)]}
    assert workers(files, [CARD]) == {2}
    assert workers(files, []) == frozenset()


def held(client: str, own: int = 0, shared: int = 0, card: str = CARD) -> RenderFile:
    return RenderFile(card, client, 0, own, shared)


@pytest.mark.parametrize(
    ("files", "by_driver", "expected"),
    [
        ({}, {}, 0),
        ({}, {1: 5, 2: 6}, 11),
        ({1: [held("a", 5)]}, {1: 5}, 5),
        ({1: [held("a", 5)]}, {1: 3, 2: 2}, 7),
        ({1: [held("a", 5), held("a", 5)], 2: [held("a", 5)]}, {}, 5),
        ({1: [held("a", 3, 2)], 2: [held("b", 0, 2)]}, {1: 5}, 5),
        ({2: [held("b", 0, 2)]}, {}, 2),
        ({1: [held("a", 1)], 2: [held("b", 4, card=OTHER)]}, {}, 1),
    ],
    ids=[
        "nothing",
        "the driver's list alone",
        "one client in both",
        "the larger of each process",
        "one client in several descriptors and processes",
        "a shared buffer",
        "a buffer whose maker has gone",
        "another card",
    ],
)
def test_bytes_that_processes_hold_at_least(
    files: dict[int, list[RenderFile]], by_driver: dict[int, int], expected: int
) -> None:
    assert held_bytes(files, CARD, by_driver) == expected
