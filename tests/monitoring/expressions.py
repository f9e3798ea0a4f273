"""What expressions of Prometheus name: metrics, and labels that are matched or grouped by.

Not a parser of PromQL: it knows as much of it as our own dashboards and rules use.
"""

import re
from collections.abc import Iterator

_METRIC = re.compile(r"\b((?:barnabas|process)_\w+|up)\b")
_MATCHERS = re.compile(r"\{([^}]*)\}")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_GROUPING = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")
_LEGEND = re.compile(r"\{\{(\w+)\}\}")
# Given to every series by who scrapes it.
TARGET_LABELS = frozenset({"namespace", "job", "instance"})


def metrics_in(expression: str) -> set[str]:
    """The names of metrics, with the suffixes of counters and histograms."""
    outside = re.sub(r'"[^"]*"', '""', _GROUPING.sub("", expression))
    return set(_METRIC.findall(outside))


def labels_in(expression: str, legend: str = "") -> set[str]:
    """The names of labels, without those of the target and of buckets."""
    return {*_labels(expression), *_LEGEND.findall(legend)} - TARGET_LABELS - {"le"}


def _labels(expression: str) -> Iterator[str]:
    for matchers in _MATCHERS.findall(expression):
        yield from _LABEL.findall(re.sub(r'"[^"]*"', '""', matchers))
    for names in _GROUPING.findall(expression):
        yield from (name.strip() for name in names.split(",") if name.strip())
