"""What makes things for administrators to look at: records, group members, transactions.

Plain requests over the client's network, so that these tests stand on nothing but the network.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.config.admin_settings import AdminSettings
from barnabas_client.network.client import Client, CoordinatorType
from barnabas_protocol.consumer_protocol import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from barnabas_protocol.errors import ErrorCode, is_retriable
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas_protocol.records.record import Record, encode_batch
from tests.support.in_process_broker import eventually

# The last version of Produce that names topics.
_PRODUCE_BY_NAME = 12


@asynccontextmanager
async def connected(bootstrap: str, **settings: Any) -> AsyncIterator[tuple[Client, Admin]]:
    """A client and an admin client on it."""
    values = {"bootstrap_servers": bootstrap, "default_api_timeout_ms": 20_000, **settings}
    client = Client(AdminSettings.create(values))
    await client.start()
    try:
        async with Admin(bootstrap, client=client) as admin:
            yield client, admin
    finally:
        await client.close()


async def create_topics(admin: Admin, *topics: NewTopic) -> None:
    """Create topics and wait until the broker tells of all their partitions.

    Apache Kafka answers as soon as the controller knows them; brokers hear of it a little later.
    """
    created = (await admin.topics.create(topics)).unwrap()
    counts = {name: one.partition_count for name, one in created.items()}

    async def are_known() -> bool:
        described = (await admin.topics.describe(counts)).successes
        return counts == {name: one.partition_count for name, one in described.items()}

    await eventually(are_known)


async def produce(
    client: Client,
    partition: TopicPartition,
    timestamps_ms: Sequence[int],
    *,
    transactional_id: str | None = None,
    **batch: Any,
) -> None:
    """Append one batch with a record per timestamp; waits until the broker leads."""
    records = [Record(n, stamp, b"key", b"value") for n, stamp in enumerate(timestamps_ms)]
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=5000,
        topic_data=[
            TopicProduceData(
                name=partition.topic,
                partition_data=[
                    PartitionProduceData(
                        index=partition.partition, records=encode_batch(records, **batch)
                    )
                ],
            )
        ],
    )
    (node_id, *_) = client.cluster.nodes
    codes: list[int] = []

    async def is_answered() -> bool:
        answer = await client.request(node_id, request, version=_PRODUCE_BY_NAME)
        codes.append(answer.responses[0].partition_responses[0].error_code)
        return not is_retriable(codes[-1])

    await eventually(is_answered)
    assert codes[-1] == ErrorCode.NONE, ErrorCode(codes[-1])


async def ask_coordinator(
    client: Client, group_id: str, request: Any, *, version: int | None = None
) -> Any:
    """The answer of a group's coordinator, waited for while the broker makes itself one."""
    answers: list[Any] = []

    async def is_answered() -> bool:
        node_id = await client.coordinator(CoordinatorType.GROUP, group_id)
        answers.append(await client.request(node_id, request, version=version))
        is_moved = is_retriable(answers[-1].error_code)
        if is_moved:
            client.forget_coordinator(CoordinatorType.GROUP, group_id)
        return not is_moved

    await eventually(is_answered)
    return answers[-1]


async def join_classic_group(
    client: Client,
    group_id: str,
    assigned: dict[str, tuple[int, ...]],
    *,
    protocol_type: str = "consumer",
    group_instance_id: str | None = None,
) -> str:
    """Become the only member of a classic group and assign to oneself; returns the member id."""
    subscription = encode_subscription(Subscription(topics=tuple(assigned)))
    member_id = ""
    while True:
        joined = await ask_coordinator(
            client,
            group_id,
            JoinGroupRequest(
                group_id=group_id,
                session_timeout_ms=30_000,
                rebalance_timeout_ms=30_000,
                member_id=member_id,
                group_instance_id=group_instance_id,
                protocol_type=protocol_type,
                protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
            ),
        )
        if joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:
            break
        member_id = joined.member_id
    assert joined.error_code == ErrorCode.NONE, ErrorCode(joined.error_code)
    synced = await ask_coordinator(
        client,
        group_id,
        SyncGroupRequest(
            group_id=group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=group_instance_id,
            protocol_type=protocol_type,
            protocol_name="range",
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=joined.member_id,
                    assignment=encode_assignment(Assignment(partitions=assigned)),
                )
            ],
        ),
    )
    assert synced.error_code == ErrorCode.NONE, ErrorCode(synced.error_code)
    member: str = joined.member_id
    return member
