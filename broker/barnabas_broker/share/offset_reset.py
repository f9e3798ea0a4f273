"""Where a share partition begins that was never read. Source: SHR-4."""

from __future__ import annotations

import re
from typing import Final

from barnabas_broker.replication.partition import Partition

_BY_DURATION: Final = "by_duration:"
_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?"
    r"(?:(?P<seconds>\d+)(?:\.(?P<fraction>\d{1,9}))?S)?)?",
    re.IGNORECASE,
)


async def reset_offset(partition: Partition, strategy: str, now_ms: int) -> int:
    """Return the first offset by `latest`, `earliest` or `by_duration:` and an ISO-8601 duration.

    An unknown strategy is the default, `latest`: the high watermark.
    """
    log = partition.log
    if strategy == "earliest":
        return log.log_start_offset
    if strategy.startswith(_BY_DURATION):
        timestamp = now_ms - duration_ms(strategy.removeprefix(_BY_DURATION))
        found = await log.offset_for_timestamp(timestamp, log.high_watermark)
        if found is not None:
            return found.offset
    return log.high_watermark


def duration_ms(text: str) -> int:
    """Return the milliseconds of an ISO-8601 duration without years and months; 0 for no such."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return 0
    days, hours, minutes, seconds = (
        int(found[name] or 0) for name in ("days", "hours", "minutes", "seconds")
    )
    fraction_ms = int((found["fraction"] or "").ljust(3, "0")[:3] or 0)
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + fraction_ms
