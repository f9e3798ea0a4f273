"""Where a share partition begins that was never read.

Source: KIP-932, KIP-1106; SHR-4. Not here: which texts a group may have (`group_settings.py`).
"""

from __future__ import annotations

from typing import Final

from barnabas_broker.replication.partition import Partition
from barnabas_protocol.settings.durations import parse_iso_duration_ms

_BY_DURATION: Final = "by_duration:"


async def reset_offset(partition: Partition, strategy: str, now_ms: int) -> int:
    """Return the first offset by `latest`, `earliest` or `by_duration:` and an ISO-8601 duration.

    By duration it is that of the first record that is so old at most, the high watermark where
    there is none; Kafka lets fetches fail until there is one. An unknown strategy is the default,
    `latest`: the high watermark.
    """
    log = partition.log
    if strategy == "earliest":
        return log.log_start_offset
    age_ms = _age_ms(strategy)
    if age_ms is not None:
        # Never negative: such timestamps have meanings of their own.
        found = await log.offset_for_timestamp(max(now_ms - age_ms, 0), log.high_watermark)
        if found is not None:
            return found.offset
    return log.high_watermark


def _age_ms(strategy: str) -> int | None:
    """Return the duration of a strategy; None where it has none that can be read."""
    if not strategy.startswith(_BY_DURATION):
        return None
    try:
        return parse_iso_duration_ms(strategy.removeprefix(_BY_DURATION))
    except ValueError:  # of an older release, which has checked less
        return None
