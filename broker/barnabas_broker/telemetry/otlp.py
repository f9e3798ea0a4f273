"""Reads what clients push: OpenTelemetry's MetricsData, as points with a name and a number (TEL-5).

Only what is shown is read: numbers of gauges and sums with their attributes. Histograms and
summaries, exemplars, units, scopes and the attributes of the resource are passed over, and what a
newer schema adds as well. Attributes that are no text, number or truth have no value here.

Source: opentelemetry-proto 1.x, `metrics.proto` and `common.proto`; KIP-714 names the message, and
decision 0032 says why this is not protobuf's library.
Invariants: as deep as the schema, so bytes that are nested deeper are passed over unread; at most
`POINTS_MAX` points of `FIELDS_MAX` fields; every malformed input is a ParseError.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

from barnabas_broker.telemetry.protobuf_fields import ProtobufField, ProtobufReader
from barnabas_protocol.errors import ParseError

POINTS_MAX: Final = 1000
"""A client of Java has some hundred and fifty; what is beyond is left out."""
FIELDS_MAX: Final = 50_000
ATTRIBUTES_MAX: Final = 16
"""Of one point."""

_NO_RECORDED_VALUE: Final = 1  # of the flags of a point
_DELTA: Final = 1
_CUMULATIVE: Final = 2
_GAUGE, _SUM = 5, 7
_OTHER_KINDS: Final = frozenset((9, 10, 11))  # histogram, exponential histogram, summary


class PointKind(Enum):
    """What the number of a point stands for."""

    GAUGE = "gauge"
    COUNTER = "counter"  # since the client began
    COUNTER_DELTA = "counter delta"  # since its last push
    GAUGE_DELTA = "gauge delta"  # the same, of what may sink


class Point(NamedTuple):
    """One number of one metric."""

    metric: str
    kind: PointKind
    attributes: tuple[tuple[str, str], ...]
    value: float


class MetricsData(NamedTuple):
    """The points that a client has pushed, and how many more it sent."""

    points: list[Point]
    left_out_count: int


def read_metrics_data(data: bytes) -> MetricsData:
    """The points of an encoded MetricsData. Raises: ParseError."""
    return _MetricsDataReader(data).read()


class _MetricsDataReader:
    """One reading, which goes down the levels of the schema."""

    def __init__(self, data: bytes) -> None:
        self._reader = ProtobufReader(data, FIELDS_MAX)
        self._points: list[Point] = []
        self._left_out_count = 0

    def read(self) -> MetricsData:
        for resource_metrics in self._of(self._reader.whole(), 1):
            for scope_metrics in self._of(resource_metrics, 2):
                for metric in self._of(scope_metrics, 2):
                    self._read_metric(metric)
        return MetricsData(self._points, self._left_out_count)

    def _of(self, message: ProtobufField, number: int) -> Iterator[ProtobufField]:
        return (field for field in self._reader.fields(message) if field.number == number)

    def _read_metric(self, metric: ProtobufField) -> None:
        name, data = "", None
        for field in self._reader.fields(metric):
            if field.number == 1:
                name = self._reader.text(field)
            elif field.number in (_GAUGE, _SUM):
                data = field
            elif field.number in _OTHER_KINDS:
                self._left_out_count += 1
        if data is not None:
            self._read_points(name, data)

    def _read_points(self, name: str, data: ProtobufField) -> None:
        """The points of a gauge or a sum."""
        points: list[ProtobufField] = []
        temporality, is_monotonic = 0, False
        for field in self._reader.fields(data):
            if field.number == 1:
                points.append(field)
            elif field.number == 2 and data.number == _SUM:
                temporality = self._reader.unsigned(field)
            elif field.number == 3 and data.number == _SUM:
                is_monotonic = self._reader.unsigned(field) != 0
        kind = PointKind.GAUGE if data.number == _GAUGE else _kind_of_sum(temporality, is_monotonic)
        for point in points:
            if kind is None or len(self._points) == POINTS_MAX:
                self._left_out_count += 1
            else:
                self._read_point(name, kind, point)

    def _read_point(self, name: str, kind: PointKind, point: ProtobufField) -> None:
        reader = self._reader
        value: float | None = None
        flags = 0
        attributes: list[tuple[str, str]] = []
        for field in reader.fields(point):
            match field.number:
                case 4:
                    value = reader.double(field)
                case 6:
                    value = float(reader.sfixed64(field))
                case 7:
                    if len(attributes) == ATTRIBUTES_MAX:
                        raise ParseError("too many attributes", field.start)
                    attributes.append(self._read_attribute(field))
                case 8:
                    flags = reader.unsigned(field)
        if value is not None and not flags & _NO_RECORDED_VALUE:
            self._points.append(Point(name, kind, tuple(attributes), value))

    def _read_attribute(self, attribute: ProtobufField) -> tuple[str, str]:
        key = value = ""
        for field in self._reader.fields(attribute):
            if field.number == 1:
                key = self._reader.text(field)
            elif field.number == 2:
                value = self._read_value(field)
        return key, value

    def _read_value(self, value: ProtobufField) -> str:
        reader = self._reader
        text = ""
        for field in reader.fields(value):
            match field.number:
                case 1:
                    text = reader.text(field)
                case 2:
                    text = "true" if reader.unsigned(field) else "false"
                case 3:
                    number = reader.unsigned(field)
                    text = str(number - 2**64 if number >= 2**63 else number)
                case 4:
                    text = repr(reader.double(field))
        return text


def _kind_of_sum(temporality: int, is_monotonic: bool) -> PointKind | None:
    """None for a sum that does not say since when it is one."""
    if temporality == _DELTA:
        return PointKind.COUNTER_DELTA if is_monotonic else PointKind.GAUGE_DELTA
    if temporality == _CUMULATIVE:
        return PointKind.COUNTER if is_monotonic else PointKind.GAUGE
    return None
