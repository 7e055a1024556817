"""The reference page of the chart's values, generated from the chart's schema and defaults."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from hack.generate.reference import tables
from vgpu_runtime.paths import SOURCES

CHART = "manifests/chart"


def page() -> str:
    """The page: every value of the chart."""
    return tables.page(
        "Values of the chart",
        "`manifests/` and `hack/generate/chart/values.py`",
        f"`helm install vgpu {CHART} -n vgpu-system --create-namespace --set KEY=VALUE`, or `--values FILE`. A key that"
        f" is not below, or a value of another kind, is refused. As a file: [values.yaml](../../{CHART}/values.yaml).",
        tables.table(("value", "default", "means"), _rows()),
    )


def _rows() -> Iterator[tuple[str, str, str]]:
    folder = SOURCES.parent / CHART
    schema = json.loads((folder / "values.schema.json").read_text(encoding="utf-8"))
    defaults = yaml.safe_load((folder / "values.yaml").read_text(encoding="utf-8"))
    for group, values in defaults.items():
        leaf = schema["properties"][group]
        if "properties" not in leaf:
            yield _row(group, values, leaf)
        else:
            for name, value in values.items():
                yield _row(f"{group}.{name}", value, leaf["properties"][name])


def _row(key: str, default: object, leaf: Mapping[str, Any]) -> tuple[str, str, str]:
    return f"`{key}`", f"`{json.dumps(default)}`", leaf["description"]
