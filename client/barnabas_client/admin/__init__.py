"""The admin client: `Admin`, the outcomes of its calls, and the values that they take and give.

Names are imported when they are first asked for: a program that lists topics pays for topics only.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin as Admin
    from barnabas_client.admin.outcome import Outcome as Outcome
    from barnabas_client.admin.outcome import Outcomes as Outcomes
    from barnabas_client.admin.values.acls import AclBinding as AclBinding
    from barnabas_client.admin.values.acls import AclFilter as AclFilter
    from barnabas_client.admin.values.cluster import BrokerDescription as BrokerDescription
    from barnabas_client.admin.values.cluster import ClusterDescription as ClusterDescription
    from barnabas_client.admin.values.cluster import FeaturesDescription as FeaturesDescription
    from barnabas_client.admin.values.cluster import FeatureUpdate as FeatureUpdate
    from barnabas_client.admin.values.cluster import FeatureUpgradeType as FeatureUpgradeType
    from barnabas_client.admin.values.cluster import LevelRange as LevelRange
    from barnabas_client.admin.values.cluster import QuorumDescription as QuorumDescription
    from barnabas_client.admin.values.cluster import QuorumReplica as QuorumReplica
    from barnabas_client.admin.values.cluster import RaftEndpoint as RaftEndpoint
    from barnabas_client.admin.values.configs import ConfigChange as ConfigChange
    from barnabas_client.admin.values.configs import ConfigEntry as ConfigEntry
    from barnabas_client.admin.values.configs import ConfigOperation as ConfigOperation
    from barnabas_client.admin.values.configs import ConfigResource as ConfigResource
    from barnabas_client.admin.values.configs import ConfigSource as ConfigSource
    from barnabas_client.admin.values.configs import ConfigSynonym as ConfigSynonym
    from barnabas_client.admin.values.configs import ConfigType as ConfigType
    from barnabas_client.admin.values.configs import ResourceType as ResourceType
    from barnabas_client.admin.values.groups import (
        ClassicGroupDescription as ClassicGroupDescription,
    )
    from barnabas_client.admin.values.groups import ClassicGroupMember as ClassicGroupMember
    from barnabas_client.admin.values.groups import GroupDescription as GroupDescription
    from barnabas_client.admin.values.groups import GroupListing as GroupListing
    from barnabas_client.admin.values.groups import GroupState as GroupState
    from barnabas_client.admin.values.groups import GroupType as GroupType
    from barnabas_client.admin.values.groups import MemberDescription as MemberDescription
    from barnabas_client.admin.values.groups import MemberIdentity as MemberIdentity
    from barnabas_client.admin.values.log_dirs import LogDirDescription as LogDirDescription
    from barnabas_client.admin.values.log_dirs import ReplicaSize as ReplicaSize
    from barnabas_client.admin.values.log_dirs import TopicPartitionReplica as TopicPartitionReplica
    from barnabas_client.admin.values.partitions import ElectionType as ElectionType
    from barnabas_client.admin.values.partitions import OffsetSpec as OffsetSpec
    from barnabas_client.admin.values.partitions import PartitionOffset as PartitionOffset
    from barnabas_client.admin.values.partitions import Reassignment as Reassignment
    from barnabas_client.admin.values.quotas import DEFAULT as DEFAULT
    from barnabas_client.admin.values.quotas import QuotaEntity as QuotaEntity
    from barnabas_client.admin.values.quotas import QuotaFilter as QuotaFilter
    from barnabas_client.admin.values.quotas import QuotaMatch as QuotaMatch
    from barnabas_client.admin.values.scram import ScramCredential as ScramCredential
    from barnabas_client.admin.values.scram import ScramDeletion as ScramDeletion
    from barnabas_client.admin.values.scram import ScramMechanism as ScramMechanism
    from barnabas_client.admin.values.scram import ScramUpsertion as ScramUpsertion
    from barnabas_client.admin.values.share_groups import (
        ShareGroupDescription as ShareGroupDescription,
    )
    from barnabas_client.admin.values.share_groups import ShareGroupMember as ShareGroupMember
    from barnabas_client.admin.values.share_groups import ShareGroupOffset as ShareGroupOffset
    from barnabas_client.admin.values.streams_groups import (
        StreamsGroupDescription as StreamsGroupDescription,
    )
    from barnabas_client.admin.values.streams_groups import StreamsGroupMember as StreamsGroupMember
    from barnabas_client.admin.values.streams_groups import StreamsTasks as StreamsTasks
    from barnabas_client.admin.values.streams_groups import StreamsTopic as StreamsTopic
    from barnabas_client.admin.values.streams_groups import Subtopology as Subtopology
    from barnabas_client.admin.values.tokens import DelegationToken as DelegationToken
    from barnabas_client.admin.values.tokens import Principal as Principal
    from barnabas_client.admin.values.topics import CreatedTopic as CreatedTopic
    from barnabas_client.admin.values.topics import NewPartitions as NewPartitions
    from barnabas_client.admin.values.topics import NewTopic as NewTopic
    from barnabas_client.admin.values.topics import PartitionDescription as PartitionDescription
    from barnabas_client.admin.values.topics import TopicDescription as TopicDescription
    from barnabas_client.admin.values.topics import TopicListing as TopicListing
    from barnabas_client.admin.values.transactions import FencedProducer as FencedProducer
    from barnabas_client.admin.values.transactions import HangingTransaction as HangingTransaction
    from barnabas_client.admin.values.transactions import ProducerState as ProducerState
    from barnabas_client.admin.values.transactions import (
        TransactionDescription as TransactionDescription,
    )
    from barnabas_client.admin.values.transactions import TransactionListing as TransactionListing
    from barnabas_client.admin.values.transactions import TransactionState as TransactionState
    from barnabas_protocol.acl import AclOperation as AclOperation
    from barnabas_protocol.acl import AclPermission as AclPermission
    from barnabas_protocol.acl import AclResourceType as AclResourceType
    from barnabas_protocol.acl import PatternType as PatternType

_NAMES_BY_MODULE = {
    "admin": "Admin",
    "outcome": "Outcome Outcomes",
    "values.acls": "AclBinding AclFilter AclOperation AclPermission AclResourceType PatternType",
    "values.cluster": "BrokerDescription ClusterDescription FeaturesDescription FeatureUpdate "
    "FeatureUpgradeType LevelRange QuorumDescription QuorumReplica RaftEndpoint",
    "values.configs": "ConfigChange ConfigEntry ConfigOperation ConfigResource ConfigSource "
    "ConfigSynonym ConfigType ResourceType",
    "values.groups": "ClassicGroupDescription ClassicGroupMember GroupDescription GroupListing "
    "MemberDescription GroupState GroupType MemberIdentity",
    "values.log_dirs": "LogDirDescription ReplicaSize TopicPartitionReplica",
    "values.partitions": "ElectionType OffsetSpec PartitionOffset Reassignment",
    "values.quotas": "DEFAULT QuotaEntity QuotaFilter QuotaMatch",
    "values.scram": "ScramCredential ScramDeletion ScramMechanism ScramUpsertion",
    "values.share_groups": "ShareGroupDescription ShareGroupMember ShareGroupOffset",
    "values.streams_groups": "StreamsGroupDescription StreamsGroupMember StreamsTasks StreamsTopic "
    "Subtopology",
    "values.tokens": "DelegationToken Principal",
    "values.topics": "CreatedTopic NewPartitions NewTopic PartitionDescription TopicDescription "
    "TopicListing",
    "values.transactions": "FencedProducer HangingTransaction ProducerState "
    "TransactionDescription TransactionListing TransactionState",
}
_MODULE_BY_NAME = {
    name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()
}


def __getattr__(name: str) -> object:
    module = _MODULE_BY_NAME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_MODULE_BY_NAME)
