"""A producer and the one broker that it has."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.init_producer_id import InitProducerIdResponse
from barnabas_protocol.messages.metadata import (
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas_protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from barnabas_protocol.records.batch import read_header
from barnabas_protocol.records.record import decode_records
from tests.support.scripted_broker import CLOSE, SILENCE, Received, ScriptedBroker, scripted_brokers

TOPIC = "t"
QUICK: dict[str, Any] = {
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 20,
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 20,
    "linger_ms": 0,
}


@dataclass
class Node:
    """What one scripted broker takes, and how it is to answer the next Produce requests."""

    broker: ScriptedBroker
    # Each an error code, CLOSE, SILENCE or a finished PartitionProduceResponse; then all is well.
    next_answers: list[Any] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)
    sequences: list[tuple[int, int]] = field(default_factory=list)
    throttle_time_ms: int = 0

    def produce(self, received: Received) -> object:
        given = self.next_answers.pop(0) if self.next_answers else ErrorCode.NONE
        if given is CLOSE or given is SILENCE:
            return given
        topics = []
        for topic in received.message.topic_data:
            parts = [self._partition(data, given) for data in topic.partition_data]
            topics.append(
                TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=parts
                )
            )
        return ProduceResponse(responses=topics, throttle_time_ms=self.throttle_time_ms)

    def _partition(self, data: Any, given: Any) -> PartitionProduceResponse:
        header = read_header(bytes(data.records))
        self.sequences.append((header.producer_epoch, header.base_sequence))
        if isinstance(given, PartitionProduceResponse):
            return given
        if given != ErrorCode.NONE:
            return PartitionProduceResponse(index=data.index, error_code=given)
        offset = len(self.values)
        self.values += [record.value or b"" for record in decode_records(bytes(data.records))]
        return PartitionProduceResponse(index=data.index, base_offset=offset)


def lead(node: Node, others: list[Node], leader_epoch: int = 0) -> None:
    """Make this node the leader of the topic's only partition, in every broker's metadata."""
    partition = MetadataResponsePartition(
        leader_id=node.broker.node_id, leader_epoch=leader_epoch, replica_nodes=[1]
    )
    topic = MetadataResponseTopic(name=TOPIC, topic_id=b"i" * 16, partitions=[partition])
    for other in others:
        other.broker.topics = [topic]


_producer_ids = itertools.count(5)


def new_producer_id(_: Received) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=next(_producer_ids), producer_epoch=0)


@asynccontextmanager
async def cluster(count: int = 1) -> AsyncIterator[list[Node]]:
    async with scripted_brokers(count) as brokers:
        nodes = [Node(broker) for broker in brokers]
        lead(nodes[0], nodes)
        for node in nodes:
            node.broker.script[ApiKey.PRODUCE] = node.produce
            node.broker.script[ApiKey.INIT_PRODUCER_ID] = new_producer_id
        yield nodes
