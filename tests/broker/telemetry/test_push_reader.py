"""Pushes as clients compress them, as texts of labels, and as bombs."""

import math

import pytest

from barnabas_broker.telemetry.otlp import PointKind
from barnabas_broker.telemetry.push_reader import (
    LABEL_CHARS_MAX,
    Push,
    ReportedPoint,
    fit_label,
    read_push,
)
from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.compression import Compression, DecompressedTooLargeError, compress
from tests.support.otlp import gauge, metrics_data, point, total

LIMIT = 100_000
ALL = ("*",)


def read(*metrics: dict[str, object], prefixes: tuple[str, ...] = ALL) -> Push:
    return read_push(Compression.NONE, metrics_data(*metrics), LIMIT, prefixes)


@pytest.mark.parametrize("codec", list(Compression))
def test_every_codec_is_read(codec: Compression) -> None:
    """TEL-4: as a buffer of the frame, which is not copied before."""
    data = memoryview(compress(codec, metrics_data(gauge("a", point(1, topic="t")))))
    push = read_push(codec, data, LIMIT, ALL)
    assert push == Push([ReportedPoint(PointKind.GAUGE, ("a", "t", "", "", ""), 1)], 0)


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec != Compression.NONE])
def test_what_unpacks_to_too_much_is_refused(codec: Compression) -> None:
    """TEL-4, TEL-5: a bomb is not unpacked to its end."""
    bomb = compress(codec, bytes(50_000_000))
    with pytest.raises(DecompressedTooLargeError):
        read_push(codec, bomb, LIMIT, ALL)


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec != Compression.NONE])
def test_what_is_not_compressed_so_is_refused(codec: Compression) -> None:
    """TEL-4."""
    with pytest.raises(ParseError):
        read_push(codec, b"\x01 this is no compressed data", LIMIT, ALL)


def test_what_nobody_requested_is_left_out() -> None:
    """TEL-6: by prefixes; no prefix is nothing."""
    metrics = (gauge("org.a.x", point(1)), gauge("org.b.x", point(2)), gauge("com.a", point(3)))
    push = read(*metrics, prefixes=("org.a.", "com."))
    assert [each.labels[0] for each in push.points] == ["org.a.x", "com.a"]
    assert push.left_out_count == 1
    assert read(*metrics, prefixes=()) == Push([], 3)
    assert read(*metrics, prefixes=("",)).left_out_count == 0


def test_attributes_become_labels() -> None:
    """TEL-6: those that Kafka's clients have get their own, the others share one."""
    (reported,) = read(
        gauge("m", point(1, topic="t", partition=2, node_id="3", reason="idle", acks="all"))
    ).points
    assert reported.labels == ("m", "t", "2", "3", "acks=all,reason=idle")


def test_names_and_texts_are_made_harmless() -> None:
    """TEL-6: metrics of strangers break no line of the page, and are short."""
    (reported,) = read(
        gauge('a b"{}\n.é', point(1, topic="x\n# HELP y\x00", **{"k\n": "v\n"}))
    ).points
    assert reported.labels == ("a_b____._", "x_# HELP y_", "", "", "k_=v_")
    assert len(fit_label("x" * 1000)) == LABEL_CHARS_MAX
    assert fit_label("größe 1") == "größe 1"


def test_metrics_without_a_fit_name_or_number_are_left_out() -> None:
    """TEL-6: a counter that is none or sinks; but a gauge without a number is told."""
    long = "n" * (LABEL_CHARS_MAX + 1)
    push = read(
        gauge("", point(1)),
        gauge(long, point(1)),
        total("t", point(math.nan), point(math.inf), point(-1), point(2)),
        total("u", point(-1), is_monotonic=False),
        gauge("g", point(math.nan)),
    )
    assert [(each.labels[0], each.value) for each in push.points[:2]] == [("t", 2), ("u", -1)]
    assert math.isnan(push.points[2].value)
    assert push.left_out_count == 5


@pytest.mark.parametrize(("told", "shown"), [("node-1", "1"), ("node--1", "-1"), ("7", "7")])
def test_nodes_have_the_same_names_whatever_client_tells_of_them(told: str, shown: str) -> None:
    """TEL-6: Java writes `node-1` where librdkafka writes `1`."""
    (reported,) = read(gauge("m", point(1, node_id=told))).points
    assert reported.labels[3] == shown
