"""Charts as SVG: columns over time, bars by name. Pure; no script, nothing from outside.

Colours and fonts are the page's (`page.py`), by classes. All texts are escaped here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

_WIDTH: Final = 720
_HEIGHT: Final = 170
_LEFT: Final = 62
_RIGHT: Final = 8
_TOP: Final = 10
_BOTTOM: Final = 24
_TICKS_WANTED: Final = 4
_LABELS_WANTED: Final = 6
_BAR_HEIGHT: Final = 18
_BAR_GAP: Final = 6
_NAME_WIDTH: Final = 150
_TEXT_WIDTH: Final = 210


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: what stands below it, its height, and what a pointer over it is told."""

    label: str
    value: float
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: its name before it, its length, what is told behind it."""

    name: str
    value: float
    text: str
    is_bad: bool = False


def columns(data: Sequence[Column], text: Callable[[float], str], title: str) -> str:
    """A chart of columns from left to right; the scale begins at 0."""
    top = ceiling(max((column.value for column in data), default=0))
    plot_width, plot_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    bottom = _TOP + plot_height
    parts = [_opening(_WIDTH, _HEIGHT, title)]
    for step in range(_TICKS_WANTED + 1):
        value = top * step / _TICKS_WANTED
        y = bottom - plot_height * step / _TICKS_WANTED
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        parts.append(
            f'<text class="axis" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{escape(text(value))}</text>"
        )
    pitch = plot_width / max(len(data), 1)
    every = max(1, math.ceil(len(data) / _LABELS_WANTED))
    for number, column in enumerate(data):
        x = _LEFT + number * pitch
        height = plot_height * column.value / top
        parts.append(
            f'<g class="column"><title>{escape(column.hint)}</title>'
            f'<rect class="hover" x="{x:.1f}" y="{_TOP}" width="{pitch:.1f}" '
            f'height="{plot_height}"/>'
            f'<rect class="fill" x="{x + pitch * 0.1:.1f}" y="{bottom - height:.1f}" '
            f'width="{pitch * 0.8:.1f}" height="{height:.1f}"/></g>'
        )
        if number % every == 0 and x + pitch / 2 < _WIDTH - 40:
            parts.append(
                f'<text class="axis" x="{x + pitch / 2:.1f}" y="{_HEIGHT - 6}" '
                f'text-anchor="middle">{escape(column.label)}</text>'
            )
    return "".join([*parts, "</svg>"])


def bars(data: Sequence[Bar], title: str) -> str:
    """A chart of bars from top to bottom, each with its name and text; the scale begins at 0."""
    top = max((bar.value for bar in data), default=0) or 1
    room = _WIDTH - _NAME_WIDTH - _TEXT_WIDTH
    height = len(data) * (_BAR_HEIGHT + _BAR_GAP)
    parts = [_opening(_WIDTH, height, title)]
    for number, bar in enumerate(data):
        y = number * (_BAR_HEIGHT + _BAR_GAP)
        length = room * bar.value / top
        middle = y + _BAR_HEIGHT * 0.72
        kind = "bad" if bar.is_bad else "fill"
        parts.append(
            f'<text class="name" x="{_NAME_WIDTH - 8}" y="{middle:.1f}" text-anchor="end">'
            f"{escape(_short(bar.name))}<title>{escape(bar.name)}</title></text>"
            f'<rect class="track" x="{_NAME_WIDTH}" y="{y}" width="{room}" height="{_BAR_HEIGHT}"/>'
            f'<rect class="{kind}" x="{_NAME_WIDTH}" y="{y}" width="{length:.1f}" '
            f'height="{_BAR_HEIGHT}"/>'
            f'<text class="value" x="{_NAME_WIDTH + room + 8}" y="{middle:.1f}">'
            f"{escape(bar.text)}</text>"
        )
    return "".join([*parts, "</svg>"])


def ceiling(value: float) -> float:
    """The least round number that is not below: 1, 2, 4, 5 or 10 times a power of ten; never 0."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    for factor in (1, 2, 4, 5, 10):
        if value <= factor * power * (1 + 1e-9):
            return factor * power
    return 10 * power


def _opening(width: int, height: int, title: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title, quote=True)}">'
    )


def _short(name: str) -> str:
    """A name that fits before a bar."""
    longest = 22
    return name if len(name) <= longest else f"{name[:8]}…{name[-(longest - 9) :]}"
