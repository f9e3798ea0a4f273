"""One value of a metric as its owner tells it, before anybody formats it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias


class Histogram(NamedTuple):
    """Counts per bucket.

    `bounds` are the upper bounds; `counts` (not cumulative) has one more entry, for what is above
    the last bound; `total` is the sum of all values.
    """

    bounds: Sequence[float]
    counts: Sequence[int]
    total: float


class Sample(NamedTuple):
    """A name with "counter", "gauge" or "histogram" as kind, its labels and its value."""

    name: str
    kind: str
    help: str
    labels: Mapping[str, str]
    value: float | Histogram


MetricSource: TypeAlias = Callable[[], Iterable[Sample]]
"""Reads its owner's integers when it is called; it must not wait."""
