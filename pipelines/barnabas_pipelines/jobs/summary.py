"""Tables on the output, at the end of a job: in colour on a terminal, plain in a pipe."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.table import Table

_PLAIN_WIDTH: Final = 120


def print_summary(*tables: Table) -> None:
    """Print tables to the output."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_PLAIN_WIDTH)
    for table in tables:
        console.print(table)
