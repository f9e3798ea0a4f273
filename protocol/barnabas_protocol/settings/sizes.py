"""Sizes as text, in bytes: `1048576`, `64 MiB`. Pure."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_POWERS: Final = {"b": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_SIZE: Final = re.compile(r"(\d+)\s*(?:(b)|([kmgtp])(?:ib)?)?", re.IGNORECASE)


def parse_size(text: str) -> int:
    """The bytes of `1048576`, `64 MiB`, `64m` or `1 GiB`; units are powers of 1024.

    Raises: ValueError saying how sizes are written.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError("it must be a size such as 1048576, 64 MiB or 1 GiB")
    power = _POWERS[match[3].lower()] if match[3] else 0
    return int(match[1]) << 10 * power


def size_text(size_bytes: float, digits: int = 3) -> str:
    """A size for people: `1023 B`, `1.5 KiB`, `230 MiB`; bytes are exact.

    Of other units so many digits count; zeros behind the point are left out.
    """
    number, unit = float(size_bytes), 0
    while abs(number) >= 1024 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    if unit == 0:
        return f"{number:.0f} B"
    places = digits - len(str(int(abs(number))))
    text = f"{round(number, places):.{max(places, 0)}f}"
    return f"{text.rstrip('0').rstrip('.') if places > 0 else text} {_UNITS[unit]}"
