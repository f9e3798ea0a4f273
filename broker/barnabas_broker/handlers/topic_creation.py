"""Topics made on demand: those that a client asks Metadata for, and the coordinators' own.

One request in flight per topic; the caller answers at once and the client asks again. Source: TOP-6
and TOP-7 of the behaviour list.
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
CREATIONS_MAX = 100
"""Topics that are being made at a time because a client has named them; who names more asks again.
One request may invent tens of thousands of names."""


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
        """Start to create a topic that a client asked for, by a name that is valid."""
        if name == OFFSETS_TOPIC:
            self.ensure_offsets_topic()
        elif len(self._in_flight) < CREATIONS_MAX:
            self._start(CreatableTopic(name=name, num_partitions=-1, replication_factor=-1))

    def ensure_offsets_topic(self) -> None:
        """Start to create the topic of the group coordinators."""
        config: Mapping[str, str] = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self._config.offsets_topic_segment_bytes),
        }
        self._start(
            CreatableTopic(
                name=OFFSETS_TOPIC,
                num_partitions=self._config.offsets_topic_num_partitions,
                replication_factor=self._config.offsets_topic_replication_factor,
                configs=[
                    CreatableTopicConfig(name=name, value=value) for name, value in config.items()
                ],
            )
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
