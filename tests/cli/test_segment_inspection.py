"""`barnabas log inspect`: what is in segment files, and where they are damaged."""

import json
import struct
from pathlib import Path

import pytest

from barnabas_broker.metadata.record_codec import encode as encode_metadata
from barnabas_broker.metadata.records import RemoveTopicRecord
from barnabas_cli.segment_inspection import inspect_segment
from barnabas_protocol.codec import encode
from barnabas_protocol.messages.records_consumer_offsets import OffsetCommitKey, OffsetCommitValue
from barnabas_protocol.messages.records_transaction_state import (
    TransactionLogKey,
    TransactionLogValue,
)
from barnabas_protocol.records.compression import Compression
from barnabas_protocol.records.control import ControlType, encode_marker
from barnabas_protocol.records.record import Record, encode_batch
from tests.support.command_line import CommandLine

INT16 = struct.Struct(">h")


def batch(base_offset: int, *values: bytes, **options: object) -> bytes:
    records = [
        Record(base_offset + number, 1000 + base_offset + number, b"key", value)
        for number, value in enumerate(values)
    ]
    return encode_batch(records, base_offset=base_offset, **options)  # type: ignore[arg-type]


def segment(directory: Path, *batches: bytes, base_offset: int = 0) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{base_offset:020d}.log"
    path.write_bytes(b"".join(batches))
    return path


def test_a_good_segment_is_summed_up(tmp_path: Path) -> None:
    first = batch(5, b"a", b"b", compression=Compression.ZSTD)
    marker = encode_marker(
        ControlType.ABORT,
        producer_id=9,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=1,
        base_offset=7,
    )
    path = segment(tmp_path, first, marker, base_offset=5)
    path.with_suffix(".index").write_bytes(struct.pack(">ii", 2, len(first)) + bytes(64))
    path.with_suffix(".timeindex").write_bytes(struct.pack(">qi", 1006, 1))
    path.with_suffix(".txnindex").write_bytes(struct.pack(">hqqqq", 0, 9, 5, 7, 8))
    report = inspect_segment(path)
    assert report.problems == []
    assert (report.batch_count, report.record_count, report.control_batch_count) == (2, 3, 1)
    assert (report.first_offset, report.last_offset) == (5, 7)
    assert report.index_entry_counts == {"offset": 1, "time": 1, "transaction": 1}
    assert report.aborted_transactions[0]["producer_id"] == 9


def damaged(kind: str, good: bytes) -> tuple[bytes, str]:
    """A second batch that is damaged, and what is said of it."""
    second = bytearray(batch(1, b"second"))
    place = f"position {len(good)}: "
    match kind:
        case "flipped":
            second[-1] ^= 1
            return bytes(second), f"{place}the checksum of the batch at offset 1 is wrong"
        case "cut":
            return bytes(second[:-3]), f"{place}the batch is cut off"
        case "short":
            return bytes(second[:20]), f"{place}a batch is cut off"
        case "backwards":
            return batch(0, b"again"), f"{place}base offset 0 where at least 1 must follow"
        case _:
            second[16] = 1
            return bytes(second), f"{place}record batch of magic 1"


@pytest.mark.parametrize("kind", ["flipped", "cut", "short", "backwards", "magic"])
def test_the_first_position_that_is_damaged_is_told(tmp_path: Path, kind: str) -> None:
    """Issue 4: inspect tells the first corrupt position; what lies before it is counted."""
    good = batch(0, b"first")
    bad, words = damaged(kind, good)
    report = inspect_segment(segment(tmp_path, good, bad))
    (problem,) = report.problems
    assert problem.startswith(words)
    assert (report.batch_count, report.readable_bytes) == (1, len(good))


def test_zeros_of_a_preallocated_file_are_room_and_no_damage(tmp_path: Path) -> None:
    assert inspect_segment(segment(tmp_path, batch(0, b"a"), bytes(500))).problems == []
    assert inspect_segment(segment(tmp_path / "empty")).problems == []


@pytest.mark.parametrize(
    ("suffix", "data", "words"),
    [
        (".index", struct.pack(">ii", 0, 17), "points to position 17, where no batch begins"),
        (".index", struct.pack(">ii", 1, 9999), "behind the last batch"),
        (".index", struct.pack(">iiii", 1, 72, 1, 72), "entry 1 does not rise"),
        (".index", struct.pack(">iib", 1, 72, 3), "9 bytes are no multiple of 8"),
        (".timeindex", struct.pack(">qi", 5000, 1), "above all of its batch (at most 1001)"),
        (".timeindex", struct.pack(">qiqi", 1001, 1, 1000, 1), "entry 1 does not rise"),
        (".txnindex", struct.pack(">hqqqq", 0, 1, 5, 3, 0), "(5 to 3) cannot be"),
        (".txnindex", b"123", "the last entry is cut off"),
    ],
)
def test_index_entries_are_compared_with_the_batches(
    tmp_path: Path, suffix: str, data: bytes, words: str
) -> None:
    first = batch(0, b"a")
    assert len(first) == 72
    path = segment(tmp_path, first, batch(1, b"b"))
    path.with_suffix(suffix).write_bytes(data)
    (problem,) = inspect_segment(path).problems
    assert words in problem


def offsets_record() -> Record:
    key = INT16.pack(1) + encode(OffsetCommitKey(group="g", topic="t", partition=3), 0)
    value = INT16.pack(3) + encode(OffsetCommitValue(offset=42, commit_timestamp=7), 3)
    return Record(0, 0, key, value)


def transaction_record() -> Record:
    key = INT16.pack(0) + encode(TransactionLogKey(transactional_id="tx"), 0)
    value = TransactionLogValue(
        producer_id=5, producer_epoch=1, transaction_timeout_ms=60000, transaction_status=1
    )
    return Record(0, 0, key, INT16.pack(1) + encode(value, 1))


def test_records_of_internal_topics_are_told_in_words(tmp_path: Path) -> None:
    """Issue 4: offsets and transaction topics decoded."""
    for topic, record in (
        ("__consumer_offsets", offsets_record()),
        ("__transaction_state", transaction_record()),
        ("__unreadable", Record(0, 0, b"\xff", None)),
    ):
        segment(tmp_path / f"{topic}-0", encode_batch([record]))
    answer = CommandLine().json("log", "inspect", str(tmp_path), "--records")
    offsets, transaction, other = (one["batch_list"][0]["records"][0] for one in answer["segments"])
    assert offsets["type"] == "OffsetCommit"
    assert offsets["key"] == {"group": "g", "topic": "t", "partition": 3}
    assert offsets["value"]["offset"] == 42
    assert transaction["key"] == {"transactional_id": "tx"}
    assert transaction["value"]["transaction_status"] == "Ongoing"
    assert (other["key"], other["value"]) == ("0xff", None)
    assert answer["totals"]["records"] == 3


def test_a_damaged_internal_record_does_not_stop_the_reader(tmp_path: Path) -> None:
    record = Record(0, 0, INT16.pack(1) + b"\x00", b"\x00\x03")
    segment(tmp_path / "__consumer_offsets-0", encode_batch([record]))
    answer = CommandLine().json("log", "inspect", str(tmp_path), "--records")
    (shown,) = answer["segments"][0]["batch_list"][0]["records"]
    assert shown["type"].startswith("unreadable: ")


def test_damage_is_an_exit_code_and_a_line(tmp_path: Path) -> None:
    bad, _ = damaged("flipped", batch(0, b"first"))
    segment(tmp_path / "orders-0", batch(0, b"first"), bad)
    segment(tmp_path / "orders-10", batch(0, b"x"))
    segment(tmp_path / "orders-9")
    result = CommandLine().run("log", "inspect", str(tmp_path), code=1)
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines[:3]] == [
        "SEGMENT",
        f"orders-0/{0:020d}.log",
        f"orders-10/{0:020d}.log",
    ]
    assert "3 segments (1 of them empty), 2 batches, 2 records" in lines[3]
    assert lines[4].startswith(f"orders-0/{0:020d}.log: position 76: the checksum of the batch")
    data = CommandLine().json("log", "inspect", str(tmp_path), code=1)
    assert data["totals"] == {
        "segments": 3,
        "batches": 2,
        "records": 2,
        "bytes": 225,
        "problems": 1,
    }


def test_batches_and_records_are_listed(tmp_path: Path) -> None:
    path = segment(tmp_path / "orders-0", batch(0, b"v", producer_id=4, producer_epoch=0))
    lines = CommandLine().lines("log", "inspect", str(path.with_suffix(".log")), "--records")
    assert lines[0] == (
        f"orders-0/{0:020d}.log@0  offsets 0..0  1 record  72 B  leader epoch -1  none"
        "  create time 1970-01-01T00:00:01.000Z  producer 4 epoch 0 sequence -1"
    )
    assert lines[1] == "  0  1970-01-01T00:00:01.000Z  key=key  value=v"


def test_paths_without_segments_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("")
    assert "no segment (*.log) in" in CommandLine().error("log", "inspect", str(tmp_path))
    assert "is no segment file" in CommandLine().error("log", "inspect", str(tmp_path / "x.txt"))


def test_the_output_is_json_that_programs_can_read(tmp_path: Path) -> None:
    segment(tmp_path / "orders-0", batch(0, b"v"))
    answer = CommandLine().json("log", "inspect", str(tmp_path))
    assert json.dumps(answer["segments"][0]["indexes"]) == "{}"


def test_the_metadata_log_is_told_in_words_unless_it_is_apache_kafka_s(tmp_path: Path) -> None:
    """Both have the same name; Kafka's keeps the state of its quorum beside it."""
    value = encode_metadata(RemoveTopicRecord(topic_id=bytes(15) + b"1"))
    segment(tmp_path / "__cluster_metadata-0", encode_batch([Record(0, 0, None, value)]))

    def shown() -> dict[str, object]:
        answer = CommandLine().json("log", "inspect", str(tmp_path), "--records")
        record: dict[str, object] = answer["segments"][0]["batch_list"][0]["records"][0]
        return record

    assert shown()["type"] == "RemoveTopicRecord"
    (tmp_path / "__cluster_metadata-0" / "quorum-state").write_text("{}")
    assert "type" not in shown()
