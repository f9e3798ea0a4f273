"""Sends the records of one partition of a replay's target in transactions.

Each transaction holds records and, as an offset of the replay's group, how many the partition has
got with them. Who starts a sender has shut out every earlier one of the same partition: what that
one had not committed is aborted, and it can commit nothing more.

Not here: which rows are left to be sent (`task.py`).
Invariants: a transaction is open for little longer than `COMMIT_MS` as long as rows come; after an
error the producer is not used again, and the brokers abort what was open.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from barnabas_client import ConsumerGroupMetadata, OffsetAndMetadata, Producer, TopicPartition
from barnabas_client.env import Environment
from barnabas_client.errors import FencedError
from barnabas_client.producer.delivery import Deliveries
from barnabas_pipelines.datasource.loop_thread import close_quietly, loop_thread
from barnabas_pipelines.datasource.record_sender import RecordSender, delivery_errors
from barnabas_pipelines.errors import DeliveryError, PipelineError
from barnabas_pipelines.replay.target import Target, group_of, transactional_id_of

COMMIT_MS: Final = 2_000
COMMIT_RECORDS: Final = 50_000


class ReplaySender:
    """Sends rows behind `present` ones; `commit` ends the transaction, if one is open."""

    def __init__(self, producer: Producer, target: Target, replay_id: str, partition: int) -> None:
        self._producer = producer
        self._partition = TopicPartition(target.topic, partition)
        self._group = ConsumerGroupMetadata(group_of(replay_id))
        self._sender = RecordSender(producer, target.topic, _check_times)
        self._thread = loop_thread()
        self._clock = Environment().clock
        self._began_ms: int | None = None
        self._in_transaction = 0
        self.committed = 0

    def send(self, rows: pa.RecordBatch) -> None:
        """Send rows, in a new transaction unless one is open. Raises: BarnabasError."""
        if self._began_ms is None:
            self._thread.run(self._producer.begin_transaction())
            self._began_ms = self._clock.monotonic_ms()
        self._sender.send(rows)
        self._in_transaction += rows.num_rows
        if self._in_transaction >= COMMIT_RECORDS:
            self.commit()

    def commit_before(self, wait_ms: int) -> None:
        """Commit if the transaction would be too old after so long a wait."""
        if self._began_ms is not None:
            age_ms = self._clock.monotonic_ms() - self._began_ms
            if age_ms + wait_ms >= COMMIT_MS:
                self.commit()

    def commit(self) -> None:
        """Return when all that was sent is committed. Raises: BarnabasError, DeliveryError."""
        if self._began_ms is None:
            return
        self._sender.finish()
        progress = OffsetAndMetadata(self.committed + self._in_transaction)
        self._thread.run(self._end_transaction(progress))
        self.committed = progress.offset
        self._began_ms, self._in_transaction = None, 0

    async def _end_transaction(self, progress: OffsetAndMetadata) -> None:
        await self._producer.send_offsets({self._partition: progress}, self._group)
        await self._producer.commit_transaction()

    def abandon(self) -> None:
        """Give up what is not committed, and the producer."""
        self._sender.abandon()


def _check_times(deliveries: Deliveries) -> None:
    """Before they are committed. Raises: PipelineError."""
    if deliveries.have_broker_times():
        raise PipelineError(
            "the target has message.timestamp.type=LogAppendTime, so the brokers have replaced "
            "timestamps: none of these records is committed. Set it to CreateTime, then go on"
        )


@contextmanager
def replay_sender(target: Target, replay_id: str, partition: int) -> Iterator[ReplaySender]:
    """A sender that knows how much is committed, when all earlier ones are shut out.

    Raises: UnreachableError; DeliveryError for what the brokers refuse, as after a later sender.
    """
    thread = loop_thread()
    settings = dict(target.producer_settings)
    settings["transactional_id"] = transactional_id_of(replay_id, partition)
    with delivery_errors(settings["bootstrap_servers"]):
        producer = Producer(**settings)
        try:
            thread.run(producer.start())
            thread.run(producer.init_transactions())
            sender = ReplaySender(producer, target, replay_id, partition)
            sender.committed = target.settled(replay_id).get(partition, -1)
            try:
                yield sender
            except BaseException:
                sender.abandon()
                raise
        except (FencedError, DeliveryError) as error:
            # A commit says it, or records before that do.
            if not (isinstance(error, FencedError) or isinstance(error.__cause__, FencedError)):
                raise
            raise DeliveryError(
                f"partition {partition} of {target.topic} is filled by another run of this replay, "
                "or another attempt of this task, that began later"
            ) from error
        finally:
            close_quietly(thread, producer)
