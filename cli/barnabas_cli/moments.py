"""Points in time and durations as people write them, in milliseconds. Pure.

A point in time: ISO 8601 (`2026-11-21`, `2026-11-21T10:30`, with or without an offset; without one
it is local time), `now`, how long ago (`90s`, `1h`, `2d12h`), or Unix milliseconds. A duration:
`90s`, `1h30m`, or ISO 8601 (`PT1H30M`, `P2D`).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_ISO_DURATION = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)
# Seconds since 1970 have ten digits for two more centuries, milliseconds thirteen.
_MILLISECONDS_DIGITS_MIN = 12


def parse_duration_ms(text: str) -> int:
    """A duration in milliseconds. Raises: ValueError saying how durations are written."""
    written = text.strip()
    iso = _ISO_DURATION.fullmatch(written)
    if iso and any(iso.groups()):
        days, hours, minutes, seconds = (float(part or 0) for part in iso.groups())
        return round(((days * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1000)
    parts = _PART.findall(written.lower())
    if not parts or "".join(number + unit for number, unit in parts) != written.lower():
        raise ValueError(f"'{text}' is no duration such as 90s, 1h30m, 2d or PT1H30M")
    return round(sum(float(number) * _UNITS_MS[unit] for number, unit in parts))


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
