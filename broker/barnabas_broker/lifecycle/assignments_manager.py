"""Tells the controller in which log directories this broker has its replicas (LOG-11, KIP-858).

What could not be told is told again, in one request for all that is waiting: the metadata must know
which partitions a failed directory takes along. Bounded by the partitions of this broker.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from barnabas_broker.lifecycle.broker_lifecycle_manager import Channel
from barnabas_broker.metadata.image import MetadataImage
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)

logger = logging.getLogger(__name__)

RETRY_MS: Final = 1000

# Noted; or the replica is not there by what is committed, and is reported when it is again.
_SETTLED: Final = frozenset(
    (
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    )
)


class AssignmentsManager:
    """What is to be told of directories, and one request under way."""

    def __init__(
        self,
        *,
        node_id: int,
        channel: Channel,
        timeout_ms: int,
        image: Callable[[], MetadataImage],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """`image` is the newest that this broker has applied: topic ids and the broker epoch."""
        self._node_id = node_id
        self._channel = channel
        self._timeout_ms = timeout_ms
        self._image = image
        self._spawn = spawn
        self._waiting: dict[TopicPartition, bytes] = {}
        self._is_sending = False

    def report(self, directories: Mapping[TopicPartition, bytes]) -> None:
        """Have the controller know of these; newer reports of a partition replace older ones."""
        self._waiting.update(directories)
        if self._waiting and not self._is_sending:
            self._is_sending = True
            self._spawn(self._send_all())

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                sent = dict(self._waiting)
                settled = await self._send(sent)
                for topic_partition in settled:
                    if self._waiting.get(topic_partition) == sent[topic_partition]:
                        del self._waiting[topic_partition]
                if len(settled) < len(sent):
                    await asyncio.sleep(RETRY_MS / 1000)
        finally:
            self._is_sending = False

    async def _send(self, directories: Mapping[TopicPartition, bytes]) -> list[TopicPartition]:
        """What need not be told again: the controller has noted it, or has no such replica."""
        image = self._image()
        broker = image.brokers.get(self._node_id)
        if broker is None:
            return []
        request = assignment(image, self._node_id, broker.epoch, directories)
        try:
            response = await self._channel.send(request, timeout_ms=self._timeout_ms)
            if response.error_code != ErrorCode.NONE:
                raise KafkaError(ErrorCode(response.error_code))
        except KafkaError as error:
            logger.warning("the directories of partitions are not noted: %s", error)
            return []
        codes = {
            (topic.topic_id, partition.partition_index): partition.error_code
            for directory in response.directories
            for topic in directory.topics
            for partition in topic.partitions
        }
        settled: list[TopicPartition] = []
        failed: dict[int, int] = {}
        for topic_partition in directories:
            topic = image.topics.by_name.get(topic_partition.topic)
            code: int = ErrorCode.NONE
            if topic is not None:
                key = topic.topic_id, topic_partition.partition
                code = codes.get(key, ErrorCode.UNKNOWN_SERVER_ERROR)
            if code in _SETTLED:
                settled.append(topic_partition)
            else:
                failed[code] = failed.get(code, 0) + 1
        for code, count in failed.items():
            logger.warning("the directories of %d partitions are not noted: error %d", count, code)
        return settled


def assignment(
    image: MetadataImage,
    node_id: int,
    broker_epoch: int,
    directories: Mapping[TopicPartition, bytes],
) -> AssignReplicasToDirsRequest:
    """The request that tells where replicas are; those of topics that are gone are left out."""
    grouped: dict[bytes, dict[bytes, list[int]]] = defaultdict(lambda: defaultdict(list))
    for (name, index), directory_id in directories.items():
        topic = image.topics.by_name.get(name)
        if topic is not None:
            grouped[directory_id][topic.topic_id].append(index)
    return AssignReplicasToDirsRequest(
        broker_id=node_id,
        broker_epoch=broker_epoch,
        directories=[
            AssignReplicasToDirsRequestDirectoryData(
                id=directory_id,
                topics=[
                    AssignReplicasToDirsRequestTopicData(
                        topic_id=topic_id,
                        partitions=[
                            AssignReplicasToDirsRequestPartitionData(partition_index=index)
                            for index in indexes
                        ],
                    )
                    for topic_id, indexes in topics.items()
                ],
            )
            for directory_id, topics in grouped.items()
        ],
    )
