"""Where logs end and part, by epochs alone; compared with whole logs as the dumb twin."""

import random
from itertools import pairwise

import pytest

from barnabas_broker.metadata.log_ends import (
    AGREEMENT,
    BehindStart,
    Divergence,
    LogEnd,
    compare,
    end_of,
    truncation_offset,
)
from tests.broker.metadata.quorum.quorum_world import Entry, WalkLog


def log_of(*epochs: int, start: int = 0) -> WalkLog:
    log = WalkLog()
    log.append(Entry(epoch, offset) for offset, epoch in enumerate(epochs))
    if start:
        log.disk = list(log.entries)
        log.trim(start)
    return log


def test_higher_last_epoch_counts_before_the_length() -> None:
    """Rule 2: the best log."""
    assert end_of(log_of(1, 3)) > end_of(log_of(1, 2, 2, 2)) > end_of(log_of(1, 2))
    assert end_of(log_of()) == LogEnd(-1, 0)


@pytest.mark.parametrize(
    ("leader", "end", "expected"),
    [
        (log_of(1, 1, 3), LogEnd(-1, 0), AGREEMENT),
        (log_of(1, 1, 3), LogEnd(1, 2), AGREEMENT),
        (log_of(1, 1, 3), LogEnd(3, 3), AGREEMENT),
        (log_of(1, 1, 3), LogEnd(1, 3), Divergence(1, 2)),
        (log_of(1, 1, 3), LogEnd(2, 2), Divergence(1, 2)),
        (log_of(1, 1, 3), LogEnd(3, 5), Divergence(3, 3)),
        (log_of(1, 1, 3), LogEnd(4, 1), Divergence(3, 3)),
        (log_of(2, 2), LogEnd(1, 1), Divergence(-1, 0)),
        (log_of(1, 1, 3, start=1), LogEnd(-1, 0), BehindStart(1, 1)),
        (log_of(1, 1, 3, start=1), LogEnd(1, 1), AGREEMENT),
        (log_of(1, 1, 3, start=2), LogEnd(1, 1), BehindStart(2, 1)),
        (log_of(1, 1, 3, start=2), LogEnd(2, 2), BehindStart(2, 1)),
        (log_of(1, 1, 3, start=2), LogEnd(1, 5), Divergence(1, 2)),
        (log_of(2, 2, 3, start=2), LogEnd(1, 5), BehindStart(2, 2)),
    ],
)
def test_leader_tells_where_the_logs_part(
    leader: WalkLog, end: LogEnd, expected: tuple[int, ...]
) -> None:
    """KIP-595; what is below the log start is only in a snapshot."""
    assert compare(leader, end) == expected


def test_epoch_that_ended_where_the_log_starts_is_not_forgotten() -> None:
    """Its entry is gone when the next epoch begins right there, but the snapshot tells it.

    Without that, a follower with more records of that epoch was told to drop committed ones.
    """
    leader = log_of(2, 3)
    leader.disk = list(leader.entries)
    leader.trim(2)
    leader.append([Entry(4, 2)])
    assert leader.leader_epochs.entries[0].leader_epoch == 4
    assert compare(leader, LogEnd(3, 3)) == Divergence(3, 2)


def test_following_the_answers_ends_where_whole_logs_part() -> None:
    """Against comparison of all records, over histories as leaders make them."""
    for seed in range(300):
        rng = random.Random(seed)
        logs = [WalkLog() for _ in range(3)]
        for epoch in range(1, 7):
            leader = rng.choice(logs)
            taken = max(rng.sample(logs, 2), key=end_of)
            leader.truncate(0)
            leader.append(taken.entries)
            leader.append([Entry(epoch, rng.random().__hash__())] * rng.randint(1, 3))
            follower = rng.choice([log for log in logs if log is not leader])
            common = [a for a, b in zip(leader.entries, follower.entries, strict=False) if a == b]
            ends = [end_of(follower)]
            while isinstance(told := compare(leader, end_of(follower)), Divergence):
                follower.truncate(truncation_offset(follower, told))
                ends.append(end_of(follower))
                assert len(ends) < 20, f"seed {seed}"
            assert all(later.end_offset < end.end_offset for end, later in pairwise(ends))
            assert told == AGREEMENT
            assert follower.entries == leader.entries[: len(follower.entries)], f"seed {seed}"
            assert len(follower.entries) == len(common), f"seed {seed}"
            more = rng.randint(0, len(leader.entries) - len(common))
            follower.append(leader.entries[len(common) : len(common) + more])
