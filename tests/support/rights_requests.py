"""Requests that name one topic, group and transactional id, for tests of what needs which rights.

Not here: what each of them needs, and is told without it (`rights_cases.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from barnabas_broker.security.authorizer import CLUSTER_NAME
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.ids import ZERO_UUID
from barnabas_protocol.messages import (
    add_partitions_to_txn,
    alter_configs,
    alter_share_group_offsets,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_records,
    delete_share_group_offsets,
    describe_configs,
    describe_producers,
    describe_share_group_offsets,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    share_acknowledge,
    share_fetch,
    share_group_heartbeat,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)
from barnabas_protocol.records.record import Record, encode_batch

_TOPIC, _GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
_CLUSTER, _TRANSACTION = AclResourceType.CLUSTER, AclResourceType.TRANSACTIONAL_ID
_READ, _WRITE, _DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE
_ALTER, _DESCRIBE = AclOperation.ALTER, AclOperation.DESCRIBE
MEMBER: Final = "AAAAAAAAAAAAAAAAAAAAAQ"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What the requests name."""

    topic: str = "orders"
    topic_id: bytes = ZERO_UUID
    group: str = "readers"
    share_group: str = "queue"
    transactional_id: str = "tx"

    def of(self, resource_type: AclResourceType, *, is_share: bool = False) -> str:
        """The name of the resource of a type."""
        return {
            _TOPIC: self.topic,
            _GROUP: self.share_group if is_share else self.group,
            _CLUSTER: CLUSTER_NAME,
            _TRANSACTION: self.transactional_id,
        }[resource_type]


def record_batch(**options: Any) -> bytes:
    return encode_batch([Record(0, 1_000, None, b"x")], **options)


def produce_request(
    named: Named, records: bytes, transactional_id: str | None = None
) -> produce.ProduceRequest:
    return produce.ProduceRequest(
        acks=-1,
        timeout_ms=5_000,
        transactional_id=transactional_id,
        topic_data=[
            produce.TopicProduceData(
                name=named.topic,
                topic_id=named.topic_id,
                partition_data=[produce.PartitionProduceData(index=0, records=records)],
            )
        ],
    )


def transactional_request(named: Named) -> produce.ProduceRequest:
    records = record_batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    return produce_request(named, records, named.transactional_id)


def fetch_request(named: Named) -> fetch.FetchRequest:
    return fetch.FetchRequest(
        topics=[
            fetch.FetchTopic(
                topic=named.topic,
                topic_id=named.topic_id,
                partitions=[
                    fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
                ],
            )
        ]
    )


def list_offsets_request(named: Named) -> list_offsets.ListOffsetsRequest:
    partitions = [list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)]
    return list_offsets.ListOffsetsRequest(
        replica_id=-1,
        topics=[list_offsets.ListOffsetsTopic(name=named.topic, partitions=partitions)],
    )


def epochs_request(named: Named) -> offset_for_leader_epoch.OffsetForLeaderEpochRequest:
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[
            offset_for_leader_epoch.OffsetForLeaderTopic(
                topic=named.topic,
                partitions=[
                    offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0)
                ],
            )
        ],
    )


def metadata_request(named: Named, *, by_id: bool = False) -> metadata.MetadataRequest:
    topic = (
        metadata.MetadataRequestTopic(topic_id=named.topic_id, name=None)
        if by_id
        else metadata.MetadataRequestTopic(name=named.topic)
    )
    return metadata.MetadataRequest(topics=[topic], allow_auto_topic_creation=False)


def producers_request(named: Named) -> describe_producers.DescribeProducersRequest:
    return describe_producers.DescribeProducersRequest(
        topics=[describe_producers.TopicRequest(name=named.topic, partition_indexes=[0])]
    )


def coordinator_request(key: str, key_type: int) -> find_coordinator.FindCoordinatorRequest:
    return find_coordinator.FindCoordinatorRequest(
        key=key, key_type=key_type, coordinator_keys=[key]
    )


def commit_request(named: Named) -> offset_commit.OffsetCommitRequest:
    return offset_commit.OffsetCommitRequest(
        group_id=named.group,
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                name=named.topic,
                partitions=[
                    offset_commit.OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=0, committed_metadata=""
                    )
                ],
            )
        ],
    )


def transaction_commit_request(named: Named) -> txn_offset_commit.TxnOffsetCommitRequest:
    return txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id=named.transactional_id,
        group_id=named.group,
        producer_id=7,
        producer_epoch=0,
        topics=[
            txn_offset_commit.TxnOffsetCommitRequestTopic(
                name=named.topic,
                partitions=[
                    txn_offset_commit.TxnOffsetCommitRequestPartition(
                        partition_index=0, committed_offset=0, committed_metadata=""
                    )
                ],
            )
        ],
    )


def offsets_of_one_request(named: Named) -> offset_fetch.OffsetFetchRequest:
    topic = offset_fetch.OffsetFetchRequestTopic(name=named.topic, partition_indexes=[0])
    return offset_fetch.OffsetFetchRequest(group_id=named.group, topics=[topic])


def offsets_of_many_request(named: Named) -> offset_fetch.OffsetFetchRequest:
    topic = offset_fetch.OffsetFetchRequestTopics(name=named.topic, partition_indexes=[0])
    return offset_fetch.OffsetFetchRequest(
        groups=[offset_fetch.OffsetFetchRequestGroup(group_id=named.group, topics=[topic])]
    )


def offset_delete_request(named: Named) -> offset_delete.OffsetDeleteRequest:
    partitions = [offset_delete.OffsetDeleteRequestPartition(partition_index=0)]
    return offset_delete.OffsetDeleteRequest(
        group_id=named.group,
        topics=[offset_delete.OffsetDeleteRequestTopic(name=named.topic, partitions=partitions)],
    )


def join_request(named: Named) -> join_group.JoinGroupRequest:
    return join_group.JoinGroupRequest(
        group_id=named.group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[join_group.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def sync_request(named: Named) -> sync_group.SyncGroupRequest:
    return sync_group.SyncGroupRequest(group_id=named.group, member_id="m", generation_id=1)


def heartbeat_request(named: Named) -> heartbeat.HeartbeatRequest:
    return heartbeat.HeartbeatRequest(group_id=named.group, member_id="m", generation_id=1)


def leave_request(named: Named) -> leave_group.LeaveGroupRequest:
    return leave_group.LeaveGroupRequest(
        group_id=named.group, members=[leave_group.MemberIdentity(member_id="m")]
    )


def consumer_beat_request(named: Named) -> consumer_group_heartbeat.ConsumerGroupHeartbeatRequest:
    return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=named.group,
        member_id=MEMBER,
        member_epoch=0,
        rebalance_timeout_ms=5_000,
        subscribed_topic_names=[named.topic],
        topic_partitions=[],
    )


def share_beat_request(named: Named) -> share_group_heartbeat.ShareGroupHeartbeatRequest:
    return share_group_heartbeat.ShareGroupHeartbeatRequest(
        group_id=named.share_group,
        member_id=MEMBER,
        member_epoch=0,
        subscribed_topic_names=[named.topic],
    )


def share_fetch_request(named: Named) -> share_fetch.ShareFetchRequest:
    return share_fetch.ShareFetchRequest(
        group_id=named.share_group,
        member_id=MEMBER,
        share_session_epoch=0,
        max_bytes=1000,
        max_records=10,
        batch_size=10,
        topics=[
            share_fetch.FetchTopic(
                topic_id=named.topic_id, partitions=[share_fetch.FetchPartition(partition_index=0)]
            )
        ],
    )


def share_acknowledge_request(named: Named) -> share_acknowledge.ShareAcknowledgeRequest:
    batch = share_acknowledge.AcknowledgementBatch(
        first_offset=0, last_offset=0, acknowledge_types=[1]
    )
    return share_acknowledge.ShareAcknowledgeRequest(
        group_id=named.share_group,
        member_id=MEMBER,
        share_session_epoch=1,
        topics=[
            share_acknowledge.AcknowledgeTopic(
                topic_id=named.topic_id,
                partitions=[
                    share_acknowledge.AcknowledgePartition(
                        partition_index=0, acknowledgement_batches=[batch]
                    )
                ],
            )
        ],
    )


def describe_share_request(
    named: Named,
) -> describe_share_group_offsets.DescribeShareGroupOffsetsRequest:
    topic = describe_share_group_offsets.DescribeShareGroupOffsetsRequestTopic(
        topic_name=named.topic, partitions=[0]
    )
    return describe_share_group_offsets.DescribeShareGroupOffsetsRequest(
        groups=[
            describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(
                group_id=named.share_group, topics=[topic]
            )
        ]
    )


def alter_share_request(named: Named) -> alter_share_group_offsets.AlterShareGroupOffsetsRequest:
    partition = alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(
        partition_index=0, start_offset=0
    )
    return alter_share_group_offsets.AlterShareGroupOffsetsRequest(
        group_id=named.share_group,
        topics=[
            alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(
                topic_name=named.topic, partitions=[partition]
            )
        ],
    )


def delete_share_request(named: Named) -> delete_share_group_offsets.DeleteShareGroupOffsetsRequest:
    return delete_share_group_offsets.DeleteShareGroupOffsetsRequest(
        group_id=named.share_group,
        topics=[
            delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name=named.topic)
        ],
    )


def init_request(transactional_id: str | None) -> init_producer_id.InitProducerIdRequest:
    return init_producer_id.InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=60_000
    )


def add_request(named: Named) -> add_partitions_to_txn.AddPartitionsToTxnRequest:
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(name=named.topic, partitions=[0])]
    return add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=named.transactional_id,
        v3_and_below_producer_id=7,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=topics,
        transactions=[
            add_partitions_to_txn.AddPartitionsToTxnTransaction(
                transactional_id=named.transactional_id,
                producer_id=7,
                producer_epoch=0,
                verify_only=True,
                topics=topics,
            )
        ],
    )


def markers_request(named: Named) -> write_txn_markers.WriteTxnMarkersRequest:
    topic = write_txn_markers.WritableTxnMarkerTopic(name=named.topic, partition_indexes=[9])
    return write_txn_markers.WriteTxnMarkersRequest(
        markers=[write_txn_markers.WritableTxnMarker(producer_id=7, topics=[topic])]
    )


def records_deletion_request(named: Named) -> delete_records.DeleteRecordsRequest:
    partitions = [delete_records.DeleteRecordsPartition(partition_index=0, offset=0)]
    return delete_records.DeleteRecordsRequest(
        topics=[delete_records.DeleteRecordsTopic(name=named.topic, partitions=partitions)],
        timeout_ms=5_000,
    )


def new_topic_request(named: Named) -> create_topics.CreateTopicsRequest:
    topic = create_topics.CreatableTopic(name=named.topic, num_partitions=1, replication_factor=1)
    return create_topics.CreateTopicsRequest(topics=[topic], validate_only=True)


def more_partitions_request(named: Named) -> create_partitions.CreatePartitionsRequest:
    topic = create_partitions.CreatePartitionsTopic(name=named.topic, count=3)
    return create_partitions.CreatePartitionsRequest(topics=[topic], validate_only=True)


def _config_name(named: Named, on: AclResourceType) -> tuple[int, str]:
    """The type and the name of a resource with settings; of all brokers for the cluster."""
    return {_TOPIC: (2, named.topic), _GROUP: (32, named.group), _CLUSTER: (4, "")}[on]


def settings_of(on: AclResourceType) -> Callable[[Named], Any]:
    def request(named: Named) -> describe_configs.DescribeConfigsRequest:
        kind, name = _config_name(named, on)
        resource = describe_configs.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=["none"]
        )
        return describe_configs.DescribeConfigsRequest(resources=[resource])

    return request


_SETTINGS: Final = {
    _TOPIC: ("retention.ms", "1000000"),
    _GROUP: ("consumer.session.timeout.ms", "50000"),
    _CLUSTER: ("log.cleaner.threads", "1"),
}


def settings_for(on: AclResourceType) -> Callable[[Named], Any]:
    def request(named: Named) -> alter_configs.AlterConfigsRequest:
        kind, name = _config_name(named, on)
        key, value = _SETTINGS[on]
        resource = alter_configs.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[alter_configs.AlterableConfig(name=key, value=value)],
        )
        return alter_configs.AlterConfigsRequest(resources=[resource], validate_only=True)

    return request


def setting_for(on: AclResourceType) -> Callable[[Named], Any]:
    def request(named: Named) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
        kind, name = _config_name(named, on)
        key, value = _SETTINGS[on]
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[incremental_alter_configs.AlterableConfig(name=key, value=value)],
        )
        return incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[resource], validate_only=True
        )

    return request
