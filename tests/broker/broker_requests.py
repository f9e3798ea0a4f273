"""A broker in this process, and the requests that tests of it send."""

import asyncio
from pathlib import Path

from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import alter_client_quotas, fetch, metadata, produce
from barnabas_protocol.records.record import Record, encode_batch
from tests.support.in_process_broker import eventually, running_broker
from tests.support.raw_client import RawClient

TOPIC = "orders"


def batch(*values: bytes, **options: int) -> bytes:
    return encode_batch(
        [Record(i, 1_000 + i, b"k", value, ()) for i, value in enumerate(values)], **options
    )


async def topic_id_of(client: RawClient, name: str = TOPIC) -> bytes:
    """The id of a topic that exists or is made by asking (TOP-6)."""
    request = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=name)])
    topic_id = b""

    async def has_leader() -> bool:
        nonlocal topic_id
        response = await client.call(ApiKey.METADATA, 12, request)
        (topic,) = response.topics
        topic_id = topic.topic_id
        return topic.error_code == ErrorCode.NONE

    await eventually(has_leader)
    return topic_id


async def set_quota(client: RawClient, key: str, value: float | None, **parts: str | None) -> None:
    """Set or remove a quota of an entity; `client_id=None` is the default of client ids."""
    entry = alter_client_quotas.AlterClientQuotasRequestEntryData(
        entity=[
            alter_client_quotas.EntityData(entity_type=kind.replace("_", "-"), entity_name=name)
            for kind, name in parts.items()
        ],
        ops=[alter_client_quotas.OpData(key=key, value=value or 0.0, remove=value is None)],
    )
    request = alter_client_quotas.AlterClientQuotasRequest(entries=[entry])
    response = await client.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, request)
    assert [(result.error_code, result.error_message) for result in response.entries] == [(0, None)]


def produce_request(
    records: bytes, topic_id: bytes = bytes(16), acks: int = -1, partition: int = 0
) -> produce.ProduceRequest:
    return produce.ProduceRequest(
        acks=acks,
        timeout_ms=5_000,
        topic_data=[
            produce.TopicProduceData(
                name=TOPIC,
                topic_id=topic_id,
                partition_data=[produce.PartitionProduceData(index=partition, records=records)],
            )
        ],
    )


def fetch_request(
    offset: int,
    topic_id: bytes = bytes(16),
    *,
    max_wait_ms: int = 0,
    max_bytes: int = 1 << 20,
    session: tuple[int, int] = (0, -1),
) -> fetch.FetchRequest:
    return fetch.FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            fetch.FetchTopic(
                topic=TOPIC,
                topic_id=topic_id,
                partitions=[
                    fetch.FetchPartition(
                        partition=0, fetch_offset=offset, partition_max_bytes=max_bytes
                    )
                ],
            )
        ],
    )


async def produced(client: RawClient, version: int, request: produce.ProduceRequest) -> object:
    response = await client.call(ApiKey.PRODUCE, version, request)
    return response.responses[0].partition_responses[0]


def with_broker(directory: Path, test: object, **properties: str) -> None:
    async def run() -> None:
        async with (
            running_broker(directory, **properties) as server,
            await RawClient.connect(server.port) as client,
        ):
            await test(server, client)  # type: ignore[operator]

    asyncio.run(run())
