"""What each API needs: one visible list, as `table.py` is of what is served (SEC-46).

What a request needs on the cluster the dispatcher asks for, before the handler runs, and refuses
through the API's own `failed`. What it needs on topics, groups and transactional ids the handler
asks for, for each that is named, before it looks anything up: the rule only says which rights those
are, and a test holds each handler to its rule.

Not here: what is asked for and how it is refused (`authorization.py`), and what decides
(`security/`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.api import ApiKey

_ALTER, _CREATE, _DELETE = AclOperation.ALTER, AclOperation.CREATE, AclOperation.DELETE
_DESCRIBE, _READ, _WRITE = AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE
_ALTER_CONFIGS = AclOperation.ALTER_CONFIGS
_DESCRIBE_CONFIGS = AclOperation.DESCRIBE_CONFIGS
_CLUSTER_ACTION = AclOperation.CLUSTER_ACTION


class Right(NamedTuple):
    """An operation on resources of a type."""

    operation: AclOperation
    resource_type: AclResourceType


def _topic(*operations: AclOperation) -> frozenset[Right]:
    return _on(AclResourceType.TOPIC, operations)


def _group(*operations: AclOperation) -> frozenset[Right]:
    return _on(AclResourceType.GROUP, operations)


def _transaction(*operations: AclOperation) -> frozenset[Right]:
    return _on(AclResourceType.TRANSACTIONAL_ID, operations)


def _cluster(*operations: AclOperation) -> frozenset[Right]:
    return _on(AclResourceType.CLUSTER, operations)


def _on(resource_type: AclResourceType, operations: tuple[AclOperation, ...]) -> frozenset[Right]:
    return frozenset(Right(operation, resource_type) for operation in operations)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What the requests of one API need."""

    #: Each of these on the cluster lets a request in; without any the dispatcher refuses it.
    cluster: tuple[AclOperation, ...] = ()
    #: Requests of older versions need nothing on the cluster: those from here on are of brokers.
    cluster_since: int = 0
    #: Changes who may do what, or who can log in: needs ALTER of the cluster in every mode.
    changes_rights: bool = False
    #: What the handler asks for.
    asked: frozenset[Right] = frozenset()
    #: Why nothing is needed.
    reason: str = ""

    def needs_cluster(self, version: int) -> bool:
        """Whether the dispatcher has something to ask for."""
        return bool(self.cluster) and version >= self.cluster_since


_OF_BROKERS: Final = Rule(cluster=(_CLUSTER_ACTION,))
_MEMBER: Final = Rule(asked=_group(_READ))

RULES: Final[Mapping[ApiKey, Rule]] = {
    # Records.
    ApiKey.PRODUCE: Rule(asked=_topic(_WRITE) | _transaction(_WRITE)),
    ApiKey.FETCH: Rule(asked=_topic(_READ)),
    ApiKey.LIST_OFFSETS: Rule(asked=_topic(_DESCRIBE)),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Rule(asked=_topic(_DESCRIBE) | _cluster(_CLUSTER_ACTION)),
    ApiKey.DELETE_RECORDS: Rule(asked=_topic(_DELETE)),
    ApiKey.DESCRIBE_PRODUCERS: Rule(asked=_topic(_READ)),
    # What there is.
    ApiKey.API_VERSIONS: Rule(reason="comes before the log-in"),
    ApiKey.SASL_HANDSHAKE: Rule(reason="begins the log-in"),
    ApiKey.SASL_AUTHENTICATE: Rule(reason="is the log-in"),
    ApiKey.METADATA: Rule(asked=_topic(_DESCRIBE, _CREATE) | _cluster(_CREATE)),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Rule(asked=_topic(_DESCRIBE)),
    ApiKey.DESCRIBE_CLUSTER: Rule(reason="every client needs to know the brokers"),
    ApiKey.FIND_COORDINATOR: Rule(
        asked=_group(_DESCRIBE) | _transaction(_DESCRIBE) | _cluster(_CLUSTER_ACTION)
    ),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Rule(reason="tells what the client itself is to measure"),
    ApiKey.PUSH_TELEMETRY: Rule(reason="is about the client itself"),
    # Groups.
    ApiKey.JOIN_GROUP: _MEMBER,
    ApiKey.SYNC_GROUP: _MEMBER,
    ApiKey.HEARTBEAT: _MEMBER,
    ApiKey.LEAVE_GROUP: _MEMBER,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Rule(asked=_group(_READ) | _topic(_DESCRIBE)),
    ApiKey.OFFSET_COMMIT: Rule(asked=_group(_READ) | _topic(_READ)),
    ApiKey.OFFSET_FETCH: Rule(asked=_group(_DESCRIBE) | _topic(_DESCRIBE)),
    ApiKey.OFFSET_DELETE: Rule(asked=_group(_DELETE) | _topic(_READ)),
    ApiKey.LIST_GROUPS: Rule(asked=_group(_DESCRIBE) | _cluster(_DESCRIBE)),
    ApiKey.DESCRIBE_GROUPS: Rule(asked=_group(_DESCRIBE)),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Rule(asked=_group(_DESCRIBE) | _topic(_DESCRIBE)),
    ApiKey.DELETE_GROUPS: Rule(asked=_group(_DELETE)),
    # Share groups.
    ApiKey.SHARE_GROUP_HEARTBEAT: Rule(asked=_group(_READ) | _topic(_DESCRIBE)),
    ApiKey.SHARE_GROUP_DESCRIBE: Rule(asked=_group(_DESCRIBE) | _topic(_DESCRIBE)),
    ApiKey.SHARE_FETCH: Rule(asked=_group(_READ) | _topic(_READ)),
    ApiKey.SHARE_ACKNOWLEDGE: Rule(asked=_group(_READ) | _topic(_READ)),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Rule(asked=_group(_DESCRIBE) | _topic(_DESCRIBE)),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Rule(asked=_group(_READ) | _topic(_READ)),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Rule(asked=_group(_DELETE) | _topic(_READ)),
    # Transactions.
    ApiKey.INIT_PRODUCER_ID: Rule(
        asked=_transaction(_WRITE) | _cluster(AclOperation.IDEMPOTENT_WRITE) | _topic(_WRITE)
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: Rule(
        cluster=(_CLUSTER_ACTION,), cluster_since=4, asked=_transaction(_WRITE) | _topic(_WRITE)
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: Rule(asked=_transaction(_WRITE) | _group(_READ)),
    ApiKey.END_TXN: Rule(asked=_transaction(_WRITE)),
    ApiKey.TXN_OFFSET_COMMIT: Rule(asked=_transaction(_WRITE) | _group(_READ) | _topic(_READ)),
    ApiKey.WRITE_TXN_MARKERS: Rule(cluster=(_ALTER, _CLUSTER_ACTION)),
    ApiKey.DESCRIBE_TRANSACTIONS: Rule(asked=_transaction(_DESCRIBE) | _topic(_DESCRIBE)),
    ApiKey.LIST_TRANSACTIONS: Rule(asked=_transaction(_DESCRIBE)),
    # Administration.
    ApiKey.CREATE_TOPICS: Rule(asked=_topic(_CREATE, _DESCRIBE_CONFIGS) | _cluster(_CREATE)),
    ApiKey.DELETE_TOPICS: Rule(asked=_topic(_DELETE, _DESCRIBE) | _cluster(_DELETE)),
    ApiKey.CREATE_PARTITIONS: Rule(asked=_topic(_ALTER)),
    ApiKey.DESCRIBE_CONFIGS: Rule(
        asked=_topic(_DESCRIBE_CONFIGS) | _group(_DESCRIBE_CONFIGS) | _cluster(_DESCRIBE_CONFIGS)
    ),
    ApiKey.ALTER_CONFIGS: Rule(
        asked=_topic(_ALTER_CONFIGS) | _group(_ALTER_CONFIGS) | _cluster(_ALTER_CONFIGS)
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Rule(
        asked=_topic(_ALTER_CONFIGS) | _group(_ALTER_CONFIGS) | _cluster(_ALTER_CONFIGS)
    ),
    ApiKey.LIST_CONFIG_RESOURCES: Rule(cluster=(_DESCRIBE_CONFIGS,)),
    ApiKey.ELECT_LEADERS: Rule(cluster=(_ALTER,)),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Rule(cluster=(_ALTER,)),
    ApiKey.DESCRIBE_LOG_DIRS: Rule(cluster=(_DESCRIBE,)),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Rule(cluster=(_ALTER,)),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Rule(cluster=(_DESCRIBE,)),
    ApiKey.DESCRIBE_QUORUM: Rule(cluster=(_DESCRIBE,)),
    ApiKey.UPDATE_FEATURES: Rule(cluster=(_ALTER,)),
    ApiKey.UNREGISTER_BROKER: Rule(cluster=(_ALTER,)),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Rule(cluster=(_DESCRIBE_CONFIGS,)),
    ApiKey.ALTER_CLIENT_QUOTAS: Rule(cluster=(_ALTER_CONFIGS,)),
    ApiKey.DESCRIBE_ACLS: Rule(cluster=(_DESCRIBE,)),
    ApiKey.CREATE_ACLS: Rule(cluster=(_ALTER,), changes_rights=True),
    ApiKey.DELETE_ACLS: Rule(cluster=(_ALTER,), changes_rights=True),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Rule(cluster=(_DESCRIBE,)),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Rule(cluster=(_ALTER,), changes_rights=True),
    # Among brokers.
    ApiKey.ALTER_PARTITION: _OF_BROKERS,
    ApiKey.ENVELOPE: _OF_BROKERS,
    ApiKey.BROKER_REGISTRATION: _OF_BROKERS,
    ApiKey.BROKER_HEARTBEAT: _OF_BROKERS,
    ApiKey.ALLOCATE_PRODUCER_IDS: _OF_BROKERS,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: _OF_BROKERS,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _OF_BROKERS,
    ApiKey.READ_SHARE_GROUP_STATE: _OF_BROKERS,
    ApiKey.WRITE_SHARE_GROUP_STATE: _OF_BROKERS,
    ApiKey.DELETE_SHARE_GROUP_STATE: _OF_BROKERS,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _OF_BROKERS,
    ApiKey.METADATA_PROMISE: _OF_BROKERS,
    ApiKey.METADATA_FETCH: _OF_BROKERS,
    ApiKey.METADATA_SNAPSHOT: _OF_BROKERS,
    ApiKey.LOG_ENDS: _OF_BROKERS,
    ApiKey.REPORT_LOST_REPLICAS: _OF_BROKERS,
}


def check_rules(served: Mapping[ApiKey, str], rules: Mapping[ApiKey, Rule] = RULES) -> None:
    """Refuse to start where an API is served and no rule says who may send it.

    Raises: RuntimeError.
    """
    missing = sorted(key.name for key in served if key not in rules)
    if missing:
        raise RuntimeError(f"no rule says who may send {', '.join(missing)}")
    for key, rule in rules.items():
        if bool(rule.cluster or rule.asked) == bool(rule.reason):
            raise RuntimeError(f"the rule of {key.name} needs either a right or a reason")
