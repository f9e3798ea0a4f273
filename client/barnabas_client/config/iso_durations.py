"""Durations as ISO 8601 writes them: `P7D`, `PT1H30M`, `PT0.5S`.

Years and months are refused, because their length depends on the date.
Source: `java.time.Duration.parse`, which KIP-1106 names for `auto.offset.reset=by_duration:...`.
"""

from __future__ import annotations

import re
from typing import Final

_FORM: Final = re.compile(
    r"P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?", re.IGNORECASE
)
_DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000


def parse_duration_ms(text: str) -> int:
    """The milliseconds of a duration; fractions of a millisecond are cut.

    Raises: ValueError if the text is none, is negative or has years or months.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise ValueError(f"{text!r} is no duration such as P7D, PT1H or PT30S")
    days, hours, minutes, seconds, fraction = (group or "0" for group in match.groups())
    whole_ms = int(days) * _DAY_MS + int(hours) * _HOUR_MS + int(minutes) * _MINUTE_MS
    return whole_ms + int(seconds) * 1000 + int(fraction.ljust(3, "0")[:3])
