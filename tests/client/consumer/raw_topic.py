"""A topic on a real broker, filled by requests of the test's own: no producer is in the way."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from barnabas_client.config.client_settings import ClientSettings
from barnabas_client.errors import error_for
from barnabas_client.network.client import Client
from barnabas_client.network.retrying import retrying
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas_protocol.records.record import Record, encode_batch

TIMEOUT_MS = 20_000
# Versions without topic ids are enough here and simpler.
_PRODUCE_VERSION = 9


class RawTopic:
    """Creates topics and appends whole batches."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def create(self, name: str, partitions: int = 1, **configs: str) -> list[TopicPartition]:
        """A topic whose partitions have leaders; `a_b` stands for the setting `a.b`."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
        answer = await self.client.request_controller(request)
        assert [row.error_code for row in answer.topics] == [ErrorCode.NONE]
        await self.client.wait_for_topic(name, timeout_ms=TIMEOUT_MS)
        return [TopicPartition(name, number) for number in range(partitions)]

    async def append(self, partition: TopicPartition, *records: Record, **options: Any) -> int:
        """One batch; the offset of its first record."""
        base = records[0].offset if records else 0
        return await self.append_batch(
            partition, encode_batch(records, base_offset=base, **options)
        )

    async def append_batch(self, partition: TopicPartition, batch: bytes) -> int:
        """A batch as it is, given to the leader; the offset it was given."""

        async def attempt() -> int:
            leader = self.client.cluster.leader(*partition)
            data = PartitionProduceData(index=partition.partition, records=batch)
            topic = TopicProduceData(name=partition.topic, partition_data=[data])
            request = ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[topic])
            node_id = -1 if leader is None else leader.node_id
            answer = await self.client.request(node_id, request, version=_PRODUCE_VERSION)
            row = answer.responses[0].partition_responses[0]
            if row.error_code != ErrorCode.NONE:
                self.client.request_refresh()
                raise error_for(row.error_code)
            return int(row.base_offset)

        return await retrying(self.client, attempt, timeout_ms=TIMEOUT_MS)

    async def append_values(self, partition: TopicPartition, *values: bytes | None) -> int:
        """One batch with these values, keyed by their number, and the time of now."""
        return await self.append(partition, *records(*values))


def records(*values: bytes | None) -> list[Record]:
    """Records with the time of now: a broker may delete what looks older than a week."""
    now_ms = time.time_ns() // 1_000_000
    return [Record(index, now_ms, b"%d" % index, value) for index, value in enumerate(values)]


@asynccontextmanager
async def raw_topic(bootstrap: str) -> AsyncIterator[RawTopic]:
    """On a client of its own."""
    client = Client(ClientSettings.create({"bootstrap_servers": bootstrap}))
    await client.start()
    try:
        yield RawTopic(client)
    finally:
        await client.close()
