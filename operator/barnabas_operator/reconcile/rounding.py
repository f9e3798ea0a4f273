"""Numbers coarse enough that a status does not change with every record. Pure.

Two significant digits tell a person all that a column can; a rate that wavers by less than a fifth
stays what it was, so that steady traffic is no steady stream of writes.
"""

from __future__ import annotations

import math

_STEADY_SHARE = 0.2


def significant(number: float, digits: int = 2) -> float:
    """The number with so many digits that count."""
    if number == 0:
        return 0.0
    exponent = math.floor(math.log10(abs(number)))
    return round(number, digits - 1 - exponent)


def rate_text(rate: float, before: str = "") -> str:
    """A rate for people; the text from before if that still is about right."""
    if before:
        try:
            old = float(before)
        except ValueError:
            old = -1.0
        if old > 0 and rate > 0 and abs(rate - old) <= _STEADY_SHARE * old:
            return before
    return _plain(significant(rate))


def _plain(number: float) -> str:
    """Without an exponent or zeros that say nothing."""
    if number == int(number):
        return str(int(number))
    return f"{number:.6f}".rstrip("0").rstrip(".")
