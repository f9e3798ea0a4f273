"""Keys and values of `__share_group_state`, byte by byte."""

import pytest

from barnabas_broker.coordinator.share.records import (
    StateKey,
    read_key,
    read_snapshot,
    read_update,
    snapshot_record,
    tombstone,
    update_record,
)
from barnabas_broker.coordinator.share.state import ShareSnapshot, ShareUpdate
from barnabas_broker.share.persister import SharePartitionKey, StateBatch
from barnabas_protocol.errors import ParseError
from barnabas_protocol.ids import uuid_from_text

KEY = SharePartitionKey("sg", uuid_from_text("AAECAwQFBgcICQoLDA0ODw"), 7)
KEY_BYTES = bytes.fromhex("0002 7367 000102030405060708090a0b0c0d0e0f 00000007")
SNAPSHOT = ShareSnapshot(
    snapshot_epoch=1,
    state_epoch=2,
    leader_epoch=3,
    start_offset=100,
    delivery_complete_count=5,
    created_ms=0x0102,
    written_ms=0x0103,
    batches=(StateBatch(100, 109, 0, 1), StateBatch(110, 110, 2, 3)),
)
BATCHES_BYTES = (
    "030000000000000064 000000000000006d 00 0001 00000000000000006e 000000000000006e 02 0003 00"
)
SNAPSHOT_BYTES = bytes.fromhex(
    "0000 00000001 00000002 00000003 0000000000000064 0000000000000102 0000000000000103"
    + BATCHES_BYTES
    + "01 00 04 00000005"
)
UPDATE = ShareUpdate(
    snapshot_epoch=1,
    leader_epoch=3,
    start_offset=100,
    delivery_complete_count=-1,
    batches=SNAPSHOT.batches,
)
UPDATE_BYTES = bytes.fromhex("0000 00000001 00000003 0000000000000064" + BATCHES_BYTES + "00")


def test_a_snapshot_is_byte_for_byte_as_in_kafka() -> None:
    """SHR-23."""
    record = snapshot_record(KEY, SNAPSHOT)
    assert record.key == b"\x00\x00" + KEY_BYTES
    assert record.value == SNAPSHOT_BYTES
    assert read_key(record.key) == StateKey(True, KEY)
    assert read_snapshot(SNAPSHOT_BYTES) == SNAPSHOT


def test_an_update_is_byte_for_byte_as_in_kafka() -> None:
    """SHR-23: a count that is not known is not written."""
    record = update_record(KEY, UPDATE)
    assert record.key == b"\x00\x01" + KEY_BYTES
    assert record.value == UPDATE_BYTES
    assert read_key(record.key) == StateKey(False, KEY)
    assert read_update(UPDATE_BYTES) == UPDATE


def test_a_tombstone_has_the_key_of_a_snapshot() -> None:
    """SHR-23."""
    record = tombstone(KEY)
    assert record.key == b"\x00\x00" + KEY_BYTES
    assert record.value is None


def test_a_snapshot_of_another_writer_is_merged_when_it_is_read() -> None:
    """SHR-24: it may have neighbours that are one, and batches below its start."""
    value = snapshot_record(
        KEY,
        ShareSnapshot(
            snapshot_epoch=0,
            state_epoch=0,
            leader_epoch=0,
            start_offset=105,
            delivery_complete_count=-1,
            created_ms=0,
            written_ms=0,
            batches=(StateBatch(100, 109, 0, 1), StateBatch(110, 119, 0, 1)),
        ),
    ).value
    assert value is not None
    read = read_snapshot(value)
    assert read is not None
    assert read.batches == (StateBatch(105, 119, 0, 1),)


def test_unknown_types_and_versions_are_none() -> None:
    """A newer release may have written them."""
    assert read_key(b"\x00\x02" + KEY_BYTES) is None
    assert read_snapshot(b"\x00\x01" + SNAPSHOT_BYTES[2:]) is None
    assert read_update(b"\x00\x01" + UPDATE_BYTES[2:]) is None


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x00", b"\x00\x00" + KEY_BYTES[:-1]])
def test_a_key_that_is_cut_short_cannot_be_read(data: bytes) -> None:
    """It is skipped by who loads it."""
    with pytest.raises(ParseError):
        read_key(data)


@pytest.mark.parametrize("end", [1, 10, len(SNAPSHOT_BYTES) - 1])
def test_a_value_that_is_cut_short_cannot_be_read(end: int) -> None:
    """It is skipped by who loads it."""
    with pytest.raises(ParseError):
        read_snapshot(SNAPSHOT_BYTES[:end])
