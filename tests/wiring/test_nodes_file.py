"""Settings of some nodes only: which entries count, and what holds where the file is wrong."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from device_plugin.core.enforcement import Enforcement
from device_plugin.wiring.nodes_file import KEPT, applied
from device_plugin.wiring.settings import NodeSettings

FILE = """
version: v1
nodes:
- labels: {pool: display}
  excludeCards: ["0000:03:00.0"]
- labels: {pool: display, rack: r2}
  excludeCards: []
  enforcement: {"1d94": enforce}
- labels: {pool: batch}
  enforcement: {"1d94": kill}
"""
Settings = Callable[[str], NodeSettings]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """The general settings, of which one excludes a card, once the file has this content."""
    file = tmp_path / "nodes.yaml"

    def write(content: str) -> NodeSettings:
        file.write_text(content)
        return NodeSettings(nodes_file=str(file), state_dir=str(tmp_path / "state"), exclude_cards=["GPU-9"])

    return write


def told(settings: NodeSettings) -> tuple[list[str], dict[str, Enforcement]]:
    return settings.exclude_cards, settings.enforcement


@pytest.mark.parametrize(
    ("labels", "excluded", "modes"),
    [
        ({}, ["GPU-9"], {}),
        ({"pool": "other"}, ["GPU-9"], {}),
        ({"pool": "display", "x": "y"}, ["0000:03:00.0"], {}),
        ({"pool": "display", "rack": "r2"}, [], {"1d94": Enforcement.ENFORCE}),
        ({"pool": "batch"}, ["GPU-9"], {"1d94": Enforcement.KILL}),
    ],
)
def test_of_the_entries_that_match_the_later_ones_count(
    settings: Settings, labels: dict[str, str], excluded: list[str], modes: dict[str, Enforcement]
) -> None:
    found, problem = applied(settings(FILE), labels)
    assert told(found) == (excluded, modes)
    assert not problem


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("nodes: []", "write `version: v1`"),
        ("version: v1", "missing required field `nodes`"),
        ("version: v1\nnodes: [{excludeCards: []}]", "missing required field `labels`"),
        ("version: v1\nnodes: [{labels: {}, excludeCards: []}]", r"nodes\[0\] has no labels"),
        ("version: v1\nnodes: [{labels: {a: b}, excludeCard: []}]", r"unknown field `excludeCard` - at `\$.nodes"),
        ("version: v1\nnodes: [{labels: {a: b}, enforcement: {1d94: hard}}]", "Invalid enum value 'hard'"),
        ("version: v1\nnodes: [{labels: {pool: batch}, enforcement: {beef: kill}}]", "no prefix is set for .* 'beef'"),
        ("version: v1\nnodes: [", "not YAML: line 2"),
    ],
)  # fmt: skip
def test_where_the_file_is_wrong_what_was_true_before_holds(
    settings: Settings, content: str, says: str
) -> None:
    labels = {"pool": "batch"}
    general = settings(content)
    found, problem = applied(general, labels)
    assert found == general
    applied(settings(FILE), labels)
    found, again = applied(settings(content), labels)
    assert told(found) == (["GPU-9"], {"1d94": Enforcement.KILL})
    assert again == problem
    assert problem.startswith(f"settings file {general.nodes_file}: ")
    assert re.search(says, problem)


def test_a_node_that_cannot_be_read_has_the_settings_of_before(settings: Settings) -> None:
    applied(settings(FILE), {"pool": "display"})
    found, problem = applied(settings(FILE), None)
    assert (found.exclude_cards, problem) == (["0000:03:00.0"], "")


def test_without_the_file_the_general_settings_hold(settings: Settings, tmp_path: Path) -> None:
    general = settings(FILE)
    applied(general, {"pool": "display"})
    Path(general.nodes_file).unlink()
    assert applied(general, {"pool": "display"}) == (general, "")
    assert not (tmp_path / "state" / KEPT).exists()
    unnamed = NodeSettings(state_dir=str(tmp_path / "state"))
    assert applied(unnamed, None) == (unnamed, "")


def test_a_damaged_copy_is_none(settings: Settings, tmp_path: Path) -> None:
    applied(settings(FILE), {"pool": "display"})
    (tmp_path / "state" / KEPT).write_text("{")
    assert told(applied(settings(FILE), None)[0]) == (["GPU-9"], {})
