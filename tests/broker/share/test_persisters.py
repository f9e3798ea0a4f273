"""What every persister does: the real one in front of a coordinator, and the one of other tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from barnabas_broker.share.persister import (
    SharePartitionKey,
    SharePersister,
    ShareState,
    StateBatch,
)
from barnabas_protocol.errors import ErrorCode, KafkaError
from tests.support.memory_share_persister import MemorySharePersister
from tests.support.share_state import ShareStateWorld
from tests.support.virtual_loop import run_virtual

TOPIC_ID = bytes(range(16))
KEY, OTHER = (SharePartitionKey("group", TOPIC_ID, partition) for partition in range(2))


@asynccontextmanager
async def coordinated() -> AsyncIterator[SharePersister]:
    world = ShareStateWorld({TOPIC_ID: 2})
    await world.start()
    yield world.persister
    await world.close()


@asynccontextmanager
async def in_memory() -> AsyncIterator[SharePersister]:
    yield MemorySharePersister()


Work = Callable[[SharePersister], Awaitable[None]]
Run = Callable[[Work], None]


@pytest.fixture(params=[coordinated, in_memory])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a test with one of the persisters."""

    def with_persister(work: Work) -> None:
        async def scenario() -> None:
            async with request.param() as persister:
                await work(persister)

        run_virtual(scenario())

    return with_persister


async def code_of(work: Awaitable[object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        await work
    return caught.value.code


def test_a_share_partition_has_the_state_that_was_written(run: Run) -> None:
    """SHR-25: merged, and nothing below its start."""

    async def work(persister: SharePersister) -> None:
        await persister.initialize(KEY, 1, -1)
        assert await persister.read(KEY, 0) == ShareState(1, -1, ())
        await persister.write(KEY, 1, 0, 10, 0, [StateBatch(10, 19, 0, 1)])
        await persister.write(KEY, 1, 0, 10, 3, [StateBatch(12, 14, 2, 1)])
        await persister.write(KEY, 1, 0, 13, 2, [])
        assert await persister.read(KEY, 0) == ShareState(
            1, 13, (StateBatch(13, 14, 2, 1), StateBatch(15, 19, 0, 1))
        )
        assert await persister.summary(KEY) == (1, 0, 13, 2)
        await persister.write(KEY, 1, 0, -1, 1, [StateBatch(5, 15, 4, 1)])
        assert (await persister.read(KEY, 0)).batches == (
            StateBatch(13, 15, 4, 1),
            StateBatch(16, 19, 0, 1),
        )

    run(work)


def test_leaders_and_epochs_of_the_state_are_fenced(run: Run) -> None:
    """SHR-25: by reads and by initializations, and by nothing else."""

    async def work(persister: SharePersister) -> None:
        await persister.initialize(KEY, 1, 0)
        await persister.write(KEY, 1, 9, 0, 0, [])
        await persister.read(KEY, 5)
        assert await code_of(persister.read(KEY, 4)) is ErrorCode.FENCED_LEADER_EPOCH
        assert await code_of(persister.write(KEY, 1, 4, 0, 0, [])) is ErrorCode.FENCED_LEADER_EPOCH
        await persister.initialize(KEY, 3, 7)
        assert await code_of(persister.initialize(KEY, 2, 0)) is ErrorCode.FENCED_STATE_EPOCH
        assert await code_of(persister.write(KEY, 2, 5, 0, 0, [])) is ErrorCode.FENCED_STATE_EPOCH
        assert await code_of(persister.write(KEY, 3, 4, 0, 0, [])) is ErrorCode.FENCED_LEADER_EPOCH
        assert await persister.summary(KEY) == (3, 5, 7, 0)

    run(work)


def test_the_same_initialization_again_changes_nothing(run: Run) -> None:
    """SHR-25: another one begins anew."""

    async def work(persister: SharePersister) -> None:
        await persister.initialize(KEY, 1, 0)
        await persister.write(KEY, 1, 0, 0, 1, [StateBatch(0, 9, 2, 1)])
        await persister.initialize(KEY, 1, 0)
        assert (await persister.read(KEY, 0)).batches == (StateBatch(0, 9, 2, 1),)
        await persister.initialize(KEY, 2, 0)
        assert (await persister.read(KEY, 0)).batches == ()

    run(work)


def test_what_is_not_there_is_unknown_and_deleted_without_an_error(run: Run) -> None:
    """SHR-25."""

    async def work(persister: SharePersister) -> None:
        await persister.initialize(OTHER, 1, 0)
        await persister.delete(OTHER)
        await persister.delete(OTHER)
        for key in (KEY, OTHER):
            assert await persister.summary(key) == (0, 0, -1, -1)
            assert await code_of(persister.read(key, 0)) is ErrorCode.INVALID_REQUEST
            assert await code_of(persister.write(key, 1, 0, 0, 0, [])) is ErrorCode.INVALID_REQUEST

    run(work)


def test_a_leader_writes_nothing_for_a_group_that_was_made_again(run: Run) -> None:
    """SHR-25: a member that slept keeps the old state in memory; the new group begins elsewhere."""

    async def scenario(persister: SharePersister) -> None:
        await persister.initialize(KEY, 50, 100)
        await persister.read(KEY, 3)
        await persister.delete(KEY)
        await persister.initialize(KEY, 1, 0)
        fenced = await code_of(persister.write(KEY, 50, 3, 120, 0, ()))
        assert fenced is ErrorCode.FENCED_STATE_EPOCH
        assert (await persister.read(KEY, 3)).start_offset == 0

    run(scenario)
