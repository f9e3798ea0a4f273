"""The counts of `quality`: added up over batches, shown as a table, JSON or metrics. Pure.

Counts are of this run: a batch that is repeated after a failure is counted by the run that
repeats it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.table import Table
from rich.text import Text

from barnabas_pipelines.transforms.rule_parsing import Rule

_PREFIX = "barnabas_quality"


@dataclass(slots=True, kw_only=True)
class Tally:
    """Records and rules of a topic; each rule has one place in `broken_counts`."""

    topic: str
    rules: tuple[Rule, ...]
    batch_count: int = 0
    record_count: int = 0
    bad_count: int = 0
    undecodable_count: int = 0
    broken_counts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.broken_counts = [0 for _ in self.rules]

    @property
    def good_count(self) -> int:
        """Records with nothing wrong."""
        return self.record_count - self.bad_count

    @property
    def bad_share(self) -> float:
        """Bad ones of all, from 0 to 1; 0 where there were none."""
        return self.bad_count / self.record_count if self.record_count else 0.0

    def add(self, records: int, bad: int, undecodable: int, broken: Sequence[int]) -> None:
        """Take in a batch."""
        self.batch_count += 1
        self.record_count += records
        self.bad_count += bad
        self.undecodable_count += undecodable
        self.broken_counts = [
            before + more for before, more in zip(self.broken_counts, broken, strict=True)
        ]

    def as_json(self) -> str:
        """All counts, for programs."""
        document = {
            "topic": self.topic,
            "batches": self.batch_count,
            "records": self.record_count,
            "good": self.good_count,
            "bad": self.bad_count,
            "undecodable": self.undecodable_count,
            "rules": [
                {"name": rule.name, "kind": rule.kind.value, "rule": rule.text, "broken": count}
                for rule, count in zip(self.rules, self.broken_counts, strict=True)
            ],
        }
        return json.dumps(document, indent=2) + "\n"

    def as_metrics(self) -> str:
        """All counts in Prometheus' text format."""
        topic = _label(self.topic)
        records = f"{_PREFIX}_records_total"
        broken = f"{_PREFIX}_rule_broken_total"
        lines = [
            f"# HELP {records} Records that were looked at, by what was found.",
            f"# TYPE {records} counter",
            f'{records}{{topic="{topic}",outcome="good"}} {self.good_count}',
            f'{records}{{topic="{topic}",outcome="bad"}} {self.bad_count}',
            f"# HELP {_PREFIX}_undecodable_total Bad records that could not be decoded.",
            f"# TYPE {_PREFIX}_undecodable_total counter",
            f'{_PREFIX}_undecodable_total{{topic="{topic}"}} {self.undecodable_count}',
            f"# HELP {broken} Records that break a rule; one record may break several.",
            f"# TYPE {broken} counter",
        ]
        lines += [
            f'{broken}{{topic="{topic}",rule="{_label(rule.name)}"}} {count}'
            for rule, count in zip(self.rules, self.broken_counts, strict=True)
        ]
        return "\n".join(lines) + "\n"

    def as_table(self) -> Table:
        """What people see at the end."""
        table = Table(
            title=Text(
                f"{self.topic}: {self.record_count:,} records, {self.good_count:,} good, "
                f"{self.bad_count:,} bad",
                style="table.title",
            ),
            title_justify="left",
        )
        table.add_column("rule")
        table.add_column("records are to be so")
        table.add_column("broken by", justify="right")
        table.add_column("of all", justify="right")
        rows = [
            ("decodable", "the value has the format and types that are set", self.undecodable_count)
        ]
        rows += [
            (rule.name, rule.text, count)
            for rule, count in zip(self.rules, self.broken_counts, strict=True)
        ]
        for name, text, count in rows:
            share = count / self.record_count if self.record_count else 0.0
            style = "red" if count else "green"
            table.add_row(name, Text(text), f"[{style}]{count:,}[/]", f"[{style}]{share:.2%}[/]")
        return table


def _label(text: str) -> str:
    """A label's value in the text format."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
