"""The kernel's figures of processes: what is read of a sound tree, and of one that vanishes or makes no sense."""

import shutil
from pathlib import Path

import pytest

from device_plugin.adapters.cards.host import HostMachine
from device_plugin.node.vendors.kfd_processes import FOLDER, QUEUES, KfdCard, KfdProcesses

CARD, OTHER = KfdCard(13261, 128, 1, paired=False), KfdCard(7, 129, 1, paired=False)


@pytest.fixture
def figures(tmp_path: Path) -> KfdProcesses:
    return KfdProcesses(HostMachine(tmp_path))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / FOLDER).mkdir(parents=True)
    return tmp_path / FOLDER


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_driver_that_lists_no_processes_says_nothing_of_them(figures: KfdProcesses) -> None:
    assert figures.processes() is None
    assert figures.memory(1, CARD) is None
    assert figures.busy_units(1, CARD) is None
    assert not figures.has_queue(1, CARD)


def test_the_figures_are_those_of_one_process_on_one_card(figures: KfdProcesses, folder: Path) -> None:
    write(folder / "4711/vram_13261", "1073741824\n")
    write(folder / "4711/vram_7", "0\n")
    write(folder / "4711/stats_13261/cu_occupancy", "15\n")
    write(folder / "4711/queues/3/gpuid", "13261")
    write(folder / "88/pasid", "32769\n")
    assert figures.processes() == [88, 4711]
    assert [figures.memory(4711, card) for card in (CARD, OTHER)] == [1 << 30, 0]
    assert [figures.busy_units(4711, card) for card in (CARD, OTHER)] == [15, None]
    assert [figures.has_queue(4711, card) for card in (CARD, OTHER)] == [True, False]
    assert figures.memory(88, CARD) is None
    shutil.rmtree(folder / "4711")
    assert figures.memory(4711, CARD) is None
    assert not figures.has_queue(4711, CARD)


@pytest.mark.parametrize(
    "text", ["", "-1\n", "1e9\n", "0x10\n", "9" * 20, "9" * 21, "\udcff", "1 2\n", "\u0661"]
)
def test_what_is_no_figure_is_not_taken_for_one(figures: KfdProcesses, folder: Path, text: str) -> None:
    for name in ("vram_13261", "stats_13261/cu_occupancy", "queues/0/gpuid"):
        path = folder / "1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode(errors="surrogateescape"))
    assert figures.memory(1, CARD) is None
    assert figures.busy_units(1, CARD) is None
    assert not figures.has_queue(1, CARD)


def test_names_that_are_no_process_are_left_out(figures: KfdProcesses, folder: Path) -> None:
    for name in ("7", "context_1", "-3", "12a", "\u0663"):
        (folder / name).mkdir()
    assert figures.processes() == [7]


def test_of_a_process_with_many_queues_only_the_first_are_read(figures: KfdProcesses, folder: Path) -> None:
    for queue in range(1000, 1000 + QUEUES):
        write(folder / f"1/queues/{queue}/gpuid", "7")
    write(folder / "1/queues/9999/gpuid", "13261")
    assert figures.has_queue(1, OTHER)
    assert not figures.has_queue(1, CARD)
