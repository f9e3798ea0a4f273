"""Where followers cut their logs: KIP-101, KIP-279, by tables and by whole conversations."""

from __future__ import annotations

import pytest

from barnabas_broker.log.leader_epochs import LeaderEpochs
from barnabas_broker.replication.follower.truncation_plan import (
    LogEnds,
    OutOfRange,
    diverging_offset,
    out_of_range,
)
from tests.support.simulated_random import SimulatedRandom


def epochs_of(*entries: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs(None, "")
    for leader_epoch, start_offset in entries:
        epochs.assign(leader_epoch, start_offset)
    return epochs


@pytest.mark.parametrize(
    ("own", "end", "answer", "expected"),
    [
        # It has the epoch: the shorter end of it counts.
        (((1, 0), (2, 50)), 80, (2, 70), 70),
        (((1, 0), (2, 50)), 80, (1, 60), 50),
        (((1, 0), (2, 50)), 80, (1, 40), 40),
        # It does not: back to the end of its next lower one, and asked again.
        (((1, 0), (4, 50)), 80, (3, 70), 50),
        (((1, 0), (3, 30), (5, 60)), 80, (4, 75), 60),
        # The leader's epoch is below all of ours: nothing of ours is its.
        (((3, 10),), 80, (2, 60), 10),
        # No epoch is known here: the leader's end counts.
        ((), 80, (2, 60), 60),
        # The leader knows none: the high watermark, as before KIP-101.
        (((1, 0),), 80, (-1, -1), 25),
        (((1, 0),), 80, (-1, 60), 60),
    ],
)
def test_the_log_is_cut_where_both_still_agree(
    own: tuple[tuple[int, int], ...], end: int, answer: tuple[int, int], expected: int
) -> None:
    """REP-16: by epochs and their ends; the high watermark only where there is no epoch."""
    assert diverging_offset(epochs_of(*own), LogEnds(end, 25), *answer) == expected


@pytest.mark.parametrize(
    ("own_end", "start", "end", "expected"),
    [
        (100, 0, 90, OutOfRange.TRUNCATE),
        (100, 150, 200, OutOfRange.START_ANEW),
        (100, 50, 200, OutOfRange.GO_ON),
        (100, 100, 100, OutOfRange.GO_ON),
    ],
)
def test_out_of_range_is_answered_by_the_leaders_ends(
    own_end: int, start: int, end: int, expected: OutOfRange
) -> None:
    """REP-12: longer than the leader's log, wholly before it, or neither."""
    assert out_of_range(own_end, start, end) is expected


def epoch_entries(log: list[int]) -> LeaderEpochs:
    """The entries of a log given as the leader epoch of each record."""
    epochs = LeaderEpochs(None, "")
    for offset, epoch in enumerate(log):
        epochs.assign(epoch, offset)
    return epochs


def common_length(a: list[int], b: list[int]) -> int:
    length = 0
    while length < min(len(a), len(b)) and a[length] == b[length]:
        length += 1
    return length


def test_any_two_histories_meet_at_their_common_beginning() -> None:
    """KIP-279: however many fast leader changes, the follower ends with what both have."""
    for seed in range(3_000):
        random = SimulatedRandom(seed)
        # An epoch has one leader, so two logs with a record of the same epoch at an offset agree
        # on all before it.
        shared = sorted(random.integer(4) for _ in range(random.integer(8)))
        free = list(range(4, 12))
        random.shuffle(free)
        mine = sorted(e for e in free[:4] for _ in range(random.integer(4)))
        theirs = sorted(e for e in free[4:] for _ in range(random.integer(4)))
        follower, leader = shared + mine, [*shared, *theirs, 12]
        leader_epochs = epoch_entries(leader)
        for _ in range(20):
            own_epochs = epoch_entries(follower)
            if own_epochs.latest < 0:
                break
            asked = own_epochs.latest
            epoch, end_offset = leader_epochs.end_offset_for(asked, len(leader))
            if epoch == asked and end_offset >= len(follower):
                break
            offset = diverging_offset(own_epochs, LogEnds(len(follower), 0), epoch, end_offset)
            assert offset < len(follower), f"seed {seed}: no way forward"
            assert offset >= common_length(follower, leader), f"seed {seed}: too much is cut"
            del follower[offset:]
        assert follower == leader[: len(follower)], f"seed {seed}"
