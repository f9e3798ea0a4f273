"""Producer state: sequences, duplicates, epochs, transactions, snapshots, and its rebuilding."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_broker.log import producer_state
from barnabas_broker.log.producer_snapshot import SnapshotError, decode_snapshot, encode_snapshot
from barnabas_broker.log.producer_state import CACHED_BATCH_COUNT, ProducerState
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.records.batch import BatchHeader

SEQUENCE_MAX = 2**31 - 1
TRANSACTIONAL = 0x10


def batch(
    sequence: int,
    count: int = 1,
    *,
    offset: int = 0,
    producer: int = 7,
    epoch: int = 0,
    is_transactional: bool = False,
    timestamp: int = 1000,
) -> BatchHeader:
    return BatchHeader(
        offset,
        100,
        0,
        2,
        0,
        TRANSACTIONAL if is_transactional else 0,
        count - 1,
        timestamp,
        timestamp,
        producer,
        epoch,
        sequence,
        count,
    )


def appended(*headers: BatchHeader) -> ProducerState:
    state = ProducerState()
    for header in headers:
        assert state.check(header, 0) is None
        state.append(header)
    return state


def refused_with(state: ProducerState, header: BatchHeader, high_watermark: int = 0) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        state.check(header, 0, high_watermark)
    return caught.value.code


def facts(state: ProducerState) -> object:
    """All that a later batch can depend on, with the cached batches cut to the newest."""
    return (
        state.end_offset,
        state.first_unstable_offset(),
        sorted(
            (
                entry.producer_id,
                entry.producer_epoch,
                tuple(entry.batches[-1:]),
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.transaction_first_offset,
            )
            for entry in state.producers.values()
        ),
    )


def test_one_of_the_last_batches_again_is_a_duplicate():
    """TXL-1, TXL-2, LOG-8: the answer is the original batch."""
    count = CACHED_BATCH_COUNT + 1
    state = appended(*(batch(n * 3, 3, offset=100 + n * 3) for n in range(count)))
    for n in range(1, count):
        repeated = state.check(batch(n * 3, 3), 0)
        assert repeated is not None
        assert (repeated.first_offset, repeated.last_offset) == (100 + n * 3, 102 + n * 3)
    assert refused_with(state, batch(0, 3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_of_an_earlier_leader_is_known_however_many_came_since():
    """A soak, seed 131: Java's producer was refused it until it gave it up. With one leader there
    are never more than five, as Apache Kafka has it."""
    state = ProducerState()
    for n in range(3):
        state.append(batch(n, offset=100 + n), leader_epoch=4)
    assert refused_with(state, batch(7), 103) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for n in range(3, 30):
        state.append(batch(n, offset=100 + n), leader_epoch=6)
    for n in range(3):
        assert refused_with(state, batch(n), 103) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert refused_with(state, batch(n), 102) == code
    assert refused_with(state, batch(3), 130) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused_with(state, batch(31), 130) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(batch(29), 0, 130) is not None
    assert state.check(batch(30), 0, 130) is None
    state.append(batch(0, offset=130, epoch=1), leader_epoch=6)
    assert refused_with(state, batch(2, epoch=1), 131) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_a_producer_sent_before_it_was_known_is_no_duplicate():
    """A topic made anew, or a producer that was forgotten: what came before may be nowhere."""
    state = ProducerState()
    for n in range(20, 30):
        state.append(batch(n, offset=n), leader_epoch=1)
    for n in range(30, 40):
        state.append(batch(n, offset=n), leader_epoch=2)
    assert refused_with(state, batch(20), 40) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert refused_with(state, batch(19), 40) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused_with(state, batch(19, 2), 40) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_of_an_earlier_leader_may_have_wrapped():
    state = ProducerState()
    state.append(batch(SEQUENCE_MAX - 1, 4), leader_epoch=1)  # to 1
    for n in range(10):
        state.append(batch(2 + n, offset=4 + n), leader_epoch=2)
    wrapped = batch(SEQUENCE_MAX - 1, 4)
    assert refused_with(state, wrapped, 14) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert refused_with(state, batch(12 + 5), 14) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_refused_and_changes_nothing():
    """TXL-2."""
    state = appended(batch(0, 5))
    before = facts(state)
    assert refused_with(state, batch(6)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused_with(state, batch(0, 4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert facts(state) == before


def test_sequences_wrap_to_zero():
    """TXL-2: 2^31 - 1 is followed by 0, within a batch and between batches."""
    state = appended(batch(SEQUENCE_MAX - 1, 4), batch(2, offset=4))
    repeated = state.check(batch(SEQUENCE_MAX - 1, 4), 0)
    assert repeated is not None
    assert repeated.first_sequence == SEQUENCE_MAX - 1
    appended(batch(SEQUENCE_MAX), batch(0, offset=1))


def test_an_unknown_producer_may_start_anywhere_but_a_new_epoch_starts_at_zero():
    """TXL-2."""
    state = appended(batch(4711, offset=10))
    assert refused_with(state, batch(5, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    state.append(batch(0, epoch=1, offset=11))
    assert state.check(batch(1, epoch=1), 0) is None
    assert refused_with(state, batch(4712)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_lower_epoch_is_refused():
    """TXL-3."""
    state = appended(batch(0, epoch=3))
    assert refused_with(state, batch(1, epoch=2)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_plain_batch_inside_an_open_transaction_is_refused():
    """TXL-3."""
    state = appended(batch(0, is_transactional=True))
    assert refused_with(state, batch(1)) == ErrorCode.INVALID_TXN_STATE


def test_batches_without_a_producer_are_always_new():
    """TXL-1: nothing is remembered for producer id -1."""
    state = appended(batch(-1, producer=-1), batch(-1, producer=-1, offset=1))
    assert state.producers == {}
    assert state.end_offset == 2


def test_idle_producers_expire_unless_a_transaction_is_open():
    """TXL-4."""
    state = appended(
        batch(0, producer=1, timestamp=1000),
        batch(0, producer=2, offset=1, timestamp=1000, is_transactional=True),
        batch(0, producer=3, offset=2, timestamp=5000),
    )
    assert state.expire(5999, 5000) == 0
    assert state.expire(6000, 5000) == 1
    assert sorted(state.producers) == [2, 3]
    assert state.check(batch(99, producer=1), 0) is None


def test_the_first_unstable_offset_waits_for_the_marker_to_be_visible():
    """TXL-5, TXL-6: an ended transaction is unstable until its marker is visible."""
    state = appended(
        batch(0, producer=1, offset=10, is_transactional=True),
        batch(0, producer=2, offset=11, is_transactional=True),
    )
    assert state.first_unstable_offset() == 10
    done = state.append_marker(batch(-1, producer=1, offset=12), is_abort=True, coordinator_epoch=1)
    assert done is not None
    assert done == (1, 10, 12, True)
    assert state.aborted(done).last_stable_offset == 11
    state.advance_high_watermark(12)
    assert state.first_unstable_offset() == 10
    state.advance_high_watermark(13)
    assert state.first_unstable_offset() == 11
    done = state.append_marker(batch(-1, producer=2, offset=13), is_abort=True, coordinator_epoch=1)
    assert done is not None
    assert state.aborted(done).last_stable_offset == 14
    state.advance_high_watermark(14)
    assert state.first_unstable_offset() is None


def test_a_marker_of_an_empty_transaction_ends_nothing():
    """TXL-6: and its epoch counts for what follows."""
    state = ProducerState()
    marker = batch(-1, offset=0, epoch=5)
    assert state.append_marker(marker, is_abort=False, coordinator_epoch=2) is None
    assert refused_with(state, batch(0, epoch=4)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused_with(state, batch(3, epoch=5)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(batch(0, epoch=5), 0) is None


def test_an_older_coordinator_is_fenced():
    """TXL-6: TRANSACTION_COORDINATOR_FENCED (52)."""
    state = ProducerState()
    state.append_marker(batch(-1, offset=0), is_abort=False, coordinator_epoch=2)
    state.check_marker(batch(-1), 2)
    with pytest.raises(KafkaError) as caught:
        state.check_marker(batch(-1), 1)
    assert caught.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_snapshot_has_the_documented_bytes():
    """formats.md 7."""
    state = appended(batch(3, 2, offset=40, producer=5, epoch=1, timestamp=99))
    data = encode_snapshot(state)
    assert data[:2] == b"\x00\x01"
    assert data[6:].hex() == (
        "00000001"
        "0000000000000005" "0001" "00000004" "0000000000000029" "00000001"
        "0000000000000063" "ffffffff" "ffffffffffffffff"
    )  # fmt: skip
    assert len(data) == 6 + 4 + 46


def test_every_batch_that_may_be_in_flight_is_known_after_a_restart():
    """LOG-8: a client repeats all of them, oldest first."""
    state = appended(*(batch(number, offset=number) for number in range(7)))
    restored = ProducerState()
    restored.restore(decode_snapshot(encode_snapshot(state)), state.end_offset)
    for number in range(2, 7):
        repeated = restored.check(batch(number), 0)
        assert repeated is not None
        assert repeated.last_offset == number


def test_a_damaged_snapshot_is_refused():
    """formats.md 7: a bad checksum or version means: discard it."""
    data = encode_snapshot(appended(batch(0), batch(0, producer=8, offset=1)))
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1
        with pytest.raises(SnapshotError):
            decode_snapshot(bytes(damaged))
    for size in range(len(data)):
        with pytest.raises(SnapshotError):
            decode_snapshot(data[:size])


events = st.lists(
    st.tuples(
        st.sampled_from(["plain", "transactional", "commit", "abort", "none"]),
        st.integers(1, 3),
        st.integers(1, 4),
        st.booleans(),
    ),
    max_size=60,
)


def replay(state: ProducerState, history: list[tuple[str, BatchHeader]]) -> None:
    for kind, header in history:
        if kind in ("commit", "abort"):
            state.append_marker(header, is_abort=kind == "abort", coordinator_epoch=0)
        else:
            state.append(header)


def history_of(choices: list[tuple[str, int, int, bool]]) -> list[tuple[str, BatchHeader]]:
    """A log that a leader would have accepted, from arbitrary choices."""
    state = ProducerState()
    history: list[tuple[str, BatchHeader]] = []
    for kind, producer, count, bump in choices:
        entry = state.producers.get(producer)
        epoch = max(entry.producer_epoch if entry else 0, 0)
        is_open = entry is not None and entry.transaction_first_offset >= 0
        if kind in ("commit", "abort"):
            header = batch(-1, producer=producer, epoch=epoch + bump, offset=state.end_offset)
        elif kind == "none":
            header = batch(-1, count, producer=-1, epoch=-1, offset=state.end_offset)
        else:
            bump = bump and not is_open
            last = entry.last_sequence if entry else -1
            sequence = 0 if bump else last + 1
            header = batch(
                sequence,
                count,
                producer=producer,
                epoch=epoch + bump,
                offset=state.end_offset,
                is_transactional=is_open or kind == "transactional",
            )
            assert state.check(header, 0) is None
        history.append((kind, header))
        replay(state, history[-1:])
    return history


@given(events, st.data())
def test_snapshot_and_log_tail_give_the_state_that_was(choices, data):
    """TXL-8: after a restart, and after truncation, for a snapshot at any earlier place."""
    history = history_of(choices)
    end = data.draw(st.integers(0, len(history)), label="where the log ends after truncation")
    middle = data.draw(st.integers(0, end), label="where the snapshot was taken")
    whole = ProducerState()
    replay(whole, history[:end])
    whole.advance_high_watermark(whole.end_offset)
    at_snapshot = ProducerState()
    replay(at_snapshot, history[:middle])
    rebuilt = ProducerState()
    rebuilt.restore(decode_snapshot(encode_snapshot(at_snapshot)), at_snapshot.end_offset)
    replay(rebuilt, history[middle:end])
    rebuilt.advance_high_watermark(rebuilt.end_offset)
    assert facts(rebuilt) == facts(whole)


def test_producers_are_bounded_and_those_of_the_oldest_records_go_first(
    monkeypatch: pytest.MonkeyPatch,
):
    """Attack: 300,000 invented ids at 700 bytes each, kept for a day. Open transactions stay."""
    monkeypatch.setattr(producer_state, "PRODUCERS_MAX", 10)
    monkeypatch.setattr(producer_state, "FORGOTTEN_COUNT", 4)
    state = ProducerState()
    state.append(batch(0, offset=0, producer=0, is_transactional=True))
    # The clients' timestamps say the opposite of the truth.
    for number in range(1, 10):
        state.append(batch(0, offset=number, producer=number, timestamp=1000 - number))
    state.append(batch(1, offset=10, producer=1))
    state.append(batch(0, offset=11, producer=99))
    assert sorted(state.producers) == [0, 1, 6, 7, 8, 9, 99]
    assert state.first_unstable_offset() == 0
    assert state.check(batch(7, producer=2), 0) is None  # taken for a new one
