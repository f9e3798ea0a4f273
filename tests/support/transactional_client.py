"""A producer of either version of transactions, request by request, and a reader."""

from __future__ import annotations

from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    fetch,
    find_coordinator,
    init_producer_id,
    metadata,
    offset_fetch,
    produce,
    txn_offset_commit,
)
from barnabas_protocol.records.batch import iterate_headers
from barnabas_protocol.records.record import Record, decode_records, encode_batch
from tests.support.in_process_broker import eventually
from tests.support.raw_client import RawClient

READ_COMMITTED = 1
V1, V2 = 1, 2
PRODUCE = {V1: 11, V2: 12}
END = {V1: 4, V2: 5}
OFFSET_COMMIT = {V1: 4, V2: 5}


class TransactionalClient:
    """One transactional id on one connection."""

    def __init__(self, client: RawClient, transactional_id: str, version: int = V2) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.version = version
        self.producer_id = -1
        self.producer_epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    async def find_coordinator(self) -> None:
        """Wait until there is one, which makes its topic the first time."""
        request = find_coordinator.FindCoordinatorRequest(
            key_type=1, coordinator_keys=[self.transactional_id]
        )

        async def is_there() -> bool:
            response = await self.client.call(ApiKey.FIND_COORDINATOR, 4, request)
            return bool(response.coordinators[0].error_code == ErrorCode.NONE)

        await eventually(is_there)

    async def init(self, timeout_ms: int = 60_000) -> int:
        """Begin; repeated while the one before is being ended. Returns the error code."""
        code = ErrorCode.CONCURRENT_TRANSACTIONS

        async def is_answered() -> bool:
            nonlocal code
            response = await self.client.call(
                ApiKey.INIT_PRODUCER_ID,
                4,
                init_producer_id.InitProducerIdRequest(
                    transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms
                ),
            )
            code = response.error_code
            self.producer_id, self.producer_epoch = response.producer_id, response.producer_epoch
            return code not in (
                ErrorCode.CONCURRENT_TRANSACTIONS,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.NOT_COORDINATOR,
            )

        await eventually(is_answered)
        self.sequences.clear()
        return code

    async def add(self, topic: str, *partitions: int) -> list[int]:
        """AddPartitionsToTxn of a client; returns the error codes."""
        response = await self.client.call(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            add_partitions_to_txn.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.producer_epoch,
                v3_and_below_topics=[
                    add_partitions_to_txn.AddPartitionsToTxnTopic(
                        name=topic, partitions=list(partitions)
                    )
                ],
            ),
        )
        return [
            result.partition_error_code
            for one in response.results_by_topic_v3_and_below
            for result in one.results_by_partition
        ]

    async def send(
        self, topic: str, *values: bytes, partition: int = 0, sequence: int | None = None
    ) -> int:
        """Produce one batch; returns the error code."""
        key = topic, partition
        first = self.sequences.get(key, 0) if sequence is None else sequence
        records = encode_batch(
            [Record(index, 1_000, None, value) for index, value in enumerate(values)],
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=first,
            is_transactional=True,
        )
        response = await self.client.call(
            ApiKey.PRODUCE,
            PRODUCE[self.version],
            produce.ProduceRequest(
                transactional_id=self.transactional_id,
                acks=-1,
                timeout_ms=5_000,
                topic_data=[
                    produce.TopicProduceData(
                        name=topic,
                        partition_data=[
                            produce.PartitionProduceData(index=partition, records=records)
                        ],
                    )
                ],
            ),
        )
        code: int = response.responses[0].partition_responses[0].error_code
        if code == ErrorCode.NONE:
            self.sequences[key] = first + len(values)
        return code

    async def write(self, topic: str, *values: bytes, partition: int = 0) -> int:
        """Add the partition where the version wants that, and produce."""
        if self.version == V1:

            async def is_added() -> bool:
                codes = await self.add(topic, partition)
                return codes != [ErrorCode.CONCURRENT_TRANSACTIONS]

            await eventually(is_added)
        code = ErrorCode.CONCURRENT_TRANSACTIONS

        async def is_answered() -> bool:
            nonlocal code
            code = ErrorCode(await self.send(topic, *values, partition=partition))
            return code is not ErrorCode.CONCURRENT_TRANSACTIONS

        await eventually(is_answered)
        return code

    async def commit_offsets(self, group_id: str, topic: str, offset: int) -> int:
        """Commit an offset of partition 0; returns the error code."""
        if self.version == V1:
            added = await self.client.call(
                ApiKey.ADD_OFFSETS_TO_TXN,
                3,
                add_offsets_to_txn.AddOffsetsToTxnRequest(
                    transactional_id=self.transactional_id,
                    producer_id=self.producer_id,
                    producer_epoch=self.producer_epoch,
                    group_id=group_id,
                ),
            )
            if added.error_code:
                return int(added.error_code)
        response = await self.client.call(
            ApiKey.TXN_OFFSET_COMMIT,
            OFFSET_COMMIT[self.version],
            txn_offset_commit.TxnOffsetCommitRequest(
                transactional_id=self.transactional_id,
                group_id=group_id,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                topics=[
                    txn_offset_commit.TxnOffsetCommitRequestTopic(
                        name=topic,
                        partitions=[
                            txn_offset_commit.TxnOffsetCommitRequestPartition(
                                partition_index=0, committed_offset=offset, committed_metadata=""
                            )
                        ],
                    )
                ],
            ),
        )
        code: int = response.topics[0].partitions[0].error_code
        return code

    async def end(self, *, commits: bool, producer_epoch: int | None = None) -> int:
        """Commit or abort; returns the error code."""
        response = await self.client.call(
            ApiKey.END_TXN,
            END[self.version],
            end_txn.EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch if producer_epoch is None else producer_epoch,
                committed=commits,
            ),
        )
        if self.version == V2 and response.error_code == ErrorCode.NONE:
            self.producer_id, self.producer_epoch = response.producer_id, response.producer_epoch
            self.sequences.clear()
        code: int = response.error_code
        return code


async def make_topic(client: RawClient, name: str) -> None:
    """Have a topic made by asking for it."""
    request = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=name)])

    async def has_leader() -> bool:
        response = await client.call(ApiKey.METADATA, 12, request)
        return bool(response.topics[0].error_code == ErrorCode.NONE)

    await eventually(has_leader)


async def read(
    client: RawClient, topic: str, *, isolation_level: int = READ_COMMITTED, partition: int = 0
) -> tuple[list[bytes], int]:
    """What a consumer shows from offset 0 on, and the last stable offset."""
    response = await client.call(
        ApiKey.FETCH,
        11,
        fetch.FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 24,
            isolation_level=isolation_level,
            session_id=0,
            session_epoch=-1,
            topics=[
                fetch.FetchTopic(
                    topic=topic,
                    partitions=[
                        fetch.FetchPartition(
                            partition=partition, fetch_offset=0, partition_max_bytes=1 << 24
                        )
                    ],
                )
            ],
        ),
    )
    (answer,) = response.responses[0].partitions
    return committed_values(answer), answer.last_stable_offset


def committed_values(answer: fetch.PartitionData) -> list[bytes]:
    """What a consumer shows of an answer: no markers, and nothing that was aborted."""
    records = answer.records or b""
    data = b"".join(records) if isinstance(records, list) else bytes(records)
    aborted = sorted(
        (one.first_offset, one.producer_id) for one in answer.aborted_transactions or ()
    )
    values: list[bytes] = []
    dropping: set[int] = set()
    for position, header in iterate_headers(data):
        while aborted and aborted[0][0] <= header.last_offset:
            dropping.add(aborted.pop(0)[1])
        if header.is_control:
            dropping.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropping):
            values += [record.value or b"" for record in decode_records(data, position)]
    return values


async def committed(
    client: RawClient, group_id: str, topic: str, *, require_stable: bool = False
) -> tuple[int, int]:
    """The committed offset of partition 0 and its error code."""
    response = await client.call(
        ApiKey.OFFSET_FETCH,
        7,
        offset_fetch.OffsetFetchRequest(
            group_id=group_id,
            topics=[offset_fetch.OffsetFetchRequestTopic(name=topic, partition_indexes=[0])],
            require_stable=require_stable,
        ),
    )
    (partition,) = response.topics[0].partitions
    return partition.committed_offset, partition.error_code
