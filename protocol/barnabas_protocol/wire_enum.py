"""Enumerations whose numbers are the wire's, open to numbers that later brokers may send."""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class WireEnum(IntEnum):
    """An enumeration with a member UNKNOWN, which stands for every number it does not know."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls["UNKNOWN"]
