"""The reference pages say what the code says, and the metrics keep the rules of their names."""

import re

import yaml

from device_plugin.core.contract import annotations
from device_plugin.core.contract.events import Event
from device_plugin.core.contract.metrics import MetricType
from device_plugin.core.contract.reasons import Reason
from device_plugin.node.vendors.families import FAMILIES
from device_plugin.wiring.setting_sources import settings_of
from device_plugin.wiring.settings import KINDS
from hack.generate.reference import cards, metrics, tables
from hack.generate.reference.__main__ import FOLDER, PAGES
from vgpu_runtime.paths import SOURCES

# Prometheus' base units are bytes, seconds and shares of 1.
OTHER_UNITS = ("kib", "mib", "gib", "mb", "gb", "ms", "milliseconds", "minutes", "percent")
LABELS = {"node", "card", "namespace", "pod", "container"}


def test_the_committed_pages_are_those_that_make_docs_writes() -> None:
    assert {path.name for path in FOLDER.iterdir()} == PAGES.keys()
    for name, page in PAGES.items():
        assert (FOLDER / name).read_text(encoding="utf-8") == page(), (
            f"docs/reference/{name} is out of date: run `make docs`"
        )


def rows(page: str) -> list[list[str]]:
    """The cells of all tables of a page, without their heads."""
    lines = [line for line in page.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_every_setting_and_parameter_has_a_row_with_all_it_means() -> None:
    found = rows(tables.settings())
    parameters = next(
        item["data"]
        for item in yaml.safe_load_all((SOURCES.parent / tables.PARAMETERS).read_text())
        if item["kind"] == "ConfigMap"
    )
    services = [f"`{each.key}`" for kind in KINDS for each in settings_of(kind)]
    assert [row[0] for row in found] == [*services, *(f"`{name}`" for name in parameters)]
    assert all(row[-1] for row in found)


def test_every_reason_key_and_event_has_a_row_with_what_to_do() -> None:
    reasons, keys, events = rows(tables.reasons()), rows(tables.annotations()), rows(tables.events())
    assert [row[0] for row in reasons] == [f"`{reason.value}`" for reason in Reason]
    assert sorted(row[0] for row in events) == sorted(f"`{event}`" for event in Event)
    constants = {value for value in vars(annotations).values() if isinstance(value, str) and "/" in value}
    assert {row[0] for row in keys} >= {
        f"`{key}`" for key in constants if re.fullmatch(r"[a-z.]+/[a-z-]+", key)
    }
    assert all(cell for row in (*reasons, *keys, *events) for cell in row)


def test_a_name_is_declared_once_in_a_base_unit_and_says_if_it_only_grows() -> None:
    found = list(metrics.declared())
    assert len({metric.name for metric in found}) == len(found) > 15
    for metric in found:
        assert metric.name.startswith("vgpu_")
        assert metric.name.endswith("_total") == (metric.type is MetricType.COUNTER), metric.name
        assert metric.name.removesuffix("_total").rpartition("_")[2] not in OTHER_UNITS, metric.name


def test_what_a_metric_is_about_is_in_the_labels_that_all_metrics_use() -> None:
    for metric in metrics.declared():
        assert metric.help.endswith("."), f"{metric.name}: write whole sentences"
        about = [label for label in metric.labels if label in LABELS]
        assert about == [
            label for label in ("node", "card", "namespace", "pod", "container") if label in about
        ]


def test_every_model_has_a_row_and_only_simulated_ones_were_tried() -> None:
    page = cards.page()
    for family in FAMILIES:
        for device, _, name in family.MODELS.listed():
            (line,) = [line for line in page.splitlines() if line.startswith(f"| {name} |")]
            assert f"`{family.PCI_VENDOR:04x}:{device:04x}`" in line
    assert "| Z100 | `1d94:54b7` | simulated |" in page
    assert "| MI325X | `1002:74a5`, `1002:74b9` | not tried |" in page
