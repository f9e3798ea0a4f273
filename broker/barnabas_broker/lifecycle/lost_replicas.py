"""Tells the controller which replicas of this broker lack records, before it serves (LEAD-7).

A log that ends before what its checkpoint says is flushed, or that is not there at all, was damaged
while the broker was down: its end must not become everybody's. The controller takes such a replica
out of ISR and ELR, and only then the broker asks to be unfenced.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from barnabas_broker.controller import eligible_replicas
from barnabas_broker.lifecycle.broker_lifecycle_manager import Channel
from barnabas_broker.metadata.image import MetadataImage
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.report_lost_replicas import (
    ReportLostReplicasRequest,
    ReportLostReplicasRequestTopic,
)

logger = logging.getLogger(__name__)

RETRY_MS: Final = 200


async def report_losses(
    lost: Iterable[TopicPartition],
    *,
    node_id: int,
    broker_epoch: Callable[[], int],
    image: Callable[[], MetadataImage],
    channel: Channel,
    timeout_ms: int,
) -> None:
    """Return once the controller knows of the replicas that lack records, if there are any.

    Asks again as long as it takes: a broker that cannot tell may not lead. Before level 2 of
    `barnabas.version` the controller may be one that does not know the request: only the log tells.
    """
    names = [
        name
        for name in lost
        if (topic := image().topics.by_name.get(name.topic)) is not None
        and name.partition < len(topic.partitions)
        and node_id in topic.partitions[name.partition].replicas
    ]
    if not names:
        return
    logger.error(
        "%d replicas of this broker lack records that were on its disk: %s",
        len(names),
        ", ".join(f"{name.topic}-{name.partition}" for name in names[:20]),
    )
    if not eligible_replicas.is_on(image()):
        return
    while True:
        request = _request(names, node_id, broker_epoch(), image())
        try:
            response = await channel.send(request, timeout_ms=timeout_ms)
            if response.error_code == ErrorCode.NONE:
                return
            raise KafkaError(ErrorCode(response.error_code))
        except KafkaError as error:
            logger.warning(
                "the controller does not know yet of replicas that lack records: %s", error
            )
        await asyncio.sleep(RETRY_MS / 1000)


def _request(
    names: Iterable[TopicPartition], node_id: int, broker_epoch: int, image: MetadataImage
) -> ReportLostReplicasRequest:
    """The request; topics that are gone meanwhile are left out."""
    topics: dict[bytes, list[int]] = defaultdict(list)
    for name in names:
        topic = image.topics.by_name.get(name.topic)
        if topic is not None:
            topics[topic.topic_id].append(name.partition)
    return ReportLostReplicasRequest(
        broker_id=node_id,
        broker_epoch=broker_epoch,
        topics=[
            ReportLostReplicasRequestTopic(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in topics.items()
        ],
    )
