"""Has the share coordinators make and delete the state of a group's partitions.

Not here: what is to be made (`partition_work.py`), how the share coordinators are reached (the
persister). Source: SHR-27, SHR-29.

Invariants: at most one work of a group is under way; so many calls of one work at a time at most;
what could not be done is tried again with a later heartbeat.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
)
from contextlib import asynccontextmanager
from itertools import islice
from typing import NamedTuple, TypeVar

from barnabas_broker.coordinator.group.shard import GroupShard
from barnabas_broker.coordinator.group.share.partition_work import FinishedWork, PartitionWork
from barnabas_broker.coordinator.runtime.loop import CoordinatorRuntime
from barnabas_broker.share.persister import SharePartitionKey, SharePersister
from barnabas_protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

CALLS_AT_ONCE = 100
# An admin's request waits so long for what is under way: a persister repeats its calls for longer.
TURN_SECONDS_MAX = 20

Value = TypeVar("Value")
TopicPartitionId = tuple[bytes, int]


class WorkOutcome(NamedTuple):
    """What became of each partition of a work: NONE, or the code of a share coordinator."""

    initialized: Mapping[TopicPartitionId, ErrorCode]
    deleted: Mapping[TopicPartitionId, ErrorCode]


class _Turn:
    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.user_count = 0


class PartitionWorker:
    """Carries out the works of all groups of this broker."""

    def __init__(self, runtime: CoordinatorRuntime[GroupShard]) -> None:
        self._runtime = runtime
        # Gives the persister, whose modules are loaded when it is first needed.
        self.load_persister: Callable[[], SharePersister] | None = None
        self._turns: dict[str, _Turn] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def persister(self) -> SharePersister:
        """What reaches the share coordinators. Raises: KafkaError 15 before it is known."""
        if self.load_persister is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self.load_persister()

    def start(self, group_id: str) -> None:
        """Do what the group wants done, if that is not under way already."""
        if group_id not in self._tasks:
            task = asyncio.get_running_loop().create_task(self._run(group_id))
            self._tasks[group_id] = task
            task.add_done_callback(lambda _: self._tasks.pop(group_id, None))

    async def close(self) -> None:
        """Stop; whoever coordinates the groups next does what is left."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, group_id: str) -> None:
        try:
            async with self.turn(group_id):
                work = await self._runtime.execute_for(
                    group_id, lambda shard, now: shard.share_partitions.plan(group_id, now)
                )
                if work is not None:
                    await self.carry_out(work)
        except KafkaError as error:
            # A later heartbeat finds that it is not done.
            logger.info("the partitions of share group %s are not ready: %s", group_id, error)

    @asynccontextmanager
    async def turn(self, group_id: str) -> AsyncIterator[None]:
        """Keep others from the state of the group's partitions. Raises: KafkaError 7."""
        turn = self._turns.setdefault(group_id, _Turn())
        turn.user_count += 1
        try:
            try:
                async with asyncio.timeout(TURN_SECONDS_MAX):
                    await turn.lock.acquire()
            except TimeoutError:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT) from None
            try:
                yield
            finally:
                turn.lock.release()
        finally:
            turn.user_count -= 1
            if not turn.user_count:
                del self._turns[group_id]

    async def carry_out(self, work: PartitionWork) -> WorkOutcome:
        """Have it done, and tell the group what came of it; in the group's turn.

        Raises: KafkaError if the group could not be told.
        """
        group_id = work.group_id
        persister = self.persister

        def delete(topic_id: bytes, index: int) -> Awaitable[None]:
            return persister.delete(SharePartitionKey(group_id, topic_id, index))

        def initialize(topic_id: bytes, index: int) -> Awaitable[None]:
            key = SharePartitionKey(group_id, topic_id, index)
            return persister.initialize(key, work.state_epoch, work.initialize[topic_id][index])

        outcome = WorkOutcome(
            deleted=await self._each(work.delete, delete),
            initialized=await self._each(work.initialize, initialize),
        )
        failed = {each for each, code in outcome.initialized.items() if code}
        failed_topics = {topic_id for topic_id, _ in failed} if work.is_own else set()
        kept_topics = {topic_id for (topic_id, _), code in outcome.deleted.items() if code}
        done = FinishedWork(
            initialized={
                topic_id: [index for index in starts if (topic_id, index) not in failed]
                for topic_id, starts in work.initialize.items()
                if topic_id not in failed_topics
            },
            deleted=[topic_id for topic_id in work.delete if topic_id not in kept_topics],
            retries_later=work.is_own and bool(failed or kept_topics),
        )
        await self._runtime.execute_for(
            group_id, lambda shard, now: shard.share_partitions.finish(group_id, done, now)
        )
        return outcome

    async def _each(
        self,
        topics: Mapping[bytes, Collection[int]],
        call: Callable[[bytes, int], Awaitable[None]],
    ) -> dict[TopicPartitionId, ErrorCode]:
        outcome: dict[TopicPartitionId, ErrorCode] = {}
        each = ((topic_id, index) for topic_id, indexes in topics.items() for index in indexes)
        for some in _chunks(each):
            codes = await asyncio.gather(*(_code_of(call(*one)) for one in some))
            outcome.update(zip(some, codes, strict=True))
        return outcome


async def _code_of(call: Awaitable[None]) -> ErrorCode:
    try:
        await call
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def _chunks(values: Iterator[Value]) -> Iterator[list[Value]]:
    while some := list(islice(values, CALLS_AT_ONCE)):
        yield some
