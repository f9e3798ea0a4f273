"""One partition's records of a ShareFetch: what is returned, and what becomes of the rest."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from barnabas_client.errors import CorruptRecordError, SerializationError
from barnabas_client.share.acquired_fetch import GAP, AcquiredFetch
from barnabas_client.share.records import AcknowledgedRange, AcknowledgeType
from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.control import ControlType, encode_marker
from tests.client.share.acquired import acquired_fetch, batch


def delivered(fetch: AcquiredFetch, count_max: int = 100) -> list[tuple[int, int]]:
    """Offsets and delivery counts, read in portions to the end."""
    rows: list[tuple[int, int]] = []
    while records := fetch.read(count_max):
        assert len(records) <= count_max
        rows += [(record.offset, record.delivery_count) for record in records]
    assert fetch.is_done
    return rows


def test_only_acquired_offsets_of_a_batch_are_returned_with_their_counts() -> None:
    """SHR-13: the response holds the whole batch around the ranges."""
    fetch = acquired_fetch(batch(0, range(10), 9), (2, 3, 1), (6, 7, 4))
    assert delivered(fetch) == [(2, 1), (3, 1), (6, 4), (7, 4)]
    assert fetch.take_settled() == []


def test_control_records_and_compacted_holes_are_settled_as_gaps() -> None:
    """SHR-13, SHR-41: in front of, between and behind the records."""
    marker = encode_marker(
        ControlType.COMMIT,
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=0,
        base_offset=10,
        timestamp=5,
    )
    fetch = acquired_fetch(batch(0, (2, 5), 9) + marker, (0, 10, 1))
    assert delivered(fetch) == [(2, 1), (5, 1)]
    gaps = [(0, 1), (3, 4), (6, 10)]
    assert fetch.take_settled() == [AcknowledgedRange(*gap, GAP) for gap in gaps]
    assert fetch.take_settled() == []


def test_a_range_without_any_record_is_one_gap() -> None:
    """SHR-13: a hole of any length costs nothing."""
    fetch = acquired_fetch(b"", (5, 1 << 60, 1))
    assert delivered(fetch) == []
    assert fetch.take_settled() == [AcknowledgedRange(5, 1 << 60, GAP)]


def test_a_record_that_cannot_be_deserialized_is_released_and_told_of_once() -> None:
    """SHR-41: records around it are returned."""

    def refuse_three(data: bytes) -> int:
        return [0, 1, 2, None, 4][int(data)] + 0  # type: ignore[operator]

    fetch = acquired_fetch(batch(0, range(5), 4), (0, 4, 2), deserializer=refuse_three)
    assert [record.value for record in fetch.read(10)] == [0, 1, 2]
    with pytest.raises(SerializationError, match="was released") as caught:
        fetch.read(10)
    assert caught.value.position == ("t", 0, 3)
    assert [record.value for record in fetch.read(10)] == [4]
    assert fetch.take_settled() == [AcknowledgedRange(3, 3, AcknowledgeType.RELEASE)]
    assert fetch.is_done


def test_what_a_broken_batch_holds_is_released_behind_the_records_before_it() -> None:
    """SHR-41: damage may be of the way, so the records get another attempt."""
    broken = bytearray(batch(3, range(3, 6), 5))
    broken[-1] ^= 1
    fetch = acquired_fetch(batch(0, range(3), 2) + bytes(broken), (0, 5, 1))
    assert [record.offset for record in fetch.read(10)] == [0, 1, 2]
    with pytest.raises(CorruptRecordError, match="was released"):
        fetch.read(10)
    assert fetch.take_settled() == [AcknowledgedRange(3, 5, AcknowledgeType.RELEASE)]
    assert fetch.read(10) == []
    assert fetch.is_done


def test_what_was_not_returned_is_released() -> None:
    """SHR-41: with gaps that were found before."""
    fetch = acquired_fetch(batch(0, range(1, 10), 9), (0, 9, 1), (12, 13, 1))
    assert [record.offset for record in fetch.read(3)] == [1, 2, 3]
    settled = fetch.release_rest()
    assert settled[0] == AcknowledgedRange(0, 0, GAP)
    assert {one.acknowledge_type for one in settled[1:]} == {AcknowledgeType.RELEASE}
    assert [offset for one in settled[1:] for offset in range(one[0], one[1] + 1)] == [
        *range(4, 10),
        12,
        13,
    ]
    assert fetch.is_done


@pytest.mark.parametrize("ranges", [((3, 2, 1),), ((0, 4, 1), (4, 5, 1)), ((-1, 3, 1),)])
def test_ranges_that_do_not_rise_are_refused(ranges: tuple[tuple[int, int, int], ...]) -> None:
    """SHR-41: a broker that contradicts itself is not followed."""
    with pytest.raises(ParseError):
        acquired_fetch(b"", *ranges)


@given(
    kept=st.lists(st.sets(st.integers(0, 9)), min_size=1, max_size=4),
    borders=st.lists(st.integers(0, 45), min_size=2, max_size=8, unique=True),
    count_max=st.integers(1, 50),
)
def test_every_acquired_offset_is_returned_or_settled_once(
    kept: list[set[int]], borders: list[int], count_max: int
) -> None:
    """SHR-41: whatever batches, holes and ranges there are."""
    data, there = b"", set()
    for index, deltas in enumerate(kept):
        offsets = sorted(index * 10 + delta for delta in deltas)
        data += batch(index * 10, offsets, index * 10 + 9)
        there |= set(offsets)
    pairs = sorted(borders)
    ranges = [
        (first, behind - 1, 1) for first, behind in zip(pairs[::2], pairs[1::2], strict=False)
    ]
    acquired = {offset for first, last, _ in ranges for offset in range(first, last + 1)}
    fetch = acquired_fetch(data, *ranges)
    returned = [offset for offset, _ in delivered(fetch, count_max)]
    gaps = [
        offset
        for first, last, kind in fetch.take_settled()
        for offset in range(first, last + 1)
        if kind == GAP
    ]
    assert returned == sorted(acquired & there)
    assert gaps == sorted(acquired - there)
