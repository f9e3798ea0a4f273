"""Reads what producers wrote, with one Fetch per partition: no consumer is involved."""

import asyncio

from barnabas_client.config import ClientSettings
from barnabas_client.network import Client
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from barnabas_protocol.records.batch import iterate_headers
from barnabas_protocol.records.control import ControlType, read_marker
from barnabas_protocol.records.record import Record, decode_records

# The last version that names topics.
FETCH_VERSION = 11
BYTES_MAX = 1 << 26
LEADER_SECONDS = 60


async def read_all(
    bootstrap: str, topic: str, *, is_committed: bool = False
) -> dict[int, list[Record]]:
    """All records by partition; with `is_committed` only those of committed transactions."""
    client = Client(ClientSettings.create({"bootstrap_servers": bootstrap}))
    await client.start()
    try:
        client.want_topics([topic])
        metadata = await client.wait_for_topic(topic, timeout_ms=20_000)
        found: dict[int, list[Record]] = {}
        for partition in metadata.partitions:
            found[partition] = []
            while True:
                offset = found[partition][-1].offset + 1 if found[partition] else 0
                data = await _fetch(client, topic, partition, offset, is_committed)
                records = _records(data, offset)
                if not records:
                    break
                found[partition] += records
        return found
    finally:
        await client.close()


async def _fetch(
    client: Client, topic: str, partition: int, offset: int, is_committed: bool
) -> PartitionData:
    """One answer of the leader, looked up again while it has moved."""
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=BYTES_MAX)
    request = FetchRequest(
        max_wait_ms=0,
        isolation_level=int(is_committed),
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    async with asyncio.timeout(LEADER_SECONDS):
        while True:
            known = await client.wait_for_topic(topic, timeout_ms=20_000)
            node = known.partitions[partition].leader_id
            response = await client.request(node, request, version=FETCH_VERSION)
            data = response.responses[0].partitions[0]
            assert isinstance(data, PartitionData)
            if data.error_code == ErrorCode.NONE:
                return data
            assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            await client.refresh()


def _records(data: PartitionData, offset: int) -> list[Record]:
    """The records of an answer, without markers and aborted ones."""
    if not isinstance(data.records, memoryview | bytes):
        return []
    buffer = bytes(data.records)
    pending = sorted(data.aborted_transactions or (), key=lambda entry: entry.first_offset)
    aborted: set[int] = set()
    records: list[Record] = []
    for position, header in iterate_headers(buffer):
        while pending and pending[0].first_offset <= header.last_offset:
            aborted.add(pending.pop(0).producer_id)
        batch = decode_records(buffer, position)
        if header.is_control:
            marker = read_marker(batch[0])
            if marker is not None and marker.control_type is ControlType.ABORT:
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            records += [record for record in batch if record.offset >= offset]
    return records
