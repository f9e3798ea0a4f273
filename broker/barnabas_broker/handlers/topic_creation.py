"""Topics made on demand: those that a Metadata request names, and the coordinators' own.

One request in flight per topic; the caller responds at once and the client sends its request
again. Source: TOP-6 and TOP-7.
"""

import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.controller.channel import ControllerChannel
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

logger = logging.getLogger(__name__)

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
CREATIONS_MAX = 100
"""Topics that are being made at a time because a client has named them; for more, the client sends
its request again. One request may invent tens of thousands of names."""


class TopicCreation:
    """Creates missing topics in the background."""

    def __init__(
        self,
        channel: ControllerChannel,
        config: BrokerConfig,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._channel = channel
        self._config = config
        self._spawn = spawn
        self._in_flight: set[str] = set()

    def ensure(self, name: str) -> None:
        """Start to create a topic that is needed, by a name that is valid."""
        if name == OFFSETS_TOPIC:
            self._start(self._offsets_topic())
        elif name == TRANSACTION_STATE_TOPIC:
            self._start(self._transaction_state_topic())
        elif name == SHARE_STATE_TOPIC:
            self._start(self._share_state_topic())
        elif len(self._in_flight) < CREATIONS_MAX:
            self._start(CreatableTopic(name=name, num_partitions=-1, replication_factor=-1))

    def _offsets_topic(self) -> CreatableTopic:
        config = self._config
        return _internal_topic(
            OFFSETS_TOPIC,
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )

    def _transaction_state_topic(self) -> CreatableTopic:
        config = self._config
        return _internal_topic(
            TRANSACTION_STATE_TOPIC,
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )

    def _share_state_topic(self) -> CreatableTopic:
        config = self._config
        return _internal_topic(
            SHARE_STATE_TOPIC,
            config.share_coordinator_state_topic_num_partitions,
            config.share_coordinator_state_topic_replication_factor,
            {
                # The coordinator deletes what nobody needs; age and size say nothing of that.
                "cleanup.policy": "delete",
                "retention.ms": "-1",
                "retention.bytes": "-1",
                "compression.type": "producer",
                "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
                "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
            },
        )

    def _start(self, topic: CreatableTopic) -> None:
        if topic.name not in self._in_flight:
            self._in_flight.add(topic.name)
            self._spawn(self._create(topic))

    async def _create(self, topic: CreatableTopic) -> None:
        timeout_ms = self._config.request_timeout_ms
        request = CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms)
        try:
            response: CreateTopicsResponse = await self._channel.send(
                request, timeout_ms=timeout_ms
            )
            for result in response.topics:
                if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    error = KafkaError(ErrorCode(result.error_code), result.error_message)
                    logger.warning("topic %s could not be created: %s", topic.name, error)
        except KafkaError as error:
            logger.warning("topic %s could not be created: %s", topic.name, error)
        finally:
            self._in_flight.discard(topic.name)


def _internal_topic(
    name: str, partition_count: int, replication_factor: int, configs: Mapping[str, str]
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partition_count,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
