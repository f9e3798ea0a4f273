"""Durations as text, in milliseconds: `90s`, `1h30m`, ISO 8601 (`PT1H30M`). Pure.

Years and months are refused, because their length depends on the date.
Source: `java.time.Duration.parse` for ISO 8601, which KIP-1106 names.
"""

from __future__ import annotations

import re
from typing import Final

UNITS_MS: Final = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|min|s|m|h|d|w)\s*", re.IGNORECASE)
_ISO: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?"
    r"(?:T(?=[-+\d])(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_SECONDS_MAX: Final = (1 << 63) - 1
_DIGITS_MAX: Final = 30  # in each number; more is out of range, and costs time
_SHOWN: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
_EXACT: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"))


def parse_iso_duration_ms(text: str) -> int:
    """The milliseconds of an ISO 8601 duration; fractions of a millisecond are cut.

    Each number may have a sign, as in Java.
    Raises: ValueError if the text is none, is negative or has years or months.
    """
    match = _ISO.fullmatch(text.strip())
    numbers = () if match is None else match.groups()[1:5]
    if match is None or not any(numbers) or max(len(one or "") for one in numbers) > _DIGITS_MAX:
        raise ValueError(f"{text!r} is no duration such as P7D, PT1H or PT30S")
    days, hours, minutes, seconds = (int(one or "0") for one in numbers)
    whole_seconds = (days * 24 + hours) * 3600 + minutes * 60 + seconds
    nanoseconds = int((match[6] or "").ljust(9, "0"))
    if (match[5] or "").startswith("-"):
        nanoseconds = -nanoseconds
    total = whole_seconds * 10**9 + nanoseconds
    if match[1] == "-":
        total = -total
    if not 0 <= total // 10**9 <= _SECONDS_MAX:
        raise ValueError(f"{text!r} is no duration such as P7D, PT1H or PT30S")
    return total // 10**6


def parse_duration_ms(text: str) -> int:
    """The milliseconds of `90s`, `1h30m`, `2d` or an ISO 8601 duration.

    Raises: ValueError saying how durations are written.
    """
    written = text.strip()
    if written[:1] in ("P", "p"):
        try:
            return parse_iso_duration_ms(written)
        except ValueError:
            raise ValueError(_refusal(text)) from None
    position, total_ms = 0, 0.0
    while part := _PART.match(written, position):
        total_ms += float(part[1]) * UNITS_MS[part[2].lower()]
        position = part.end()
    if not written or position != len(written):
        raise ValueError(_refusal(text))
    return round(total_ms)


def _refusal(text: str) -> str:
    return f"{text!r} is no duration such as 500ms, 90s, 1h30m, 2d or PT1H30M"


def duration_text(value_ms: int) -> str:
    """A duration for people, in its two largest units: `1 d 2 h`, `250 ms`."""
    if value_ms < 1000:
        return f"{value_ms} ms"
    rest_ms = value_ms
    parts: list[str] = []
    for unit_ms, unit in _SHOWN:
        count, rest_ms = divmod(rest_ms, unit_ms)
        if count or parts:
            parts.append(f"{count} {unit}")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if not part.startswith("0 "))


def exact_duration_text(value_ms: int) -> str:
    """A duration in the largest unit that leaves no rest: `90s`; `parse_duration_ms` reads it."""
    for unit_ms, unit in _EXACT:
        if value_ms and value_ms % unit_ms == 0:
            return f"{value_ms // unit_ms}{unit}"
    return f"{value_ms}ms"
