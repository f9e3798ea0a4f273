"""Batches of dead letters: what is in them, and of which records of the source."""

from __future__ import annotations

import pytest

from barnabas_broker.share.dead_letter_batch import (
    RECORDS_MAX,
    BuiltLetters,
    LetterSource,
    build_letters,
)
from barnabas_broker.share.dead_letters import DeadLetterCause, DeadLetters
from barnabas_protocol.records.batch import iterate_headers
from barnabas_protocol.records.compression import Compression
from barnabas_protocol.records.control import ControlType, encode_marker
from barnabas_protocol.records.record import Record, decode_records, encode_batch

SOURCE = LetterSource("orders", 7, "billing")
REJECTED, DELIVERY_COUNT = DeadLetterCause.REJECTED, DeadLetterCause.DELIVERY_COUNT
NOW_MS = 1_700_000_000_000


def batch(*offsets: int, base: int | None = None, last: int | None = None, codec: int = 0) -> bytes:
    """A batch of records with their offsets as keys and values."""
    first = offsets[0] if base is None else base
    return encode_batch(
        [Record(one, 5, b"k%d" % one, b"v%d" % one, (("h", b"x"),)) for one in offsets],
        base_offset=first,
        compression=codec,
        last_offset_delta=None if last is None else last - first,
    )


def build(
    letters: list[DeadLetters],
    *read: bytes,
    next_offset: int = 0,
    copies: bool = True,
    bytes_max: int = 1 << 20,
    readable: bool = True,
) -> BuiltLetters:
    return build_letters(
        SOURCE,
        letters,
        next_offset,
        list(read) if readable else None,
        copies=copies,
        bytes_max=bytes_max,
        now_ms=NOW_MS,
    )


def records(built: BuiltLetters) -> list[Record]:
    return [] if built.batch is None else decode_records(built.batch)


def offsets(built: BuiltLetters) -> list[int]:
    return [int(dict(one.headers)["__dlq.errors.offset"] or b"") for one in records(built)]


def test_a_dead_letter_says_where_its_record_is_and_why() -> None:
    """SHR-37: UTF-8 text; key and value are null, its time is its own."""
    built = build([DeadLetters(3, 3, 2, REJECTED)], batch(3), next_offset=3, copies=False)
    (found,) = records(built)
    assert found == Record(
        0,
        NOW_MS,
        None,
        None,
        (
            ("__dlq.errors.topic", b"orders"),
            ("__dlq.errors.partition", b"7"),
            ("__dlq.errors.offset", b"3"),
            ("__dlq.errors.group", b"billing"),
            ("__dlq.errors.delivery.count", b"2"),
            ("__dlq.errors.message", b"Offset rejected by client."),
        ),
    )
    assert built.batch is not None
    ((_, header),) = iterate_headers(built.batch)
    assert (header.compression, header.is_log_append_time, header.producer_id) == (0, False, -1)


def test_letters_for_different_reasons_are_in_one_batch() -> None:
    """SHR-37."""
    built = build(
        [DeadLetters(0, 0, 1, REJECTED), DeadLetters(1, 1, 5, DELIVERY_COUNT)], batch(0, 1)
    )
    assert [dict(one.headers)["__dlq.errors.message"] for one in records(built)] == [
        b"Offset rejected by client.",
        b"Offset delivery count exceeded the threshold.",
    ]


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP, Compression.LZ4])
def test_a_copy_has_the_key_and_value(codec: int) -> None:
    """SHR-37: `errors.deadletterqueue.copy.record.enable`; the headers are its own."""
    built = build(
        [DeadLetters(1, 1, 1, REJECTED), DeadLetters(4, 5, 1, REJECTED)],
        batch(0, 1, 2, codec=codec),
        batch(3, 4, 5, 6, codec=codec),
    )
    assert [(one.key, one.value) for one in records(built)] == [
        (b"k1", b"v1"),
        (b"k4", b"v4"),
        (b"k5", b"v5"),
    ]
    assert all(len(one.headers) == 6 for one in records(built))
    assert built.next_offset == 7


@pytest.mark.parametrize("copies", [True, False])
def test_holes_and_control_records_are_no_dead_letters(copies: bool) -> None:
    """SHR-36: a member rejects offsets, and a lock runs out for all that it has acquired."""
    marker = bytearray(
        encode_marker(
            ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=0
        )
    )
    marker[:8] = (6).to_bytes(8, "big")
    built = build(
        [DeadLetters(0, 9, 1, REJECTED)],
        batch(0, 2, last=3),
        bytes(marker),
        batch(8, 9),
        copies=copies,
    )
    assert offsets(built) == [0, 2, 8, 9]
    assert built.next_offset == 10


def test_only_holes_make_no_batch() -> None:
    """SHR-36."""
    built = build([DeadLetters(1, 1, 1, REJECTED)], batch(0, 2))
    assert (built.batch, built.record_count, built.next_offset) == (None, 0, 3)


def test_what_cannot_be_read_becomes_a_letter_without_its_content() -> None:
    """SHR-37: the log begins behind it, or its bytes are not what they claim to be."""
    letters = [DeadLetters(0, 1, 1, REJECTED)]
    for built in (build(letters, readable=False), build(letters)):
        assert offsets(built) == [0, 1]
        assert built.next_offset == 2
        assert all(one.key is one.value is None for one in records(built))
    damaged = bytearray(batch(0, 1, codec=Compression.GZIP))
    damaged[70:] = bytes(len(damaged) - 70)
    assert offsets(build(letters, bytes(damaged))) == [0, 1]


def test_a_batch_ends_with_what_was_read() -> None:
    """SHR-36: the next one begins there."""
    letters = [DeadLetters(0, 9, 1, REJECTED)]
    built = build(letters, batch(0, 1, 2, 3))
    assert (offsets(built), built.next_offset) == ([0, 1, 2, 3], 4)
    built = build(letters, batch(2, 3, 4, 5), next_offset=4)
    assert (offsets(built), built.next_offset) == ([4, 5], 6)


def test_a_batch_is_not_larger_than_the_topic_takes() -> None:
    """SHR-36: what does not fit comes with the next ones."""
    letters = [DeadLetters(0, 99, 1, REJECTED)]
    source = batch(*range(100))
    seen: list[int] = []
    next_offset = batch_count = 0
    while next_offset <= 99:
        built = build(letters, source, next_offset=next_offset, bytes_max=3_000)
        assert built.batch is not None
        assert len(built.batch) <= 3_000
        seen += offsets(built)
        next_offset = built.next_offset
        batch_count += 1
    assert seen == [*range(100)]
    assert 2 < batch_count < 15


def test_a_record_that_does_not_fit_goes_without_its_value() -> None:
    """SHR-37: a dead letter that says where it was is better than none."""
    large = encode_batch([Record(0, 0, b"k", b"v" * 2_000), Record(1, 0, b"k", b"v")])
    built = build([DeadLetters(0, 1, 1, REJECTED)], large, bytes_max=1_500)
    assert [(one.key, one.value) for one in records(built)] == [(None, None), (b"k", b"v")]


def test_a_batch_has_a_bound_of_records() -> None:
    """SHR-36: the work of one batch is bounded."""
    built = build([DeadLetters(0, 5_000, 1, REJECTED)], readable=False)
    assert (built.record_count, built.next_offset) == (RECORDS_MAX, RECORDS_MAX)


def test_the_work_of_a_batch_does_not_grow_with_the_square_of_what_is_rejected() -> None:
    """SHR-36: thousands of batches were read, and each looked at thousands of letters."""
    looked_at = 0

    class Counted(DeadLetters):
        """Counts how often anybody asks where it ends."""

        __slots__ = ()

        def __getattribute__(self, name: str) -> object:
            nonlocal looked_at
            looked_at += name == "last_offset"
            return super().__getattribute__(name)

    letters: list[DeadLetters] = [Counted(2 * n, 2 * n, 1, REJECTED) for n in range(900)]
    built = build(letters, *(batch(n) for n in range(4_000)))
    assert built.record_count == 900
    assert looked_at < 20 * 4_000
