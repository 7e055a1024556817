"""The chart in manifests/ is what its generator makes of the other manifests (`make chart`)."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from math import inf
from typing import Any

import msgspec
import pytest

from device_plugin.wiring.setting_sources import Setting, load, settings_of
from device_plugin.wiring.settings import KINDS, JobsSettings, NodeSettings, SettingsError
from hack.generate.chart import files, schemas, variants
from hack.generate.chart.templates import filled, merged
from hack.testbed.programs import installed
from tests.requirement import require

CHART = variants.MANIFESTS / "chart"


def test_the_chart_is_what_the_generator_makes() -> None:
    kubectl = shutil.which("kubectl", path=f"{os.environ['PATH']}:{installed().kubernetes}")
    require(kubectl, "needs kubectl: put one on the PATH, or let make e2e build it")
    wanted = files.all_files()
    assert files.generated(CHART) == wanted.keys(), "make chart"
    for name, text in wanted.items():
        assert (CHART / name).read_text() == text, f"{name}: make chart"


def test_every_value_has_a_meaning_and_no_other_is_let_in() -> None:
    """Of `global` helm adds the values of a chart that this one is a part of; a template refuses others."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert schema["additionalProperties"] is False
    for name, group in schema["properties"].items():
        if "properties" in group and name != "global":
            assert group["additionalProperties"] is False
        for key, leaf in group.get("properties", {"": group}).items():
            assert leaf.get("description", "").endswith("."), (name, key)


def numbers() -> Iterator[tuple[type[msgspec.Struct], Setting]]:
    """The settings of the services that are numbers."""
    for kind in KINDS:
        yield from ((kind, setting) for setting in settings_of(kind) if setting.type in (int, float))


@pytest.mark.parametrize(("kind", "setting"), list(numbers()), ids=lambda each: getattr(each, "variable", ""))
def test_a_number_is_refused_by_the_schema_where_the_service_refuses_it(
    kind: type[msgspec.Struct], setting: Setting
) -> None:
    schema: Any = schemas.environment(kind)["properties"]
    wanted = schema[setting.variable]
    for number in (-1, 0, 0.5, 1, 2):
        try:
            load(kind, {}, {setting.variable: str(number)})  # type: ignore[type-var]
        except SettingsError as error:
            refused = str(error).startswith(f"{setting.variable}: ")
        else:
            refused = False
        fits = (
            ("number" in wanted["type"] or isinstance(number, int))
            and wanted.get("exclusiveMinimum", -inf) < number
            and wanted.get("minimum", -inf) <= number <= wanted["maximum"]
        )
        assert fits is not refused, number


TEXTS: tuple[tuple[type[msgspec.Struct], str, tuple[str, ...], tuple[str, ...]], ...] = (
    (NodeSettings, "VGPU_UNACCOUNTED_MIB", ("0", "64", "1000000"), ("", "-1", "64 MiB", "ten", "6.5")),
    (JobsSettings, "VGPU_USE", ("1", "0.5", ".5", "1.", "1.0"), ("", "-1", ".", "half", "50%", "5e-1")),
    (
        NodeSettings,
        "VGPU_RENDER_WORK",
        ("true", "True", "TRUE", "false", "yes", "No", "on", "OFF"),
        ("", "1", "0", "y", "tRUE", "enabled"),
    ),
)


@pytest.mark.parametrize(
    ("kind", "variable", "text", "refused"),
    [
        (kind, variable, text, refused)
        for kind, variable, *texts in TEXTS
        for refused, each in enumerate(texts)
        for text in each
    ],
)
def test_a_text_is_refused_by_the_schema_where_the_service_refuses_it(
    kind: type[msgspec.Struct], variable: str, text: str, *, refused: int
) -> None:
    schema: Any = schemas.environment(kind)["properties"]
    wanted = schema[variable]
    fits = text in wanted["enum"] if "enum" in wanted else re.fullmatch(wanted["pattern"], text)
    assert bool(fits) is not bool(refused)
    with pytest.raises(SettingsError, match=variable) if refused else nullcontext():
        load(kind, {}, {variable: text})  # type: ignore[type-var]


@pytest.mark.parametrize("text", ["DEBUG", "debug", "Debug", "WARN", "Warning"])
def test_the_level_of_the_log_is_written_as_the_services_read_it(text: str) -> None:
    schema: Any = schemas.environment(NodeSettings)["properties"]
    assert text in schema["VGPU_LOG_LEVEL"]["enum"]


def test_differences_of_several_components_do_not_touch_each_other() -> None:
    base = ["env:", "- {name: a}", "image: x", "args: []"]
    one = ["env:", "- {name: one}", "- {name: a}", "image: x", "args: []"]
    two = ["env:", "- {name: two}", "- {name: a}", "image: y", "args: []"]
    assert merged(base, {"{{- if 1 }}": one, "{{- if 2 }}": two}) == [
        "env:",
        *("{{- if 2 }}", "- {name: two}", "{{- end }}"),
        *("{{- if 1 }}", "- {name: one}", "{{- end }}"),
        "- {name: a}",
        *("{{- if 2 }}", "image: y", "{{- else }}", "image: x", "{{- end }}"),
        "args: []",
    ]
    with pytest.raises(ValueError, match="two components change 'image: x'"):
        merged(base, {"1": two, "2": [line.replace("x", "z") for line in base]})


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("  a: '§parameter:mostMemGiB§'", "  a: '{{ .Values.parameters.mostMemGiB }}'"),
        ("  a: '§part:node.resources§'", "  a: {{- toYaml .Values.node.resources | nindent 4 }}"),
        ("  - a: '§part:node.resources§'", "  - a: {{- toYaml .Values.node.resources | nindent 6 }}"),
        ("a: '§value:image.tag§'", "a: '{{ .Values.image.tag }}'"),
        ("a: 'x:§release:Namespace§:y'", "a: 'x:{{ .Release.Namespace }}:y'"),
        ("  value: '§included:vgpu.vendorIds§'", '  value: {{ include "vgpu.vendorIds" . }}'),
        (
            "  more: '§entries:node.podLabels§'",
            "{{- with .Values.node.podLabels }}\n  {{- toYaml . | nindent 2 }}\n{{- end }}",
        ),
        ("alert: {{ $labels.card }}", 'alert: {{ "{{" }} $labels.card }}'),
    ],
)  # fmt: skip
def test_markers_become_expressions_and_braces_of_ours_stay(line: str, made: str) -> None:
    assert filled(line) == made
