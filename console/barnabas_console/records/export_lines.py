"""The lines of an export: JSONL as `barnabas consume --format json` writes, or CSV. Pure.

Source: CON-124. Invariants: JSONL loses nothing; in CSV a text that a spreadsheet would run as a
formula has an apostrophe before it, unless it is a number.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable
from typing import Any, Final

from barnabas_console.records.filters import number_of
from barnabas_console.records.record_view import RecordView

CONTENT_TYPES: Final = {"jsonl": "application/jsonl", "csv": "text/csv"}
CSV_COLUMNS: Final = ("partition", "offset", "timestamp", "key", "value", "headers")
# The signs of full width count in East Asian spreadsheets.
_FORMULA: Final = (*"=+-@\t\r\n", *"\uff1d\uff0b\uff0d\uff20")
_JSONL_FIELDS: Final = ("topic", "partition", "offset", "timestamp", "timestamp_ms")


def line_writer(how: str) -> tuple[bytes, Callable[[RecordView], bytes]]:
    """What comes first, and a function from a record to its line. Raises: KeyError."""
    return {"jsonl": (b"", _json_line), "csv": (csv_line(CSV_COLUMNS), _csv_record)}[how]


def csv_line(cells: Iterable[Any]) -> bytes:
    """A line of CSV, of which a spreadsheet runs nothing."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow([_cell(cell) for cell in cells])
    return text.getvalue().encode(errors="backslashreplace")


def _json_line(view: RecordView) -> bytes:
    row = view.row(characters_max=None)
    data: dict[str, Any] = {name: row[name] for name in _JSONL_FIELDS}
    for side in ("key", "value"):
        data[side] = row[side]
        if row[f"{side}_format"] not in ("null", "text", "json"):
            data[f"{side}_format"] = row[f"{side}_format"]
    data["headers"] = row["headers"]
    return json.dumps(data, ensure_ascii=False).encode(errors="backslashreplace") + b"\n"


def _csv_record(view: RecordView) -> bytes:
    row = view.row(characters_max=None)
    headers = json.dumps(row["headers"], ensure_ascii=False) if row["headers"] else ""
    cells = (row["partition"], row["offset"], row["timestamp"] or "", row["key"], row["value"])
    return csv_line((*cells, headers))


def _cell(cell: Any) -> Any:
    if isinstance(cell, str) and cell.startswith(_FORMULA) and number_of(cell) is None:
        return f"'{cell}"
    return cell
