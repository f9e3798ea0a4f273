"""`admin.transactions`, with transactions made by plain requests."""

import asyncio
from collections.abc import Callable
from typing import Any

from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.admin.values.transactions import HangingTransaction, TransactionState
from barnabas_client.errors import FencedError, NotFoundError
from barnabas_client.network.client import Client, CoordinatorType
from barnabas_protocol.errors import ErrorCode, is_retriable
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from barnabas_protocol.messages.init_producer_id import InitProducerIdRequest
from tests.client.admin.raw_requests import connected, create_topics, produce
from tests.support.in_process_broker import eventually

Unique = Callable[[str], str]

# The last version in which a client adds partitions; later ones are between brokers.
_ADD_PARTITIONS_MAX = 3


async def ask(client: Client, transactional_id: str, request: Any, version: int) -> Any:
    """The answer of the coordinator of a transactional id, waited for while it loads."""
    answers: list[Any] = []

    async def is_answered() -> bool:
        node_id = await client.coordinator(CoordinatorType.TRANSACTION, transactional_id)
        answers.append(await client.request(node_id, request, version=version))
        return not is_retriable(answers[-1].error_code)

    await eventually(is_answered)
    assert answers[-1].error_code == ErrorCode.NONE
    return answers[-1]


async def open_transaction(
    client: Client, transactional_id: str, partition: TopicPartition
) -> tuple[int, int]:
    """Begin a transaction with one record in it; returns producer id and epoch."""
    initialized = await ask(
        client,
        transactional_id,
        InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000),
        4,
    )
    producer = (initialized.producer_id, initialized.producer_epoch)
    node_id = await client.coordinator(CoordinatorType.TRANSACTION, transactional_id)
    added = await client.request(
        node_id,
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=partition.topic, partitions=[partition.partition])
            ],
        ),
        version=_ADD_PARTITIONS_MAX,
    )
    (topic,) = added.results_by_topic_v3_and_below
    assert topic.results_by_partition[0].partition_error_code == ErrorCode.NONE
    await produce(
        client,
        partition,
        [1],
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=0,
        is_transactional=True,
    )
    return producer


def test_transactions_are_listed_described_and_fenced(bootstrap: str, unique: Unique) -> None:
    """An open transaction as its coordinator sees it, then its producer is shut out."""
    partition = TopicPartition(unique("admin.transactions"), 0)
    transactional_id = unique("admin.id")

    async def run() -> None:
        async with connected(bootstrap) as (client, admin):
            await create_topics(admin, NewTopic(name=partition.topic, partition_count=1))
            producer_id, epoch = await open_transaction(client, transactional_id, partition)
            mine = await admin.transactions.list(producer_ids=[producer_id])
            assert [one.transactional_id for one in mine] == [transactional_id]
            assert mine[0].state is TransactionState.ONGOING
            ongoing = await admin.transactions.list(states=[TransactionState.ONGOING])
            assert transactional_id in {one.transactional_id for one in ongoing}
            young = await admin.transactions.list(longer_than_ms=3_600_000)
            assert transactional_id not in {one.transactional_id for one in young}
            of_pattern = await admin.transactions.list(
                transactional_id_pattern=f"{transactional_id[:8]}.*"
            )
            assert transactional_id in {one.transactional_id for one in of_pattern}

            outcomes = await admin.transactions.describe([transactional_id, "no-such-id"])
            described = outcomes[transactional_id].unwrap()
            assert described.state is TransactionState.ONGOING
            assert (described.producer_id, described.producer_epoch) == (producer_id, epoch)
            assert described.partitions == (partition,)
            assert described.timeout_ms == 60_000
            assert described.started_at_ms is not None
            assert isinstance(outcomes["no-such-id"].error, NotFoundError)

            fenced = (await admin.transactions.fence_producers([transactional_id])).unwrap()
            assert fenced[transactional_id].producer_epoch > epoch
            after = (await admin.transactions.describe([transactional_id]))[transactional_id]
            assert after.unwrap().state is not TransactionState.ONGOING
            assert after.unwrap().started_at_ms is None
            await admin.topics.delete([partition.topic])

    asyncio.run(run())


def test_an_open_transaction_on_a_partition_is_found_and_aborted(
    bootstrap: str, unique: Unique
) -> None:
    """KIP-664: the partition tells the producer, and a marker of abort lets readers go on."""
    partition = TopicPartition(unique("admin.hanging"), 0)
    transactional_id = unique("admin.id")

    async def run() -> None:
        async with connected(bootstrap) as (client, admin):
            await create_topics(admin, NewTopic(name=partition.topic, partition_count=1))
            producer_id, epoch = await open_transaction(client, transactional_id, partition)
            for node_id in (None, 1):
                producers = await admin.transactions.describe_producers(
                    [partition], node_id=node_id
                )
                (state,) = producers[partition].unwrap()
                assert (state.producer_id, state.producer_epoch) == (producer_id, epoch)
                assert (state.transaction_start_offset, state.last_sequence) == (0, 0)
            hanging = HangingTransaction(
                partition=partition,
                producer_id=producer_id,
                producer_epoch=epoch,
                coordinator_epoch=state.coordinator_epoch or 0,
            )
            await admin.transactions.abort(hanging)
            producers = await admin.transactions.describe_producers([partition])
            (after,) = producers[partition].unwrap()
            assert after.transaction_start_offset is None
            missing = TopicPartition("no-such-topic", 0)
            outcomes = await admin.transactions.describe_producers([missing])
            assert isinstance(outcomes[missing].error, NotFoundError)
            # The coordinator knows of the transaction still and ends it with a higher epoch.
            (await admin.transactions.fence_producers([transactional_id])).unwrap()

            async def is_refused() -> bool:
                try:
                    await admin.transactions.abort(hanging)
                except FencedError:
                    return True
                return False

            await eventually(is_refused)
            await admin.topics.delete([partition.topic])

    asyncio.run(run())
