"""Drives a shard of transactional ids as the runtime does: append, hooks, reply."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from barnabas_broker.coordinator.runtime.shard import Instant, Result
from barnabas_broker.coordinator.transaction.shard import (
    NeedsProducerId,
    Outcome,
    Producer,
    ShardContext,
    TransactionMetrics,
    TransactionSettings,
    TransactionShard,
)
from barnabas_broker.coordinator.transaction.state import Transaction
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.record import Record

Reply = TypeVar("Reply")
ID = "payments-1"
ANYBODY = Producer()
A, B = TopicPartition("a", 0), TopicPartition("b", 1)


class KeptMarkers:
    """Markers that are never written by themselves."""

    def __init__(self) -> None:
        self.sent: list[Transaction] = []
        self.forgotten: list[int] = []

    def send(self, partition: int, transaction: Transaction) -> None:
        self.sent.append(transaction)

    def forget(self, partition: int) -> None:
        self.forgotten.append(partition)


class ShardDriver:
    """One shard, its clock, and the records that it has written."""

    def __init__(self, transaction_version: int = 2, **settings: int) -> None:
        self.markers = KeptMarkers()
        self.transaction_version = transaction_version
        self.context = ShardContext(
            settings=TransactionSettings(**settings),
            markers=self.markers,
            transaction_version=lambda: self.transaction_version,
        )
        self.now_ms = 1_000_000
        self.log: list[Record] = []
        self._sequence = 0
        self._producer_ids = itertools.count(1000)
        self.shard = TransactionShard(0, self.context)
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
        for record in result.records:
            self.log.append(Record(len(self.log), self.now_ms, record.key, record.value))
        self.shard.journal.committed(sequence)
        if result.on_append is not None:
            result.on_append(None, self.now)
        return result.reply

    def refuse(self, result: Result[Reply], sequence: int, error: KafkaError) -> None:
        """The append is refused."""
        self.shard.journal.roll_back(sequence)
        if result.on_append is not None:
            result.on_append(error, self.now)

    def run(self, command: Callable[[Instant], Result[Reply]]) -> Reply:
        """Run a command whose records are committed at once."""
        return self.commit(*self.begin(command))

    def replayed(self) -> dict[str, Transaction]:
        """What another coordinator finds in the log."""
        context = replace(self.context, metrics=TransactionMetrics())
        shard = TransactionShard(0, context)
        for record in self.log:
            shard.replay(record, -1)
        return dict(shard.transactions)

    def pass_time(self, by_ms: int) -> None:
        """Let time pass, and what is due happen."""
        self.now_ms += by_ms
        while (action := self.shard.timers.take_due(self.now_ms)) is not None:
            self.run(action)

    # ---- requests ------------------------------------------------------------------------------

    def init(
        self,
        expected: Producer = ANYBODY,
        timeout_ms: int = 60_000,
        name: str = ID,
        host: str = "",
    ) -> Outcome:
        fresh: int | None = None
        while True:
            try:
                return self.run(
                    lambda now, fresh=fresh: self.shard.init_producer(  # type: ignore[misc]
                        name, timeout_ms, expected, fresh, now, host
                    )
                )
            except NeedsProducerId:
                fresh = next(self._producer_ids)

    def add(
        self, producer: Producer, *partitions: TopicPartition, version: int = 0, name: str = ID
    ) -> None:
        self.run(
            lambda now: self.shard.add_partitions(
                name, producer, frozenset(partitions), version, now
            )
        )

    def end(
        self, producer: Producer, *, commits: bool, version: int = 0, name: str = ID
    ) -> Outcome:
        fresh: int | None = None
        while True:
            try:
                return self.run(
                    lambda now, fresh=fresh: self.shard.end(  # type: ignore[misc]
                        name, producer, fresh, now, commits=commits, client_version=version
                    )
                )
            except NeedsProducerId:
                fresh = next(self._producer_ids)

    def complete(self) -> Transaction:
        """All markers of the newest prepared transaction are written."""
        prepared = self.markers.sent[-1]
        self.run(lambda now: self.shard.complete(prepared, now))
        return self.shard.transactions[prepared.transactional_id]

    def known(self, name: str = ID) -> Transaction:
        return self.shard.transactions[name]
