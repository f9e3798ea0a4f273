"""Writes markers to partitions that this broker leads: the receiving end of WriteTxnMarkers.

Not here: who sends them (`markers.py`). Source: TXN-6, TXL-3, TXL-6.

Invariants: a marker is acknowledged when it is committed; one of version 2 is taken only above the
epoch that its transaction has written with, or where nothing is open; in a partition of
`__consumer_offsets` the group coordinator writes it, in order with all else that it writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from barnabas_broker.coordinator.group.coordinator import GroupCoordinator
from barnabas_broker.coordinator.group.settings import OFFSETS_TOPIC
from barnabas_broker.coordinator.transaction.shard import Producer
from barnabas_broker.coordinator.transaction.state import EPOCH_BUMP, PRODUCER_EPOCH_MAX
from barnabas_broker.coordinator.transaction.verification import TransactionVerification
from barnabas_broker.env.clock import Clock
from barnabas_broker.replication.committed_writer import CommittedWriter, StagedAppend
from barnabas_broker.replication.replica_manager import ReplicaManager
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas_protocol.records.control import ControlType, TransactionMarker, encode_marker

PARTITIONS_AT_ONCE: Final = 20
"""Each may be a write to another file; the next ones follow when these are committed."""

WAIT_MS_MAX: Final = 5_000
"""A marker that is not committed by then does not hold up those of other transactions."""

# What the sender takes for "look for the leader again".
_MOVED: Final = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)


class _Ended:
    """A transaction that ends, and the batch that says so: the same bytes in each partition."""

    __slots__ = ("batch", "control_type", "coordinator_epoch", "producer", "version")

    def __init__(self, marker: WritableTxnMarker, now_ms: int) -> None:
        self.producer = Producer(marker.producer_id, marker.producer_epoch)
        self.version = marker.transaction_version
        self.coordinator_epoch = marker.coordinator_epoch
        self.control_type = ControlType.COMMIT if marker.transaction_result else ControlType.ABORT
        self.batch = encode_marker(
            self.control_type,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=now_ms,
        )


def _code(error: KafkaError) -> ErrorCode:
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if error.code in _MOVED else error.code


class MarkerWriter:
    """Ends transactions in the partitions of this broker."""

    def __init__(
        self,
        replicas: ReplicaManager,
        writer: CommittedWriter,
        groups: GroupCoordinator,
        verification: TransactionVerification,
        clock: Clock,
    ) -> None:
        self._replicas = replicas
        self._writer = writer
        self._groups = groups
        self._verification = verification
        self._clock = clock

    async def write(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        """Write all markers, each partition for itself; returns when their outcome is known."""
        places = [
            (ended, TopicPartition(topic.name, index))
            for marker in request.markers
            for ended in (_Ended(marker, self._clock.wall_ms()),)
            for topic in marker.topics
            for index in topic.partition_indexes
        ]
        written: list[ErrorCode] = []
        for first in range(0, len(places), PARTITIONS_AT_ONCE):
            written += await self._write_some(places[first : first + PARTITIONS_AT_ONCE])
        codes = iter(written)
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(
                                    partition_index=index, error_code=next(codes)
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )

    async def _write_some(self, places: Sequence[tuple[_Ended, TopicPartition]]) -> list[ErrorCode]:
        """Stage some markers in one go; returns when their outcome is known.

        What is not committed in time may be committed yet: the sender writes another then, which
        does no harm before the transaction is completed.
        """
        codes = [ErrorCode.NONE] * len(places)
        staged: list[StagedAppend] = []
        staged_at: list[int] = []
        by_groups: list[int] = []
        for index, (ended, topic_partition) in enumerate(places):
            if topic_partition.topic == OFFSETS_TOPIC:
                by_groups.append(index)
                continue
            try:
                self._check_epoch(topic_partition, ended)
                staged.append(self._writer.stage(topic_partition, ended.batch))
            except KafkaError as error:
                codes[index] = _code(error)
                continue
            self._verification.marker_written(topic_partition, ended.producer, ended.version)
            staged_at.append(index)
        outcomes = self._writer.outcomes(staged, WAIT_MS_MAX) if staged else None
        if by_groups:
            written = await asyncio.gather(
                *(self._write_by_groups(*places[at]) for at in by_groups)
            )
            for index, code in zip(by_groups, written, strict=True):
                codes[index] = code
        if outcomes is not None:
            for index, refusal in zip(staged_at, await outcomes, strict=True):
                if refusal is not None:
                    codes[index] = _code(refusal)
        return codes

    async def _write_by_groups(self, ended: _Ended, topic_partition: TopicPartition) -> ErrorCode:
        """Have the group coordinator write a marker, behind the offsets that it publishes."""

        def written() -> None:
            self._verification.marker_written(topic_partition, ended.producer, ended.version)

        def check() -> None:
            self._check_epoch(topic_partition, ended)

        try:
            check()
            await self._groups.end_transaction(
                topic_partition.partition,
                *ended.producer,
                TransactionMarker(ended.control_type, ended.coordinator_epoch),
                check,
                written,
            )
        except KafkaError as error:
            return _code(error)
        return ErrorCode.NONE

    def _check_epoch(self, topic_partition: TopicPartition, ended: _Ended) -> None:
        """Refuse a late marker of version 2 (TXL-3); older ones are the log's to refuse.

        Raises: KafkaError 47, or those of a partition that is not led here.
        """
        partition = self._replicas.find(topic_partition)
        partition.check_leader()
        producer = ended.producer
        if ended.version < EPOCH_BUMP or producer.producer_epoch == PRODUCER_EPOCH_MAX:
            return
        known = partition.log.producer_state.producers.get(producer.producer_id)
        if (
            known is not None
            and known.is_in_transaction
            and known.producer_epoch >= producer.producer_epoch
        ):
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a marker of epoch {producer.producer_epoch} is not above"
                f" {known.producer_epoch}, which has written since",
            )
