"""Drives a shard of share partitions as the runtime does: append, hooks, reply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import pytest

from barnabas_broker.coordinator.runtime.shard import Instant, Result
from barnabas_broker.coordinator.share.shard import (
    ShareCoordinatorSettings,
    ShareShard,
    ShareShardContext,
    ShareStateMetrics,
)
from barnabas_broker.coordinator.share.state import ShareSnapshot
from barnabas_broker.share.persister import (
    SharePartitionKey,
    ShareState,
    ShareStateSummary,
    StateBatch,
)
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import Uuid
from barnabas_protocol.records.record import Record

Reply = TypeVar("Reply")

TOPIC_ID = bytes(range(16))
KEY = SharePartitionKey("group", TOPIC_ID, 0)
OTHER = SharePartitionKey("group", TOPIC_ID, 1)


class KeptCuts:
    """The cuts of the log that a shard has asked for."""

    def __init__(self) -> None:
        self.offsets: list[int] = []

    def prune(self, partition: int, offset: int) -> None:
        self.offsets.append(offset)


class ShardDriver:
    """One shard, its clock, its topics, and the records that it has written."""

    def __init__(self, **settings: int) -> None:
        self.cuts = KeptCuts()
        self.topics: dict[Uuid, int] = {TOPIC_ID: 4}
        self.context = ShareShardContext(
            settings=ShareCoordinatorSettings(**settings),
            pruner=self.cuts,
            partition_count=lambda topic_id: self.topics.get(topic_id, 0),
        )
        self.now_ms = 1_000_000
        self.log: list[Record] = []
        self._sequence = 0
        self.shard = ShareShard(0, self.context)
        self.run(self.shard.loaded)

    @property
    def now(self) -> Instant:
        return Instant(self.now_ms, self.now_ms)

    def begin(self, command: Callable[[Instant], Result[Reply]]) -> tuple[Result[Reply], int]:
        """Run a command and leave its records on their way."""
        self._sequence += 1
        self.shard.journal.begin(self._sequence)
        return command(self.now), self._sequence

    def commit(self, result: Result[Reply], sequence: int) -> Reply:
        """The records are committed."""
        first_offset = len(self.log)
        for record in result.records:
            self.log.append(Record(len(self.log), self.now_ms, record.key, record.value))
        self.shard.journal.committed(sequence)
        if result.on_append is not None:
            result.on_append(None, self.now)
        if result.on_commit is not None and result.records:
            result.on_commit(first_offset, len(self.log) - 1)
        return result.reply

    def refuse(self, result: Result[Reply], sequence: int, error: KafkaError) -> None:
        """The append is refused."""
        self.shard.journal.roll_back(sequence)
        if result.on_append is not None:
            result.on_append(error, self.now)

    def run(self, command: Callable[[Instant], Result[Reply]]) -> Reply:
        """Run a command whose records are committed at once."""
        return self.commit(*self.begin(command))

    def replayed(
        self, from_offset: int = 0, metrics: ShareStateMetrics | None = None
    ) -> ShareShard:
        """What another coordinator makes of the log, or of what a cut has left of it."""
        shard = ShareShard(0, replace(self.context, metrics=metrics or ShareStateMetrics()))
        for record in self.log[from_offset:]:
            shard.replay(record, -1)
        return shard

    def replayed_states(self, from_offset: int = 0) -> dict[SharePartitionKey, ShareSnapshot]:
        return dict(self.replayed(from_offset).states)

    def pass_time(self, by_ms: int) -> None:
        """Let time pass, and what is due happen."""
        self.now_ms += by_ms
        while (action := self.shard.timers.take_due(self.now_ms)) is not None:
            self.run(action)

    # ---- requests ------------------------------------------------------------------------------

    def initialize(
        self, key: SharePartitionKey = KEY, state_epoch: int = 1, start_offset: int = 0
    ) -> None:
        self.run(lambda now: self.shard.initialize(key, state_epoch, start_offset, now))

    def read(self, key: SharePartitionKey = KEY, leader_epoch: int = 0) -> ShareState:
        return self.run(lambda now: self.shard.read(key, leader_epoch, now))

    def write(
        self,
        *batches: StateBatch,
        key: SharePartitionKey = KEY,
        state_epoch: int = 1,
        leader_epoch: int = 0,
        start_offset: int = -1,
        delivery_complete_count: int = -1,
    ) -> None:
        self.run(
            lambda now: self.write_command(
                batches, key, state_epoch, leader_epoch, start_offset, delivery_complete_count, now
            )
        )

    def write_command(
        self,
        batches: Sequence[StateBatch],
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        now: Instant,
    ) -> Result[None]:
        return self.shard.write(
            key,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            batches=batches,
            now=now,
        )

    def delete(self, key: SharePartitionKey = KEY) -> None:
        self.run(lambda _: self.shard.delete(key))

    def summary(self, key: SharePartitionKey = KEY) -> ShareStateSummary:
        return self.run(lambda _: self.shard.summary(key))


def code_of(command: Callable[[], object]) -> ErrorCode:
    """The code that something is refused with."""
    with pytest.raises(KafkaError) as caught:
        command()
    return caught.value.code
