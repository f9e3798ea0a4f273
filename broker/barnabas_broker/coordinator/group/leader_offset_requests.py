"""Asks the leaders of partitions, on other brokers, for ends of logs and timestamps of records.

For lag: a group's coordinator need not hold the partitions that the group reads. Requests are those
of consumers, one of each kind for a leader; who does not answer in time tells nothing.

Not here: what is asked when (`group_lag.py`).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from barnabas_broker.network.peers import Peers, PeerUnreachableError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas_protocol.records.record_time import timestamp_at

TIMEOUT_MS = 2_000
# The newest versions that name topics and not their ids; all brokers of a cluster know them.
_LIST_OFFSETS_VERSION = 7
_FETCH_VERSION = 12
# Neither a consumer, among whose bytes these would be counted, nor a follower; as Kafka's tools do.
_OBSERVER = -2
_CHANNEL = "lag"
_LATEST = -1
_EARLIEST = -2
# A whole batch of a producer with default settings; of larger ones the header.
_FIRST_LOOK_BYTES = 17 * 1024
_RESPONSE_BYTES_MAX = 16 * 1024 * 1024
# What is read out of one answer keeps the loop for some milliseconds at most.
_FETCHED_AT_ONCE = 50
# Batches that have to be fetched one by one, because their header does not tell.
_WHOLE_BATCHES_MAX = 100

Ends = tuple[int, int]
LeaderOf = Callable[[TopicPartition], int]
Value = TypeVar("Value")


class LeaderOffsetRequests:
    """What other brokers lead, as seen by this one."""

    def __init__(self, peers: Peers, leader_of: LeaderOf) -> None:
        """`leader_of` tells the node that leads a partition, a negative number for none."""
        self._peers = peers
        self._leader_of = leader_of

    async def ends(self, topic_partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Ends]:
        """Log start offset and high watermark of each partition whose leader has told them."""
        by_leader = self._by_leader(topic_partitions)
        starts, ends = await asyncio.gather(
            self._ask_each(by_leader, lambda some: _list_offsets(some, _EARLIEST), _read_offsets),
            self._ask_each(by_leader, lambda some: _list_offsets(some, _LATEST), _read_offsets),
        )
        return {
            topic_partition: (start, ends[topic_partition])
            for topic_partition, start in starts.items()
            if topic_partition in ends
        }

    async def times(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The timestamp of the record at each offset, where a leader has told it."""

        def read(answer: Any) -> dict[TopicPartition, int]:
            return _read_times(answer, offsets)

        found: dict[TopicPartition, int] = {}
        topic_partitions = list(offsets)
        for start in range(0, len(topic_partitions), _FETCHED_AT_ONCE):
            some = await self._ask_each(
                self._by_leader(topic_partitions[start : start + _FETCHED_AT_ONCE]),
                lambda some: _fetch(some, offsets, _RESPONSE_BYTES_MAX),
                read,
            )
            found.update(some)
        left = [topic_partition for topic_partition in offsets if topic_partition not in found][
            :_WHOLE_BATCHES_MAX
        ]
        # One byte, and still the first batch of an answer comes whole.
        asked = [
            self._ask(leader, _fetch([topic_partition], offsets, 1), _FETCH_VERSION, read)
            for leader, topic_partitions in self._by_leader(left).items()
            for topic_partition in topic_partitions
        ]
        for one in await asyncio.gather(*asked):
            found.update(one)
        return found

    def _by_leader(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> dict[int, list[TopicPartition]]:
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for topic_partition in topic_partitions:
            leader = self._leader_of(topic_partition)
            if leader >= 0:
                by_leader[leader].append(topic_partition)
        return by_leader

    async def _ask_each(
        self,
        by_leader: Mapping[int, list[TopicPartition]],
        request: Callable[[list[TopicPartition]], Any],
        read: Callable[[Any], dict[TopicPartition, Value]],
    ) -> dict[TopicPartition, Value]:
        """What all leaders together have told."""
        asked: list[Awaitable[dict[TopicPartition, Value]]] = []
        for leader, topic_partitions in by_leader.items():
            message = request(topic_partitions)
            is_fetch = isinstance(message, FetchRequest)
            version = _FETCH_VERSION if is_fetch else _LIST_OFFSETS_VERSION
            asked.append(self._ask(leader, message, version, read))
        told: dict[TopicPartition, Value] = {}
        for some in await asyncio.gather(*asked):
            told.update(some)
        return told

    async def _ask(
        self,
        leader: int,
        message: Any,
        version: int,
        read: Callable[[Any], dict[TopicPartition, Value]],
    ) -> dict[TopicPartition, Value]:
        try:
            return read(
                await self._peers.request(
                    leader, message, version, channel=_CHANNEL, timeout_ms=TIMEOUT_MS
                )
            )
        except PeerUnreachableError:
            return {}


def _by_topic(topic_partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    by_topic: dict[str, list[TopicPartition]] = defaultdict(list)
    for topic_partition in topic_partitions:
        by_topic[topic_partition.topic].append(topic_partition)
    return by_topic


def _list_offsets(topic_partitions: list[TopicPartition], timestamp: int) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=one.partition, timestamp=timestamp)
                    for one in some
                ],
            )
            for topic, some in _by_topic(topic_partitions).items()
        ],
    )


def _read_offsets(answer: Any) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, one.partition_index): one.offset
        for topic in answer.topics
        for one in topic.partitions
        if not one.error_code and one.offset >= 0
    }


def _fetch(
    topic_partitions: list[TopicPartition], offsets: Mapping[TopicPartition, int], max_bytes: int
) -> FetchRequest:
    return FetchRequest(
        replica_id=_OBSERVER,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=max_bytes,
        isolation_level=0,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(
                        partition=one.partition,
                        fetch_offset=offsets[one],
                        partition_max_bytes=_FIRST_LOOK_BYTES,
                    )
                    for one in some
                ],
            )
            for topic, some in _by_topic(topic_partitions).items()
        ],
    )


def _read_times(answer: Any, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    times: dict[TopicPartition, int] = {}
    for topic in answer.responses:
        for one in topic.partitions:
            topic_partition = TopicPartition(topic.topic, one.partition_index)
            if one.error_code or one.records is None:
                continue
            records = one.records
            data = b"".join(records) if isinstance(records, list) else records
            time = timestamp_at(data, offsets[topic_partition])
            if time is not None:
                times[topic_partition] = time
    return times
