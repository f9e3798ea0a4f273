"""What a leader refuses (LOG-2, LOG-4 to LOG-6, LOG-12)."""

from typing import Any

import pytest

from barnabas_broker.log import validator
from barnabas_broker.log.errors import InvalidRecordsError, RefusalReason, refusal_reason
from barnabas_broker.log.validator import BatchValidator
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.records.batch import check_crc, read_header, stamp_crc
from barnabas_protocol.records.compression import compress
from barnabas_protocol.records.record import RECORDS_MAX, Record, decode_records, encode_batch
from tests.broker.log.log_fixtures import NOW_MS, client_batch, config

HOUR_MS = 3_600_000


def check(batch: Any, **settings: Any) -> Any:
    return BatchValidator(config(None, **settings)).check(batch, NOW_MS)


def refusal(batch: Any, **settings: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        check(batch, **settings)
    return caught.value.code


def patched(position: int, data: bytes) -> memoryview:
    """A batch with some bytes of the header replaced, and a right CRC."""
    batch = client_batch(b"a", b"b")
    batch[position : position + len(data)] = data
    stamp_crc(batch, 0)
    return batch


def test_a_good_batch_passes_unchanged_and_uncopied() -> None:
    """LOG-12: `producer` keeps the batch bytes."""
    batch = client_batch(b"a", b"b")
    before = bytes(batch)
    records, header = check(batch)
    assert records is batch
    assert bytes(batch) == before
    assert header.record_count == 2


@pytest.mark.parametrize("position", range(21, 70))
def test_a_flipped_bit_behind_the_crc_is_corruption(position: int) -> None:
    """LOG-4: bad CRC -> CORRUPT_MESSAGE (2)."""
    batch = client_batch()
    batch[position] ^= 0x10
    assert refusal(batch) == ErrorCode.CORRUPT_MESSAGE


def test_too_large_a_batch_is_refused() -> None:
    """LOG-4: MESSAGE_TOO_LARGE (10); larger than a segment RECORD_LIST_TOO_LARGE (18)."""
    batch = client_batch(bytes(500))
    assert refusal(batch, max_message_bytes=len(batch) - 1) == ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(batch, segment_bytes=len(batch) - 1) == ErrorCode.RECORD_LIST_TOO_LARGE
    check(batch, max_message_bytes=len(batch), segment_bytes=len(batch))


@pytest.mark.parametrize(
    ("position", "data"),
    [
        (0, b"\0\0\0\0\0\0\0\1"),  # base offset 1
        (57, b"\0\0\0\3"),  # three records announced, last offset delta 1
        (57, b"\0\0\0\0"),
        (23, b"\xff\xff\xff\xff"),
        (21, b"\0\x20"),  # control batch
        (43, b"\0\0\0\0\0\0\0\1\0\0\xff\xff\xff\xff"),  # producer id without sequence
    ],
)
def test_headers_that_no_client_may_send_are_invalid(position: int, data: bytes) -> None:
    """LOG-5: INVALID_RECORD (87)."""
    assert refusal(patched(position, data)) == ErrorCode.INVALID_RECORD


def test_a_client_batch_flagged_log_append_time_is_refused() -> None:
    """LOG-6: INVALID_TIMESTAMP (32)."""
    assert refusal(patched(21, b"\0\x08")) == ErrorCode.INVALID_TIMESTAMP


def test_an_unknown_codec_is_refused() -> None:
    assert refusal(patched(21, b"\0\x05")) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_several_batches_are_refused_and_a_partial_second_is_dropped() -> None:
    """LOG-2 (c), LOG-5."""
    one = bytes(client_batch())
    assert refusal(bytearray(one + one)) == ErrorCode.INVALID_RECORD
    records, _ = check(bytearray(one + one[:-1]))
    assert bytes(records) == one
    records, _ = check(bytearray(one + b"\0\0"))
    assert bytes(records) == one


def test_half_a_batch_and_nothing_are_refused() -> None:
    batch = client_batch()
    assert refusal(batch[:-1]) == ErrorCode.INVALID_RECORD
    assert refusal(b"") == ErrorCode.INVALID_RECORD
    assert refusal(batch[:40]) == ErrorCode.INVALID_RECORD


def test_older_formats_are_refused_like_any_other_content_that_is_no_batch() -> None:
    old = bytes(client_batch()[:16]) + b"\1" + bytes(60)
    assert refusal(old) == ErrorCode.INVALID_RECORD


def with_wrong_crc() -> bytearray:
    batch = client_batch()
    batch[-1] ^= 1
    return batch


def without_key() -> bytearray:
    return bytearray(encode_batch([Record(0, NOW_MS, None, b"v", ())]))


@pytest.mark.parametrize(
    ("reason", "batch", "settings"),
    [
        (RefusalReason.MAGIC, patched(16, b"\1"), {}),
        (RefusalReason.MAGIC, patched(16, b"\3"), {}),
        (RefusalReason.CRC, with_wrong_crc(), {}),
        (RefusalReason.OFFSET, patched(0, b"\0\0\0\0\0\0\0\1"), {}),
        (RefusalReason.OFFSET, patched(57, b"\0\0\0\3"), {}),
        (RefusalReason.SEQUENCE, patched(43, b"\0\0\0\0\0\0\0\1\0\0\xff\xff\xff\xff"), {}),
        (RefusalReason.NO_KEY, without_key(), {"cleanup_policy": frozenset({"compact"})}),
        (RefusalReason.TIMESTAMP, client_batch(timestamp=NOW_MS + HOUR_MS + 1), {}),
        (RefusalReason.TIMESTAMP, patched(21, b"\0\x08"), {}),
        (RefusalReason.TOO_LARGE, client_batch(bytes(500)), {"max_message_bytes": 500}),
        (RefusalReason.TOO_LARGE, client_batch(bytes(500)), {"segment_bytes": 500}),
        (RefusalReason.FORMAT, patched(21, b"\0\x20"), {}),
        (RefusalReason.FORMAT, patched(21, b"\0\x05"), {}),
        (RefusalReason.FORMAT, b"", {}),
    ],
)
def test_a_refusal_tells_what_was_wrong(
    reason: RefusalReason, batch: Any, settings: dict[str, Any]
) -> None:
    """MET-4: the code alone does not, as a wrong offset and a missing key share one."""
    with pytest.raises(KafkaError) as caught:
        check(batch, **settings)
    assert refusal_reason(caught.value) is reason


def test_null_key_in_a_compacted_topic_fails_the_whole_batch_and_names_the_record() -> None:
    """LOG-5: one bad record fails its batch; the failing indexes are listed."""
    records = [Record(0, NOW_MS, b"k", b"v", ()), Record(1, NOW_MS, None, b"v", ())]
    batch = bytearray(encode_batch(records))
    check(bytearray(batch))
    with pytest.raises(InvalidRecordsError) as caught:
        check(batch, cleanup_policy=frozenset({"compact"}))
    assert caught.value.code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in caught.value.record_errors] == [1]


def test_timestamps_must_lie_within_the_topics_bounds() -> None:
    """LOG-6: an hour ahead by default, any age; -1 passes."""
    check(client_batch(timestamp=NOW_MS + HOUR_MS))
    check(client_batch(timestamp=0))
    assert refusal(client_batch(timestamp=NOW_MS + HOUR_MS + 1)) == ErrorCode.INVALID_TIMESTAMP
    old = client_batch(timestamp=NOW_MS - 1001)
    assert refusal(old, message_timestamp_before_max_ms=1000) == ErrorCode.INVALID_TIMESTAMP
    check(client_batch(timestamp=-1), message_timestamp_before_max_ms=1000)


def test_log_append_time_replaces_the_timestamps() -> None:
    """LOG-6: the broker's clock for the batch; client timestamps are not looked at."""
    records, header = check(
        client_batch(b"a", b"b", timestamp=NOW_MS + 5 * HOUR_MS),
        message_timestamp_type="LogAppendTime",
    )
    assert header.max_timestamp == NOW_MS
    assert check_crc(records, 0, read_header(records))
    assert [record.timestamp for record in decode_records(records)] == [NOW_MS, NOW_MS]


@pytest.mark.parametrize("name", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_another_codec_is_applied_and_the_producers_fields_stay(name: str) -> None:
    """LOG-12: otherwise recompress."""
    codec = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[name]
    batch = client_batch(
        b"a" * 100, b"b", compression=1 if codec != 1 else 0, producer_id=5, producer_epoch=2,
        base_sequence=9,
    )  # fmt: skip
    records, header = check(batch, compression_type=name)
    assert header.compression == codec
    assert header[9:12] == (5, 2, 9)
    assert check_crc(records, 0, read_header(records))
    assert [record.value for record in decode_records(records)] == [b"a" * 100, b"b"]


def test_size_is_checked_again_after_recompression() -> None:
    """LOG-2 (e)."""
    batch = client_batch(bytes(5000), compression=1)
    code = refusal(batch, compression_type="uncompressed", max_message_bytes=1000)
    assert code == ErrorCode.MESSAGE_TOO_LARGE


def bomb(count: int, *, last_timestamp: int = NOW_MS) -> bytearray:
    """A small batch of very many records: eight bytes each, nearly all of them equal."""
    records = encode_batch([Record(0, NOW_MS, b"k", b"")])
    head = bytearray(records[:61])
    head[21:23] = (4).to_bytes(2, "big")
    head[23:27] = (count - 1).to_bytes(4, "big")
    head[35:43] = last_timestamp.to_bytes(8, "big")
    head[57:61] = count.to_bytes(4, "big")
    batch = head + compress(4, records[61:] * count)
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    stamp_crc(batch, 0)
    return batch


def test_bombs_of_records_are_refused_without_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack: one frame of ten kilobytes stopped the broker for 26 s."""

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("the records are read")

    monkeypatch.setattr(validator, "scan_records", never)
    monkeypatch.setattr(validator, "decode_records", never)
    late = bomb(2_000, last_timestamp=NOW_MS + 2 * HOUR_MS)
    assert refusal(late) == ErrorCode.INVALID_TIMESTAMP
    assert refusal(bomb(RECORDS_MAX + 1)) == ErrorCode.INVALID_RECORD
    compacted = {"cleanup_policy": frozenset({"compact"})}
    assert refusal(bomb(validator.CHECKED_RECORDS_MAX + 1), **compacted) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("second", [0, 2, -1])
def test_offsets_in_a_compacted_topic_rise_by_one(second: int) -> None:
    """Attack: two records of one offset made the cleaner die, for every log of the broker."""
    records = [Record(index, NOW_MS, b"k", b"v") for index in range(2)]
    batch = bytearray(encode_batch(records))
    batch[61 + (len(batch) - 61) // 2 + 3] = second << 1 if second >= 0 else 1  # zig-zag
    stamp_crc(batch, 0)
    assert refusal(batch, cleanup_policy=frozenset({"compact"})) == ErrorCode.INVALID_RECORD
    check(batch)  # no other topic is ever written anew
