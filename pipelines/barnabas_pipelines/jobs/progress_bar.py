"""What a job says while it runs: a live bar on a terminal, plain lines otherwise.

Everything but the plan of `--dry-run`, help and templates goes to the error stream, so that the
output of a job stays clean. Lines begin with the job's name; scripts and tests may look for them.

Not here: where the numbers come from (`streaming.py`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from barnabas_pipelines.offsets import offsets_of_sources

_BAR_CELLS: Final = 20
_ENDS: Final = ("latestOffset", "endOffset")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """What is known of a finished batch of a streaming query; offsets behind may be unknown."""

    batch_id: int
    record_count: int
    records_per_second: float
    duration_ms: int
    offsets_behind: int | None = None

    @classmethod
    def of_spark(cls, progress: Mapping[str, Any]) -> BatchProgress:
        """From the JSON of Spark's StreamingQueryProgress."""
        behind = [_offsets_behind(source) for source in progress.get("sources", ())]
        known = [count for count in behind if count is not None]
        return cls(
            batch_id=int(progress["batchId"]),
            record_count=int(progress.get("numInputRows") or 0),
            records_per_second=float(progress.get("processedRowsPerSecond") or 0),
            duration_ms=int((progress.get("durationMs") or {}).get("triggerExecution") or 0),
            offsets_behind=sum(known) if known else None,
        )

    def text(self) -> str:
        """One line for people, and for tests that wait for it."""
        parts = [
            f"batch {self.batch_id}: {self.record_count:,} records",
            f"{self.records_per_second:,.0f}/s",
            f"{self.duration_ms / 1000:.1f} s",
        ]
        if self.offsets_behind is not None:
            parts.append(f"{self.offsets_behind:,} behind")
        return ", ".join(parts)


def _offsets_behind(source: Mapping[str, Any]) -> int | None:
    """How far the end of a batch is from the newest offsets; None if it is not reported."""
    latest, end = (offsets_of_sources([_text(source.get(name))]) for name in _ENDS)
    common = [partition for partition in latest if partition in end]
    if not common:
        return None
    return sum(latest[partition] - end[partition] for partition in common)


def _text(offsets: Any) -> str | None:
    """Offsets as text: Spark's progress has them parsed where they are JSON."""
    return offsets if isinstance(offsets, str | None) else json.dumps(offsets)


class Report:
    """Where a job says what it does."""

    def __init__(self, name: str, console: Console | None = None) -> None:
        """Write to the error stream, unless a console is given."""
        self._name = name
        self._console = console or Console(stderr=True, highlight=False)
        self._live: Live | None = None
        self._batches = 0
        self._records = 0

    @property
    def record_count(self) -> int:
        """The records of all batches that were reported."""
        return self._records

    def print_text(self, text: str) -> None:
        """Print help or a template on the output."""
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def print_plan(self, lines: Sequence[tuple[str, str]]) -> None:
        """Answer `--dry-run`, on the output."""
        _print_plan(Console(highlight=False), lines)

    def show_plan(self, lines: Sequence[tuple[str, str]]) -> None:
        """Say before a run what is going to be done."""
        _print_plan(self._console, lines)

    def line(self, text: str) -> None:
        """Say something that stays."""
        self._console.print(Text(f"{self._name}: {text}"), soft_wrap=True)

    def batch(self, progress: BatchProgress) -> None:
        """Say that a batch is finished: the bar moves, or a line is written."""
        self._batches += 1
        self._records += progress.record_count
        if not self._console.is_terminal:
            self.line(progress.text())
            return
        self._show(self._bar(progress))

    def amount(self, done: int, total: int) -> None:
        """Say how much of a known amount of records is done."""
        if not self._console.is_terminal:
            self.line(f"{done:,} of {total:,} records")
            return
        bar = _bar_text(done / total if total else 1.0)
        self._show(Text(f"{self._name}  {bar}  {done:,} of {total:,} records"))

    def failed(self, text: str) -> None:
        """Say in one line why the job ends early."""
        self.close()
        self._console.print(Text(f"{self._name}: {text}", style="red"), soft_wrap=True)

    def close(self) -> None:
        """Leave the terminal as it was. May be repeated."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _show(self, text: Text) -> None:
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(text, refresh=True)

    def _bar(self, progress: BatchProgress) -> Text:
        parts = [
            f"{self._name}  {self._records:,} records in {self._batches:,} batches",
            f"{progress.records_per_second:,.0f}/s",
        ]
        behind = progress.offsets_behind
        if behind is not None:
            done = self._records / (self._records + behind) if self._records + behind else 1.0
            parts += [_bar_text(done), f"{behind:,} behind"]
        return Text("  ".join(parts))


def _bar_text(part: float) -> str:
    filled = round(part * _BAR_CELLS)
    return f"{'━' * filled}{'╌' * (_BAR_CELLS - filled)} {part:.0%}"


def _print_plan(console: Console, lines: Sequence[tuple[str, str]]) -> None:
    if not console.is_terminal:
        width = max((len(subject) for subject, _ in lines), default=0)
        for subject, text in lines:
            console.print(Text(f"{subject:<{width}}  {text}"), soft_wrap=True)
        return
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for subject, text in lines:
        table.add_row(subject, Text(text))
    console.print(table)


_PLAIN_WIDTH: Final = 120


def print_summary(*tables: Table) -> None:
    """Print tables to the output."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_PLAIN_WIDTH)
    for table in tables:
        console.print(table)
