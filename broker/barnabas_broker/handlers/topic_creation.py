"""Topics made on demand: those that a client asks Metadata for, and the coordinators' own.

One request in flight per topic; the caller answers at once and the client asks again. Source: TOP-6
and TOP-7 of the behaviour list.
"""

import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.controller.controller import Controller
from barnabas_broker.controller.topics import NewTopic
from barnabas_protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

OFFSETS_TOPIC = "__consumer_offsets"


class TopicCreation:
    """Creates missing topics in the background."""

    def __init__(
        self,
        controller: Controller,
        config: BrokerConfig,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._controller = controller
        self._config = config
        self._spawn = spawn
        self._in_flight: set[str] = set()

    def ensure(self, name: str) -> None:
        """Start to create a topic that a client asked for, by a name that is valid."""
        if name == OFFSETS_TOPIC:
            self.ensure_offsets_topic()
        else:
            self._start(NewTopic(name=name, partition_count=-1, replication_factor=-1))

    def ensure_offsets_topic(self) -> None:
        """Start to create the topic of the group coordinators."""
        config: Mapping[str, str] = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self._config.offsets_topic_segment_bytes),
        }
        self._start(
            NewTopic(
                name=OFFSETS_TOPIC,
                partition_count=self._config.offsets_topic_num_partitions,
                replication_factor=self._config.offsets_topic_replication_factor,
                configs=config,
            )
        )

    def _start(self, topic: NewTopic) -> None:
        if topic.name not in self._in_flight:
            self._in_flight.add(topic.name)
            self._spawn(self._create(topic))

    async def _create(self, topic: NewTopic) -> None:
        try:
            (result,) = await self._controller.create_topics([topic], validate_only=False)
            if result.error is not None and result.error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                logger.warning("topic %s could not be created: %s", topic.name, result.error)
        except KafkaError as error:
            logger.warning("topic %s could not be created: %s", topic.name, error)
        finally:
            self._in_flight.discard(topic.name)
