# ruff: noqa: INP001 (a folder of dashboards, not a package)
"""Draws a dashboard as SVG from what Prometheus answers: for the documentation, not for use.

It follows Grafana's JSON (places, titles, units, colours, legends) and knows the kinds of panels
that our dashboards have. What Grafana would show may look different; the numbers are the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any, Final

CELL_WIDTH: Final = 60
CELL_HEIGHT: Final = 34
_GAP: Final = 4
_LEGEND_HEIGHT: Final = 18
_SERIES_COLORS: Final = (
    "#3f7fbf", "#e08a2e", "#4a9d55", "#c04a4a", "#8a62b0", "#8a6a4f", "#d377b5", "#7f7f7f",
    "#b0b030", "#35a9b8",
)  # fmt: skip
_COLORS: Final = {
    "green": "#4a9d55",
    "orange": "#e08a2e",
    "red": "#c04a4a",
    "blue": "#3f7fbf",
    "purple": "#8a62b0",
}
_STYLE: Final = (
    "text{font-family:Helvetica,Arial,sans-serif;font-size:11px;fill:#333}"
    ".title{font-size:13px;font-weight:bold}.row{font-size:15px;font-weight:bold}"
    ".axis{fill:#777;font-size:10px}.big{font-size:34px;font-weight:bold;fill:#fff}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line: the labels, and pairs of seconds and values in the order of time."""

    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A place in the picture."""

    x: float
    y: float
    width: float
    height: float


Results = Mapping[int, Sequence[Sequence[Series]]]
"""By the panel's id: for each of its queries the series."""


def drawn(document: Mapping[str, Any], results: Results, start: float, end: float) -> str:
    """The picture of a dashboard over a time."""
    panels = document["panels"]
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    width, height = 24 * CELL_WIDTH, (rows + 1) * CELL_HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#f4f5f5"/>',
        f'<text x="8" y="22" class="row">{escape(document["title"])}</text>',
    ]
    for panel in panels:
        place = panel["gridPos"]
        box = Box(
            x=place["x"] * CELL_WIDTH + _GAP / 2,
            y=(place["y"] + 1) * CELL_HEIGHT + _GAP / 2,
            width=place["w"] * CELL_WIDTH - _GAP,
            height=place["h"] * CELL_HEIGHT - _GAP,
        )
        if panel["type"] == "row":
            parts.append(_text(box.x + 4, box.y + 20, panel["title"], "row"))
        else:
            parts += _panel(panel, results[panel["id"]], box, start, end)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(
    panel: Mapping[str, Any],
    results: Sequence[Sequence[Series]],
    box: Box,
    start: float,
    end: float,
) -> list[str]:
    made = [
        f'<rect x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}"'
        f' height="{box.height:.0f}" rx="3" fill="#fff" stroke="#ddd"/>',
        _text(box.x + 8, box.y + 17, panel["title"], "title"),
    ]
    inner = Box(x=box.x + 8, y=box.y + 26, width=box.width - 16, height=box.height - 34)
    named = [
        (_legend(target["legendFormat"], one.labels), one)
        for target, found in zip(panel["targets"], results, strict=True)
        for one in found
    ]
    if not named:
        return [*made, _text(inner.x, inner.y + inner.height / 2, "No data", "axis")]
    match panel["type"]:
        case "stat":
            return made + _stat(panel, named[0][1], inner)
        case "table":
            return made + _table(panel, [one for _, one in named], inner)
        case "state-timeline":
            return made + _states(panel, named, inner, start, end)
    return made + _lines(panel, named, inner, start, end)


def _legend(pattern: str, labels: Mapping[str, str]) -> str:
    if pattern == "__auto":
        return ", ".join(f"{name}={text}" for name, text in labels.items()) or "value"
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), pattern)


def _stat(panel: Mapping[str, Any], series: Series, box: Box) -> list[str]:
    value = series.points[-1][1]
    color = "green"
    for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]:
        if step["value"] is None or value >= step["value"]:
            color = step["color"]
    return [
        f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="3"'
        f' fill="{_COLORS[color]}"/>',
        _text(
            box.x + box.width / 2,
            box.y + box.height / 2 + 12,
            _shown(panel, value),
            "big",
            "middle",
        ),
    ]


def _table(panel: Mapping[str, Any], found: Sequence[Series], box: Box) -> list[str]:
    columns = sorted({name for one in found for name in one.labels})
    rows = [
        [*(one.labels.get(name, "") for name in columns), _shown(panel, one.points[-1][1])]
        for one in sorted(found, key=lambda one: -one.points[-1][1])
    ]
    heading = panel["transformations"][1]["options"]["renameByName"].get("Value", "Value")
    step = box.width / (len(columns) + 1)
    made = []
    for line, cells in enumerate([[*columns, heading], *rows]):
        y = box.y + 14 + line * 18
        if y > box.y + box.height:
            break
        made += [
            _text(box.x + index * step, y, cell, "axis" if line == 0 else "")
            for index, cell in enumerate(cells)
        ]
    return made


def _states(
    panel: Mapping[str, Any],
    named: Sequence[tuple[str, Series]],
    box: Box,
    start: float,
    end: float,
) -> list[str]:
    options = panel["fieldConfig"]["defaults"]["mappings"][0]["options"]
    left, height = box.x + 70, min(44.0, (box.height - 18) / len(named))
    scale = (box.x + box.width - left) / (end - start)
    made = []
    for line, (name, one) in enumerate(named):
        y = box.y + line * height
        made.append(_text(box.x, y + height / 2 + 4, name))
        step = _step(one.points)
        for moment, value in one.points:
            state = options.get(str(int(value)), {"color": "blue"})
            until = min(moment + step, end)
            made.append(
                f'<rect x="{left + (moment - start) * scale:.1f}" y="{y + 4:.0f}"'
                f' width="{(until - moment) * scale + 0.3:.1f}" height="{height - 8:.0f}"'
                f' fill="{_COLORS[state["color"]]}"/>'
            )
    shown = {int(value) for _, one in named for _, value in one.points}
    words = ", ".join(
        options[str(value)]["text"] for value in sorted(shown) if str(value) in options
    )
    return [*made, _text(left, box.y + box.height, words, "axis")]


def _step(points: Sequence[tuple[float, float]]) -> float:
    return min((b[0] - a[0] for a, b in pairwise(points)), default=1.0)


def _lines(
    panel: Mapping[str, Any],
    named: Sequence[tuple[str, Series]],
    box: Box,
    start: float,
    end: float,
) -> list[str]:
    custom = panel["fieldConfig"]["defaults"].get("custom", {})
    is_stacked = custom.get("stacking", {}).get("mode") == "normal"
    lines = _stacked(named) if is_stacked else [(name, one.points) for name, one in named]
    highest = max((value for _, points in lines for _, value in points), default=0.0)
    top = _round_up(highest)
    left, bottom = box.x + 52, box.y + box.height - _LEGEND_HEIGHT - 4
    across = (box.x + box.width - left) / (end - start)
    up = (bottom - box.y) / top
    made = []
    for part in range(5):
        y = bottom - (bottom - box.y) * part / 4
        made.append(
            f'<line x1="{left:.0f}" x2="{box.x + box.width:.0f}" y1="{y:.1f}" y2="{y:.1f}"'
            ' stroke="#e6e6e6"/>'
        )
        made.append(_text(left - 6, y + 4, _shown(panel, top * part / 4), "axis", "end"))
    # The upper areas of a stack first, so that the lower ones lie on top of them.
    for index in reversed(range(len(lines))):
        color = _SERIES_COLORS[index % len(_SERIES_COLORS)]
        for run in _runs(lines[index][1]):
            path = " ".join(
                f"{left + (moment - start) * across:.1f},{bottom - value * up:.1f}"
                for moment, value in run
            )
            if is_stacked:
                first, last = (left + (run[end_][0] - start) * across for end_ in (0, -1))
                made.append(
                    f'<polygon points="{first:.1f},{bottom:.1f} {path} {last:.1f},{bottom:.1f}"'
                    f' fill="{color}"/>'
                )
            else:
                made.append(
                    f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>'
                )
    return made + _names([name for name, _ in lines], box)


def _names(names: Sequence[str], box: Box) -> list[str]:
    """The legend in one line, as far as there is room."""
    made, x, y = [], box.x, box.y + box.height
    for index, name in enumerate(names):
        width = 22 + 6.2 * len(name)
        if x + width > box.x + box.width and index:
            made.append(_text(x, y, "…"))
            break
        color = _SERIES_COLORS[index % len(_SERIES_COLORS)]
        made.append(f'<rect x="{x:.0f}" y="{y - 8:.0f}" width="10" height="4" fill="{color}"/>')
        made.append(_text(x + 14, y - 3, name))
        x += width
    return made


def _stacked(
    named: Sequence[tuple[str, Series]],
) -> list[tuple[str, Sequence[tuple[float, float]]]]:
    below: dict[float, float] = {}
    made: list[tuple[str, Sequence[tuple[float, float]]]] = []
    for name, one in named:
        for moment, value in one.points:
            below[moment] = below.get(moment, 0.0) + value
        made.append((name, [(moment, below[moment]) for moment, _ in one.points]))
    return made


def _runs(points: Sequence[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """Points without gaps between them."""
    step = _step(points)
    runs: list[list[tuple[float, float]]] = []
    for point in points:
        if runs and point[0] - runs[-1][-1][0] <= 1.5 * step:
            runs[-1].append(point)
        else:
            runs.append([point])
    return runs


def _round_up(value: float) -> float:
    """The next of 1, 2, 4, 5 or 8 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * digit for digit in (1, 2, 4, 5, 8, 10) if power * digit >= value * 0.9999)


def _shown(panel: Mapping[str, Any], value: float) -> str:
    """A value in the panel's unit."""
    match panel["fieldConfig"]["defaults"]["unit"]:
        case "s":
            return _seconds(value)
        case "percentunit":
            return f"{value * 100:.3g} %"
        case "bytes":
            return _scaled(value, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))
        case "Bps":
            return _scaled(value, 1000, ("B/s", "kB/s", "MB/s", "GB/s"))
    return _scaled(value, 1000, ("", " k", " M", " G"))


def _seconds(value: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} s" if value >= 1 or value == 0 else f"{value * 1000:.3g} ms"


def _scaled(value: float, factor: int, units: Sequence[str]) -> str:
    for unit in units[:-1]:
        if abs(value) < factor:
            return f"{value:.3g} {unit}".strip()
        value /= factor
    return f"{value:.3g} {units[-1]}".strip()


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    name = f' class="{kind}"' if kind else ""
    side = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{name}{side}>{escape(words)}</text>'
