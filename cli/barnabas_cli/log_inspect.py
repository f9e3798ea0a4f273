"""`barnabas log inspect`: which files, and how what is in them is shown.

Not here: reading them (`segment_inspection.py`), the words of internal records
(`internal_records.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from barnabas_cli.failures import FAILED, CommandError
from barnabas_cli.internal_records import describe_record, is_internal
from barnabas_cli.output import Column, Output, bad_if_any, bytes_text, counted, printable
from barnabas_cli.segment_inspection import SegmentReport, inspect_segment
from barnabas_client.facts.moments import moment_text
from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.batch import BatchHeader
from barnabas_protocol.records.compression import Compression
from barnabas_protocol.records.control import ControlType, control_type_of
from barnabas_protocol.records.record import Record

_PARTITION_DIRECTORY = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")
_SEGMENT_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
# What is shown of one key or value in a table.
_SHOWN_CHARACTERS_MAX = 120

_SEGMENT_COLUMNS = (
    Column(title="SEGMENT", field="segment"),
    Column(title="BATCHES", field="batches", is_right=True),
    Column(title="RECORDS", field="records", is_right=True),
    Column(title="OFFSETS", field="offsets"),
    Column(title="SIZE", field="size_bytes", text=bytes_text, is_right=True),
    Column(title="COMPRESSION", field="compression"),
    Column(title="LAST TIMESTAMP", field="last_timestamp"),
    Column(title="INDEXES", field="indexes"),
    Column(title="PROBLEMS", field="problem_count", is_right=True, style=bad_if_any),
)


def inspect_paths(
    paths: Sequence[Path], output: Output, *, with_batches: bool, with_records: bool
) -> int:
    """Show what is in the segments of the paths; returns the exit code: 1 if something is damaged.

    Raises: CommandError where no segment is found.
    """
    segments = sorted(set(_segments(paths)), key=_natural_order)
    if not segments:
        raise CommandError(f"no segment (*.log) in {', '.join(map(str, paths))}")
    shown = []
    reports = []
    for path in segments:
        details: list[dict[str, Any]] = []
        report = _inspect(path, output, details, with_batches, with_records)
        reports.append(report)
        shown.append(_as_data(report, details))
    totals = {
        "segments": len(reports),
        "batches": sum(report.batch_count for report in reports),
        "records": sum(report.record_count for report in reports),
        "bytes": sum(report.size_bytes for report in reports),
        "problems": sum(len(report.problems) for report in reports),
    }
    if not output.is_table:
        output.data({"segments": shown, "totals": totals})
    else:
        _show_table(output, shown, totals)
    return FAILED if totals["problems"] else 0


def _show_table(output: Output, shown: list[dict[str, Any]], totals: dict[str, int]) -> None:
    rows = [
        {
            **segment,
            "offsets": _range_text(segment),
            "compression": segment["compressions"],
            "indexes": " ".join(f"{name}:{count}" for name, count in segment["indexes"].items()),
            "problem_count": len(segment["problems"]),
        }
        for segment in shown
    ]
    # A broker has many internal partitions that nobody has written to.
    filled = [row for row in rows if row["size_bytes"] or row["problems"]]
    output.rows(filled, _SEGMENT_COLUMNS)
    empty = len(rows) - len(filled)
    hidden = f" ({empty} of them empty)" if empty else ""
    click.echo(
        f"{counted(totals['segments'], 'segment')}{hidden},"
        f" {counted(totals['batches'], 'batch', 'batches')},"
        f" {counted(totals['records'], 'record')}, {bytes_text(totals['bytes'])}"
    )
    for segment in shown:
        for aborted in segment["aborted_transactions"]:
            click.echo(
                f"{segment['segment']}: producer {aborted['producer_id']} aborted the transaction"
                f" with offsets {aborted['first_offset']} to {aborted['last_offset']}"
            )
        for problem in segment["problems"]:
            click.echo(click.style(f"{segment['segment']}: {problem}", fg="red"))


def _segments(paths: Sequence[Path]) -> Iterator[Path]:
    """The `.log` files that paths mean: themselves, those beside an index, those below a folder."""
    for path in paths:
        if path.is_dir():
            for found in sorted(path.rglob("*.log")):
                if found.stem.isdecimal():
                    yield found
        elif path.suffix in _SEGMENT_SUFFIXES and path.with_suffix(".log").exists():
            yield path.with_suffix(".log")
        else:
            raise CommandError(f"{path} is no segment file ({', '.join(_SEGMENT_SUFFIXES)})")


def _natural_order(path: Path) -> list[str | int]:
    """Partition 10 comes after partition 9."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", str(path))]


def _inspect(
    path: Path,
    output: Output,
    details: list[dict[str, Any]],
    with_batches: bool,
    with_records: bool,
) -> SegmentReport:
    topic = _topic_of(path.resolve().parent)

    def on_batch(position: int, header: BatchHeader, records: list[Record] | None) -> None:
        batch = _batch_data(position, header)
        if records is not None:
            batch["records"] = [_record_data(topic, header, record) for record in records]
        if not output.is_table:
            details.append(batch)
            return
        click.echo(_batch_line(path, batch))
        for record in batch.get("records", ()):
            click.echo(_record_line(record))

    watched = with_batches or with_records
    return inspect_segment(path, with_records=with_records, on_batch=on_batch if watched else None)


def _topic_of(directory: Path) -> str:
    """The topic whose partition this is; none where its records are in nobody's words we know."""
    match = _PARTITION_DIRECTORY.fullmatch(directory.name)
    # Apache Kafka's own metadata log has the same name and other records than ours.
    if match is None or (directory / "quorum-state").exists():
        return ""
    return match["topic"]


def _as_data(report: SegmentReport, details: list[dict[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {
        "segment": "/".join(report.path.resolve().parts[-2:]),
        "path": str(report.path),
        "base_offset": report.base_offset,
        "batches": report.batch_count,
        "records": report.record_count,
        "control_batches": report.control_batch_count,
        "transactional_batches": report.transactional_batch_count,
        "first_offset": report.first_offset if report.batch_count else None,
        "last_offset": report.last_offset if report.batch_count else None,
        "size_bytes": report.size_bytes,
        "readable_bytes": report.readable_bytes,
        "compressions": [_compression_name(codec) for codec in sorted(report.compressions)],
        "first_timestamp": moment_text(report.first_timestamp_ms),
        "last_timestamp": moment_text(report.last_timestamp_ms),
        "indexes": report.index_entry_counts,
        "aborted_transactions": report.aborted_transactions,
        "problems": report.problems,
    }
    if details:
        data["batch_list"] = details
    return data


def _batch_data(position: int, header: BatchHeader) -> dict[str, Any]:
    return {
        "position": position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records_count": header.record_count,
        "size_bytes": header.size_bytes,
        "leader_epoch": header.leader_epoch,
        "compression": _compression_name(header.compression),
        "max_timestamp": moment_text(header.max_timestamp),
        "timestamp_type": "append" if header.is_log_append_time else "create",
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
    }


def _record_data(topic: str, header: BatchHeader, record: Record) -> dict[str, Any]:
    data: dict[str, Any] = {"offset": record.offset, "timestamp": moment_text(record.timestamp)}
    if header.is_control:
        data["control"] = _control_name(record)
    elif is_internal(topic):
        data |= describe_record(topic, record)
    else:
        data["key"] = readable(record.key)
        data["value"] = readable(record.value)
    if record.headers:
        data["headers"] = {name: readable(value) for name, value in record.headers}
    return data


def readable(data: bytes | None) -> str | None:
    """The text in the bytes; bytes that are no text in hexadecimal digits after `0x`."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return f"0x{data.hex()}"


def _control_name(record: Record) -> str:
    try:
        return ControlType(control_type_of(record)).name.lower()
    except (ParseError, ValueError):
        return "unknown"


def _compression_name(codec: int) -> str:
    try:
        return Compression(codec).name.lower()
    except ValueError:
        return f"unknown ({codec})"


def _range_text(segment: dict[str, Any]) -> str:
    if segment["first_offset"] is None:
        return "-"
    return f"{segment['first_offset']}..{segment['last_offset']}"


def _batch_line(path: Path, batch: dict[str, Any]) -> str:
    parts = [
        f"{path.parent.name}/{path.name}@{batch['position']}",
        f"offsets {batch['base_offset']}..{batch['last_offset']}",
        counted(batch["records_count"], "record"),
        bytes_text(batch["size_bytes"]),
        f"leader epoch {batch['leader_epoch']}",
        batch["compression"],
        f"{batch['timestamp_type']} time {batch['max_timestamp'] or '-'}",
    ]
    if batch["producer_id"] >= 0:
        parts.append(
            f"producer {batch['producer_id']} epoch {batch['producer_epoch']}"
            f" sequence {batch['base_sequence']}"
        )
    marks = [name for name in ("transactional", "control") if batch[f"is_{name}"]]
    return "  ".join([*parts, *marks])


def _record_line(record: dict[str, Any]) -> str:
    words = [f"  {record['offset']}", record["timestamp"] or "-"]
    for name, value in record.items():
        if name not in ("offset", "timestamp"):
            words.append(f"{name}={_short(value)}")
    return "  ".join(words)


def _short(value: Any) -> str:
    text = "null" if value is None else value if isinstance(value, str) else json.dumps(value)
    text = printable(text)
    if len(text) <= _SHOWN_CHARACTERS_MAX:
        return text
    return f"{text[:_SHOWN_CHARACTERS_MAX]}... ({len(text)} characters)"
