"""Writes markers to partitions that this broker leads: the receiving end of WriteTxnMarkers.

Not here: who sends them (`markers.py`). Source: TXN-6, TXL-3, TXL-6.

Invariants: a marker is acknowledged when it is committed; one of version 2 is taken only above the
epoch that its transaction has written with, or where nothing is open; in a partition of
`__consumer_offsets` the group coordinator writes it, in order with all else that it writes.
"""

from __future__ import annotations

import asyncio
from typing import Final

from barnabas_broker.coordinator.group.coordinator import GroupCoordinator
from barnabas_broker.coordinator.group.settings import OFFSETS_TOPIC
from barnabas_broker.coordinator.transaction.shard import Producer
from barnabas_broker.coordinator.transaction.state import EPOCH_BUMP, PRODUCER_EPOCH_MAX
from barnabas_broker.coordinator.transaction.verification import TransactionVerification
from barnabas_broker.env.clock import Clock
from barnabas_broker.replication.committed_writer import CommittedWriter
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

WAIT_SECONDS_MAX: Final = 5.0
"""A marker that is not committed by then does not hold up those of other transactions."""

# What the sender takes for "look for the leader again".
_MOVED: Final = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)


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
            (marker, TopicPartition(topic.name, index))
            for marker in request.markers
            for topic in marker.topics
            for index in topic.partition_indexes
        ]
        written: list[ErrorCode] = []
        for first in range(0, len(places), PARTITIONS_AT_ONCE):
            some = places[first : first + PARTITIONS_AT_ONCE]
            written += await asyncio.gather(*(self._write(*place) for place in some))
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

    async def _write(self, marker: WritableTxnMarker, topic_partition: TopicPartition) -> ErrorCode:
        producer = Producer(marker.producer_id, marker.producer_epoch)
        version = marker.transaction_version
        ends = ControlType.COMMIT if marker.transaction_result else ControlType.ABORT

        def written() -> None:
            self._verification.marker_written(topic_partition, producer, version)

        def check() -> None:
            self._check_epoch(topic_partition, producer, version)

        try:
            check()
            if topic_partition.topic == OFFSETS_TOPIC:
                await self._groups.end_transaction(
                    topic_partition.partition,
                    *producer,
                    TransactionMarker(ends, marker.coordinator_epoch),
                    check,
                    written,
                )
                return ErrorCode.NONE
            batch = encode_marker(
                ends,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
                timestamp=self._clock.wall_ms(),
            )
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                await self._writer.append(topic_partition, batch, appended=written)
        except TimeoutError:
            # It may be committed yet; the sender writes another, which does no harm before the
            # transaction is completed.
            return ErrorCode.REQUEST_TIMED_OUT
        except KafkaError as error:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if error.code in _MOVED else error.code
        return ErrorCode.NONE

    def _check_epoch(
        self, topic_partition: TopicPartition, producer: Producer, version: int
    ) -> None:
        """Refuse a late marker of version 2 (TXL-3); older ones are the log's to refuse.

        Raises: KafkaError 47, or those of a partition that is not led here.
        """
        partition = self._replicas.find(topic_partition)
        partition.check_leader()
        if version < EPOCH_BUMP or producer.producer_epoch == PRODUCER_EPOCH_MAX:
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
