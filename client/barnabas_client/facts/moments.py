"""Points in time as people write them, in Unix milliseconds. Pure.

A point in time: ISO 8601 (`2026-11-21`, `2026-11-21T10:30`, with or without an offset; without one
it is local time), `now`, how long ago (`90s`, `1h`, `2d12h`), or Unix milliseconds.
"""

from __future__ import annotations

from datetime import UTC, datetime

from barnabas_protocol.settings.durations import parse_duration_ms

# Seconds since 1970 have ten digits for two more centuries, milliseconds thirteen.
_MILLISECONDS_DIGITS_MIN = 12


def parse_moment_ms(text: str, now_ms: int) -> int:
    """A point in time in Unix milliseconds. Raises: ValueError saying how they are written."""
    written = text.strip()
    if written.lower() == "now":
        return now_ms
    if written.isdecimal() and len(written) >= _MILLISECONDS_DIGITS_MIN:
        return int(written)
    try:
        return now_ms - parse_duration_ms(written.removesuffix(" ago"))
    except ValueError:
        pass
    try:
        return round(datetime.fromisoformat(written).astimezone(UTC).timestamp() * 1000)
    except ValueError:
        raise ValueError(
            f"'{text}' is no point in time such as 2026-11-21T10:30, 2026-11-21T10:30:00Z, 1h (ago)"
            " or Unix milliseconds"
        ) from None


def moment_text(moment_ms: int | None) -> str | None:
    """A point in time as ISO 8601 in UTC; None for none and for times that no calendar has."""
    if moment_ms is None or moment_ms < 0:
        return None
    try:
        moment = datetime.fromtimestamp(moment_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment_ms % 1000:03d}Z"
