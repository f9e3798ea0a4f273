"""Looks up offsets at leaders: by time (ListOffsets), by leader epoch (OffsetForLeaderEpoch).

One request per leader for all of its partitions. Not here: when, and what follows for positions
(`positions.py`).

Source: KIP-79 (times), KIP-207 (offsets that are not available yet), KIP-320 (leader epochs).
Invariants: every requested partition is in exactly one part of a `LookupRound`; a round sends each
leader one request and raises only errors of the call as a whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeVar

from barnabas_client.cluster.metadata import ClusterMetadata
from barnabas_client.cluster.partitions import by_topic
from barnabas_client.errors import BarnabasError, RetriableError, error_for
from barnabas_client.network.client import Client
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas_protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

# A consumer: brokers return more to replicas.
_CONSUMER_REPLICA_ID: Final = -1

Found = TypeVar("Found")


class OffsetAndTimestamp(NamedTuple):
    """The first offset whose record is not older than the requested time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1


class EpochEnd(NamedTuple):
    """The largest leader epoch up to the requested one, and its end offset (exclusive)."""

    leader_epoch: int
    end_offset: int


@dataclass(slots=True)
class LookupRound(Generic[Found]):
    """The results of one request to each leader."""

    found: dict[TopicPartition, Found] = field(default_factory=dict)
    #: To be repeated after a while, with newer metadata.
    retriable: dict[TopicPartition, RetriableError] = field(default_factory=dict)
    failed: dict[TopicPartition, BarnabasError] = field(default_factory=dict)

    def add_error(self, partition: TopicPartition, code: int, what: str) -> None:
        """Sort an error code of one partition."""
        error = error_for(code, f"{what} of {partition} failed")
        if isinstance(error, RetriableError):
            self.retriable[partition] = error
        else:
            self.failed[partition] = error


async def list_offsets(
    client: Client,
    timestamps_ms: Mapping[TopicPartition, int],
    *,
    isolation_level: int,
    timeout_ms: int | None = None,
) -> LookupRound[OffsetAndTimestamp | None]:
    """Request the offsets of all partitions once; None where all records are older.

    The timestamps may be EARLIEST and LATEST (with isolation level 1: the last stable offset).
    """
    outcome: LookupRound[OffsetAndTimestamp | None] = LookupRound()

    def build(partitions: Iterable[TopicPartition], cluster: ClusterMetadata) -> ListOffsetsRequest:
        topics = [
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(
                        partition_index=partition.partition,
                        current_leader_epoch=_leader_epoch(cluster, partition),
                        timestamp=timestamps_ms[partition],
                    )
                    for partition in group
                ],
            )
            for topic, group in by_topic(partitions).items()
        ]
        return ListOffsetsRequest(
            replica_id=_CONSUMER_REPLICA_ID,
            isolation_level=isolation_level,
            topics=topics,
            timeout_ms=timeout_ms or client.settings.request_timeout_ms,
        )

    def read(response: ListOffsetsResponse) -> None:
        for topic in response.topics:
            for data in topic.partitions:
                partition = TopicPartition(topic.name, data.partition_index)
                if data.error_code != ErrorCode.NONE:
                    outcome.add_error(partition, data.error_code, "looking up offsets")
                elif data.offset < 0:
                    outcome.found[partition] = None
                else:
                    outcome.found[partition] = OffsetAndTimestamp(
                        data.offset, data.timestamp, data.leader_epoch
                    )

    await _request_leaders(client, timestamps_ms.keys(), build, read, outcome, timeout_ms)
    return outcome


async def list_epoch_ends(
    client: Client, leader_epochs: Mapping[TopicPartition, int]
) -> LookupRound[EpochEnd]:
    """Request the end offsets of these leader epochs once.

    A log without such an epoch returns (-1, -1).
    """
    outcome: LookupRound[EpochEnd] = LookupRound()

    def build(
        partitions: Iterable[TopicPartition], cluster: ClusterMetadata
    ) -> OffsetForLeaderEpochRequest:
        topics = [
            OffsetForLeaderTopic(
                topic=topic,
                partitions=[
                    OffsetForLeaderPartition(
                        partition=partition.partition,
                        leader_epoch=leader_epochs[partition],
                        current_leader_epoch=_leader_epoch(cluster, partition),
                    )
                    for partition in group
                ],
            )
            for topic, group in by_topic(partitions).items()
        ]
        return OffsetForLeaderEpochRequest(replica_id=_CONSUMER_REPLICA_ID, topics=topics)

    def read(response: OffsetForLeaderEpochResponse) -> None:
        for topic in response.topics:
            for data in topic.partitions:
                partition = TopicPartition(topic.topic, data.partition)
                if data.error_code != ErrorCode.NONE:
                    outcome.add_error(partition, data.error_code, "looking up leader epochs")
                else:
                    outcome.found[partition] = EpochEnd(data.leader_epoch, data.end_offset)

    await _request_leaders(client, leader_epochs.keys(), build, read, outcome, None)
    return outcome


async def list_offsets_until(
    client: Client,
    timestamps_ms: Mapping[TopicPartition, int],
    *,
    isolation_level: int,
    timeout_ms: int,
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """Repeat `list_offsets` until every partition has a result.

    Raises: the first error that is not retriable; at the end of the time the last one.
    """
    clock = client.environment.clock
    deadline_ms = clock.monotonic_ms() + timeout_ms
    found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
    missing = dict(timestamps_ms)
    attempt = 0
    client.want_topics({topic for topic, _ in missing})
    while missing:
        left_ms = max(1, deadline_ms - clock.monotonic_ms())
        outcome = await list_offsets(
            client, missing, isolation_level=isolation_level, timeout_ms=left_ms
        )
        for error in outcome.failed.values():
            raise error
        found.update(outcome.found)
        missing = {partition: missing[partition] for partition in outcome.retriable}
        if not missing:
            break
        pause_ms = client.backoff_ms(attempt)
        attempt += 1
        if clock.monotonic_ms() + pause_ms >= deadline_ms:
            raise next(iter(outcome.retriable.values()))
        client.request_refresh()
        await asyncio.sleep(pause_ms / 1000)
    return found


async def _request_leaders(
    client: Client,
    partitions: Iterable[TopicPartition],
    build: Callable[[Sequence[TopicPartition], ClusterMetadata], Any],
    read: Callable[[Any], None],
    outcome: LookupRound[Any],
    timeout_ms: int | None,
) -> None:
    """Send one request per leader, concurrently, and add the responses to the outcome."""
    cluster = client.cluster
    by_leader: dict[int, list[TopicPartition]] = {}
    for partition in partitions:
        leader = cluster.leader(*partition)
        if leader is None:
            _add_missing_leader(outcome, cluster, partition)
        else:
            by_leader.setdefault(leader.node_id, []).append(partition)

    async def request_leader(node_id: int, group: list[TopicPartition]) -> None:
        try:
            read(await client.request(node_id, build(group, cluster), timeout_ms=timeout_ms))
            reason = RetriableError(f"broker {node_id} left the partition out of its response")
        except RetriableError as error:
            reason = error
        except BarnabasError as error:
            outcome.failed.update(dict.fromkeys(group, error))
            return
        for partition in group:
            if partition not in outcome.found and partition not in outcome.failed:
                outcome.retriable.setdefault(partition, reason)

    if len(by_leader) == 1:
        await request_leader(*next(iter(by_leader.items())))
    elif by_leader:
        async with asyncio.TaskGroup() as tasks:
            for node_id, group in by_leader.items():
                tasks.create_task(request_leader(node_id, group))


def _add_missing_leader(
    outcome: LookupRound[Any], cluster: ClusterMetadata, partition: TopicPartition
) -> None:
    topic = cluster.topics.get(partition.topic)
    if topic is not None and topic.error_code != ErrorCode.NONE:
        outcome.add_error(partition, topic.error_code, "finding the leader")
    else:
        outcome.add_error(partition, ErrorCode.LEADER_NOT_AVAILABLE, "finding the leader")


def _leader_epoch(cluster: ClusterMetadata, partition: TopicPartition) -> int:
    known = cluster.partition(*partition)
    return -1 if known is None else known.leader_epoch
