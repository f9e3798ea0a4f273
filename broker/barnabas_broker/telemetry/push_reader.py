"""From the bytes of a push to points with labels that a page of metrics can show (TEL-5, TEL-6).

Decompression, reading, and what makes names and texts of strangers harmless: what nobody requested
is left out, texts are cut, and what is no letter, digit or common sign is replaced. Pure, and slow
enough with large pushes to be done in a thread.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from barnabas_broker.config.client_metrics_settings import ALL_METRICS
from barnabas_broker.telemetry.otlp import Point, PointKind, read_metrics_data
from barnabas_protocol.records.batch import Buffer
from barnabas_protocol.records.compression import Compression, decompress

LABEL_CHARS_MAX: Final = 128
OTHER_ATTRIBUTES: Final = "attributes"
"""The label of all attributes that have none of their own, as `name=value,name=value`."""
NODE_ID: Final = "node_id"
# Attributes with labels of their own, by the names that clients give them.
_OWN_LABELS: Final = {
    "topic": "topic",
    "partition": "partition",
    "node_id": NODE_ID,
    "node.id": NODE_ID,
}
POINT_LABELS: Final = ("metric", "topic", "partition", NODE_ID, OTHER_ATTRIBUTES)
_UNFIT_IN_NAME: Final = re.compile(r"[^A-Za-z0-9._:/-]")


class ReportedPoint(NamedTuple):
    """A number to be shown; `labels` has the values of `POINT_LABELS`."""

    kind: PointKind
    labels: tuple[str, ...]
    value: float


class Push(NamedTuple):
    """What is to be shown of a push, and how many of its points are not."""

    points: list[ReportedPoint]
    left_out_count: int


def read_push(codec: int, data: Buffer, bytes_max: int, prefixes: Iterable[str]) -> Push:
    """The points of a push whose metrics begin with one of the prefixes.

    Raises: DecompressedTooLargeError where it has more than `bytes_max`; ParseError.
    """
    plain = bytes(data) if codec == Compression.NONE else decompress(codec, data, bytes_max)
    points, left_out_count = read_metrics_data(plain)
    wanted = ("",) if ALL_METRICS in prefixes else tuple(prefixes)
    shown = [_reported(point) for point in points if _is_fit(point, wanted)]
    return Push(shown, left_out_count + len(points) - len(shown))


def fit_label(text: str) -> str:
    """A text of a stranger as the value of a label: short, and on one line."""
    cut = text[:LABEL_CHARS_MAX]
    return cut if cut.isprintable() else "".join(c if c.isprintable() else "_" for c in cut)


def _is_fit(point: Point, prefixes: tuple[str, ...]) -> bool:
    if not 0 < len(point.metric) <= LABEL_CHARS_MAX or not point.metric.startswith(prefixes):
        return False
    # A gauge without a number has no value any more, which is told; a counter cannot have none.
    return point.kind is PointKind.GAUGE or (
        math.isfinite(point.value) and (point.kind is PointKind.GAUGE_DELTA or point.value >= 0)
    )


def _reported(point: Point) -> ReportedPoint:
    attributes = dict(point.attributes)
    own = {label: attributes.pop(name) for name, label in _OWN_LABELS.items() if name in attributes}
    if NODE_ID in own:
        own[NODE_ID] = own[NODE_ID].removeprefix("node-")  # Java's; librdkafka has the number
    others = ",".join(f"{name}={value}" for name, value in sorted(attributes.items()))
    labels: Mapping[str, str] = {
        **own,
        "metric": _UNFIT_IN_NAME.sub("_", point.metric),
        OTHER_ATTRIBUTES: others,
    }
    return ReportedPoint(
        point.kind, tuple(fit_label(labels.get(name, "")) for name in POINT_LABELS), point.value
    )
