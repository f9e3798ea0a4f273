"""How operations on share partitions become requests, and when these are repeated."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from barnabas_broker.coordinator.share.state_persister import (
    BATCHES_PER_REQUEST,
    PENDING_MAX,
    StateApi,
    StatePersister,
)
from barnabas_broker.share.persister import SharePartitionKey, ShareState, StateBatch
from barnabas_protocol.errors import ErrorCode, KafkaError
from tests.support.share_state import ShareStateWorld
from tests.support.virtual_loop import run_virtual

GROUP, TOPIC_ID = "group", bytes(range(16))


def key(partition: int = 0, group_id: str = GROUP) -> SharePartitionKey:
    return SharePartitionKey(group_id, TOPIC_ID, partition)


def with_world(work: Any) -> None:
    async def scenario() -> None:
        world = ShareStateWorld({TOPIC_ID: 10_000})
        await world.start()
        try:
            await work(world)
        finally:
            await world.close()

    run_virtual(scenario())


async def code_of(work: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        await work
    return caught.value.code


def named(request: Any) -> list[int]:
    return [data.partition for topic in request.topics for data in topic.partitions]


def test_the_life_of_a_share_partition() -> None:
    """SHR-25: begun, read, written, summed up, moved, deleted."""

    async def work(world: ShareStateWorld) -> None:
        persister = world.persister
        await persister.initialize(key(), 1, -1)
        assert await persister.read(key(), 3) == ShareState(1, -1, ())
        batches = [StateBatch(0, 4, 2, 1), StateBatch(5, 5, 0, 2)]
        await persister.write(key(), 1, 3, 0, 5, batches)
        assert await persister.summary(key()) == (1, 3, 0, 5)
        await world.move()
        assert await persister.read(key(), 3) == ShareState(1, 0, tuple(batches))
        assert await code_of(persister.write(key(), 1, 2, 0, 0, [])) is (
            ErrorCode.FENCED_LEADER_EPOCH
        )
        assert await code_of(persister.write(key(), 0, 3, 0, 0, [])) is (
            ErrorCode.FENCED_STATE_EPOCH
        )
        await persister.delete(key())
        await persister.delete(key())
        assert await persister.summary(key()) == (0, 0, -1, -1)

    with_world(work)


def test_what_waits_for_a_response_goes_out_together() -> None:
    """SHR-27: a request holds one group, and a limited number of share partitions."""

    async def work(world: ShareStateWorld) -> None:
        await asyncio.gather(
            *(world.persister.initialize(key(partition), 1, 0) for partition in range(250))
        )
        assert [len(named(request)) for request in world.requests] == [100, 100, 50]
        world.requests.clear()
        groups = ("a", "b")
        await asyncio.gather(
            *(
                world.persister.initialize(key(partition, group_id), 1, 0)
                for partition in range(3)
                for group_id in groups
            )
        )
        assert sorted((one.group_id, len(named(one))) for one in world.requests) == [
            ("a", 3),
            ("b", 3),
        ]

    with_world(work)


def test_writes_of_a_leader_that_wait_become_one() -> None:
    """SHR-27: in their order; the start and the count are those of the last one."""

    async def work(world: ShareStateWorld) -> None:
        persister = world.persister
        await persister.initialize(key(), 1, 0)
        await persister.initialize(key(1), 1, 0)
        world.requests.clear()
        writes = [
            persister.write(key(), 1, 0, offset, offset + 10, [StateBatch(offset, 20, 0, 1)])
            for offset in range(4)
        ]
        await asyncio.gather(persister.write(key(1), 1, 0, 0, 0, []), *writes)
        assert [named(request) for request in world.requests] == [[1, 0]]
        assert await persister.summary(key()) == (1, 0, 3, 13)
        assert (await persister.read(key(), 0)).batches == (StateBatch(3, 20, 0, 1),)

    with_world(work)


def test_writes_of_different_epochs_stay_apart() -> None:
    """SHR-25: each is checked for itself, in its order."""

    async def work(world: ShareStateWorld) -> None:
        persister = world.persister
        await persister.initialize(key(), 1, 0)
        await persister.read(key(), 5)
        outcomes = await asyncio.gather(
            persister.write(key(), 1, 4, 0, 0, [StateBatch(0, 9, 4, 1)]),
            persister.write(key(), 1, 5, 0, 0, [StateBatch(0, 9, 2, 1)]),
            persister.write(key(), 1, 5, 0, 0, [StateBatch(0, 9, 2, 2)]),
            return_exceptions=True,
        )
        assert [getattr(one, "code", None) for one in outcomes] == [74, None, None]
        assert (await persister.read(key(), 5)).batches == (StateBatch(0, 9, 2, 2),)

    with_world(work)


def test_a_request_holds_a_limited_number_of_batches() -> None:
    """Nobody reads more at once."""

    async def work(world: ShareStateWorld) -> None:
        await world.persister.initialize(key(), 1, 0)
        world.requests.clear()
        half = [StateBatch(2 * i, 2 * i, 2, 1) for i in range(BATCHES_PER_REQUEST // 2)]
        await asyncio.gather(
            *(world.persister.write(key(), 1, 0, 0, 0, half) for _ in range(5)),
            world.persister.write(key(), 1, 0, 0, 0, [*half, *half, *half]),
        )
        sizes = [
            sum(len(data.state_batches) for topic in one.topics for data in topic.partitions)
            for one in world.requests
        ]
        whole = BATCHES_PER_REQUEST
        assert sizes == [whole, whole, whole // 2, 3 * whole // 2]

    with_world(work)


def test_lanes_do_not_wait_for_one_another() -> None:
    """SHR-27: groups of one coordinator have a few connections to it."""

    async def work(world: ShareStateWorld) -> None:
        world.delay_ms = 100
        await asyncio.gather(
            *(world.persister.initialize(key(0, f"group-{index}"), 1, 0) for index in range(40))
        )
        at_once = [world.request_ms.count(ms) for ms in sorted(set(world.request_ms))]
        assert at_once[0] == 4
        assert max(at_once) == 4

    with_world(work)


@pytest.mark.parametrize(
    "failure",
    [
        OSError("lost"),
        KafkaError(ErrorCode.NETWORK_EXCEPTION),
    ],
)
def test_a_request_without_a_response_is_repeated(failure: Exception) -> None:
    """SHR-27: after 1 second, which doubles."""

    async def work(world: ShareStateWorld) -> None:
        world.failures = [failure] * 4
        await world.persister.initialize(key(), 1, 0)
        waits = [after - before for before, after in pairwise(world.request_ms)]
        assert waits == [1_001, 2_001, 4_001, 8_001]
        world.lost_responses = [failure]
        await world.persister.write(key(), 1, 0, 0, 0, [StateBatch(0, 9, 2, 1)])
        assert (await world.persister.read(key(), 0)).batches == (StateBatch(0, 9, 2, 1),)

    with_world(work)


class LaggingCoordinators:
    """The first responses are of a broker that does not know yet that share groups are served."""

    def __init__(self, world: ShareStateWorld, count: int) -> None:
        self.world, self.count = world, count

    def node_of(self, share_partition: SharePartitionKey) -> int | None:
        return self.world.node_of(share_partition)

    async def send(self, node_id: int, lane: int, api: StateApi, request: Any) -> Any:
        response = await self.world.send(node_id, lane, api, request)
        self.count -= 1
        for topic in response.results if self.count >= 0 else []:
            for result in topic.partitions:
                result.error_code = ErrorCode.UNSUPPORTED_VERSION
        return response


def test_a_coordinator_whose_metadata_lag_is_asked_again() -> None:
    """SHR-27. A share fetch failed for good with UNKNOWN_SERVER_ERROR (story 7400070)."""

    async def work(world: ShareStateWorld) -> None:
        await world.persister.initialize(key(), 1, 0)
        persister = StatePersister(LaggingCoordinators(world, 2))
        assert (await persister.read(key(), 0)).start_offset == 0
        assert persister.repetition_count == 2
        lagging = StatePersister(LaggingCoordinators(world, 5))
        assert await code_of(lagging.read(key(), 0)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await persister.close()
        await lagging.close()

    with_world(work)


def test_after_five_attempts_the_caller_gets_the_error() -> None:
    """SHR-27."""

    async def work(world: ShareStateWorld) -> None:
        world.failures = [OSError("lost")] * 5
        code = await code_of(world.persister.initialize(key(), 1, 0))
        assert code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert len(world.requests) == 5
        await world.coordinator.close()
        code = await code_of(world.persister.initialize(key(), 1, 0))
        assert code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert len(world.requests) == 10

    with_world(work)


def test_without_a_coordinator_nothing_is_sent() -> None:
    """SHR-2: its topic is being made meanwhile."""

    async def work(world: ShareStateWorld) -> None:
        world.node_id = None
        waiting = asyncio.create_task(world.persister.initialize(key(), 1, 0))
        await asyncio.sleep(2)
        assert world.requests == []
        world.node_id = 1
        await waiting
        assert len(world.requests) == 1

    with_world(work)


def test_a_caller_that_is_gone_is_not_sent() -> None:
    """It waited for its turn."""

    async def work(world: ShareStateWorld) -> None:
        await world.persister.initialize(key(), 1, 0)
        first = asyncio.create_task(world.persister.write(key(), 1, 0, 0, 0, []))
        await asyncio.sleep(0)
        second = asyncio.create_task(world.persister.delete(key()))
        await asyncio.sleep(0)
        second.cancel()
        await first
        await asyncio.wait([second])
        assert (await world.persister.summary(key())).state_epoch == 1

    with_world(work)


def test_what_waits_is_bounded() -> None:
    """The rest is refused at once, and tried again later."""

    async def work(world: ShareStateWorld) -> None:
        world.delay_ms = 10_000
        waiting = [
            asyncio.create_task(world.persister.delete(key(partition % 10_000)))
            for partition in range(PENDING_MAX + 200)
        ]
        await asyncio.sleep(0.5)
        assert world.persister.repetition_count == 200
        assert len(world.requests) == 1
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)

    with_world(work)


def test_closing_ends_all_calls() -> None:
    """STOP-9: those that wait for a response, for their turn, and for their next attempt."""

    async def work(world: ShareStateWorld) -> None:
        world.failures = [OSError("lost")]
        repeating = asyncio.create_task(world.persister.initialize(key(), 1, 0))
        await asyncio.sleep(0.5)
        world.delay_ms = 10_000
        sent = asyncio.create_task(world.persister.initialize(key(1), 1, 0))
        await asyncio.sleep(0)
        queued = asyncio.create_task(world.persister.initialize(key(2), 1, 0))
        await asyncio.sleep(0.1)
        await world.persister.close()
        for task in (sent, queued, repeating):
            assert await code_of(task) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert len(world.requests) == 2

    with_world(work)


def test_a_persister_without_calls_closes_at_once() -> None:
    """Most brokers have no share groups."""

    async def scenario() -> None:
        await StatePersister(ShareStateWorld({})).close()

    run_virtual(scenario())
