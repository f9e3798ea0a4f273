"""Share sessions: their epochs, what they hold and how many there are."""

from __future__ import annotations

import pytest

from barnabas_broker.share import share_session
from barnabas_broker.share.share_session import (
    FETCHED_MAX,
    SESSION_PARTITIONS_MAX,
    MemberKey,
    SessionPartition,
    ShareSession,
    ShareSessionCache,
)
from barnabas_protocol.errors import ErrorCode, KafkaError

KEY = MemberKey("g", "m")


def partitions(*indexes: int) -> list[SessionPartition]:
    return [SessionPartition(bytes(16), index) for index in indexes]


def opened(*indexes: int, slots: int = 2) -> tuple[ShareSessionCache, ShareSession]:
    cache = ShareSessionCache(slots)
    session = cache.open(KEY, partitions(*indexes))
    assert session is not None
    return cache, session


def test_epochs_count_up_and_wrap_to_one() -> None:
    """SHR-20."""
    cache, session = opened(0)
    cache.resume(KEY, 1)
    cache.resume(KEY, 2)
    session.epoch = 2**31 - 1
    cache.resume(KEY, 2**31 - 1)
    assert session.epoch == 1


def test_wrong_epochs_and_unknown_sessions_are_refused() -> None:
    """SHR-20: and change nothing."""
    cache, session = opened(0)
    for epoch in (0, 2, 5, -3):
        with pytest.raises(KafkaError) as wrong:
            cache.resume(KEY, epoch, partitions(7))
        assert wrong.value.code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    with pytest.raises(KafkaError) as unknown:
        cache.resume(MemberKey("g", "other"), 1)
    assert unknown.value.code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert list(session.partitions) == partitions(0)


def test_sessions_keep_what_is_named_until_it_is_forgotten() -> None:
    """SHR-20."""
    cache, session = opened(0, 1, 1)
    cache.resume(KEY, 1, partitions(1, 2), partitions(0, 9))
    assert list(session.partitions) == partitions(1, 2)
    assert cache.partition_count == 2
    cache.close(KEY)
    assert cache.partition_count == 0


def test_an_epoch_of_zero_replaces_the_session_of_the_member() -> None:
    """SHR-20: even where no further session has room."""
    cache, session = opened(0, slots=1)
    again = cache.open(KEY, partitions(3))
    assert again is not session
    assert again is cache.get(KEY)
    assert (len(cache), cache.group_size("g"), cache.partition_count) == (1, 1, 1)


def test_no_session_gives_way_to_another() -> None:
    """SHR-21."""
    cache, _ = opened(0, slots=1)
    assert cache.open(MemberKey("g", "other"), ()) is None
    assert cache.refused_count == 1
    cache.close(KEY)
    assert cache.group_size("g") == 0
    assert cache.open(MemberKey("g", "other"), ()) is not None


def test_partitions_of_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """SHR-21: of one, and of all together."""
    cache, session = opened(0)
    with pytest.raises(KafkaError) as refused:
        cache.resume(KEY, 1, partitions(*range(SESSION_PARTITIONS_MAX + 1)))
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    with pytest.raises(KafkaError):
        cache.open(MemberKey("g", "b"), partitions(*range(SESSION_PARTITIONS_MAX + 1)))
    assert (len(cache), len(session.partitions), cache.partition_count) == (1, 1, 1)
    monkeypatch.setattr(share_session, "PARTITIONS_MAX", 3)
    assert cache.open(MemberKey("g", "c"), partitions(1, 2, 3)) is None
    with pytest.raises(KafkaError) as full:
        cache.resume(KEY, 2, partitions(1, 2, 3))
    assert full.value.code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


def test_partitions_take_turns() -> None:
    """SHR-8: the first is another one with each epoch."""
    _, session = opened(0, 1, 2)
    turns = [[one.partition for one in session.in_turn(epoch)] for epoch in range(4)]
    assert turns == [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]
    assert ShareSession(KEY).in_turn(3) == []


def test_a_fetch_looks_at_so_many_partitions_and_the_next_one_at_the_next() -> None:
    """SHR-8: no fetch keeps the loop, and none of the partitions is left out."""
    _, session = opened(*range(FETCHED_MAX * 2 + 10))
    seen = [[one.partition for one in session.in_turn(epoch)] for epoch in range(3)]
    assert all(len(one) == len(set(one)) == FETCHED_MAX for one in seen)
    assert len({*seen[0], *seen[1], *seen[2]}) == FETCHED_MAX * 2 + 10
