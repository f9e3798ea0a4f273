"""The report on a terminal, and as JSON. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict

from rich.table import Table
from rich.text import Text

from barnabas_pipelines.lag.findings import LagFindings
from barnabas_pipelines.lag.page import number
from barnabas_protocol.settings.durations import duration_text
from barnabas_protocol.settings.sizes import size_text


def group_table(findings: LagFindings) -> Table:
    """The groups, those furthest behind first."""
    table = Table(title="Consumer groups", title_justify="left")
    for name in ("group", "state"):
        table.add_column(name, overflow="fold")
    for name in ("members", "partitions", "lag", "oldest unread", "lost"):
        table.add_column(name, justify="right")
    for group in findings.groups:
        behind = group.behind_ms
        up_to_date = "[green]up to date[/]" if group.lag == 0 else "unknown"
        table.add_row(
            Text(group.group_id),
            group.state,
            str(group.member_count),
            str(len(group.partitions)),
            f"{group.lag:,}",
            duration_text(behind) if behind is not None else up_to_date,
            f"[red]{group.lost_count:,}[/]" if group.lost_count else "0",
        )
    return table


def topic_table(findings: LagFindings) -> Table:
    """The topics and what has come in the time looked at."""
    span_ms = max(findings.until_ms - findings.from_ms, 1)
    table = Table(title=f"Topics, last {duration_text(span_ms)}", title_justify="left")
    table.add_column("topic", overflow="fold")
    for name in ("partitions", "records", "a second", "size", "skew", "missing offsets"):
        table.add_column(name, justify="right")
    for topic in findings.topics:
        skew = f"{topic.skew:.2f}"
        table.add_row(
            Text(topic.topic),
            str(len(topic.partitions)),
            f"{topic.record_count:,}",
            number(topic.record_count * 1000 / span_ms),
            size_text(topic.size_bytes),
            f"[red]{skew}[/]" if topic.is_skewed else skew,
            f"{topic.missing_count:,}",
        )
    return table


def as_json(findings: LagFindings) -> str:
    """All findings for programs, with the sums that pages show."""
    document = asdict(findings)
    for shown, group in zip(document["groups"], findings.groups, strict=True):
        shown |= {"lag": group.lag, "behind_ms": group.behind_ms, "lost_count": group.lost_count}
        for row, one in zip(shown["partitions"], group.partitions, strict=True):
            row |= {"lag": one.lag, "lost_count": one.lost_count}
    for shown, topic in zip(document["topics"], findings.topics, strict=True):
        shown |= {
            "record_count": topic.record_count,
            "size_bytes": topic.size_bytes,
            "missing_count": topic.missing_count,
            "skew": topic.skew,
        }
    return json.dumps(document, indent=2) + "\n"
