"""Fetch sessions: KIP-227 and REQ-9, REQ-10."""

import pytest

from barnabas_broker.env.randomness import SystemRandom
from barnabas_broker.replication.leader import fetch_session
from barnabas_broker.replication.leader.fetch_session import (
    EVICTION_IDLE_MS,
    FetchContext,
    FetchPartition,
    FetchSessionCache,
)
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.fetch_metadata import FINAL_EPOCH, INITIAL_EPOCH
from barnabas_protocol.ids import ZERO_UUID, TopicPartition

TOPIC_ID = b"i" * 16


def asks(count: int, offset: int = 0, topic_id: bytes = ZERO_UUID) -> list[FetchPartition]:
    return [
        FetchPartition(TopicPartition("t", index), topic_id, offset, 100) for index in range(count)
    ]


class Sessions:
    """A cache with defaults for what a test does not care about."""

    def __init__(self, slots: int = 10) -> None:
        self.cache = FetchSessionCache(slots, SystemRandom())
        self.now_ms = 0

    def resolve(
        self,
        session_id: int,
        epoch: int,
        asked: list[FetchPartition] | None = None,
        forgotten: list[tuple[bytes | str, int]] | None = None,
        *,
        is_follower: bool = False,
        uses_topic_ids: bool = False,
    ) -> FetchContext:
        return self.cache.resolve(
            session_id,
            epoch,
            asked or [],
            forgotten or [],
            is_follower=is_follower,
            uses_topic_ids=uses_topic_ids,
            now_ms=self.now_ms,
        )


def test_incremental_request_means_the_same_partitions_as_before() -> None:
    """REQ-9: an empty incremental request repeats the session's partitions."""
    sessions = Sessions()
    first = sessions.resolve(0, INITIAL_EPOCH, asks(3))
    assert first.session_id > 0
    assert first.is_full
    again = sessions.resolve(first.session_id, 1)
    assert [p.topic_partition.partition for p in again.partitions] == [0, 1, 2]
    assert not again.is_full


def test_incremental_request_changes_adds_and_forgets() -> None:
    """REQ-9: only changes are carried."""
    sessions = Sessions()
    session_id = sessions.resolve(0, INITIAL_EPOCH, asks(2)).session_id
    changed = FetchPartition(TopicPartition("t", 1), ZERO_UUID, 55, 100)
    new = FetchPartition(TopicPartition("u", 0), ZERO_UUID, 5, 100)
    context = sessions.resolve(session_id, 1, [changed, new], [("t", 0)])
    assert [(tuple(p.topic_partition), p.fetch_offset) for p in context.partitions] == [
        (("t", 1), 55),
        (("u", 0), 5),
    ]


@pytest.mark.parametrize(
    ("session_id_delta", "epoch", "code"),
    [
        (1, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (0, 2, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
    ],
)
def test_lost_sessions_and_epochs_are_told(
    session_id_delta: int, epoch: int, code: ErrorCode
) -> None:
    """REQ-10: unknown is 70, a wrong epoch is 71; the client then starts anew."""
    sessions = Sessions()
    session_id = sessions.resolve(0, INITIAL_EPOCH, asks(1)).session_id
    with pytest.raises(KafkaError) as raised:
        sessions.resolve(session_id + session_id_delta, epoch)
    assert raised.value.code == code


def test_names_and_ids_are_not_mixed_in_a_session() -> None:
    """protocol.md 5: FETCH_SESSION_TOPIC_ID_ERROR (106)."""
    sessions = Sessions()
    session_id = sessions.resolve(
        0, INITIAL_EPOCH, asks(1, topic_id=TOPIC_ID), uses_topic_ids=True
    ).session_id
    with pytest.raises(KafkaError) as raised:
        sessions.resolve(session_id, 1)
    assert raised.value.code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_final_epoch_closes_the_session() -> None:
    """REQ-10: epoch -1 closes, and the request is served in full without a session."""
    sessions = Sessions()
    session_id = sessions.resolve(0, INITIAL_EPOCH, asks(1)).session_id
    context = sessions.resolve(session_id, FINAL_EPOCH, asks(2))
    assert context.session_id == 0
    assert len(context.partitions) == 2
    assert len(sessions.cache) == 0


def test_full_cache_turns_sessions_away_until_one_is_idle() -> None:
    """REQ-10: no room means session id 0; a session unused for 120 s gives way."""
    sessions = Sessions(slots=1)
    first = sessions.resolve(0, INITIAL_EPOCH, asks(1))
    assert sessions.resolve(0, INITIAL_EPOCH, asks(1)).session_id == 0
    sessions.now_ms = EVICTION_IDLE_MS + 1
    second = sessions.resolve(0, INITIAL_EPOCH, asks(1))
    assert second.session_id not in (0, first.session_id)
    assert len(sessions.cache) == 1
    assert sessions.cache.evictions_count == 1


def test_followers_take_the_slots_of_consumers_but_not_the_reverse() -> None:
    """REQ-10: a follower's session evicts a consumer's at once."""
    sessions = Sessions(slots=1)
    sessions.resolve(0, INITIAL_EPOCH, asks(5))
    follower = sessions.resolve(0, INITIAL_EPOCH, asks(1), is_follower=True)
    assert follower.session_id > 0
    assert sessions.resolve(0, INITIAL_EPOCH, asks(9)).session_id == 0


def test_partition_that_returned_data_is_read_last_next_time() -> None:
    """REQ-8: rotation, so that a byte limit starves nobody."""
    sessions = Sessions()
    context = sessions.resolve(0, INITIAL_EPOCH, asks(3))
    assert context.session is not None
    context.session.move_to_end(context.partitions[0])
    again = sessions.resolve(context.session_id, 1)
    assert [p.topic_partition.partition for p in again.partitions] == [1, 2, 0]


def test_session_epoch_wraps_to_one() -> None:
    """REQ-10: epochs count up from 1 and wrap to 1."""
    sessions = Sessions()
    context = sessions.resolve(0, INITIAL_EPOCH, asks(1))
    assert context.session is not None
    context.session.epoch = 2**31 - 1
    sessions.resolve(context.session_id, 2**31 - 1)
    sessions.resolve(context.session_id, 1)


def test_partitions_in_the_sessions_of_consumers_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Attack: 20 sessions of 200,000 invented partitions each took 58 MB each."""
    monkeypatch.setattr(fetch_session, "PARTITIONS_MAX", 50)
    monkeypatch.setattr(fetch_session, "SESSION_PARTITIONS_MAX", 20)
    sessions = Sessions()
    assert sessions.resolve(0, INITIAL_EPOCH, asks(21)).session_id == 0
    kept = [sessions.resolve(0, INITIAL_EPOCH, asks(20)).session_id for _ in range(3)]
    assert kept[0] and kept[1] and not kept[2]
    new = FetchPartition(TopicPartition("u", 0), ZERO_UUID, 5, 100)
    with pytest.raises(KafkaError) as refused:
        sessions.resolve(kept[0], 1, [new])
    assert refused.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.cache.partitions_count == 20
    assert sessions.resolve(0, INITIAL_EPOCH, asks(20)).session_id > 0
