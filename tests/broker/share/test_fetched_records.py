"""What was read of a partition: its batches, what of it was aborted, and what is cut out."""

from __future__ import annotations

from barnabas_broker.share.fetched_records import FetchedRecords
from barnabas_protocol.records.control import ControlType, encode_marker
from barnabas_protocol.records.record import Record, encode_batch


def batch(base: int, count: int, producer_id: int = -1) -> bytes:
    is_transactional = producer_id >= 0
    return encode_batch(
        [Record(base + index, 0, None, b"v") for index in range(count)],
        base_offset=base,
        producer_id=producer_id,
        producer_epoch=0 if is_transactional else -1,
        base_sequence=0 if is_transactional else -1,
        is_transactional=is_transactional,
    )


def marker(base: int, producer_id: int, control_type: ControlType) -> bytes:
    return encode_marker(
        control_type,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=0,
        base_offset=base,
    )


def offsets(fetched: FetchedRecords) -> list[tuple[int, int]]:
    return [(one.base_offset, one.last_offset) for one in fetched.batches]


def test_batches_are_found_in_all_buffers_without_a_part_of_one() -> None:
    """SHR-13: the last one of a read may be cut short."""
    data = batch(0, 3) + batch(3, 2)
    for cut in (1, 20, 61, len(batch(8, 9)) - 1):
        fetched = FetchedRecords([data, batch(5, 3) + batch(8, 9)[:cut]], 100)
        assert offsets(fetched) == [(0, 2), (3, 4), (5, 7)]
    assert offsets(FetchedRecords([data, batch(5, 3)], 2)) == [(0, 2), (3, 4)]
    assert offsets(FetchedRecords([], 100)) == []


def test_what_is_cut_out_are_whole_batches_and_no_copies() -> None:
    """SHR-13."""
    first, second = memoryview(batch(0, 3) + batch(3, 2)), memoryview(batch(5, 3) + batch(8, 1))
    fetched = FetchedRecords([first, second], 100)
    assert [bytes(part) for part in fetched.cut(4, 6)] == [batch(3, 2), batch(5, 3)]
    assert [bytes(part) for part in fetched.cut(0, 8)] == [bytes(first), bytes(second)]
    (part,) = fetched.cut(8, 8)
    assert isinstance(part, memoryview)
    assert part.obj is second.obj
    assert fetched.cut(9, 20) == []


def test_batches_of_aborted_transactions_are_told_until_their_marker() -> None:
    """SHR-34: not those of others, nor of the producer's next transaction."""
    data = b"".join(
        [
            batch(0, 1, 7),
            batch(1, 1, 8),
            batch(2, 1),
            marker(3, 7, ControlType.ABORT),
            batch(4, 1, 7),
            marker(5, 7, ControlType.COMMIT),
            batch(6, 1, 7),
            marker(7, 7, ControlType.ABORT),
            marker(8, 8, ControlType.COMMIT),
        ]
    )
    fetched = FetchedRecords([data], 100, [(7, 0), (7, 6)])
    assert [one.base_offset for one in fetched.batches if one.is_aborted] == [0, 6]
    assert not [one for one in FetchedRecords([data], 100).batches if one.is_aborted]
