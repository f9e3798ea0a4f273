"""What comes to the cluster and goes out of it, now and in the last hour (CON-110, CON-137). Pure.

Records come from ends and commits, so Apache Kafka has them, too; bytes from the brokers that tell.
"""

from __future__ import annotations

from typing import Any, Final

from barnabas_console.history.series import SeriesStore

#: One for two minutes: a console that nobody looks at has a look a minute.
TREND_POINTS: Final = 30


def traffic(series: SeriesStore) -> list[dict[str, Any]]:
    """A row for each direction: `in` is what producers write, `out` what groups read."""
    return [
        _row(series, "in", "cluster:arriving:", "cluster:bytes_in:"),
        _row(series, "out", "cluster:reading:", "cluster:bytes_out:"),
    ]


def load_of(series: SeriesStore, node_id: int) -> dict[str, Any]:
    """The load of a broker: bytes by its sockets, or what comes to the partitions it leads."""
    for unit, name in (("bytes", "broker:bytes"), ("records", "broker:arriving")):
        trend = series.trend(f"{name}:{node_id}", TREND_POINTS)
        if trend is not None and any(value is not None for value in trend):
            return {"load": trend, "load_unit": unit}
    return {"load": None, "load_unit": None}


def _row(series: SeriesStore, direction: str, records: str, in_bytes: str) -> dict[str, Any]:
    return {
        "direction": direction,
        "records_per_second": series.last(records),
        "records_trend": series.trend(records, TREND_POINTS),
        "bytes_per_second": series.last(in_bytes),
        "bytes_trend": series.trend(in_bytes, TREND_POINTS),
    }
