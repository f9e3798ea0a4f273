"""A transactional producer of bare requests (the first protocol of transactions)."""

from typing import Any

from barnabas_client.errors import error_for
from barnabas_client.network.client import Client, CoordinatorType
from barnabas_client.network.retrying import retrying
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from barnabas_protocol.messages.end_txn import EndTxnRequest
from barnabas_protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas_protocol.records.record import encode_batch
from tests.client.consumer.raw_topic import TIMEOUT_MS, records


class RawTransaction:
    """One transactional id; `begin` is the first `append` after `start` or `end`."""

    def __init__(self, client: Client, transactional_id: str) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.producer_id = -1
        self.producer_epoch = -1
        self.sequence: dict[TopicPartition, int] = {}

    async def start(self) -> None:
        """Take a producer id."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=60_000
        )
        answer = await self._ask(request, 4)
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch

    async def append(self, partition: TopicPartition, *values: bytes) -> None:
        """One batch within the transaction."""
        topic = AddPartitionsToTxnTopic(name=partition.topic, partitions=[partition.partition])
        await self._ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.producer_epoch,
                v3_and_below_topics=[topic],
            ),
            3,
        )
        sequence = self.sequence.get(partition, 0)
        self.sequence[partition] = sequence + len(values)
        batch = encode_batch(
            records(*values),
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        data = PartitionProduceData(index=partition.partition, records=batch)
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=TIMEOUT_MS,
            topic_data=[TopicProduceData(name=partition.topic, partition_data=[data])],
        )

        async def attempt() -> None:
            leader = self.client.cluster.leader(*partition)
            assert leader is not None
            answer = await self.client.request(leader.node_id, request, version=9)
            code = answer.responses[0].partition_responses[0].error_code
            if code != ErrorCode.NONE:
                raise error_for(code)

        # The sequence makes it one batch, however often it is sent.
        await retrying(self.client, attempt, timeout_ms=TIMEOUT_MS)

    async def end(self, *, commits: bool) -> None:
        """Commit or abort."""
        await self._ask(
            EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                committed=commits,
            ),
            3,
        )

    async def _ask(self, request: Any, version: int) -> Any:
        async def attempt() -> Any:
            kind = CoordinatorType.TRANSACTION
            node_id = await self.client.coordinator(kind, self.transactional_id)
            answer = await self.client.request(node_id, request, version=version)
            code = getattr(answer, "error_code", ErrorCode.NONE)
            for topic in getattr(answer, "results_by_topic_v3_and_below", ()):
                for row in topic.results_by_partition:
                    code = row.partition_error_code or code
            if code != ErrorCode.NONE:
                self.client.forget_coordinator(kind, self.transactional_id)
                raise error_for(code)
            return answer

        return await retrying(self.client, attempt, timeout_ms=TIMEOUT_MS)
