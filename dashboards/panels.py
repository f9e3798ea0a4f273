# ruff: noqa: INP001 (a folder of dashboards, not a package)
"""Grafana's panels in the few words that our dashboards need, turned into Grafana's JSON.

Panels flow from left to right and from top to bottom in a grid of 24 columns. Nothing here knows
what Barnabas measures.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

COLUMNS: Final = 24
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_SCHEMA_VERSION: Final = 39


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One query of a panel; `legend` names its series with {{label}}s.

    `may_be_empty` says that a healthy cluster need not have any such series.
    """

    expression: str
    legend: str = ""
    may_be_empty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel: kind is Grafana's word (stat, timeseries, table, gauge, state-timeline)."""

    title: str
    text: str
    queries: Sequence[Query]
    kind: str = "timeseries"
    unit: str = "short"
    width: int = 8
    height: int = 7
    # Values from which on a colour holds; the first colour holds from the start.
    steps: Sequence[tuple[float | None, str]] = ((None, "green"),)
    is_stacked: bool = False
    decimals: int | None = None
    # Of a state: value, its name, its colour.
    states: Sequence[tuple[int, str, str]] = ()
    # Of a table: the columns left out, and what the others are called.
    hidden: Sequence[str] = ()
    renamed: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A heading and the panels below it."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """What users choose at the top of a dashboard: values of a label."""

    name: str
    label: str
    query: str
    is_multiple: bool = True
    all_value: str = ".*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """One dashboard; `name` is its file's and part of its address."""

    name: str
    title: str
    text: str
    variables: Sequence[Variable]
    rows: Sequence[Row]

    def document(self) -> dict[str, Any]:
        """Grafana's JSON."""
        return {
            "uid": f"barnabas-{self.name}",
            "title": self.title,
            "description": self.text,
            "tags": ["barnabas"],
            "schemaVersion": _SCHEMA_VERSION,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"},
            "timezone": "browser",
            "links": [
                {
                    "type": "dashboards",
                    "title": "Barnabas",
                    "tags": ["barnabas"],
                    "icon": "dashboard",
                    "tooltip": "",
                    "targetBlank": False,
                    "asDropdown": False,
                    "includeVars": True,
                    "keepTime": True,
                }
            ],
            "templating": {"list": [_source_variable(), *map(_variable, self.variables)]},
            "annotations": {"list": []},
            "panels": list(_placed(self.rows)),
        }


def _source_variable() -> dict[str, Any]:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "hide": 0,
    }


def _variable(variable: Variable) -> dict[str, Any]:
    return {
        "name": variable.name,
        "label": variable.label,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": variable.query, "refId": variable.name},
        "refresh": 2,
        "sort": 1,
        "multi": variable.is_multiple,
        "includeAll": variable.is_multiple,
        "allValue": variable.all_value if variable.is_multiple else None,
        "current": {"text": "All", "value": "$__all"} if variable.is_multiple else {},
    }


def _placed(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """All rows and panels with ids and places."""
    identity, top = 0, 0
    for row in rows:
        identity += 1
        yield {
            "id": identity,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1},
            "panels": [],
        }
        top += 1
        left = tallest = 0
        for panel in row.panels:
            if left + panel.width > COLUMNS:
                top, left, tallest = top + tallest, 0, 0
            identity += 1
            place = {"x": left, "y": top, "w": panel.width, "h": panel.height}
            yield {"id": identity, "gridPos": place, **_panel(panel)}
            left, tallest = left + panel.width, max(tallest, panel.height)
        top += tallest


def _panel(panel: Panel) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": _SOURCE,
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend or "__auto",
                "instant": panel.kind in ("stat", "table"),
                "range": panel.kind not in ("stat", "table"),
                **({"format": "table"} if panel.kind == "table" else {}),
            }
            for index, query in enumerate(panel.queries)
        ],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _options(panel),
    }
    if panel.kind == "table":
        made["transformations"] = _transformations(panel)
    return made


def _defaults(panel: Panel) -> dict[str, Any]:
    made: dict[str, Any] = {
        "unit": panel.unit,
        "thresholds": {
            "mode": "absolute",
            "steps": [{"value": value, "color": color} for value, color in panel.steps],
        },
    }
    if panel.decimals is not None:
        made["decimals"] = panel.decimals
    if panel.states:
        made["mappings"] = [
            {
                "type": "value",
                "options": {
                    str(value): {"text": text, "color": color, "index": index}
                    for index, (value, text, color) in enumerate(panel.states)
                },
            }
        ]
    match panel.kind:
        case "timeseries":
            made["min"] = 0
            made["custom"] = {
                "lineWidth": 1,
                "fillOpacity": 30 if panel.is_stacked else 8,
                "showPoints": "never",
                "stacking": {"mode": "normal" if panel.is_stacked else "none"},
            }
        case "stat":
            made["color"] = {"mode": "thresholds"}
        case "state-timeline":
            made["color"] = {"mode": "thresholds"}
            made["custom"] = {"fillOpacity": 80, "lineWidth": 0}
    return made


def _options(panel: Panel) -> dict[str, Any]:
    match panel.kind:
        case "timeseries":
            return {
                "legend": {"displayMode": "list", "placement": "bottom"},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }
        case "stat":
            return {
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
                "colorMode": "background",
                "graphMode": "none",
                "textMode": "auto",
            }
        case "state-timeline":
            return {"showValue": "auto", "mergeValues": True}
    return {"showHeader": True}


def _transformations(panel: Panel) -> list[dict[str, Any]]:
    return [
        {"id": "merge", "options": {}},
        {
            "id": "organize",
            "options": {
                "excludeByName": dict.fromkeys(panel.hidden, True),
                "renameByName": dict(panel.renamed),
            },
        },
    ]
