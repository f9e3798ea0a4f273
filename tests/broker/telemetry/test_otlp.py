"""Points out of MetricsData as protobuf's library writes it, and out of bytes that nobody wrote."""

import contextlib
import math
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas_broker.telemetry.otlp import (
    ATTRIBUTES_MAX,
    FIELDS_MAX,
    POINTS_MAX,
    Point,
    PointKind,
    read_metrics_data,
)
from barnabas_protocol.errors import ParseError
from tests.support.otlp import CUMULATIVE, DELTA, gauge, metrics_data, point, total


def field(number: int, content: bytes) -> bytes:
    """A field with a length, by hand."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def in_metric(*fields: bytes) -> bytes:
    """A MetricsData whose only metric has these fields."""
    return field(1, field(2, field(2, b"".join(fields))))


def in_point(*fields: bytes) -> bytes:
    """A MetricsData whose only point has these fields."""
    return in_metric(field(1, b"m"), field(5, field(1, b"".join(fields))))


DOUBLE_ONE = varint(4 << 3 | 1) + struct.pack("<d", 1.0)


def test_gauges_and_sums_are_read_with_their_attributes() -> None:
    """TEL-5: integers and doubles, delta and cumulative, attributes of every kind."""
    data = metrics_data(
        gauge("a.avg", point(1.5, topic="orders", partition=3)),
        total("a.total", point(7, ok=True, rate=0.5, below=-2)),
        total("a.ever", point(9), temporality=CUMULATIVE),
        total("a.open", point(-4), temporality=DELTA, is_monotonic=False),
        total("a.held", point(4), temporality=CUMULATIVE, is_monotonic=False),
    )
    assert read_metrics_data(data) == (
        [
            Point("a.avg", PointKind.GAUGE, (("topic", "orders"), ("partition", "3")), 1.5),
            Point(
                "a.total",
                PointKind.COUNTER_DELTA,
                (("ok", "true"), ("rate", "0.5"), ("below", "-2")),
                7,
            ),
            Point("a.ever", PointKind.COUNTER, (), 9),
            Point("a.open", PointKind.GAUGE_DELTA, (), -4),
            Point("a.held", PointKind.GAUGE, (), 4),
        ],
        0,
    )


def test_what_is_not_shown_is_passed_over_and_counted() -> None:
    """TEL-6: histograms, sums without a temporality; points without a value are none."""
    histogram = {"name": "h", "histogram": {"data_points": [point(1)]}}
    data = metrics_data(
        histogram, total("t", point(1), temporality=0), gauge("g", point(1, flags=1), point(2))
    )
    assert read_metrics_data(data) == ([Point("g", PointKind.GAUGE, (), 2)], 2)


def test_values_that_are_no_text_have_none() -> None:
    """TEL-5: arrays are not gone into, however deep they are."""
    data = metrics_data(gauge("g", point(1, many={"values": []}, raw=b"\xff")))
    assert read_metrics_data(data).points == [
        Point("g", PointKind.GAUGE, (("many", ""), ("raw", "")), 1)
    ]


def test_numbers_that_are_none_are_read_as_they_are() -> None:
    """TEL-5: whoever shows them decides."""
    data = metrics_data(gauge("g", point(math.nan), point(math.inf)))
    values = [each.value for each in read_metrics_data(data).points]
    assert math.isnan(values[0])
    assert values[1] == math.inf


def test_fields_of_a_newer_schema_are_passed_over() -> None:
    """TEL-5: of every wire type, and nothing at all is nothing."""
    newer = b"".join(
        (
            varint(99 << 3) + varint(2**64 - 1),
            varint(98 << 3 | 1) + bytes(8),
            field(97, b"\xff\xff"),
            varint(96 << 3 | 5) + bytes(4),
        )
    )
    assert read_metrics_data(in_point(newer, DOUBLE_ONE)).points == [
        Point("m", PointKind.GAUGE, (), 1.0)
    ]
    assert read_metrics_data(b"") == ([], 0)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x0a", "cut off or too long"),
        (b"\x0a\x05abc", "cut off"),
        (b"\x09\x01", "cut off"),
        (b"\xff" * 11, "cut off or too long"),
        (varint(1 << 3) + b"\xff" * 9 + b"\x7f", "cut off or too long"),
        (b"\x00\x00", "no field has the number 0"),
        (varint(2**32 << 3), "no field has the number"),
        (b"\x0b\x0c", "unknown wire type 3"),
        (b"\x0e", "unknown wire type 6"),
        (b"\x08\x01", "field 1 is no message"),
        (field(1, varint(2 << 3) + b"\x01"), "field 2 is no message"),
        (in_metric(varint(1 << 3) + b"\x01"), "field 1 is no text"),
        (in_metric(field(1, b"\xff\xfe")), "field 1 is not UTF-8"),
        (in_metric(varint(5 << 3) + b"\x01"), "field 5 is no message"),
        (in_metric(field(7, varint(2 << 3 | 1) + bytes(8))), "field 2 is no varint"),
        (in_point(field(4, bytes(8))), "field 4 is not of 64 bits"),
        (in_point(varint(6 << 3) + b"\x01"), "field 6 is not of 64 bits"),
        (in_point(field(7, field(1, b"\xc0\x80"))), "field 1 is not UTF-8"),
        (in_point(*([field(7, b"")] * (ATTRIBUTES_MAX + 1))), "too many attributes"),
        (b"\x10\x00" * (FIELDS_MAX + 1), "too many fields"),
    ],
)
def test_bytes_that_are_no_metrics_are_refused(data: bytes, reason: str) -> None:
    """TEL-4, TEL-5: wrong wire types, ends too early, texts that are none, fields without end."""
    with pytest.raises(ParseError, match=reason):
        read_metrics_data(data)


def test_bytes_that_are_nested_deeper_than_the_schema_are_not_gone_into() -> None:
    """TEL-5: a value in a value, a thousand times, costs what its few fields cost."""
    deep = b""
    for _ in range(1000):
        deep = field(5, field(1, deep))
    data = in_point(field(7, field(1, b"k") + field(2, deep)), DOUBLE_ONE)
    assert read_metrics_data(data).points == [Point("m", PointKind.GAUGE, (("k", ""),), 1.0)]


def test_points_beyond_the_limit_are_left_out() -> None:
    """TEL-5: they are counted, and the others are there."""
    data = metrics_data(gauge("g", *(point(n) for n in range(POINTS_MAX + 5))))
    points, left_out_count = read_metrics_data(data)
    assert (len(points), left_out_count) == (POINTS_MAX, 5)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 400), st.integers(0, 255))
def test_any_bytes_are_points_or_refused(noise: bytes, position: int, byte: int) -> None:
    """TEL-5: noise, and real metrics with one byte changed, raise nothing else than ParseError."""
    real = bytearray(
        metrics_data(gauge("a.avg", point(1.5, topic="t")), total("a.total", point(7, x=1)))
    )
    real[position % len(real)] = byte
    for data in (noise, bytes(real)):
        with contextlib.suppress(ParseError):
            read_metrics_data(data)
