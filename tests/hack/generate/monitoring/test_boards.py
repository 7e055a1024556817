"""The committed rules and boards are those that the code makes, and Grafana and Prometheus can read them."""

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from hack.generate.monitoring import alerts
from hack.generate.monitoring.__main__ import FOLDER, files
from hack.generate.monitoring.alerts import ALERTS
from hack.generate.monitoring.boards import BOARDS
from hack.generate.monitoring.grafana import WIDTH, Board
from hack.generate.monitoring.links import CHOICES, of_column, of_series
from hack.generate.monitoring.queries import LABELS
from hack.generate.monitoring.rules import recording_rules
from tests.hack.generate.monitoring.promtool import check_queries
from tests.hack.generate.monitoring.queries import metrics_in, queries, runnable
from vgpu_runtime.paths import SOURCES

PROJECT = SOURCES.parent


def test_the_committed_files_are_those_that_make_docs_writes() -> None:
    written = files()
    folders = ("boards", "prometheus")
    found = {str(path.relative_to(FOLDER)) for name in folders for path in (FOLDER / name).iterdir()}
    assert found | {"rules.yaml"} == written.keys()
    for name, text in written.items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text, f"{name} is out of date: run `make docs`"


def test_kustomize_applies_all_boards_and_both_files_have_the_same_rules() -> None:
    component = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    (boards,) = component["configMapGenerator"]
    assert boards["files"] == [name for name in files() if name.startswith("boards/")]
    operators = yaml.safe_load((FOLDER / "rules.yaml").read_text())
    plain = yaml.safe_load((FOLDER / "prometheus/vgpu.rules.yaml").read_text())
    assert operators["spec"] == plain


def test_kubectl_can_apply_all_boards_in_one_object() -> None:
    """It keeps what it applied in an annotation, and an object's annotations have at most 256 KiB."""
    boards = {name: text for name, text in files().items() if name.startswith("boards/")}
    assert len(json.dumps({"data": boards})) < 240 * 1024


def test_prometheus_parses_every_query(tmp_path: Path) -> None:
    found = list(map(runnable, queries()))
    assert len(found) > 60
    check_queries(tmp_path, found)


def test_a_query_names_only_metrics_and_rules_that_there_are() -> None:
    known = (
        LABELS.keys() | {f"{name}_bucket" for name in LABELS} | {rule.record for rule in recording_rules()}
    )
    for query in queries():
        assert metrics_in(query) <= known, query


def test_every_metric_of_cards_slices_and_namespaces_is_on_a_board_or_in_a_rule() -> None:
    shown = {name for query in queries() for name in metrics_in(query)}
    levels = ("vgpu_card_", "vgpu_slice_", "vgpu_namespace_", "vgpu_largest_")
    assert {name for name in LABELS if name.startswith(levels)} <= shown


def test_every_panel_says_what_it_shows() -> None:
    assert not [
        f"{board.name}: {panel.title}" for board in BOARDS for panel in board.panels() if not panel.about
    ]


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_a_board_is_laid_out_and_each_choice_is_used(board: Board) -> None:
    made = board.json()
    ids = [panel["id"] for panel in made["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in made["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + i, at["y"] + j) for i in range(at["w"]) for j in range(at["h"])}
        assert at["x"] + at["w"] <= WIDTH
        assert not cells & taken, panel["title"]
        taken |= cells
    for variable in board.variables:
        assert f"${variable.label}" in json.dumps(made["panels"]), variable
    links = {board for panel in made["panels"] for board in re.findall("/d/vgpu-([a-z]+)", json.dumps(panel))}
    assert links <= {other.name for other in BOARDS}


def test_a_link_makes_all_choices_of_its_board() -> None:
    choices = {board.name: tuple(each.label for each in board.variables) for board in BOARDS}
    assert choices == {**CHOICES, "cluster": ()}


def test_clicks_lead_from_the_cluster_to_a_node_then_to_a_card_then_to_a_pod() -> None:
    leads = {
        board.name: {*re.findall("/d/vgpu-([a-z]+)", json.dumps(board.json()["panels"]))} for board in BOARDS
    }
    assert all(next_one in leads[board] for board, next_one in pairwise(("cluster", "node", "card", "pod")))


def test_a_link_is_there_where_all_series_have_the_labels_and_carries_them_with_source_and_time() -> None:
    (found,) = of_series(["{{node}} {{card}} hcu-exporter", "{{node}} {{card}} vgpu"])
    assert found["url"] == (
        "/d/vgpu-card?var-node=${__field.labels.node}&var-card=${__field.labels.card}"
        "&var-datasource=${datasource}&${__url_time_range}"
    )
    assert of_series(["{{node}}", "{{queue}}"]) == of_series(["memory granted"]) == []
    assert of_column("pod", ("pod",)) == of_column("owner_name", ("owner_name",)) == []
    (found,) = of_column("pod", ("namespace", "pod"))
    assert "var-namespace=${__data.fields.namespace}&var-pod=${__data.fields.pod}&" in found["url"]


def test_each_alert_has_a_page_with_what_to_look_at_and_what_to_do() -> None:
    pages = {str(path.relative_to(PROJECT)): path for path in (PROJECT / alerts.PAGES).glob("*.md")}
    assert pages.keys() == {alert.page for alert in ALERTS}
    for alert in ALERTS:
        text = pages[alert.page].read_text(encoding="utf-8")
        assert text.startswith(f"# {alert.name}\n")
        assert [*_headings(text)] == ["What it means", "What to look at", "What to do"], alert.page
        assert metrics_in(alert.expr) & metrics_in(text), f"{alert.page} names none of the alert's series"
        assert alert.time in text, f"{alert.page} does not say that the alert fires after {alert.time}"


def _headings(page: str) -> Iterator[str]:
    return iter(re.findall("^## (.*)$", page, re.MULTILINE))
