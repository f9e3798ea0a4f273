"""Handing out one answer's batches: offsets, gaps, transactions, damage."""

from dataclasses import dataclass

import hypothesis.strategies as st
import pytest
from hypothesis import given

from barnabas_client.consumer.completed_fetch import CompletedFetch
from barnabas_client.errors import CorruptRecordError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.fetch import AbortedTransaction
from barnabas_protocol.records.control import ControlType, encode_marker
from barnabas_protocol.records.record import Record, encode_batch

T0 = TopicPartition("t", 0)


@dataclass
class Log:
    """Batches one behind the other, and what a reader at each isolation level must see."""

    data: bytes
    end_offset: int
    visible: list[int]
    committed: list[int]
    aborted: list[AbortedTransaction]


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Random transactions of three producers, plain batches, gaps and empty batches."""
    parts: list[bytes] = []
    offset, visible, aborted = 0, [], []
    open_since: dict[int, int] = {}
    written: dict[int, list[int]] = {}
    lost: set[int] = set()
    for _ in range(draw(st.integers(0, 12))):
        producer_id = draw(st.integers(1, 3))
        kind = draw(st.sampled_from(["plain", "transactional", "commit", "abort"]))
        if kind in ("plain", "transactional"):
            span = draw(st.integers(1, 4))
            kept = sorted(draw(st.sets(st.integers(0, span - 1))))
            batch = [Record(offset + delta, 5, None, b"%d" % (offset + delta)) for delta in kept]
            is_transactional = kind == "transactional"
            parts.append(
                encode_batch(
                    batch,
                    base_offset=offset,
                    last_offset_delta=span - 1,
                    leader_epoch=3,
                    compression=draw(st.integers(0, 4)) if batch else 0,
                    producer_id=producer_id,
                    producer_epoch=0,
                    base_sequence=0,
                    is_transactional=is_transactional,
                )
            )
            visible += [record.offset for record in batch]
            if is_transactional:
                open_since.setdefault(producer_id, offset)
                written.setdefault(producer_id, []).extend(record.offset for record in batch)
            offset += span
        elif producer_id in open_since:
            is_abort = kind == "abort"
            parts.append(
                encode_marker(
                    ControlType.ABORT if is_abort else ControlType.COMMIT,
                    producer_id=producer_id,
                    producer_epoch=0,
                    coordinator_epoch=0,
                    timestamp=5,
                    base_offset=offset,
                    leader_epoch=3,
                )
            )
            first_offset = open_since.pop(producer_id)
            if is_abort:
                aborted.append(
                    AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
                )
                lost.update(written[producer_id])
            written[producer_id] = []
            offset += 1
    committed = [one for one in visible if one not in lost]
    return Log(b"".join(parts), offset, visible, committed, aborted)


@given(
    log=logs(),
    is_committed=st.booleans(),
    portion=st.integers(1, 5),
    start=st.integers(0, 20),
    cut_bytes=st.integers(0, 40),
)
def test_every_visible_record_from_the_position_on_comes_once(
    log: Log, is_committed: bool, portion: int, start: int, cut_bytes: int
) -> None:
    """CON-6, CON-7: whatever the portions, the first batch's beginning and the cut-off end."""
    start = min(start, log.end_offset)
    # What follows a whole batch and is cut off is not there yet.
    data = log.data + encode_batch([Record(log.end_offset, 5, None, b"later")])[:cut_bytes]
    fetched = CompletedFetch(T0, data, start, aborted=log.aborted if is_committed else None)
    assert fetched.end_offset == max(log.end_offset, start)
    if not log.data:
        return
    seen: list[int] = []
    while not fetched.is_done:
        records = fetched.read_records(portion)
        assert len(records) <= portion
        seen += [record.offset for record in records]
        assert not seen or fetched.next_offset > seen[-1]
    expected = log.committed if is_committed else log.visible
    assert seen == [offset for offset in expected if offset >= start]
    assert fetched.next_offset == fetched.end_offset
    assert fetched.remaining_bytes == 0


@given(log=logs(), is_committed=st.booleans(), start=st.integers(0, 20), first=st.integers(0, 3))
def test_batches_hold_the_same_records(
    log: Log, is_committed: bool, start: int, first: int
) -> None:
    """Both ways of reading may follow each other within one answer."""
    start = min(start, log.end_offset)
    fetched = CompletedFetch(T0, log.data, start, aborted=log.aborted if is_committed else None)
    seen = [record.offset for record in fetched.read_records(first)] if first else []
    while (batch := fetched.read_batch()) is not None:
        seen += [record.offset for record in batch.records()]
    expected = log.committed if is_committed else log.visible
    assert seen == [offset for offset in expected if offset >= start]


def test_a_wrong_checksum_stops_before_the_batch_for_good() -> None:
    """CON-7: the records before it come first; then every call says where it is."""
    good = encode_batch([Record(0, 5, None, b"a"), Record(1, 5, None, b"b")])
    bad = bytearray(encode_batch([Record(2, 5, None, b"c")], base_offset=2))
    bad[-1] ^= 1
    fetched = CompletedFetch(T0, good + bytes(bad), 0)
    assert [record.offset for record in fetched.read_records(10)] == [0, 1]
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match="t-0 cannot be read at offset 2") as raised:
            fetched.read_records(10)
        assert raised.value.position == ("t", 0, 2)
    with pytest.raises(CorruptRecordError):
        fetched.read_batch()
    assert not fetched.is_done


def test_checksums_may_be_ignored() -> None:
    """`check_crcs=False`: what still can be read is handed out."""
    bad = bytearray(encode_batch([Record(0, 5, None, b"c")]))
    bad[17] ^= 1
    fetched = CompletedFetch(T0, bytes(bad), 0, check_crcs=False)
    assert [record.value for record in fetched.read_records(10)] == [b"c"]


@pytest.mark.parametrize("size", [1, 30, 70])
def test_bytes_that_are_no_batch_are_an_error(size: int) -> None:
    """A broker that sends less than a batch, or another format, is not waited for."""
    fetched = CompletedFetch(T0, b"\x00" * size, 4)
    with pytest.raises(CorruptRecordError) as raised:
        fetched.read_records(1)
    assert raised.value.position == ("t", 0, 4)


def test_damage_within_the_records_is_told_after_those_before_it() -> None:
    """A batch whose records cannot be parsed although the checksum is right."""
    whole = bytearray(encode_batch([Record(n, 5, None, b"v") for n in range(3)]))
    whole[-4] = 0x7F
    fetched = CompletedFetch(T0, bytes(whole), 0, check_crcs=False)
    seen: list[int] = []
    with pytest.raises(CorruptRecordError):
        while True:
            seen += [record.offset for record in fetched.read_records(1)]
    assert seen == [0, 1]
