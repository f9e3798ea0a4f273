"""Tables of settings for reference pages, in Markdown. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from barnabas_protocol.settings.setting import Setting

RowT = TypeVar("RowT", bound=Setting)
Columns = Mapping[str, Callable[[RowT], str]]


def table(rows: Iterable[RowT], columns: Columns[RowT]) -> Iterator[str]:
    """The lines of a table: a row each, a cell for each heading."""
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for row in rows:
        cells = (cell(row).replace("|", "\\|") for cell in columns.values())
        yield f"| {' | '.join(cells)} |"


def name_cell(row: Setting) -> str:
    """The name, as code."""
    return f"`{row.name}`"


def default_cell(row: Setting) -> str:
    """The default, as code; empty where there is none."""
    if row.is_required:
        return "(required)"
    text = default_text(row.default)
    return f"`{text}`" if text else ""


def default_text(default: Any) -> str:
    """A default as somebody would write it; empty for none."""
    if default is None:
        return ""
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    return str(default).lower() if isinstance(default, bool) else str(default)
