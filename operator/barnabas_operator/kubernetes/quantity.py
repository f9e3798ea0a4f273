"""Quantities as Kubernetes writes them: `10Gi`, `1.5Ti`, `100m`, `1e3`. Pure.

Whatever spelling somebody chose, the API server keeps another one: 0.7Gi becomes 751619276800m, and
what is beyond 64 bits becomes the largest number of 64 bits.

Source: k8s.io/apimachinery/pkg/api/resource, Quantity.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

_QUANTITY = re.compile(
    r"([+-]?)([0-9]+(?:[.][0-9]*)?|[.][0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2}|)"
)
_MOST = 2**63 - 1
_UNITS = {
    "": Fraction(1),
    **{unit: Fraction(1, 1000**power) for power, unit in enumerate("mun", start=1)},
    **{unit: Fraction(1000**power) for power, unit in enumerate("kMGTPE", start=1)},
    **{f"{unit}i": Fraction(1024**power) for power, unit in enumerate("KMGTPE", start=1)},
}


@lru_cache(maxsize=1024)
def read_quantity(text: str) -> Fraction | None:
    """The exact number, None for what is no quantity."""
    found = _QUANTITY.fullmatch(text.strip())
    if found is None:
        return None
    sign, digits, unit = found.groups()
    scale = _UNITS.get(unit)
    if scale is None:
        scale = Fraction(10) ** int(unit[1:])
    number = Fraction(f"0{digits}") * scale
    return -number if sign == "-" else number


def whole_quantity(text: str) -> int | None:
    """The whole number that Kubernetes makes of it: rounded up, and of 64 bits at most."""
    number = read_quantity(text)
    return None if number is None else min(-(-number.numerator // number.denominator), _MOST)


def quantity_text(number: int) -> str:
    """A whole number as Kubernetes writes it, without loss."""
    for unit in ("Pi", "Ti", "Gi", "Mi", "Ki"):
        whole, rest = divmod(number, _UNITS[unit].numerator)
        if whole and not rest:
            return f"{whole}{unit}"
    return str(number)
