"""The share partitions of one shard: requests, epochs, snapshots, cuts and replay."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas_broker.coordinator.share.batches import BATCHES_MAX
from barnabas_broker.coordinator.share.records import read_key
from barnabas_broker.coordinator.share.shard import KEYS_PER_STEP, NO_STATE, ShareStateMetrics
from barnabas_broker.share.persister import SharePartitionKey, ShareState, StateBatch
from barnabas_protocol.errors import ErrorCode, KafkaError
from tests.broker.coordinator.share.shard_driver import (
    KEY,
    OTHER,
    TOPIC_ID,
    ShardDriver,
    code_of,
)

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
ONE = StateBatch(0, 9, ACKNOWLEDGED, 1)
REFUSED = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)


def is_snapshot(driver: ShardDriver) -> list[bool]:
    """Of which type each record of the log is."""
    keys = [read_key(record.key) for record in driver.log if record.key is not None]
    return [key is not None and key.is_snapshot for key in keys]


# ---- requests ----------------------------------------------------------------------------------


def test_a_share_partition_begins_where_it_is_told_to() -> None:
    """SHR-25: and what is read is what was written."""
    driver = ShardDriver()
    driver.initialize(state_epoch=3, start_offset=10)
    assert driver.read() == ShareState(3, 10, ())
    driver.write(StateBatch(10, 19, AVAILABLE, 1), state_epoch=3, start_offset=10)
    driver.write(StateBatch(10, 12, ACKNOWLEDGED, 1), state_epoch=3, start_offset=10)
    assert driver.read() == ShareState(
        3, 10, (StateBatch(10, 12, ACKNOWLEDGED, 1), StateBatch(13, 19, AVAILABLE, 1))
    )
    assert driver.replayed_states() == driver.shard.states


def test_an_initialization_begins_anew() -> None:
    """SHR-25: of an altered start nothing of before is left, but the leader's epoch."""
    driver = ShardDriver()
    driver.initialize()
    driver.read(leader_epoch=4)
    driver.write(ONE, leader_epoch=4)
    driver.initialize(state_epoch=2, start_offset=5)
    assert driver.summary() == (2, 4, 5, 0)
    assert driver.read(leader_epoch=4) == ShareState(2, 5, ())
    assert code_of(partial(driver.write, state_epoch=2, leader_epoch=3)) == 74


def test_an_initialization_that_comes_twice_changes_nothing() -> None:
    """SHR-25: its response was lost, and the first may have been read since."""
    driver = ShardDriver()
    driver.initialize(start_offset=-1)
    driver.initialize(start_offset=-1)
    assert len(driver.log) == 1


def test_an_older_state_epoch_is_fenced() -> None:
    """SHR-25."""
    driver = ShardDriver()
    driver.initialize(state_epoch=5)
    assert code_of(partial(driver.initialize, state_epoch=4)) is ErrorCode.FENCED_STATE_EPOCH
    assert code_of(partial(driver.write, ONE, state_epoch=4)) is ErrorCode.FENCED_STATE_EPOCH
    driver.write(ONE, state_epoch=5)


def test_a_read_fences_the_leaders_before() -> None:
    """SHR-25: durably, so that the next coordinator knows of it as well."""
    driver = ShardDriver()
    driver.initialize()
    driver.read(leader_epoch=3)
    driver.write(ONE, leader_epoch=3)
    driver.read(leader_epoch=7)
    for refused in (partial(driver.read, leader_epoch=3), partial(driver.write, leader_epoch=6)):
        assert code_of(refused) is ErrorCode.FENCED_LEADER_EPOCH
    driver.write(ONE, leader_epoch=7)
    assert driver.replayed_states()[KEY].leader_epoch == 7


def test_the_second_read_of_a_leader_writes_nothing() -> None:
    """SHR-25: only a new epoch is recorded; what is read waits until it is committed."""
    driver = ShardDriver()
    driver.initialize()
    driver.read(leader_epoch=3)
    before = len(driver.log)
    result, sequence = driver.begin(lambda now: driver.shard.read(KEY, 3, now))
    assert result.waits_for_commit
    driver.commit(result, sequence)
    assert len(driver.log) == before


def test_a_share_partition_that_is_not_initialized_is_unknown() -> None:
    """SHR-25: to its leader; its summary says so without an error, and so does its deletion."""
    driver = ShardDriver()
    assert code_of(driver.read) is ErrorCode.INVALID_REQUEST
    assert code_of(driver.write) is ErrorCode.INVALID_REQUEST
    assert driver.summary() == NO_STATE
    assert NO_STATE.start_offset == -1
    driver.delete()
    assert driver.log == []


def test_a_deleted_share_partition_is_unknown() -> None:
    """SHR-25: and may begin anew, in any epoch."""
    driver = ShardDriver()
    driver.initialize(state_epoch=5)
    driver.write(ONE, state_epoch=5)
    driver.delete()
    assert driver.log[-1].value is None
    assert driver.summary() == NO_STATE
    assert driver.replayed_states() == {}
    driver.initialize(state_epoch=1)
    assert driver.summary().state_epoch == 1


@pytest.mark.parametrize("partition", [4, 100])
def test_what_is_no_partition_of_a_topic_is_unknown(partition: int) -> None:
    """SHR-25: 3, as for a topic that is not there."""
    driver = ShardDriver()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    key = SharePartitionKey("group", TOPIC_ID, partition)
    assert code_of(partial(driver.initialize, key)) is unknown
    driver.initialize()
    driver.topics.clear()
    for refused in (driver.read, partial(driver.write, ONE), driver.delete, driver.summary):
        assert code_of(refused) is unknown


def test_negative_numbers_are_refused() -> None:
    """SHR-25: none of them is "not given", as older releases have it."""
    driver = ShardDriver()
    driver.initialize()
    negative = SharePartitionKey("group", TOPIC_ID, -1)
    for refused in (
        partial(driver.initialize, negative),
        partial(driver.initialize, state_epoch=-1),
        partial(driver.initialize, start_offset=-2),
        partial(driver.read, negative),
        partial(driver.read, leader_epoch=-1),
        partial(driver.write, ONE, leader_epoch=-1),
        partial(driver.write, ONE, state_epoch=-1),
        partial(driver.write, ONE, start_offset=-2),
        partial(driver.write, ONE, delivery_complete_count=-2),
        partial(driver.delete, negative),
        partial(driver.summary, negative),
        partial(driver.write, StateBatch(0, 5, 1, 1)),
    ):
        assert code_of(refused) is ErrorCode.INVALID_REQUEST


def test_the_start_never_falls() -> None:
    """SHR-25: a write that comes late, or that leaves the start as it is."""
    driver = ShardDriver()
    driver.initialize()
    driver.write(StateBatch(20, 25, AVAILABLE, 1), start_offset=20, delivery_complete_count=3)
    driver.write(StateBatch(10, 22, ACKNOWLEDGED, 1), start_offset=10, delivery_complete_count=9)
    driver.write(delivery_complete_count=1)
    assert driver.read() == ShareState(
        1, 20, (StateBatch(20, 22, ACKNOWLEDGED, 1), StateBatch(23, 25, AVAILABLE, 1))
    )
    # The count belongs to the start that it was counted from.
    assert driver.summary().delivery_complete_count == 3
    driver.write(start_offset=21, delivery_complete_count=2)
    assert driver.summary() == (1, 0, 21, 2)
    assert driver.replayed_states() == driver.shard.states


# ---- bounds ------------------------------------------------------------------------------------


def test_the_batches_of_a_share_partition_are_bounded() -> None:
    """Its locks are: no leader has more."""
    driver = ShardDriver()
    driver.initialize()
    half = BATCHES_MAX // 2
    driver.write(*(StateBatch(2 * i, 2 * i, ACKNOWLEDGED, 1) for i in range(half)))
    driver.write(*(StateBatch(2 * i, 2 * i, ACKNOWLEDGED, 1) for i in range(half, 2 * half)))
    refused = partial(driver.write, StateBatch(10**9, 10**9, ACKNOWLEDGED, 1))
    assert code_of(refused) is ErrorCode.INVALID_REQUEST
    driver.write(start_offset=100)


def test_states_are_bounded_in_memory() -> None:
    """What does not grow goes on; 15 for the rest, as if there were no coordinator."""
    driver = ShardDriver(state_bytes_max=2_500)
    keys = [SharePartitionKey("group", TOPIC_ID, index) for index in range(4)]
    for key in keys[:3]:
        driver.initialize(key)
        driver.write(*(StateBatch(2 * i, 2 * i, ARCHIVED, 1) for i in range(2)), key=key)
    assert code_of(partial(driver.initialize, keys[3])) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    grows = partial(driver.write, StateBatch(100, 100, ARCHIVED, 1), key=keys[0])
    assert code_of(grows) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.write(key=keys[0], start_offset=3)
    driver.delete(keys[1])
    driver.initialize(keys[3])
    driver.shard.close(ErrorCode.NOT_COORDINATOR)
    assert driver.context.metrics.state_bytes == 0
    assert driver.context.metrics.share_partition_count == 0


# ---- refused appends ---------------------------------------------------------------------------


def test_what_the_log_refuses_is_as_if_it_had_never_been() -> None:
    """OFS-5, SHR-25: the newest first."""
    driver = ShardDriver()
    driver.initialize()
    driver.write(ONE)
    before = dict(driver.shard.states)
    size = driver.context.metrics.state_bytes
    commands = [
        driver.begin(lambda now: driver.shard.initialize(OTHER, 1, 0, now)),
        driver.begin(lambda now: driver.shard.read(KEY, 9, now)),
        driver.begin(lambda now: driver.shard.delete(KEY)),
        driver.begin(lambda now: driver.shard.initialize(KEY, 7, 7, now)),
    ]
    for result, sequence in reversed(commands):
        driver.refuse(result, sequence, REFUSED)
    assert driver.shard.states == before
    assert driver.context.metrics.state_bytes == size
    driver.write(ONE, leader_epoch=0)


# ---- snapshots and cuts ------------------------------------------------------------------------


def test_a_snapshot_follows_after_some_updates() -> None:
    """SHR-26: it says what the updates say, in the next snapshot epoch."""
    driver = ShardDriver(updates_per_snapshot=2)
    driver.initialize()
    for offset in range(5):
        driver.write(StateBatch(offset, offset, offset % 2 * 2, 1))
    assert is_snapshot(driver) == [True, False, False, True, False, False]
    assert driver.shard.states[KEY].snapshot_epoch == 1
    assert driver.replayed_states() == driver.shard.states
    assert len(driver.shard.states[KEY].batches) == 5


def test_without_updates_every_write_is_a_snapshot() -> None:
    """SHR-26: the setting may be 0."""
    driver = ShardDriver(updates_per_snapshot=0)
    driver.initialize()
    driver.write(ONE)
    driver.write(ONE)
    assert is_snapshot(driver) == [True, True, True]


def test_the_log_is_cut_below_the_oldest_snapshot_in_use() -> None:
    """SHR-26: and what is left says the same."""
    driver = ShardDriver(updates_per_snapshot=2, prune_interval_ms=1_000, cold_interval_ms=10**9)
    driver.initialize()
    driver.initialize(OTHER)
    driver.pass_time(1_000)
    assert driver.cuts.offsets == [0]
    for offset in range(3):  # two updates and a snapshot, at offset 4
        driver.write(StateBatch(offset, offset, ACKNOWLEDGED, 1))
    driver.pass_time(1_000)
    assert driver.cuts.offsets[-1] == 1
    assert driver.replayed_states(1) == driver.shard.states
    driver.delete(OTHER)
    driver.pass_time(1_000)
    assert driver.cuts.offsets[-1] == 4
    assert driver.replayed_states(4) == driver.shard.states
    driver.delete()
    driver.pass_time(1_000)
    assert driver.cuts.offsets[-1] == len(driver.log)


def test_a_snapshot_that_is_not_committed_does_not_move_the_cut() -> None:
    """SHR-26: it may be refused yet."""
    driver = ShardDriver(updates_per_snapshot=0, prune_interval_ms=1_000, cold_interval_ms=10**9)
    driver.initialize()
    pending = driver.begin(
        lambda now: driver.write_command([ONE], KEY, 1, 0, -1, -1, now),
    )
    driver.pass_time(1_000)
    assert driver.cuts.offsets == [0]
    driver.commit(*pending)
    driver.pass_time(1_000)
    assert driver.cuts.offsets == [0, 1]


def test_a_replayed_shard_cuts_at_the_same_place() -> None:
    """SHR-26: of what was cut before, an update may be left without its snapshot."""
    driver = ShardDriver(updates_per_snapshot=2, prune_interval_ms=1_000, cold_interval_ms=10**9)
    for key in (KEY, OTHER):
        driver.initialize(key)
    for offset in range(4):
        driver.write(StateBatch(offset, offset, ACKNOWLEDGED, 1))
    later = driver.replayed(from_offset=3)
    assert later.states[KEY] == driver.shard.states[KEY]
    assert OTHER not in later.states
    assert later.partition == 0
    later.loaded(driver.now)
    action = later.timers.take_due(driver.now_ms + 1_000)
    assert action is not None
    action(driver.now)
    assert driver.cuts.offsets == [4]


def test_a_cold_share_partition_is_written_again() -> None:
    """SHR-26: so that the log can be cut behind it."""
    driver = ShardDriver(cold_interval_ms=1_000, prune_interval_ms=10**9)
    driver.initialize(OTHER)
    created_ms = driver.now_ms
    driver.initialize()
    driver.pass_time(1_000)
    assert is_snapshot(driver) == [True] * 4
    state = driver.shard.states[OTHER]
    assert (state.created_ms, state.written_ms) == (created_ms, driver.now_ms)
    assert driver.replayed_states() == driver.shard.states


def test_nothing_is_written_while_nobody_writes() -> None:
    """SHR-26: an idle cluster stays idle."""
    driver = ShardDriver(cold_interval_ms=1_000, prune_interval_ms=10**9)
    driver.initialize()
    driver.pass_time(500)
    driver.initialize(OTHER)
    for _ in range(10):
        driver.pass_time(1_000)
    length = len(driver.log)
    assert length <= 6
    for _ in range(10):
        driver.pass_time(1_000)
    assert len(driver.log) == length
    driver.write(ONE)
    driver.pass_time(1_000)
    assert is_snapshot(driver)[length:] == [False, True, True]


def test_cold_share_partitions_are_written_in_steps() -> None:
    """No step is longer than some milliseconds."""
    driver = ShardDriver(cold_interval_ms=1_000, prune_interval_ms=10**9)
    driver.topics[TOPIC_ID] = 1_000
    count = 2 * KEYS_PER_STEP + 1
    for partition in range(count):
        driver.initialize(SharePartitionKey("group", TOPIC_ID, partition))
    driver.pass_time(1_000)
    written = [len(driver.log) - count]
    while len(driver.log) < 2 * count:
        driver.pass_time(1)
        written.append(len(driver.log) - count)
    assert written == [KEYS_PER_STEP, 2 * KEYS_PER_STEP, count]
    assert driver.replayed_states() == driver.shard.states


def test_cold_snapshots_that_the_log_refuses_are_written_in_the_next_round() -> None:
    """SHR-26."""
    driver = ShardDriver(cold_interval_ms=1_000, prune_interval_ms=10**9)
    driver.initialize()
    driver.now_ms += 1_000
    action = driver.shard.timers.take_due(driver.now_ms)
    assert action is not None
    driver.refuse(*driver.begin(action), REFUSED)
    driver.pass_time(1_000)
    assert is_snapshot(driver) == [True, True]


# ---- deleted topics ----------------------------------------------------------------------------


def test_a_deleted_topic_takes_its_share_partitions_along() -> None:
    """SHR-25: tombstones, and only for what is gone."""
    driver = ShardDriver()
    gone = SharePartitionKey("group", b"g" * 16, 0)
    driver.topics[gone.topic_id] = 1
    driver.initialize()
    driver.initialize(gone)
    del driver.topics[gone.topic_id]
    driver.run(lambda now: driver.shard.topics_deleted([gone.topic_id, TOPIC_ID, b"?" * 16], now))
    assert list(driver.shard.states) == [KEY]
    assert driver.log[-1].value is None
    assert driver.replayed_states() == driver.shard.states


def test_a_new_coordinator_looks_for_topics_that_went_before() -> None:
    """SHR-25: in steps, however many share partitions they had."""
    driver = ShardDriver()
    driver.topics[TOPIC_ID] = 1_000
    count = KEYS_PER_STEP + 1
    for partition in range(count):
        driver.initialize(SharePartitionKey("group", TOPIC_ID, partition))
    driver.topics.clear()
    driver.shard = driver.replayed()
    driver.run(driver.shard.loaded)
    assert len(driver.log) == count + KEYS_PER_STEP
    driver.pass_time(1)
    assert len(driver.log) == 2 * count
    assert driver.shard.states == driver.replayed_states() == {}


def test_tombstones_that_the_log_refuses_are_written_later() -> None:
    """SHR-25."""
    driver = ShardDriver()
    driver.initialize()
    driver.topics.clear()
    refused = driver.begin(lambda now: driver.shard.topics_deleted([TOPIC_ID], now))
    driver.refuse(*refused, REFUSED)
    assert list(driver.shard.states) == [KEY]
    driver.pass_time(10_000)
    assert driver.shard.states == {}
    assert driver.log[-1].value is None


# ---- replay ------------------------------------------------------------------------------------


def test_what_cannot_be_read_is_skipped_and_counted() -> None:
    """SHR-23: a newer release, or a fault, takes nothing else along."""
    driver = ShardDriver()
    driver.initialize()
    snapshot = driver.log[0]
    broken = [
        snapshot._replace(key=None),
        snapshot._replace(key=b"\x00\x09"),
        snapshot._replace(key=b"\x00"),
        snapshot._replace(key=b"\x00\x01" + (snapshot.key or b"")[2:], value=None),
        snapshot._replace(value=b"\x00\x01"),
        snapshot._replace(value=b"\x00\x00"),
    ]
    driver.log = [snapshot, *broken]
    metrics = ShareStateMetrics()
    assert driver.replayed(metrics=metrics).states == driver.shard.states
    assert metrics.skipped_record_count == len(broken)


operations = st.lists(
    st.one_of(
        st.tuples(st.just("initialize"), st.integers(0, 3), st.integers(-1, 10)),
        st.tuples(st.just("read"), st.integers(0, 3)),
        st.tuples(
            st.just("write"),
            st.integers(0, 20),
            st.integers(0, 6),
            st.sampled_from((0, 2, 4)),
            st.integers(0, 3),
            st.integers(-1, 12),
        ),
        st.tuples(st.just("delete")),
        st.tuples(st.just("pass")),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(operations, st.lists(st.booleans(), min_size=40, max_size=40), st.integers(0, 3))
def test_replay_gives_the_state_that_was_served(
    steps: list[tuple[str, int, int, int, int, int]], refusals: list[bool], per_snapshot: int
) -> None:
    """SHR-26: whatever was asked, refused or cut off in between."""
    driver = ShardDriver(
        updates_per_snapshot=per_snapshot, cold_interval_ms=500, prune_interval_ms=700
    )
    for index, (step, is_refused) in enumerate(zip(steps, refusals, strict=False)):
        key = (KEY, OTHER)[index % 2]
        name, *numbers = step
        try:
            if name == "initialize":
                begun = driver.begin(partial(driver.shard.initialize, key, *numbers))
            elif name == "read":
                begun = driver.begin(partial(driver.shard.read, key, *numbers))  # type: ignore[arg-type]
            elif name == "delete":
                begun = driver.begin(lambda _, key=key: driver.shard.delete(key))  # type: ignore[misc]
            elif name == "write":
                first, length, state, count, start = numbers
                batch = StateBatch(first, first + length, state, count)
                epoch = driver.summary(key)
                command = partial(
                    driver.write_command,
                    [batch],
                    key,
                    epoch.state_epoch,
                    epoch.leader_epoch,
                    start,
                    0,
                )
                begun = driver.begin(command)
            else:
                driver.pass_time(400)
                continue
        except KafkaError:
            continue
        if is_refused:
            driver.refuse(*begun, REFUSED)
        else:
            driver.commit(*begun)
    cut = max(driver.cuts.offsets, default=0)
    assert driver.replayed_states() == driver.shard.states
    assert driver.replayed_states(cut) == driver.shard.states
