"""The share coordinator over logs in memory: commits, moves, doubt, cuts and deleted topics."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from barnabas_broker.coordinator.runtime.loop import SlotState
from barnabas_broker.coordinator.share.coordinator import (
    SHARE_PARTITIONS_AT_ONCE,
    SHARE_STATE_TOPIC,
)
from barnabas_broker.share.persister import SharePartitionKey, ShareState, StateBatch
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages import initialize_share_group_state as initializes
from barnabas_protocol.messages import read_share_group_state as reads
from barnabas_protocol.messages import read_share_group_state_summary as summaries
from barnabas_protocol.messages import write_share_group_state as writes
from tests.support.share_state import PARTITION_COUNT, ShareStateWorld
from tests.support.virtual_loop import run_virtual

GROUP, TOPIC_ID = "group", bytes(range(16))
KEY = SharePartitionKey(GROUP, TOPIC_ID, 0)
STATE = (StateBatch(0, 4, 2, 1), StateBatch(5, 9, 0, 1))


def with_world(work: Any, **settings: int) -> None:
    """Run a test against a coordinator that serves."""

    async def scenario() -> None:
        world = ShareStateWorld({TOPIC_ID: 200}, **settings)
        await world.start()
        try:
            await work(world)
        finally:
            await world.close()

    run_virtual(scenario())


def initialize_request(
    *partitions: int, topic_id: bytes = TOPIC_ID, group_id: str = GROUP, state_epoch: int = 1
) -> initializes.InitializeShareGroupStateRequest:
    return initializes.InitializeShareGroupStateRequest(
        group_id=group_id,
        topics=[
            initializes.InitializeStateData(
                topic_id=topic_id,
                partitions=[
                    initializes.PartitionData(
                        partition=partition, state_epoch=state_epoch, start_offset=0
                    )
                    for partition in partitions
                ],
            )
        ],
    )


def write_request(*batches: StateBatch, partition: int = 0) -> writes.WriteShareGroupStateRequest:
    return writes.WriteShareGroupStateRequest(
        group_id=GROUP,
        topics=[
            writes.WriteStateData(
                topic_id=TOPIC_ID,
                partitions=[
                    writes.PartitionData(
                        partition=partition,
                        state_epoch=1,
                        leader_epoch=0,
                        start_offset=0,
                        state_batches=[
                            writes.StateBatch(
                                first_offset=batch.first_offset,
                                last_offset=batch.last_offset,
                                delivery_state=batch.delivery_state,
                                delivery_count=batch.delivery_count,
                            )
                            for batch in batches
                        ],
                    )
                ],
            )
        ],
    )


def codes(response: Any) -> dict[int, int]:
    return {
        result.partition: result.error_code
        for topic in response.results
        for result in topic.partitions
    }


async def written(world: ShareStateWorld) -> None:
    """A share partition with some state."""
    await world.coordinator.initialize(initialize_request(0))
    response = await world.coordinator.write(write_request(*STATE))
    assert codes(response) == {0: ErrorCode.NONE}


def test_each_share_partition_has_a_result_of_its_own() -> None:
    """SHR-25: they are in several partitions of the topic, and some are refused."""

    async def work(world: ShareStateWorld) -> None:
        partitions = [*range(SHARE_PARTITIONS_AT_ONCE + 10), 200]
        response = await world.coordinator.initialize(initialize_request(*partitions))
        expected = dict.fromkeys(partitions, ErrorCode.NONE)
        expected[200] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes(response) == expected
        assert [topic.topic_id for topic in response.results] == [TOPIC_ID]
        assert len(world.writer.logs) == PARTITION_COUNT

    with_world(work)


def test_a_request_without_a_group_has_no_results() -> None:
    """SHR-25: as in Kafka."""

    async def work(world: ShareStateWorld) -> None:
        response = await world.coordinator.initialize(initialize_request(0, group_id=""))
        assert response.results == []

    with_world(work)


def test_a_new_coordinator_has_what_was_written() -> None:
    """SHR-26, OFS-2: states and summaries alike."""

    async def work(world: ShareStateWorld) -> None:
        await written(world)
        await world.move()
        read = await world.coordinator.read(
            reads.ReadShareGroupStateRequest(
                group_id=GROUP,
                topics=[
                    reads.ReadStateData(
                        topic_id=TOPIC_ID,
                        partitions=[reads.PartitionData(partition=0, leader_epoch=2)],
                    )
                ],
            )
        )
        (result,) = read.results[0].partitions
        assert (result.state_epoch, result.start_offset) == (1, 0)
        assert [
            (one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
            for one in result.state_batches
        ] == [(0, 4, 2, 1), (5, 9, 0, 1)]
        response = await world.coordinator.summary(
            summaries.ReadShareGroupStateSummaryRequest(
                group_id=GROUP,
                topics=[
                    summaries.ReadStateSummaryData(
                        topic_id=TOPIC_ID,
                        partitions=[
                            summaries.PartitionData(partition=0, leader_epoch=-1),
                            summaries.PartitionData(partition=1, leader_epoch=-1),
                        ],
                    )
                ],
            )
        )
        known, unknown = response.results[0].partitions
        assert (known.state_epoch, known.leader_epoch, known.start_offset) == (1, 2, 0)
        assert (unknown.error_code, unknown.start_offset) == (0, -1)

    with_world(work)


def test_a_write_is_answered_when_it_is_committed() -> None:
    """OFS-5: and a read that sees it, no sooner."""

    async def work(world: ShareStateWorld) -> None:
        await world.coordinator.initialize(initialize_request(0))
        world.writer.pause()
        write = asyncio.create_task(world.coordinator.write(write_request(*STATE)))
        await asyncio.sleep(1)
        summary = asyncio.create_task(world.persister.summary(KEY))
        await asyncio.sleep(1)
        assert not write.done()
        assert not summary.done()
        world.writer.resume()
        assert codes(await write) == {0: ErrorCode.NONE}
        await summary

    with_world(work)


@pytest.mark.parametrize(
    ("append_error", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_refused_write_is_told_as_the_coordinators_error(
    append_error: ErrorCode, told: ErrorCode
) -> None:
    """OFS-6: 3 would be about the topic of the share partition; and nothing of it is left."""

    async def work(world: ShareStateWorld) -> None:
        await written(world)
        world.writer.refuse_with = append_error
        response = await world.coordinator.write(write_request(StateBatch(5, 9, 4, 1)))
        assert codes(response) == {0: told}
        world.writer.refuse_with = None
        assert (await world.persister.read(KEY, 0)).batches == STATE

    with_world(work)


def test_after_doubt_the_log_is_believed() -> None:
    """OFS-5: a write whose outcome is unknown is in the log, or it is not."""

    async def work(world: ShareStateWorld) -> None:
        await written(world)
        world.writer.doubt_with = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        response = await world.coordinator.write(write_request(StateBatch(5, 9, 4, 1)))
        assert codes(response) == {0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        state = await world.persister.read(KEY, 0)
        assert state.batches == (STATE[0], StateBatch(5, 9, 4, 1))

    with_world(work)


def test_whoever_does_not_coordinate_says_so() -> None:
    """OFS-4: 15 before the start, 14 while loading, 16 without the leadership."""

    async def work(world: ShareStateWorld) -> None:
        await written(world)
        runtime = world.coordinator.runtime
        for partition in range(PARTITION_COUNT):
            runtime.unload(partition)
        assert codes(await world.coordinator.write(write_request(*STATE))) == {0: 16}
        world.writer.reads_going.clear()
        for partition in range(PARTITION_COUNT):
            runtime.load(partition, 9)
        assert codes(await world.coordinator.write(write_request(*STATE))) == {0: 14}
        world.writer.reads_going.set()
        await world.coordinator.close()
        assert codes(await world.coordinator.write(write_request(*STATE))) == {0: 15}

    with_world(work)


async def logs(world: ShareStateWorld) -> list[TopicPartition]:
    return [tp for tp, log in world.writer.logs.items() if log.batches]


def test_the_log_is_cut_and_loaded_again() -> None:
    """SHR-26: all that was acknowledged is there."""

    async def work(world: ShareStateWorld) -> None:
        await world.coordinator.initialize(initialize_request(*range(8)))
        for round_ in range(6):
            for partition in range(1, 8):
                batch = StateBatch(round_, round_, 2, 1)
                await world.coordinator.write(write_request(batch, partition=partition))
        ends = {tp: log.end_offset for tp, log in world.writer.logs.items()}
        await asyncio.sleep(3)
        for topic_partition in ends:
            assert world.writer.start_offset(topic_partition) > 0
            partition = topic_partition.partition
            assert world.coordinator.pruned_offsets[partition] > 0
        await world.move()
        for partition in range(1, 8):
            key = SharePartitionKey(GROUP, TOPIC_ID, partition)
            assert await world.persister.read(key, 0) == ShareState(1, 0, (StateBatch(0, 5, 2, 1),))
        assert await world.persister.read(KEY, 0) == ShareState(1, 0, ())

    with_world(work, updates_per_snapshot=2, cold_interval_ms=1_000, prune_interval_ms=1_000)


def test_a_cut_that_fails_is_tried_again() -> None:
    """SHR-26: the next round does it."""

    async def work(world: ShareStateWorld) -> None:
        await written(world)
        await written(world)
        world.writer.delete_error = ErrorCode.KAFKA_STORAGE_ERROR
        await asyncio.sleep(5)
        (topic_partition,) = await logs(world)
        assert world.writer.start_offset(topic_partition) == 0
        world.writer.delete_error = None
        await asyncio.sleep(2)
        assert world.writer.start_offset(topic_partition) > 0

    with_world(work, updates_per_snapshot=0, cold_interval_ms=10**9, prune_interval_ms=1_000)


def test_deleted_topics_take_their_state_along() -> None:
    """SHR-25: on each coordinator, and of a partition that is loaded later, too."""

    async def work(world: ShareStateWorld) -> None:
        other = b"o" * 16
        world.topics.partition_counts[other] = 8
        await world.coordinator.initialize(initialize_request(*range(8)))
        await world.coordinator.initialize(initialize_request(*range(8), topic_id=other))
        del world.topics.partition_counts[other]
        await world.coordinator.on_topics_deleted([other])
        assert world.coordinator.metrics.share_partition_count == 8
        assert world.coordinator.metrics.tombstone_count == 8
        world.topics.partition_counts.clear()
        await world.move()
        await asyncio.sleep(1)
        assert world.coordinator.metrics.share_partition_count == 0

    with_world(work)


def test_a_refused_tombstone_does_not_fail_the_others() -> None:
    """SHR-25: it is written later."""

    async def work(world: ShareStateWorld) -> None:
        await world.coordinator.initialize(initialize_request(*range(8)))
        world.topics.partition_counts.clear()
        world.writer.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
        await world.coordinator.on_topics_deleted([TOPIC_ID])
        assert world.coordinator.metrics.share_partition_count == 8
        world.writer.refuse_with = None
        await asyncio.sleep(11)
        assert world.coordinator.metrics.share_partition_count == 0

    with_world(work)


def test_closing_ends_everything() -> None:
    """STOP-9: who waits is told 16."""

    async def work(world: ShareStateWorld) -> None:
        await written(world)
        world.writer.pause()
        waiting: list[Coroutine[Any, Any, Any]] = [world.coordinator.write(write_request(*STATE))]
        task = asyncio.create_task(waiting[0])
        await asyncio.sleep(0.1)
        await world.coordinator.close()
        assert codes(await task) == {0: ErrorCode.NOT_COORDINATOR}
        assert world.coordinator.runtime.states() == {}
        world.writer.resume()

    with_world(work)


def test_a_failed_load_is_tried_again() -> None:
    """OFS-2: 15 meanwhile."""

    async def work(world: ShareStateWorld) -> None:
        await written(world)
        world.writer.read_error = ErrorCode.KAFKA_STORAGE_ERROR
        await world.move()
        (topic_partition,) = await logs(world)
        state = world.coordinator.runtime.states()[topic_partition.partition]
        assert state is SlotState.FAILED
        assert topic_partition.topic == SHARE_STATE_TOPIC
        world.writer.read_error = None
        # The persister goes on until it is loaded.
        assert (await world.persister.read(KEY, 0)).batches == STATE

    with_world(work)


def test_an_error_of_the_shard_reaches_the_caller() -> None:
    """SHR-25: with its text, which says what is wrong."""

    async def work(world: ShareStateWorld) -> None:
        with pytest.raises(KafkaError, match="has not been initialized") as caught:
            await world.persister.read(KEY, 0)
        assert caught.value.code is ErrorCode.INVALID_REQUEST
        assert len(world.requests) == 1

    with_world(work)
