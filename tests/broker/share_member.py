"""A member of a share group that speaks the protocol itself, and keeps count of its epochs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from barnabas_broker.env.clock import SystemClock
from barnabas_broker.metadata.image import RESOURCE_GROUP
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import (
    create_topics,
    delete_topics,
    find_coordinator,
    incremental_alter_configs,
    metadata,
    produce,
    share_acknowledge,
    share_fetch,
    share_group_heartbeat,
    update_features,
)
from barnabas_protocol.records.record import Record, encode_batch
from tests.support.in_process_broker import eventually
from tests.support.raw_client import RawClient

Acknowledged = tuple[int, int, Sequence[int]]


async def switch(client: RawClient, *, level: int) -> None:
    """Put `share.version` to a level."""
    response = await client.call(
        ApiKey.UPDATE_FEATURES,
        1,
        update_features.UpdateFeaturesRequest(
            timeout_ms=10_000,
            feature_updates=[
                update_features.FeatureUpdateKey(
                    feature="share.version", max_version_level=level, upgrade_type=1 if level else 2
                )
            ],
        ),
    )
    assert response.error_code == ErrorCode.NONE


async def create_topic(
    client: RawClient, name: str, partitions: int = 1, replicas: int = 1
) -> bytes:
    """Create a topic; returns its id once the broker has it."""
    await client.call(
        ApiKey.CREATE_TOPICS,
        7,
        create_topics.CreateTopicsRequest(
            topics=[
                create_topics.CreatableTopic(
                    name=name, num_partitions=partitions, replication_factor=replicas
                )
            ],
            timeout_ms=10_000,
        ),
    )
    found: list[bytes] = []

    async def is_there() -> bool:
        response = await client.call(
            ApiKey.METADATA,
            12,
            metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=name)]),
        )
        topic = response.topics[0]
        found[:] = [topic.topic_id]
        return topic.error_code == ErrorCode.NONE and all(
            partition.leader_id >= 0 for partition in topic.partitions
        )

    await eventually(is_there)
    return found[0]


async def delete_topic(client: RawClient, name: str) -> None:
    """Delete a topic."""
    response = await client.call(
        ApiKey.DELETE_TOPICS,
        5,
        delete_topics.DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000),
    )
    assert response.responses[0].error_code == ErrorCode.NONE


async def append(client: RawClient, topic: str, values: Iterable[bytes], partition: int = 0) -> int:
    """Produce one batch; returns its base offset."""
    now_ms = SystemClock().wall_ms()
    records = [Record(index, now_ms, None, one) for index, one in enumerate(values)]
    response = await client.call(
        ApiKey.PRODUCE,
        9,
        produce.ProduceRequest(
            acks=-1,
            timeout_ms=10_000,
            topic_data=[
                produce.TopicProduceData(
                    name=topic,
                    partition_data=[
                        produce.PartitionProduceData(index=partition, records=encode_batch(records))
                    ],
                )
            ],
        ),
    )
    produced = response.responses[0].partition_responses[0]
    assert produced.error_code == ErrorCode.NONE
    offset: int = produced.base_offset
    return offset


async def configure(client: RawClient, group_id: str, name: str, value: str) -> None:
    """Set a config of a group."""
    response = await client.call(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[
                incremental_alter_configs.AlterConfigsResource(
                    resource_type=RESOURCE_GROUP,
                    resource_name=group_id,
                    configs=[incremental_alter_configs.AlterableConfig(name=name, value=value)],
                )
            ]
        ),
    )
    assert response.responses[0].error_code == ErrorCode.NONE, response.responses[0].error_message


async def coordinator_of(client: RawClient, group_id: str) -> int:
    """The broker that coordinates a group, once its topic is there."""
    found: list[int] = []

    async def is_known() -> bool:
        response = await client.call(
            ApiKey.FIND_COORDINATOR,
            4,
            find_coordinator.FindCoordinatorRequest(coordinator_keys=[group_id]),
        )
        found[:] = [response.coordinators[0].node_id]
        return found[0] >= 0

    await eventually(is_known)
    return found[0]


class ShareMember:
    """One member on one connection, with one partition at a time in each request."""

    def __init__(self, client: RawClient, group_id: str, member_id: str, topic_id: bytes) -> None:
        self.client = client
        self.group_id = group_id
        self.member_id = member_id
        self.topic_id = topic_id
        self.member_epoch = 0
        self.session_epoch = 0

    async def heartbeat(self, topics: Sequence[str] | None = None) -> Any:
        response = await self.client.call(
            ApiKey.SHARE_GROUP_HEARTBEAT,
            1,
            share_group_heartbeat.ShareGroupHeartbeatRequest(
                group_id=self.group_id,
                member_id=self.member_id,
                member_epoch=self.member_epoch,
                subscribed_topic_names=None if topics is None else list(topics),
            ),
        )
        if response.error_code == ErrorCode.NONE:
            self.member_epoch = response.member_epoch
        return response

    async def join(self, *topics: str) -> list[tuple[bytes, int]]:
        """Join and send heartbeats until something is assigned; returns that."""
        assigned: list[tuple[bytes, int]] = []
        wanted: list[Sequence[str] | None] = [topics]

        async def is_assigned() -> bool:
            response = await self.heartbeat(wanted[0])
            if response.error_code == ErrorCode.NONE:
                wanted[0] = None
            if response.assignment is not None:
                assigned[:] = [
                    (topic.topic_id, partition)
                    for topic in response.assignment.topic_partitions
                    for partition in topic.partitions
                ]
            return bool(assigned)

        await eventually(is_assigned)
        return assigned

    async def fetch(
        self,
        *partitions: int,
        acknowledge: dict[int, Sequence[Acknowledged]] | None = None,
        session_epoch: int | None = None,
        version: int = 2,
        **fields: Any,
    ) -> Any:
        """Fetch; the partitions are named, those without are the session's."""
        given = acknowledge or {}
        named = dict.fromkeys([*partitions, *given])
        request = share_fetch.ShareFetchRequest(
            **{
                "group_id": self.group_id,
                "member_id": self.member_id,
                "share_session_epoch": (
                    self.session_epoch if session_epoch is None else session_epoch
                ),
                "max_wait_ms": 5_000,
                "min_bytes": 1,
                "max_bytes": 1024 * 1024,
                "max_records": 500,
                "batch_size": 500,
                "topics": [
                    share_fetch.FetchTopic(
                        topic_id=self.topic_id,
                        partitions=[
                            share_fetch.FetchPartition(
                                partition_index=index,
                                acknowledgement_batches=[
                                    share_fetch.AcknowledgementBatch(
                                        first_offset=first,
                                        last_offset=last,
                                        acknowledge_types=list(types),
                                    )
                                    for first, last, types in given.get(index, ())
                                ],
                            )
                            for index in named
                        ],
                    )
                ]
                if named
                else [],
                **fields,
            }
        )
        response = await self.client.call(ApiKey.SHARE_FETCH, version, request)
        if response.error_code == ErrorCode.NONE and session_epoch is None:
            self.session_epoch += 1
        return response

    async def acknowledge(
        self,
        *batches: Acknowledged,
        partition: int = 0,
        session_epoch: int | None = None,
        is_renew: bool = False,
    ) -> Any:
        response = await self.client.call(
            ApiKey.SHARE_ACKNOWLEDGE,
            2,
            share_acknowledge.ShareAcknowledgeRequest(
                group_id=self.group_id,
                member_id=self.member_id,
                share_session_epoch=(
                    self.session_epoch if session_epoch is None else session_epoch
                ),
                is_renew_ack=is_renew,
                topics=[
                    share_acknowledge.AcknowledgeTopic(
                        topic_id=self.topic_id,
                        partitions=[
                            share_acknowledge.AcknowledgePartition(
                                partition_index=partition,
                                acknowledgement_batches=[
                                    share_acknowledge.AcknowledgementBatch(
                                        first_offset=first,
                                        last_offset=last,
                                        acknowledge_types=list(types),
                                    )
                                    for first, last, types in batches
                                ],
                            )
                        ],
                    )
                ]
                if batches
                else [],
            ),
        )
        if response.error_code == ErrorCode.NONE and session_epoch is None:
            self.session_epoch += 1
        return response


def acquired_of(response: Any) -> list[tuple[int, int, int]]:
    """What a ShareFetch response has acquired, of all partitions: first, last, delivery count."""
    assert response.error_code == ErrorCode.NONE, response.error_message
    return [
        (one.first_offset, one.last_offset, one.delivery_count)
        for topic in response.responses
        for partition in topic.partitions
        for one in partition.acquired_records
    ]


def error_of(response: Any) -> int:
    """The error of the only partition of a response."""
    assert response.error_code == ErrorCode.NONE, response.error_message
    code: int = response.responses[0].partitions[0].error_code
    return code
