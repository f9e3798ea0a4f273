"""The share coordinator of a broker: one coroutine per API, decoded request in, response out.

Not here: what the requests do (`shard.py`), who may send them (handlers), how the leaders of
partitions and group coordinators come here (`state_persister.py`). Source: SHR-22, SHR-25, SHR-26.

A request names many share partitions, which may be in several partitions of the topic: each is
carried out for itself. Invariant: every coroutine returns a response; errors of the coordinator
become the error codes of share partitions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from barnabas_broker.coordinator.group.errors import append_error
from barnabas_broker.coordinator.group.topics import Topics
from barnabas_broker.coordinator.runtime.loop import CoordinatorRuntime
from barnabas_broker.coordinator.runtime.pipeline import PartitionWriter, RuntimeSettings, Timer
from barnabas_broker.coordinator.runtime.shard import Instant, Result
from barnabas_broker.coordinator.share.records import message_batches, read_batches
from barnabas_broker.coordinator.share.shard import (
    ShareCoordinatorSettings,
    ShareShard,
    ShareShardContext,
)
from barnabas_broker.env.clock import Clock
from barnabas_broker.share.persister import (
    SharePartitionKey,
    ShareState,
    ShareStateSummary,
)
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.ids import TopicPartition, Uuid
from barnabas_protocol.messages import delete_share_group_state as deletes
from barnabas_protocol.messages import initialize_share_group_state as initializes
from barnabas_protocol.messages import read_share_group_state as reads
from barnabas_protocol.messages import read_share_group_state_summary as summaries
from barnabas_protocol.messages import write_share_group_state as writes

logger = logging.getLogger(__name__)

SHARE_STATE_TOPIC: Final = "__share_group_state"

SHARE_PARTITIONS_AT_ONCE: Final = 50
"""Some milliseconds of work; the next ones follow when these are committed."""

BATCHES_PER_TURN: Final = 2_000

Value = TypeVar("Value")
Topic = TypeVar("Topic")
Command = Callable[[ShareShard, Instant], Result[Value]]


class StateWriter(PartitionWriter, Protocol):
    """What the share coordinator needs of its partitions."""

    def delete_records(self, topic_partition: TopicPartition, offset: int) -> Awaitable[None]:
        """Raise the log start, unless it is there already. Raises: KafkaError."""
        ...


class StateOutcome(NamedTuple):
    """What became of one share partition of a request, and the fields of its result."""

    topic_id: Uuid
    value: ShareState | ShareStateSummary | None
    fields: dict[str, Any]


class ShareCoordinator:
    """The share partitions whose partitions of `__share_group_state` this broker leads."""

    def __init__(
        self,
        *,
        settings: ShareCoordinatorSettings,
        writer: StateWriter,
        clock: Clock,
        timer: Timer,
        topics: Topics,
        runtime_settings: RuntimeSettings | None = None,
    ) -> None:
        self._clock = clock
        self._topics = topics
        self._writer = writer
        self._prunes: dict[int, asyncio.Task[None]] = {}
        context = ShareShardContext(
            settings=settings, pruner=self, partition_count=self._partition_count
        )
        self.metrics = context.metrics
        # The log start that the last cut of each partition has left.
        self.pruned_offsets: dict[int, int] = {}
        self.write_count = 0
        self.write_ms_total = 0
        self.runtime: CoordinatorRuntime[ShareShard] = CoordinatorRuntime(
            topic=SHARE_STATE_TOPIC,
            partition_count=lambda: topics.partition_count(SHARE_STATE_TOPIC),
            new_shard=lambda partition: ShareShard(partition, context),
            writer=writer,
            clock=clock,
            timer=timer,
            settings=runtime_settings or RuntimeSettings(),
        )

    async def close(self) -> None:
        """Answer everything that waits with 16 and stop."""
        await self.runtime.close()
        prunes = list(self._prunes.values())
        for prune in prunes:
            prune.cancel()
        if prunes:
            await asyncio.wait(prunes)

    # ---- requests ------------------------------------------------------------------------------

    async def initialize(
        self, request: initializes.InitializeShareGroupStateRequest
    ) -> initializes.InitializeShareGroupStateResponse:
        """Begin anew at given offsets (SHR-25)."""

        def command(key: SharePartitionKey, data: initializes.PartitionData) -> Command[None]:
            return lambda shard, now: shard.initialize(
                key, data.state_epoch, data.start_offset, now
            )

        outcomes = await self._each(request.group_id, request.topics, command)
        return initializes.InitializeShareGroupStateResponse(
            results=_by_topic(
                outcomes, initializes.InitializeStateResult, initializes.PartitionResult
            )
        )

    async def read(
        self, request: reads.ReadShareGroupStateRequest
    ) -> reads.ReadShareGroupStateResponse:
        """Return states to a new leader, and fence the leaders before it."""

        def command(key: SharePartitionKey, data: reads.PartitionData) -> Command[ShareState]:
            return lambda shard, now: shard.read(key, data.leader_epoch, now)

        outcomes = await self._each(request.group_id, request.topics, command)
        batch_count = 0
        for outcome in outcomes:
            if isinstance(outcome.value, ShareState):
                batch_count += len(outcome.value.batches)
                outcome.fields.update(_state_fields(outcome.value))
                if batch_count >= BATCHES_PER_TURN:
                    batch_count = 0
                    await asyncio.sleep(0)
        return reads.ReadShareGroupStateResponse(
            results=_by_topic(outcomes, reads.ReadStateResult, reads.PartitionResult)
        )

    async def write(
        self, request: writes.WriteShareGroupStateRequest
    ) -> writes.WriteShareGroupStateResponse:
        """Merge batches into states; returns when they are committed."""
        started_ms = self._clock.monotonic_ms()

        def command(key: SharePartitionKey, data: writes.PartitionData) -> Command[None]:
            return lambda shard, now: shard.write(
                key,
                state_epoch=data.state_epoch,
                leader_epoch=data.leader_epoch,
                start_offset=data.start_offset,
                delivery_complete_count=data.delivery_complete_count,
                batches=read_batches(data.state_batches),
                now=now,
            )

        outcomes = await self._each(request.group_id, request.topics, command)
        self.write_count += 1
        self.write_ms_total += self._clock.monotonic_ms() - started_ms
        return writes.WriteShareGroupStateResponse(
            results=_by_topic(outcomes, writes.WriteStateResult, writes.PartitionResult)
        )

    async def delete(
        self, request: deletes.DeleteShareGroupStateRequest
    ) -> deletes.DeleteShareGroupStateResponse:
        """Forget share partitions."""

        def command(key: SharePartitionKey, data: deletes.PartitionData) -> Command[None]:
            return lambda shard, _: shard.delete(key)

        outcomes = await self._each(request.group_id, request.topics, command)
        return deletes.DeleteShareGroupStateResponse(
            results=_by_topic(outcomes, deletes.DeleteStateResult, deletes.PartitionResult)
        )

    async def summary(
        self, request: summaries.ReadShareGroupStateSummaryRequest
    ) -> summaries.ReadShareGroupStateSummaryResponse:
        """Return epochs, starts and counts without batches."""

        def command(
            key: SharePartitionKey, data: summaries.PartitionData
        ) -> Command[ShareStateSummary]:
            return lambda shard, _: shard.summary(key)

        outcomes = await self._each(request.group_id, request.topics, command)
        for outcome in outcomes:
            if isinstance(outcome.value, ShareStateSummary):
                outcome.fields.update(outcome.value._asdict())
        return summaries.ReadShareGroupStateSummaryResponse(
            results=_by_topic(outcomes, summaries.ReadStateSummaryResult, summaries.PartitionResult)
        )

    async def _each(
        self,
        group_id: str,
        topics: Iterable[Any],
        command: Callable[[SharePartitionKey, Any], Command[Any]],
    ) -> list[StateOutcome]:
        """Run a command for each share partition, in the order of the request; some at a time.

        Nothing for a request without a group, as in Kafka.
        """
        if not group_id:
            return []
        named = [
            (SharePartitionKey(group_id, bytes(topic.topic_id), data.partition), data)
            for topic in topics
            for data in topic.partitions
        ]
        outcomes: list[StateOutcome] = []
        for first in range(0, len(named), SHARE_PARTITIONS_AT_ONCE):
            some = named[first : first + SHARE_PARTITIONS_AT_ONCE]
            outcomes += await asyncio.gather(
                *(self._one(key, command(key, data)) for key, data in some)
            )
        return outcomes

    async def _one(self, key: SharePartitionKey, command: Command[Any]) -> StateOutcome:
        def checked(shard: ShareShard, now: Instant) -> Result[Any]:
            try:
                return command(shard, now)
            except KafkaError as error:
                # What the shard refuses is told as it is; an append's error is another's.
                return Result(reply=error)

        try:
            value = await self.runtime.execute_for(str(key), checked)
        except KafkaError as error:
            value = KafkaError(append_error(error.code), error.message)
        fields: dict[str, Any] = {"partition": key.partition}
        if isinstance(value, KafkaError):
            fields.update(error_code=value.code, error_message=value.message)
            value = None
        return StateOutcome(key.topic_id, value, fields)

    # ---- topics and the log --------------------------------------------------------------------

    def _partition_count(self, topic_id: Uuid) -> int:
        name = self._topics.topic_name(topic_id)
        return 0 if name is None else self._topics.partition_count(name)

    async def on_topics_deleted(self, topic_ids: Collection[Uuid]) -> None:
        """Forget the share partitions of deleted topics, by id (SHR-25).

        A shard that is loaded later looks for them by itself.
        """
        for partition, _ in list(self.runtime.shards()):
            try:
                await self.runtime.execute(
                    partition, lambda shard, now: shard.topics_deleted(topic_ids, now)
                )
            except KafkaError as error:
                logger.info("%s-%d: deleted topics wait: %s", SHARE_STATE_TOPIC, partition, error)

    def prune(self, partition: int, offset: int) -> None:
        """Delete what is below the offset, if it is not gone yet; the next round tries again."""
        if partition not in self._prunes:
            task = asyncio.get_running_loop().create_task(self._prune(partition, offset))
            self._prunes[partition] = task
            task.add_done_callback(lambda _: self._prunes.pop(partition))

    async def _prune(self, partition: int, offset: int) -> None:
        topic_partition = TopicPartition(SHARE_STATE_TOPIC, partition)
        try:
            await self._writer.delete_records(topic_partition, offset)
        except KafkaError as error:
            logger.info("%s-%d cannot be cut: %s", *topic_partition, error)
        else:
            self.pruned_offsets[partition] = offset


def _by_topic(
    outcomes: Sequence[StateOutcome], topic_result: Callable[..., Topic], result: Callable[..., Any]
) -> list[Topic]:
    topics: dict[Uuid, list[Any]] = {}
    for outcome in outcomes:
        topics.setdefault(outcome.topic_id, []).append(result(**outcome.fields))
    return [
        topic_result(topic_id=topic_id, partitions=results) for topic_id, results in topics.items()
    ]


def _state_fields(state: ShareState) -> dict[str, Any]:
    return {
        "state_epoch": state.state_epoch,
        "start_offset": state.start_offset,
        "state_batches": message_batches(reads.StateBatch, state.batches),
    }
