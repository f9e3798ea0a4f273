"""One request of each API that names what it needs rights to, those rights, and its refusals.

A table for tests of whatever broker: the requests name one topic, group and transactional id.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import (
    add_offsets_to_txn,
    consumer_group_describe,
    delete_groups,
    describe_groups,
    describe_topic_partitions,
    describe_transactions,
    end_txn,
    share_group_describe,
)
from tests.support import rights_requests
from tests.support.rights_requests import Named

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
        lambda named: rights_requests.produce_request(named, rights_requests.record_batch()),
        Need(_WRITE, _TOPIC, "responses.partition_responses.error_code"),
    ),
    _case(
        "produce by id",
        ApiKey.PRODUCE,
        13,
        lambda named: rights_requests.produce_request(named, rights_requests.record_batch()),
        Need(_WRITE, _TOPIC, "responses.partition_responses.error_code"),
        by_id=True,
    ),
    _case(
        "produce in a transaction",
        ApiKey.PRODUCE,
        9,
        rights_requests.transactional_request,
        Need(_WRITE, _TRANSACTION, "responses.partition_responses.error_code"),
        Need(_WRITE, _TOPIC, "responses.partition_responses.error_code"),
    ),
    _case(
        "fetch",
        ApiKey.FETCH,
        12,
        rights_requests.fetch_request,
        Need(_READ, _TOPIC, "responses.partitions.error_code"),
    ),
    _case(
        "fetch by id",
        ApiKey.FETCH,
        13,
        rights_requests.fetch_request,
        Need(_READ, _TOPIC, "responses.partitions.error_code"),
        by_id=True,
    ),
    _case(
        "offsets",
        ApiKey.LIST_OFFSETS,
        7,
        rights_requests.list_offsets_request,
        Need(_DESCRIBE, _TOPIC, _ON_PARTITION),
    ),
    _case(
        "leader epochs",
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        rights_requests.epochs_request,
        Need(
            _DESCRIBE,
            _TOPIC,
            _ON_PARTITION,
            instead=((AclOperation.CLUSTER_ACTION, _CLUSTER),),
        ),
    ),
    _case(
        "metadata",
        ApiKey.METADATA,
        9,
        rights_requests.metadata_request,
        Need(_DESCRIBE, _TOPIC, "topics.error_code"),
    ),
    _case(
        "metadata by id",
        ApiKey.METADATA,
        12,
        lambda named: rights_requests.metadata_request(named, by_id=True),
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
        rights_requests.producers_request,
        Need(_READ, _TOPIC, _ON_PARTITION),
    ),
    _case(
        "delete records",
        ApiKey.DELETE_RECORDS,
        1,
        rights_requests.records_deletion_request,
        Need(_DELETE, _TOPIC, _ON_PARTITION),
    ),
)
_GROUPS: Final = (
    _case(
        "coordinator of a group, one key",
        ApiKey.FIND_COORDINATOR,
        3,
        lambda named: rights_requests.coordinator_request(named.group, 0),
        Need(_DESCRIBE, _GROUP, "error_code"),
    ),
    _case(
        "coordinator of a group",
        ApiKey.FIND_COORDINATOR,
        4,
        lambda named: rights_requests.coordinator_request(named.group, 0),
        Need(_DESCRIBE, _GROUP, "coordinators.error_code"),
    ),
    _case(
        "join",
        ApiKey.JOIN_GROUP,
        5,
        rights_requests.join_request,
        Need(_READ, _GROUP, "error_code"),
    ),
    _case(
        "sync",
        ApiKey.SYNC_GROUP,
        3,
        rights_requests.sync_request,
        Need(_READ, _GROUP, "error_code"),
    ),
    _case(
        "heartbeat",
        ApiKey.HEARTBEAT,
        4,
        rights_requests.heartbeat_request,
        Need(_READ, _GROUP, "error_code"),
    ),
    _case(
        "leave",
        ApiKey.LEAVE_GROUP,
        4,
        rights_requests.leave_request,
        Need(_READ, _GROUP, "error_code"),
    ),
    _case(
        "commit",
        ApiKey.OFFSET_COMMIT,
        8,
        rights_requests.commit_request,
        Need(_READ, _GROUP, _ON_PARTITION),
        Need(_READ, _TOPIC, _ON_PARTITION),
    ),
    _case(
        "offsets of a group, one group",
        ApiKey.OFFSET_FETCH,
        7,
        rights_requests.offsets_of_one_request,
        Need(_DESCRIBE, _GROUP, "error_code"),
        Need(_DESCRIBE, _TOPIC, _ON_PARTITION),
    ),
    _case(
        "offsets of a group",
        ApiKey.OFFSET_FETCH,
        8,
        rights_requests.offsets_of_many_request,
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
        rights_requests.offset_delete_request,
        Need(_DELETE, _GROUP, "error_code"),
        Need(_READ, _TOPIC, _ON_PARTITION),
    ),
    _case(
        "heartbeat of a consumer",
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        0,
        rights_requests.consumer_beat_request,
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
        rights_requests.share_beat_request,
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
        rights_requests.share_fetch_request,
        Need(_READ, _GROUP, "error_code"),
        Need(_READ, _TOPIC, "responses.partitions.error_code"),
        is_share=True,
        by_id=True,
    ),
    _case(
        "acknowledge",
        ApiKey.SHARE_ACKNOWLEDGE,
        1,
        rights_requests.share_acknowledge_request,
        Need(_READ, _GROUP, "error_code"),
        is_share=True,
    ),
    _case(
        "describe share offsets",
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        0,
        rights_requests.describe_share_request,
        Need(_DESCRIBE, _GROUP, "groups.error_code"),
        Need(_DESCRIBE, _TOPIC, "groups.topics.partitions.error_code"),
        is_share=True,
    ),
    _case(
        "alter share offsets",
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        0,
        rights_requests.alter_share_request,
        Need(_READ, _GROUP, "error_code"),
        Need(_READ, _TOPIC, "responses.partitions.error_code"),
        is_share=True,
    ),
    _case(
        "delete share offsets",
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        0,
        rights_requests.delete_share_request,
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
        lambda named: rights_requests.coordinator_request(named.transactional_id, 1),
        Need(_DESCRIBE, _TRANSACTION, "coordinators.error_code"),
    ),
    _case(
        "producer id of a transaction",
        ApiKey.INIT_PRODUCER_ID,
        3,
        lambda named: rights_requests.init_request(named.transactional_id),
        Need(_WRITE, _TRANSACTION, "error_code"),
    ),
    _case(
        "producer id",
        ApiKey.INIT_PRODUCER_ID,
        3,
        lambda _: rights_requests.init_request(None),
        Need(AclOperation.IDEMPOTENT_WRITE, _CLUSTER, "error_code", instead=((_WRITE, _TOPIC),)),
    ),
    _case(
        "add partitions",
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        rights_requests.add_request,
        Need(_WRITE, _TRANSACTION, _ADDED),
        Need(_WRITE, _TOPIC, _ADDED),
    ),
    _case(
        "add partitions, of a broker",
        ApiKey.ADD_PARTITIONS_TO_TXN,
        4,
        rights_requests.add_request,
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
        rights_requests.transaction_commit_request,
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
        rights_requests.markers_request,
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
        rights_requests.new_topic_request,
        Need(AclOperation.CREATE, _TOPIC, "topics.error_code", ((AclOperation.CREATE, _CLUSTER),)),
    ),
    _case(
        "create partitions",
        ApiKey.CREATE_PARTITIONS,
        3,
        rights_requests.more_partitions_request,
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
                rights_requests.settings_of,
                AclOperation.DESCRIBE_CONFIGS,
                "results.error_code",
            ),
            (
                "replace settings",
                ApiKey.ALTER_CONFIGS,
                2,
                rights_requests.settings_for,
                AclOperation.ALTER_CONFIGS,
                "responses.error_code",
            ),
            (
                "change settings",
                ApiKey.INCREMENTAL_ALTER_CONFIGS,
                1,
                rights_requests.setting_for,
                AclOperation.ALTER_CONFIGS,
                "responses.error_code",
            ),
        )
        for on in (_TOPIC, _GROUP, _CLUSTER)
    ),
)
CASES: Final = (*_DATA, *_GROUPS, *_SHARE, *_TRANSACTIONS, *_ADMINISTRATION)
