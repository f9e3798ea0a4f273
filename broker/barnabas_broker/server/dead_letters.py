"""The topics for dead letters of share groups, and the ways to their leaders: built and connected.

What a group may write where is decided by the writer (`share/dead_letter_writer.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, cast

from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.config.share_group_configs import ShareGroupConfigs
from barnabas_broker.env.clock import Clock
from barnabas_broker.handlers.topic_creation import TopicCreation
from barnabas_broker.metadata.image import RESOURCE_TOPIC
from barnabas_broker.metadata.publisher import MetadataPublisher
from barnabas_broker.network.heavy_work import Pause
from barnabas_broker.network.peers import Peers
from barnabas_broker.replication.leader.delayed_produce import ACKS_ALL, ProduceResult
from barnabas_broker.replication.replica_manager import ReplicaManager
from barnabas_broker.share.dead_letter_writer import DeadLetterSettings, DeadLetterTopic
from barnabas_protocol.api import ApiKey, newest_version
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

RESPONSE_MARGIN_MS: Final = 2_000
"""For the way, and a loop that is busy: the leader itself gives up after the request's time."""
AUTO_CREATE: Final = "errors.deadletterqueue.auto.create.topics.enable"
NAME_PREFIX: Final = "errors.deadletterqueue.topic.name.prefix"


class ClusterDeadLetterTopics:
    """The topics by the newest metadata; appends here and to other brokers."""

    def __init__(
        self,
        *,
        node_id: int,
        config: BrokerConfig,
        dynamic: DynamicConfig,
        group_configs: ShareGroupConfigs,
        clock: Clock,
        publisher: MetadataPublisher,
        replicas: ReplicaManager,
        peers: Peers,
        topic_creation: TopicCreation,
        run: Callable[..., Awaitable[Any]],
        pause: Pause,
    ) -> None:
        self._node_id = node_id
        self._timeout_ms = config.request_timeout_ms
        self._dynamic = dynamic
        self._group_configs = group_configs
        self._clock = clock
        self._publisher = publisher
        self._replicas = replicas
        self._peers = peers
        self._topic_creation = topic_creation
        self._run = run
        self._pause = pause

    def settings(self, group_id: str) -> DeadLetterSettings:
        """Return what holds for a group now."""
        return DeadLetterSettings(
            topic=self._group_configs.dead_letter_topic(group_id),
            copies=self._group_configs.copies_dead_letters(group_id),
            prefix=cast("str", self._dynamic.value(NAME_PREFIX)),
            creates_topics=bool(self._dynamic.value(AUTO_CREATE)),
        )

    def find(self, name: str) -> DeadLetterTopic | None:
        """Return a topic; None if there is none."""
        image = self._publisher.image
        topic = image.topics.by_name.get(name)
        if topic is None or not topic.partitions:
            return None
        log_config = self._dynamic.log_config(image.config_overrides(RESOURCE_TOPIC, name))
        return DeadLetterTopic(
            name=name,
            topic_id=topic.topic_id,
            is_permitted=log_config.errors_deadletterqueue_group_enable,
            batch_bytes_max=log_config.max_message_bytes,
            leaders=[topic.partitions[index].leader for index in range(len(topic.partitions))],
        )

    def create(self, name: str) -> None:
        """Begin to make a topic."""
        self._topic_creation.ensure_dead_letters(name)

    async def append(self, node_id: int, topic: DeadLetterTopic, index: int, batch: bytes) -> None:
        """Have a broker append a batch, and all in sync. Raises: OSError, KafkaError."""
        if node_id == self._node_id:
            await self._append_here(topic, index, batch)
            return
        request = ProduceRequest(
            acks=ACKS_ALL,
            timeout_ms=self._timeout_ms,
            topic_data=[
                TopicProduceData(
                    topic_id=topic.topic_id,
                    partition_data=[PartitionProduceData(index=index, records=batch)],
                )
            ],
        )
        response: ProduceResponse = await self._peers.request(
            node_id,
            request,
            newest_version(ApiKey.PRODUCE),
            channel="dead-letters",
            timeout_ms=self._timeout_ms + RESPONSE_MARGIN_MS,
        )
        (produced,) = (one for of in response.responses for one in of.partition_responses)
        if produced.error_code != ErrorCode.NONE:
            raise KafkaError(ErrorCode(produced.error_code), produced.error_message)

    async def _append_here(self, topic: DeadLetterTopic, index: int, batch: bytes) -> None:
        appended: asyncio.Future[ProduceResult] = asyncio.get_running_loop().create_future()

        def done(results: Sequence[ProduceResult]) -> None:
            if not appended.done():
                appended.set_result(results[0])

        heavy = self._replicas.leader_append.produce(
            [(TopicPartition(topic.name, index), topic.topic_id, memoryview(bytearray(batch)))],
            acks=ACKS_ALL,
            timeout_ms=self._timeout_ms,
            now_ms=self._clock.wall_ms(),
            done=done,
        )
        if heavy is not None:
            await heavy(self._run, self._pause)
        result = await appended
        if result.error is not None:
            raise result.error
