"""Requests of simulated clients: one call, one answer, an error code instead of an exception."""

from collections.abc import Callable
from typing import Any, NamedTuple

from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages import (
    create_topics,
    delete_topics,
    describe_configs,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
)
from barnabas_protocol.messages import delete_records as delete_records_messages
from barnabas_protocol.records.batch import check_crc, read_header
from barnabas_protocol.records.record import Record, decode_records, encode_batch
from tests.support.raw_client import RawClient
from tests.support.transactional_client import READ_COMMITTED, committed_values

RESOURCE_TOPIC = 2
SET = 0
EARLIEST = -2
PRODUCE_VERSION = 9


class Appended(NamedTuple):
    error_code: int
    base_offset: int


class Producer(NamedTuple):
    """An id and epoch; without them the producer is not idempotent."""

    producer_id: int = -1
    epoch: int = -1


NOT_IDEMPOTENT = Producer()


async def create_topic(
    client: RawClient, name: str, partitions: int = 1, **configs: str
) -> tuple[int, bytes]:
    """Error code and topic id; `a_b` stands for the setting `a.b`."""
    request = create_topics.CreateTopicsRequest(
        topics=[
            create_topics.CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=1,
                configs=[
                    create_topics.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                    for key, value in configs.items()
                ],
            )
        ]
    )
    (topic,) = (await client.call(ApiKey.CREATE_TOPICS, 7, request)).topics
    return topic.error_code, topic.topic_id


async def delete_topic(client: RawClient, name: str) -> int:
    request = delete_topics.DeleteTopicsRequest(
        topics=[delete_topics.DeleteTopicState(name=name)], timeout_ms=10_000
    )
    return (await client.call(ApiKey.DELETE_TOPICS, 6, request)).responses[0].error_code


async def topics(client: RawClient) -> dict[str, tuple[bytes, int]]:
    """Id and number of partitions of each topic that is not internal."""
    request = metadata.MetadataRequest(topics=None)
    response = await client.call(ApiKey.METADATA, 12, request)
    return {
        topic.name: (topic.topic_id, len(topic.partitions))
        for topic in response.topics
        if not topic.is_internal
    }


async def new_producer(client: RawClient) -> Producer:
    def sound(error_code: int) -> bool:
        return error_code == 0

    return await new_producer_or_error(client, sound)


async def new_producer_or_error(client: RawClient, checked: Callable[[int], bool]) -> Producer:
    """A producer id; `checked` says what an error means."""
    response = await client.call(
        ApiKey.INIT_PRODUCER_ID,
        4,
        init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000),
    )
    assert checked(response.error_code), response.error_code
    return Producer(response.producer_id, response.producer_epoch)


def append_request(
    topic: str,
    partition: int,
    values: list[bytes],
    *,
    producer: Producer = NOT_IDEMPOTENT,
    sequence: int = -1,
    acks: int = -1,
    timestamp_ms: int = 1_700_000_000_000,
    keys: list[bytes] | None = None,
) -> produce.ProduceRequest:
    """One batch for one partition."""
    return produce_request(
        topic,
        partition,
        batch_of(values, timestamp_ms, producer=producer, sequence=sequence, keys=keys),
        acks=acks,
    )


def batch_of(
    values: list[bytes],
    timestamp_ms: int,
    *,
    producer: Producer = NOT_IDEMPOTENT,
    sequence: int = -1,
    keys: list[bytes] | None = None,
) -> bytes:
    """A batch of records with values, and perhaps keys."""
    return encode_batch(
        [
            Record(index, timestamp_ms, keys[index] if keys else None, value, ())
            for index, value in enumerate(values)
        ],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
    )


def produce_request(
    topic: str, partition: int, records: bytes, *, acks: int = -1
) -> produce.ProduceRequest:
    """A request with one batch."""
    return produce.ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        topic_data=[
            produce.TopicProduceData(
                name=topic,
                partition_data=[produce.PartitionProduceData(index=partition, records=records)],
            )
        ],
    )


def send_append(client: RawClient, request: produce.ProduceRequest) -> None:
    client.send(ApiKey.PRODUCE, PRODUCE_VERSION, request)


async def appended(client: RawClient) -> Appended:
    """The answer to the oldest append sent."""
    response = await client.receive(ApiKey.PRODUCE, PRODUCE_VERSION)
    (answer,) = response.responses[0].partition_responses
    return Appended(answer.error_code, answer.base_offset)


async def append(client: RawClient, request: produce.ProduceRequest) -> Appended:
    send_append(client, request)
    return await appended(client)


class Read(NamedTuple):
    error_code: int
    log_start_offset: int
    high_watermark: int
    records: list[Record]
    leader_epoch: int  # of the last batch, -1 without one
    end_offset: int  # behind the last batch, also if it has no records left


async def read_from(
    client: RawClient, topic: str, partition: int, offset: int, leader_epoch: int = -1
) -> Read:
    """One fetch that does not wait; with a leader epoch, only a leader of that one answers."""
    request = fetch.FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        topics=[
            fetch.FetchTopic(
                topic=topic,
                partitions=[
                    fetch.FetchPartition(
                        partition=partition,
                        fetch_offset=offset,
                        partition_max_bytes=1 << 20,
                        current_leader_epoch=leader_epoch,
                    )
                ],
            )
        ],
    )
    response = await client.call(ApiKey.FETCH, 11, request)
    (answer,) = response.responses[0].partitions
    records, epoch = records_of(answer.records or b"", offset)
    end_offset = _end_of(answer.records or b"", offset)
    return Read(
        answer.error_code,
        answer.log_start_offset,
        answer.high_watermark,
        records,
        epoch,
        end_offset,
    )


class ReadDecided(NamedTuple):
    error_code: int
    high_watermark: int
    last_stable_offset: int
    values: list[bytes]
    end_offset: int


async def read_decided(client: RawClient, topic: str, partition: int, offset: int) -> ReadDecided:
    """One fetch of what committed transactions have appended, that does not wait."""
    place = fetch.FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20
    )
    request = fetch.FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=READ_COMMITTED,
        topics=[fetch.FetchTopic(topic=topic, partitions=[place])],
    )
    response = await client.call(ApiKey.FETCH, 11, request)
    (answer,) = response.responses[0].partitions
    return ReadDecided(
        answer.error_code,
        answer.high_watermark,
        answer.last_stable_offset,
        committed_values(answer),
        _end_of(answer.records or b"", offset),
    )


def _end_of(buffer: Any, offset: int) -> int:
    """The offset behind the last whole batch."""
    data = b"".join(buffer) if isinstance(buffer, list) else bytes(buffer)
    position = 0
    while position + 27 <= len(data):
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        if position + size > len(data):
            break
        base = int.from_bytes(data[position : position + 8], "big")
        offset = base + int.from_bytes(data[position + 23 : position + 27], "big") + 1
        position += size
    return offset


def records_of(buffer: Any, offset: int) -> tuple[list[Record], int]:
    """The records of a fetch from an offset on, and the leader epoch of the last batch.

    Raises: AssertionError for a batch with a wrong CRC: no broker may serve it.
    """
    data = b"".join(buffer) if isinstance(buffer, list) else bytes(buffer)
    records: list[Record] = []
    position, epoch = 0, -1
    while position + 16 <= len(data):
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        if position + size > len(data):
            break
        if not check_crc(data, position, read_header(data, position)):
            raise AssertionError(f"a batch with a wrong CRC was served, asked for from {offset}")
        records += [r for r in decode_records(data, position) if r.offset >= offset]
        epoch = int.from_bytes(data[position + 12 : position + 16], "big")
        position += size
    return records, epoch


async def earliest(client: RawClient, topic: str, partition: int) -> tuple[int, int]:
    """Error code, and where the log starts."""
    return await listed_offset(client, topic, partition, EARLIEST)


async def listed_offset(
    client: RawClient, topic: str, partition: int, timestamp: int
) -> tuple[int, int]:
    """Error code, and the offset of a timestamp, or of one of the special ones."""
    request = list_offsets.ListOffsetsRequest(
        topics=[
            list_offsets.ListOffsetsTopic(
                name=topic,
                partitions=[
                    list_offsets.ListOffsetsPartition(
                        partition_index=partition, timestamp=timestamp
                    )
                ],
            )
        ]
    )
    response = await client.call(ApiKey.LIST_OFFSETS, 6, request)
    (found,) = response.topics[0].partitions
    return found.error_code, found.offset


async def delete_records(
    client: RawClient, topic: str, partition: int, offset: int
) -> tuple[int, int]:
    """Error code, and the low watermark: where the logs of all live replicas start."""
    request = delete_records_messages.DeleteRecordsRequest(
        topics=[
            delete_records_messages.DeleteRecordsTopic(
                name=topic,
                partitions=[
                    delete_records_messages.DeleteRecordsPartition(
                        partition_index=partition, offset=offset
                    )
                ],
            )
        ],
        timeout_ms=3_000,
    )
    response = await client.call(ApiKey.DELETE_RECORDS, 2, request)
    (found,) = response.topics[0].partitions
    return found.error_code, found.low_watermark


async def earliest_offset(client: RawClient, topic: str, partition: int) -> int:
    error_code, offset = await earliest(client, topic, partition)
    assert error_code == 0, error_code
    return offset


async def read_all(client: RawClient, topic: str, partition: int) -> list[Record]:
    """Every record from the log start to the high watermark."""
    offset = await earliest_offset(client, topic, partition)
    records: list[Record] = []
    while True:
        found = await read_from(client, topic, partition, offset)
        assert found.error_code == 0, found
        if not found.records:
            assert offset >= found.high_watermark, (offset, found.high_watermark)
            return records
        records += found.records
        offset = records[-1].offset + 1


async def commit_offset(
    client: RawClient, group: str, topic: str, partition: int, offset: int
) -> int:
    request = offset_commit.OffsetCommitRequest(
        group_id=group,
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    offset_commit.OffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=offset, committed_metadata=""
                    )
                ],
            )
        ],
    )
    response = await client.call(ApiKey.OFFSET_COMMIT, 8, request)
    return response.topics[0].partitions[0].error_code


async def committed_offset(
    client: RawClient, group: str, topic: str, partition: int
) -> tuple[int, int]:
    """Error code and offset, -1 if there is none."""
    request = offset_fetch.OffsetFetchRequest(
        groups=[
            offset_fetch.OffsetFetchRequestGroup(
                group_id=group,
                topics=[
                    offset_fetch.OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])
                ],
            )
        ]
    )
    (found,) = (await client.call(ApiKey.OFFSET_FETCH, 8, request)).groups
    if found.error_code:
        return found.error_code, -1
    answer = found.topics[0].partitions[0]
    return answer.error_code, answer.committed_offset


async def find_group(client: RawClient, group: str) -> int:
    """Have the group's coordinator found, which makes the offsets topic."""
    request = find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    response = await client.call(ApiKey.FIND_COORDINATOR, 4, request)
    return response.coordinators[0].error_code


async def set_topic_config(client: RawClient, topic: str, name: str, value: str) -> int:
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=RESOURCE_TOPIC,
                resource_name=topic,
                configs=[
                    incremental_alter_configs.AlterableConfig(
                        name=name, config_operation=SET, value=value
                    )
                ],
            )
        ]
    )
    response = await client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    return response.responses[0].error_code


async def topic_config(client: RawClient, topic: str, name: str) -> str | None:
    request = describe_configs.DescribeConfigsRequest(
        resources=[
            describe_configs.DescribeConfigsResource(
                resource_type=RESOURCE_TOPIC, resource_name=topic, configuration_keys=[name]
            )
        ]
    )
    response = await client.call(ApiKey.DESCRIBE_CONFIGS, 4, request)
    (result,) = response.results
    return result.configs[0].value if result.configs else None
