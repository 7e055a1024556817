"""Settings of some nodes only: which entries count, and what holds where the file is wrong."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from device_plugin.core.enforcement import Enforcement
from device_plugin.wiring.nodes_file import KEPT, OwnSettings, applied
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


BATCH = {"pool": "batch"}


def test_settings_are_outdated_once_the_file_gives_the_node_others(settings: Settings) -> None:
    own = OwnSettings(settings(FILE), lambda: BATCH)
    assert not own.outdated()
    settings(FILE.replace("kill", "enforce"))
    assert own.outdated()


def test_settings_are_not_outdated_by_an_entry_of_other_nodes(settings: Settings) -> None:
    own = OwnSettings(settings(FILE), lambda: BATCH)
    settings(FILE.replace("0000:03:00.0", "0000:04:00.0"))
    assert not own.outdated()


def test_a_new_problem_of_the_file_is_logged_once(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    own = OwnSettings(settings(FILE), lambda: BATCH)
    settings("version: v1")
    assert [own.outdated(), own.outdated()] == [False, False]
    assert [record.message.partition(": ")[0] for record in caplog.records] == [
        f"settings file {own.settings.nodes_file}"
    ]


def test_settings_are_outdated_once_the_problem_of_the_file_is_solved(settings: Settings) -> None:
    applied(settings(FILE), BATCH)
    own = OwnSettings(settings("version: v1"), lambda: BATCH)
    assert own.problem
    settings(FILE)
    assert own.outdated()


def test_a_file_that_goes_away_leaves_the_general_settings(settings: Settings) -> None:
    general = settings(FILE)
    own = OwnSettings(general, lambda: BATCH)
    Path(general.nodes_file).unlink()
    assert own.outdated()


def test_a_change_is_seen_although_the_node_could_not_be_read_at_first(settings: Settings) -> None:
    answers = iter([BATCH, None, BATCH])
    own = OwnSettings(settings(FILE), lambda: next(answers))
    settings(FILE.replace("kill", "enforce"))
    assert [own.outdated(), own.outdated()] == [False, True]


def test_settings_are_outdated_once_the_node_can_be_read_if_it_could_not_at_the_start(
    settings: Settings,
) -> None:
    answers = iter([None, None, BATCH, BATCH])
    own = OwnSettings(settings(FILE), lambda: next(answers))
    assert [own.outdated(), own.outdated(), own.outdated()] == [False, True, False]


def test_settings_that_cannot_be_kept_are_tried_again(settings: Settings, tmp_path: Path) -> None:
    own = OwnSettings(settings(FILE), lambda: BATCH)
    blocked = tmp_path / "state" / "node-settings.new"
    blocked.mkdir()
    settings(FILE.replace("kill", "enforce"))
    assert not own.outdated()
    blocked.rmdir()
    assert own.outdated()
