"""Boards and their panels as Grafana's JSON (schema 39, Grafana 10 and newer)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hack.generate.monitoring import links

Json = dict[str, Any]
WIDTH = 24
SOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
# The colour of a share, by the value from which it is used.
STEPS = [("green", None), ("yellow", 0.75), ("red", 0.95)]


@dataclass(frozen=True, slots=True)
class Query:
    """A query of a panel, and the name of its series. `empty` says what the cluster needs so that it has a result."""

    expr: str
    legend: str = ""
    empty: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel: `kind` is Grafana's name of its type, `about` its description.

    `unit` is one of Grafana's units; a `percentunit` has the bounds 0 and 1, and colours. A table has one row for each
    set of values of `keys`, and one column for each query, named by its legend. A heatmap has one row for each series,
    named by its legend; if the names are numbers, `rows` is their unit. A click on a node, card, pod or namespace opens
    its board.
    """

    title: str
    kind: str
    queries: tuple[Query, ...]
    unit: str = "short"
    width: int = 12
    height: int = 8
    about: str = ""
    keys: tuple[str, ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    stacked: bool = False
    rows: str = ""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable at the top of a board: a user chooses some or all values of `label` in the series of `query`."""

    label: str
    query: str


@dataclass(frozen=True, slots=True)
class Board:
    """A board: rows of panels, each with a title. `name` is the name of its file."""

    name: str
    title: str
    about: str
    variables: tuple[Variable, ...]
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]

    def panels(self) -> list[Panel]:
        """All panels, in order."""
        return [panel for _, panels in self.rows for panel in panels]

    def json(self) -> Json:
        """The board as JSON, which Grafana can import."""
        return {
            "uid": f"vgpu-{self.name}",
            "title": self.title,
            "description": self.about,
            "tags": ["vgpu"],
            "schemaVersion": 39,
            "editable": True,
            "refresh": "30s",
            "time": {"from": "now-6h", "to": "now"},
            "links": [
                {"type": "dashboards", "title": "vgpu", "tags": ["vgpu"], "asDropdown": True, "keepTime": True}
            ],
            "templating": {"list": [_source(), *map(_variable, self.variables)]},
            "panels": _placed(self.rows),
        }  # fmt: skip


def _source() -> Json:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _variable(variable: Variable) -> Json:
    query = f"label_values({variable.query}, {variable.label})"
    return {
        "name": variable.label, "type": "query", "datasource": SOURCE,
        "query": {"query": query, "refId": variable.label},
        "definition": query, "refresh": 2, "sort": 1, "multi": True, "includeAll": True, "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }  # fmt: skip


def _placed(rows: Sequence[tuple[str, Sequence[Panel]]]) -> list[Json]:
    """The JSON of all rows and panels, with ids, placed from left to right and from top to bottom."""
    ids, y, found = count(1), 0, []
    for title, panels in rows:
        found.append({"id": next(ids), "type": "row", "title": title, "collapsed": False, "panels": [],
                      "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1}})  # fmt: skip
        x, y, tallest = 0, y + 1, 0
        for panel in panels:
            if x + panel.width > WIDTH:
                x, y, tallest = 0, y + tallest, 0
            where = {"x": x, "y": y, "w": panel.width, "h": panel.height}
            found.append({"id": next(ids), "gridPos": where, **_panel(panel)})
            x, tallest = x + panel.width, max(tallest, panel.height)
        y += tallest
    return found


def _panel(panel: Panel) -> Json:
    made: Json = {
        "type": panel.kind,
        "title": panel.title,
        "description": " ".join(filter(None, (panel.about, *_missing(panel)))),
        "datasource": SOURCE,
        "targets": [_target(panel, query, chr(ord("A") + i)) for i, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": _overrides(panel)},
        "options": _heatmap(panel) if panel.kind == "heatmap" else _OPTIONS[panel.kind],
    }
    if panel.kind == "table":
        made["transformations"] = _table(panel)
    return made


def _missing(panel: Panel) -> list[str]:
    """A sentence for each requirement without which a query of the panel has no data."""
    return [
        f"If it is empty: {text}." for text in dict.fromkeys(query.empty for query in panel.queries) if text
    ]


def _target(panel: Panel, query: Query, ref: str) -> Json:
    over_time = panel.kind in ("timeseries", "heatmap", "state-timeline")
    return {
        "refId": ref, "datasource": SOURCE, "expr": query.expr, "legendFormat": query.legend or "__auto",
        "instant": not over_time, "range": over_time, "format": "table" if panel.kind == "table" else "time_series",
    }  # fmt: skip


def _defaults(panel: Panel) -> Json:
    found: Json = {"unit": panel.unit}
    if link := links.of_series(query.legend for query in panel.queries):
        found["links"] = link
    if panel.unit == "percentunit":
        found |= {"min": 0, "max": 1}
        found["thresholds"] = {
            "mode": "absolute",
            "steps": [{"color": colour, "value": value} for colour, value in STEPS],
        }
    if panel.kind == "timeseries":
        stack = {"mode": "normal" if panel.stacked else "none", "group": "A"}
        found["custom"] = {
            "fillOpacity": 30 if panel.stacked else 0,
            "stacking": stack,
            "showPoints": "never",
        }
    if panel.kind == "state-timeline":
        # Not by thresholds: Grafana would join different values of one colour.
        found |= {"color": {"mode": "continuous-blues"}, "custom": {"fillOpacity": 70, "lineWidth": 0}}
    return found


def _heatmap(panel: Panel) -> Json:
    colours: Json = {"mode": "scheme", "scheme": "Blues", "steps": 64}
    if panel.unit == "percentunit":
        colours |= {"min": 0, "max": 1}
    return {
        "calculate": False, "rowsFrame": {"layout": "auto"}, "color": colours, "cellGap": 1, "showValue": "never",
        "yAxis": {"axisPlacement": "left", **({"unit": panel.rows} if panel.rows else {})},
        "cellValues": {"unit": panel.unit}, "legend": {"show": True}, "tooltip": {"mode": "single"},
    }  # fmt: skip


def _overrides(panel: Panel) -> list[Json]:
    """The overrides of a panel: units of columns, bars for shares, and links of columns to boards."""
    found = []
    for column, unit in panel.units.items():
        properties: list[Json] = [{"id": "unit", "value": unit}]
        if unit == "percentunit":
            properties += [{"id": "custom.cellOptions", "value": {"type": "gauge", "mode": "basic"}},
                           {"id": "min", "value": 0}, {"id": "max", "value": 1}]  # fmt: skip
        found.append({"matcher": {"id": "byName", "options": column}, "properties": properties})
    for column in panel.keys:
        if link := links.of_column(column, panel.keys):
            properties = [{"id": "links", "value": link}]
            found.append({"matcher": {"id": "byName", "options": column}, "properties": properties})
    return found


def _table(panel: Panel) -> list[Json]:
    """The transformations that make a table: a row per set of values of the keys, a column per query."""
    names = {f"Value #{chr(ord('A') + i)}": query.legend for i, query in enumerate(panel.queries)}
    columns = [*panel.keys, *names]
    if len(panel.queries) == 1:
        # With one query Grafana calls the column Value.
        names, columns = {"Value": panel.queries[0].legend}, [*panel.keys, "Value"]
    return [
        {"id": "merge", "options": {}},
        {"id": "filterFieldsByName", "options": {"include": {"names": columns}}},
        {"id": "organize", "options": {
            "indexByName": {column: i for i, column in enumerate(columns)}, "renameByName": names,
        }},
    ]  # fmt: skip


_LAST: Json = {"calcs": ["lastNotNull"], "fields": "", "values": False}
_OPTIONS: Mapping[str, Json] = {
    "stat": {"reduceOptions": _LAST, "colorMode": "value", "graphMode": "none", "textMode": "auto"},
    "bargauge": {"reduceOptions": _LAST, "orientation": "horizontal", "displayMode": "basic"},
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom"},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "state-timeline": {
        "mergeValues": True, "showValue": "auto", "alignValue": "left", "rowHeight": 0.9,
        "legend": {"showLegend": False, "displayMode": "list", "placement": "bottom"},
        "tooltip": {"mode": "single", "sort": "none"},
    },
    "table": {"showHeader": True, "cellHeight": "sm"},
}  # fmt: skip
