"""Output as a table for people, or as JSON or YAML for programs.

Not here: what the answers are. A command hands over plain data (dictionaries, lists, numbers,
texts) and the columns of its table; JSON and YAML show the data as it is, so they are stable:
fields are only ever added.

Invariants: colours only on a terminal (or with --color always) and never with NO_COLOR; a table
that is not written to a terminal has no colours and full-length cells.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from barnabas_protocol.settings.sizes import size_text

FORMATS = ("table", "json", "yaml")
_GAP = "  "

Style = Callable[[Any], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its title, the field it shows and how.

    `style` gives a colour for a value or None; `text` the words for it.
    """

    title: str
    field: str
    text: Callable[[Any], str] | None = None
    style: Style | None = None
    is_right: bool = False

    def show(self, row: Mapping[str, Any]) -> str:
        """The cell's text."""
        value = row.get(self.field)
        return printable(self.text(value) if self.text is not None else plain(value))


@dataclass(frozen=True, slots=True)
class Output:
    """Writes the output of a command."""

    format: str = "table"

    @property
    def is_table(self) -> bool:
        """Whether people read it."""
        return self.format == "table"

    def rows(
        self, rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], *, empty: str = ""
    ) -> None:
        """Write a list of things; `empty` is what a table says where there are none."""
        if not self.is_table:
            self.data(list(rows))
        elif rows:
            click.echo("\n".join(table_lines(rows, columns)))
        elif empty:
            click.echo(empty, err=True)

    def data(self, value: Any) -> None:
        """Write data for programs; with the format table as YAML, which people read well."""
        if self.format == "json":
            click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=plain))
        else:
            import yaml

            text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=1000)
            click.echo(text, nl=False)

    def said(self, message: str) -> None:
        """Confirm what was done, to people only."""
        if self.is_table:
            click.echo(message)


def with_output(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option -o, and the argument `output`."""

    @click.option(
        "-o",
        "--output",
        "output_format",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="Output format.",
    )
    @functools.wraps(function)
    def wrapper(*args: Any, output_format: str, **kwargs: Any) -> None:
        function(*args, output=Output(output_format), **kwargs)

    return wrapper


def table_lines(rows: Iterable[Mapping[str, Any]], columns: Sequence[Column]) -> list[str]:
    """The lines of a table: aligned columns, no borders, the header in bold."""
    values = [[(row.get(column.field), column.show(row)) for column in columns] for row in rows]
    widths = [
        max([len(column.title), *(len(row[index][1]) for row in values)])
        for index, column in enumerate(columns)
    ]
    header = _GAP.join(
        _aligned(column.title, width, column) for column, width in zip(columns, widths, strict=True)
    )
    lines = [click.style(header.rstrip(), bold=True)]
    for row in values:
        cells = []
        for (value, text), column, width in zip(row, columns, widths, strict=True):
            colour = column.style(value) if column.style is not None else None
            padded = _aligned(text, width, column)
            cells.append(click.style(padded, fg=colour) if colour else padded)
        lines.append(_GAP.join(cells).rstrip())
    return lines


def _aligned(text: str, width: int, column: Column) -> str:
    return text.rjust(width) if column.is_right else text.ljust(width)


def plain(value: Any) -> str:
    """A value in words: nothing is `-`, lists are separated by commas."""
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ",".join(map(plain, value)) or "-"
        case _:
            return str(value)


def printable(text: str) -> str:
    """The text with control characters as escapes: what others chose must not drive a terminal."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def counted(count: int, noun: str, plural: str = "") -> str:
    """A count and its noun: `1 record`, `2 records`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def bytes_text(value: int | None) -> str:
    """A size that people read: 1.5 MiB."""
    if value is None or value < 0:
        return "-"
    return size_text(value)


def bad_if_any(value: Any) -> str | None:
    """Red where a count that should be zero is not."""
    return "red" if value else None


def is_colourful(choice: str) -> bool | None:
    """The colour setting of click's context: None lets it look at each stream."""
    if choice == "always":
        return True
    if choice == "never" or os.environ.get("NO_COLOR"):
        return False
    return None


def is_terminal_error_stream() -> bool:
    """Whether progress can be shown: it goes to the error stream, so that output stays clean."""
    return sys.stderr.isatty()
