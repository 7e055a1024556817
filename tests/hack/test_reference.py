"""The reference pages say what the code says, and the metrics keep the rules of their names."""

from device_plugin.core.metrics import MetricType
from hack.reference import metrics
from hack.reference.__main__ import DOCS, PAGES

# Prometheus' base units are bytes, seconds and shares of 1.
OTHER_UNITS = ("kib", "mib", "gib", "mb", "gb", "ms", "milliseconds", "minutes", "percent")
LABELS = {"node", "card", "namespace", "pod", "container"}


def test_the_committed_pages_are_those_that_make_docs_writes() -> None:
    for name, page in PAGES.items():
        assert (DOCS / name).read_text(encoding="utf-8") == page(), (
            f"docs/{name} is out of date: run `make docs`"
        )


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
