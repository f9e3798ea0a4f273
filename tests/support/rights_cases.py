"""One request of each API that names what it needs rights to, those rights, and its refusals.

A table for tests of whatever broker: the requests name one topic, group and transactional id.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from barnabas_broker.security.authorizer import CLUSTER_NAME
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import ZERO_UUID
from barnabas_protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    alter_share_group_offsets,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    describe_configs,
    describe_groups,
    describe_producers,
    describe_share_group_offsets,
    describe_topic_partitions,
    describe_transactions,
    end_txn,
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
    share_group_describe,
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
_CODES: Final = {
    _TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    _GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    _CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    _TRANSACTION: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
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


@dataclass(frozen=True, slots=True)
class Need:
    """A right, and the field of the response that has the error without it."""

    operation: AclOperation
    resource_type: AclResourceType
    place: str
    #: What does as well.
    instead: tuple[tuple[AclOperation, AclResourceType], ...] = ()

    @property
    def code(self) -> ErrorCode:
        """What a request is told without it."""
        return _CODES[self.resource_type]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One request; without any right it is told what it is told without the first."""

    name: str
    key: ApiKey
    version: int
    request: Callable[[Named], Any]
    needs: tuple[Need, ...]
    #: Whether an id stands for the topic, which is no secret.
    by_id: bool = False
    is_share: bool = False


def _batch(**options: Any) -> bytes:
    return encode_batch([Record(0, 1_000, None, b"x")], **options)


def _produce(
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


def _transactional(named: Named) -> produce.ProduceRequest:
    records = _batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    return _produce(named, records, named.transactional_id)


def _fetch(named: Named) -> fetch.FetchRequest:
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


def _list_offsets(named: Named) -> list_offsets.ListOffsetsRequest:
    partitions = [list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)]
    return list_offsets.ListOffsetsRequest(
        replica_id=-1,
        topics=[list_offsets.ListOffsetsTopic(name=named.topic, partitions=partitions)],
    )


def _epochs(named: Named) -> offset_for_leader_epoch.OffsetForLeaderEpochRequest:
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


def _metadata(named: Named, *, by_id: bool = False) -> metadata.MetadataRequest:
    topic = (
        metadata.MetadataRequestTopic(topic_id=named.topic_id, name=None)
        if by_id
        else metadata.MetadataRequestTopic(name=named.topic)
    )
    return metadata.MetadataRequest(topics=[topic], allow_auto_topic_creation=False)


def _producers(named: Named) -> describe_producers.DescribeProducersRequest:
    return describe_producers.DescribeProducersRequest(
        topics=[describe_producers.TopicRequest(name=named.topic, partition_indexes=[0])]
    )


def _coordinator(key: str, key_type: int) -> find_coordinator.FindCoordinatorRequest:
    return find_coordinator.FindCoordinatorRequest(
        key=key, key_type=key_type, coordinator_keys=[key]
    )


def _commit(named: Named) -> offset_commit.OffsetCommitRequest:
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


def _transaction_commit(named: Named) -> txn_offset_commit.TxnOffsetCommitRequest:
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


def _offsets_of_one(named: Named) -> offset_fetch.OffsetFetchRequest:
    topic = offset_fetch.OffsetFetchRequestTopic(name=named.topic, partition_indexes=[0])
    return offset_fetch.OffsetFetchRequest(group_id=named.group, topics=[topic])


def _offsets_of_many(named: Named) -> offset_fetch.OffsetFetchRequest:
    topic = offset_fetch.OffsetFetchRequestTopics(name=named.topic, partition_indexes=[0])
    return offset_fetch.OffsetFetchRequest(
        groups=[offset_fetch.OffsetFetchRequestGroup(group_id=named.group, topics=[topic])]
    )


def _offset_delete(named: Named) -> offset_delete.OffsetDeleteRequest:
    partitions = [offset_delete.OffsetDeleteRequestPartition(partition_index=0)]
    return offset_delete.OffsetDeleteRequest(
        group_id=named.group,
        topics=[offset_delete.OffsetDeleteRequestTopic(name=named.topic, partitions=partitions)],
    )


def _join(named: Named) -> join_group.JoinGroupRequest:
    return join_group.JoinGroupRequest(
        group_id=named.group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[join_group.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def _sync(named: Named) -> sync_group.SyncGroupRequest:
    return sync_group.SyncGroupRequest(group_id=named.group, member_id="m", generation_id=1)


def _heartbeat(named: Named) -> heartbeat.HeartbeatRequest:
    return heartbeat.HeartbeatRequest(group_id=named.group, member_id="m", generation_id=1)


def _leave(named: Named) -> leave_group.LeaveGroupRequest:
    return leave_group.LeaveGroupRequest(
        group_id=named.group, members=[leave_group.MemberIdentity(member_id="m")]
    )


def _consumer_beat(named: Named) -> consumer_group_heartbeat.ConsumerGroupHeartbeatRequest:
    return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=named.group,
        member_id=MEMBER,
        member_epoch=0,
        rebalance_timeout_ms=5_000,
        subscribed_topic_names=[named.topic],
        topic_partitions=[],
    )


def _share_beat(named: Named) -> share_group_heartbeat.ShareGroupHeartbeatRequest:
    return share_group_heartbeat.ShareGroupHeartbeatRequest(
        group_id=named.share_group,
        member_id=MEMBER,
        member_epoch=0,
        subscribed_topic_names=[named.topic],
    )


def _share_fetch(named: Named) -> share_fetch.ShareFetchRequest:
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


def _share_acknowledge(named: Named) -> share_acknowledge.ShareAcknowledgeRequest:
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


def _describe_share(
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


def _alter_share(named: Named) -> alter_share_group_offsets.AlterShareGroupOffsetsRequest:
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


def _delete_share(named: Named) -> delete_share_group_offsets.DeleteShareGroupOffsetsRequest:
    return delete_share_group_offsets.DeleteShareGroupOffsetsRequest(
        group_id=named.share_group,
        topics=[
            delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name=named.topic)
        ],
    )


def _init(transactional_id: str | None) -> init_producer_id.InitProducerIdRequest:
    return init_producer_id.InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=60_000
    )


def _add(named: Named) -> add_partitions_to_txn.AddPartitionsToTxnRequest:
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


def _markers(named: Named) -> write_txn_markers.WriteTxnMarkersRequest:
    topic = write_txn_markers.WritableTxnMarkerTopic(name=named.topic, partition_indexes=[9])
    return write_txn_markers.WriteTxnMarkersRequest(
        markers=[write_txn_markers.WritableTxnMarker(producer_id=7, topics=[topic])]
    )


def _records_deletion(named: Named) -> delete_records.DeleteRecordsRequest:
    partitions = [delete_records.DeleteRecordsPartition(partition_index=0, offset=0)]
    return delete_records.DeleteRecordsRequest(
        topics=[delete_records.DeleteRecordsTopic(name=named.topic, partitions=partitions)],
        timeout_ms=5_000,
    )


def _new_topic(named: Named) -> create_topics.CreateTopicsRequest:
    topic = create_topics.CreatableTopic(name=named.topic, num_partitions=1, replication_factor=1)
    return create_topics.CreateTopicsRequest(topics=[topic], validate_only=True)


def _more_partitions(named: Named) -> create_partitions.CreatePartitionsRequest:
    topic = create_partitions.CreatePartitionsTopic(name=named.topic, count=3)
    return create_partitions.CreatePartitionsRequest(topics=[topic], validate_only=True)


def _config_name(named: Named, on: AclResourceType) -> tuple[int, str]:
    """The type and the name of a resource with settings; of all brokers for the cluster."""
    return {_TOPIC: (2, named.topic), _GROUP: (32, named.group), _CLUSTER: (4, "")}[on]


def _settings_of(on: AclResourceType) -> Callable[[Named], Any]:
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


def _settings_for(on: AclResourceType) -> Callable[[Named], Any]:
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


def _setting_for(on: AclResourceType) -> Callable[[Named], Any]:
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


def _case(
    name: str, key: ApiKey, version: int, request: Callable[[Named], Any], *needs: Need, **more: Any
) -> Case:
    return Case(name=name, key=key, version=version, request=request, needs=needs, **more)


_ON_PARTITION = "topics.partitions.error_code"
_DATA: Final = (
    _case(
        "produce",
        ApiKey.PRODUCE,
        9,
        lambda named: _produce(named, _batch()),
        Need(_WRITE, _TOPIC, "responses.partition_responses.error_code"),
    ),
    _case(
        "produce by id",
        ApiKey.PRODUCE,
        13,
        lambda named: _produce(named, _batch()),
        Need(_WRITE, _TOPIC, "responses.partition_responses.error_code"),
        by_id=True,
    ),
    _case(
        "produce in a transaction",
        ApiKey.PRODUCE,
        9,
        _transactional,
        Need(_WRITE, _TRANSACTION, "responses.partition_responses.error_code"),
        Need(_WRITE, _TOPIC, "responses.partition_responses.error_code"),
    ),
    _case(
        "fetch",
        ApiKey.FETCH,
        12,
        _fetch,
        Need(_READ, _TOPIC, "responses.partitions.error_code"),
    ),
    _case(
        "fetch by id",
        ApiKey.FETCH,
        13,
        _fetch,
        Need(_READ, _TOPIC, "responses.partitions.error_code"),
        by_id=True,
    ),
    _case("offsets", ApiKey.LIST_OFFSETS, 7, _list_offsets, Need(_DESCRIBE, _TOPIC, _ON_PARTITION)),
    _case(
        "leader epochs",
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        _epochs,
        Need(
            _DESCRIBE,
            _TOPIC,
            _ON_PARTITION,
            instead=((AclOperation.CLUSTER_ACTION, _CLUSTER),),
        ),
    ),
    _case("metadata", ApiKey.METADATA, 9, _metadata, Need(_DESCRIBE, _TOPIC, "topics.error_code")),
    _case(
        "metadata by id",
        ApiKey.METADATA,
        12,
        lambda named: _metadata(named, by_id=True),
        Need(_DESCRIBE, _TOPIC, "topics.error_code"),
        by_id=True,
    ),
    _case(
        "topic partitions",
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        lambda named: describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=[describe_topic_partitions.TopicRequest(name=named.topic)]
        ),
        Need(_DESCRIBE, _TOPIC, "topics.error_code"),
    ),
    _case(
        "producers",
        ApiKey.DESCRIBE_PRODUCERS,
        0,
        _producers,
        Need(_READ, _TOPIC, _ON_PARTITION),
    ),
    _case(
        "delete records",
        ApiKey.DELETE_RECORDS,
        1,
        _records_deletion,
        Need(_DELETE, _TOPIC, _ON_PARTITION),
    ),
)
_GROUPS: Final = (
    _case(
        "coordinator of a group, one key",
        ApiKey.FIND_COORDINATOR,
        3,
        lambda named: _coordinator(named.group, 0),
        Need(_DESCRIBE, _GROUP, "error_code"),
    ),
    _case(
        "coordinator of a group",
        ApiKey.FIND_COORDINATOR,
        4,
        lambda named: _coordinator(named.group, 0),
        Need(_DESCRIBE, _GROUP, "coordinators.error_code"),
    ),
    _case("join", ApiKey.JOIN_GROUP, 5, _join, Need(_READ, _GROUP, "error_code")),
    _case("sync", ApiKey.SYNC_GROUP, 3, _sync, Need(_READ, _GROUP, "error_code")),
    _case("heartbeat", ApiKey.HEARTBEAT, 4, _heartbeat, Need(_READ, _GROUP, "error_code")),
    _case("leave", ApiKey.LEAVE_GROUP, 4, _leave, Need(_READ, _GROUP, "error_code")),
    _case(
        "commit",
        ApiKey.OFFSET_COMMIT,
        8,
        _commit,
        Need(_READ, _GROUP, _ON_PARTITION),
        Need(_READ, _TOPIC, _ON_PARTITION),
    ),
    _case(
        "offsets of a group, one group",
        ApiKey.OFFSET_FETCH,
        7,
        _offsets_of_one,
        Need(_DESCRIBE, _GROUP, "error_code"),
        Need(_DESCRIBE, _TOPIC, _ON_PARTITION),
    ),
    _case(
        "offsets of a group",
        ApiKey.OFFSET_FETCH,
        8,
        _offsets_of_many,
        Need(_DESCRIBE, _GROUP, "groups.error_code"),
        Need(_DESCRIBE, _TOPIC, "groups.topics.partitions.error_code"),
    ),
    _case(
        "describe groups",
        ApiKey.DESCRIBE_GROUPS,
        5,
        lambda named: describe_groups.DescribeGroupsRequest(groups=[named.group]),
        Need(_DESCRIBE, _GROUP, "groups.error_code"),
    ),
    _case(
        "delete groups",
        ApiKey.DELETE_GROUPS,
        2,
        lambda named: delete_groups.DeleteGroupsRequest(groups_names=[named.group]),
        Need(_DELETE, _GROUP, "results.error_code"),
    ),
    _case(
        "delete offsets",
        ApiKey.OFFSET_DELETE,
        0,
        _offset_delete,
        Need(_DELETE, _GROUP, "error_code"),
        Need(_READ, _TOPIC, _ON_PARTITION),
    ),
    _case(
        "heartbeat of a consumer",
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        0,
        _consumer_beat,
        Need(_READ, _GROUP, "error_code"),
        Need(_DESCRIBE, _TOPIC, "error_code"),
    ),
    _case(
        "describe a consumer group",
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        0,
        lambda named: consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[named.group]),
        Need(_DESCRIBE, _GROUP, "groups.error_code"),
    ),
)
_SHARE: Final = (
    _case(
        "heartbeat of a share consumer",
        ApiKey.SHARE_GROUP_HEARTBEAT,
        1,
        _share_beat,
        Need(_READ, _GROUP, "error_code"),
        Need(_DESCRIBE, _TOPIC, "error_code"),
        is_share=True,
    ),
    _case(
        "describe a share group",
        ApiKey.SHARE_GROUP_DESCRIBE,
        1,
        lambda named: share_group_describe.ShareGroupDescribeRequest(group_ids=[named.share_group]),
        Need(_DESCRIBE, _GROUP, "groups.error_code"),
        is_share=True,
    ),
    _case(
        "share fetch",
        ApiKey.SHARE_FETCH,
        1,
        _share_fetch,
        Need(_READ, _GROUP, "error_code"),
        Need(_READ, _TOPIC, "responses.partitions.error_code"),
        is_share=True,
        by_id=True,
    ),
    _case(
        "acknowledge",
        ApiKey.SHARE_ACKNOWLEDGE,
        1,
        _share_acknowledge,
        Need(_READ, _GROUP, "error_code"),
        is_share=True,
    ),
    _case(
        "describe share offsets",
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        0,
        _describe_share,
        Need(_DESCRIBE, _GROUP, "groups.error_code"),
        Need(_DESCRIBE, _TOPIC, "groups.topics.partitions.error_code"),
        is_share=True,
    ),
    _case(
        "alter share offsets",
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        0,
        _alter_share,
        Need(_READ, _GROUP, "error_code"),
        Need(_READ, _TOPIC, "responses.partitions.error_code"),
        is_share=True,
    ),
    _case(
        "delete share offsets",
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        0,
        _delete_share,
        Need(_DELETE, _GROUP, "error_code"),
        Need(_READ, _TOPIC, "responses.error_code"),
        is_share=True,
    ),
)
_ADDED: Final = "results_by_topic_v3_and_below.results_by_partition.partition_error_code"
_TRANSACTIONS: Final = (
    _case(
        "coordinator of a transaction",
        ApiKey.FIND_COORDINATOR,
        4,
        lambda named: _coordinator(named.transactional_id, 1),
        Need(_DESCRIBE, _TRANSACTION, "coordinators.error_code"),
    ),
    _case(
        "producer id of a transaction",
        ApiKey.INIT_PRODUCER_ID,
        3,
        lambda named: _init(named.transactional_id),
        Need(_WRITE, _TRANSACTION, "error_code"),
    ),
    _case(
        "producer id",
        ApiKey.INIT_PRODUCER_ID,
        3,
        lambda _: _init(None),
        Need(AclOperation.IDEMPOTENT_WRITE, _CLUSTER, "error_code", instead=((_WRITE, _TOPIC),)),
    ),
    _case(
        "add partitions",
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        _add,
        Need(_WRITE, _TRANSACTION, _ADDED),
        Need(_WRITE, _TOPIC, _ADDED),
    ),
    _case(
        "add partitions, of a broker",
        ApiKey.ADD_PARTITIONS_TO_TXN,
        4,
        _add,
        Need(AclOperation.CLUSTER_ACTION, _CLUSTER, "error_code"),
    ),
    _case(
        "add offsets",
        ApiKey.ADD_OFFSETS_TO_TXN,
        3,
        lambda named: add_offsets_to_txn.AddOffsetsToTxnRequest(
            transactional_id=named.transactional_id,
            producer_id=7,
            producer_epoch=0,
            group_id=named.group,
        ),
        Need(_WRITE, _TRANSACTION, "error_code"),
        Need(_READ, _GROUP, "error_code"),
    ),
    _case(
        "end a transaction",
        ApiKey.END_TXN,
        3,
        lambda named: end_txn.EndTxnRequest(
            transactional_id=named.transactional_id, producer_id=7, producer_epoch=0
        ),
        Need(_WRITE, _TRANSACTION, "error_code"),
    ),
    _case(
        "commit in a transaction",
        ApiKey.TXN_OFFSET_COMMIT,
        3,
        _transaction_commit,
        Need(_WRITE, _TRANSACTION, _ON_PARTITION),
        Need(_READ, _GROUP, _ON_PARTITION),
        Need(_READ, _TOPIC, _ON_PARTITION),
    ),
    _case(
        "describe transactions",
        ApiKey.DESCRIBE_TRANSACTIONS,
        0,
        lambda named: describe_transactions.DescribeTransactionsRequest(
            transactional_ids=[named.transactional_id]
        ),
        Need(_DESCRIBE, _TRANSACTION, "transaction_states.error_code"),
    ),
    _case(
        "write markers",
        ApiKey.WRITE_TXN_MARKERS,
        1,
        _markers,
        Need(
            AclOperation.CLUSTER_ACTION,
            _CLUSTER,
            "markers.topics.partitions.error_code",
            instead=((_ALTER, _CLUSTER),),
        ),
    ),
)
_ADMINISTRATION: Final = (
    _case(
        "create topics",
        ApiKey.CREATE_TOPICS,
        5,
        _new_topic,
        Need(AclOperation.CREATE, _TOPIC, "topics.error_code", ((AclOperation.CREATE, _CLUSTER),)),
    ),
    _case(
        "create partitions",
        ApiKey.CREATE_PARTITIONS,
        3,
        _more_partitions,
        Need(_ALTER, _TOPIC, "results.error_code"),
    ),
    *(
        _case(
            f"{what} of a {on.name.lower()}",
            key,
            version,
            request(on),
            Need(operation, on, place),
        )
        for what, key, version, request, operation, place in (
            (
                "describe settings",
                ApiKey.DESCRIBE_CONFIGS,
                4,
                _settings_of,
                AclOperation.DESCRIBE_CONFIGS,
                "results.error_code",
            ),
            (
                "replace settings",
                ApiKey.ALTER_CONFIGS,
                2,
                _settings_for,
                AclOperation.ALTER_CONFIGS,
                "responses.error_code",
            ),
            (
                "change settings",
                ApiKey.INCREMENTAL_ALTER_CONFIGS,
                1,
                _setting_for,
                AclOperation.ALTER_CONFIGS,
                "responses.error_code",
            ),
        )
        for on in (_TOPIC, _GROUP, _CLUSTER)
    ),
)
CASES: Final = (*_DATA, *_GROUPS, *_SHARE, *_TRANSACTIONS, *_ADMINISTRATION)
