"""Numbers, sizes and times as people read them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_LARGE: Final = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_SIZES: Final = ((1024**4, "TiB"), (1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))
_DAY_MS: Final = 86_400_000


def number(value: float) -> str:
    """1234567 as 1.23M."""
    for size, unit in _LARGE:
        if abs(value) >= size:
            return f"{_three(value / size)}{unit}"
    return _three(value)


def size(value: float) -> str:
    """1536 as 1.5 KiB."""
    for unit_bytes, unit in _SIZES:
        if abs(value) >= unit_bytes:
            return f"{_three(value / unit_bytes)} {unit}"
    return f"{_three(value)} B"


def duration(value_ms: int) -> str:
    """93784000 as 1 d 2 h; two units at most."""
    if value_ms < 1000:
        return f"{value_ms} ms"
    rest_s = value_ms // 1000
    parts: list[str] = []
    for seconds, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        count, rest_s = divmod(rest_s, seconds)
        if count or parts:
            parts.append(f"{count} {unit}")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if not part.startswith("0 "))


def moment(at_ms: int) -> str:
    """A time in UTC to the second."""
    return f"{_utc(at_ms):%Y-%m-%d %H:%M:%S} UTC"


def tick(at_ms: int, bucket_ms: int) -> str:
    """A time as a chart's axis has it."""
    if bucket_ms >= _DAY_MS:
        return f"{_utc(at_ms):%d %b}"
    if bucket_ms < 60_000:
        return f"{_utc(at_ms):%H:%M:%S}"
    return f"{_utc(at_ms):%d %b %H:%M}" if bucket_ms >= 3_600_000 else f"{_utc(at_ms):%H:%M}"


def _utc(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC)


def _three(value: float) -> str:
    """Three digits, without zeros at the end."""
    if abs(value) >= 100:
        return f"{value:.0f}"
    text = f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    return text.rstrip("0").rstrip(".")
