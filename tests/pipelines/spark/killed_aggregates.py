"""What an aggregate that was killed has to have in the end."""

import json
from collections.abc import Sequence
from datetime import datetime

from barnabas_client import ConsumerRecord

WINDOW_MS = 10_000
Totals = dict[tuple[int, str], tuple[int, float]]


def produced(records: Sequence[ConsumerRecord]) -> Totals:
    """Count and sum by window and group, by arithmetic."""
    totals: Totals = {}
    for record in records:
        value = json.loads(record.value)
        key = (record.timestamp_ms // WINDOW_MS * WINDOW_MS, value["group"])
        count, total = totals.get(key, (0, 0.0))
        totals[key] = (count + 1, total + value["n"])
    return totals


def compacted(records: Sequence[ConsumerRecord]) -> Totals:
    """Count and sum in the newest row of each key."""
    newest = {record.key: record.value for record in records}
    totals: Totals = {}
    for value in newest.values():
        row = json.loads(value)
        start_ms = round(datetime.fromisoformat(row["window_start"]).timestamp() * 1000)
        totals[start_ms, row["group"]] = (row["count"], row["sum_n"])
    return totals
