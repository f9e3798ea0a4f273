"""Which APIs there are, which versions this package knows and which of them are served.

`KNOWN` bounds the schema table, `SERVED` is what a broker advertises; both are inclusive ranges.
`INTERNAL` is what only brokers request; it is never advertised, as Kafka's own is not.
Produce is advertised from version 0 although nothing below 3 is known: librdkafka up to 2.11 sends
uncompressed data unless 0 is in the range, and then speaks a later version anyway. DescribeLogDirs
0 is there for kafka-python 2. Sources: the protocol of Apache Kafka 4.4, KIP-482 (flexible
versions), KIP-511 (ApiVersions responses never have tagged fields in their header).
"""

from enum import IntEnum
from typing import Final, TypeAlias

VersionRange: TypeAlias = tuple[int, int]


class ApiKey(IntEnum):
    """Every API of Apache Kafka 4.4 under Kafka's own name; from 20001 on, Barnabas's own."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93
    UNREGISTER_CONTROLLER = 94
    METADATA_PROMISE = 20001
    METADATA_FETCH = 20002
    METADATA_SNAPSHOT = 20003
    LOG_ENDS = 20004
    REPORT_LOST_REPLICAS = 20005


# The first flexible version of an API whose versions never are: above every int16.
NEVER_FLEXIBLE: Final = 1 << 15

# Per key: first and last known version, first flexible version.
_TABLE: Final = {
    ApiKey.PRODUCE: (3, 13, 9),
    ApiKey.FETCH: (4, 18, 12),
    ApiKey.LIST_OFFSETS: (1, 11, 6),
    ApiKey.METADATA: (0, 13, 9),
    ApiKey.OFFSET_COMMIT: (2, 10, 8),
    ApiKey.OFFSET_FETCH: (1, 10, 6),
    ApiKey.FIND_COORDINATOR: (0, 6, 3),
    ApiKey.JOIN_GROUP: (0, 9, 6),
    ApiKey.HEARTBEAT: (0, 4, 4),
    ApiKey.LEAVE_GROUP: (0, 5, 4),
    ApiKey.SYNC_GROUP: (0, 5, 4),
    ApiKey.DESCRIBE_GROUPS: (0, 6, 5),
    ApiKey.LIST_GROUPS: (0, 5, 3),
    ApiKey.SASL_HANDSHAKE: (0, 1, NEVER_FLEXIBLE),
    ApiKey.API_VERSIONS: (0, 5, 3),
    ApiKey.CREATE_TOPICS: (2, 7, 5),
    ApiKey.DELETE_TOPICS: (1, 6, 4),
    ApiKey.DELETE_RECORDS: (0, 2, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 6, 2),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4, 3),
    ApiKey.END_TXN: (0, 5, 3),
    ApiKey.WRITE_TXN_MARKERS: (1, 2, 1),
    ApiKey.TXN_OFFSET_COMMIT: (0, 6, 3),
    ApiKey.DESCRIBE_ACLS: (1, 3, 2),
    ApiKey.CREATE_ACLS: (1, 3, 2),
    ApiKey.DELETE_ACLS: (1, 3, 2),
    ApiKey.DESCRIBE_CONFIGS: (1, 4, 4),
    ApiKey.ALTER_CONFIGS: (0, 2, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (1, 2, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (0, 5, 2),
    ApiKey.SASL_AUTHENTICATE: (0, 2, 2),
    ApiKey.CREATE_PARTITIONS: (0, 3, 2),
    ApiKey.CREATE_DELEGATION_TOKEN: (1, 3, 2),
    ApiKey.RENEW_DELEGATION_TOKEN: (1, 2, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (1, 2, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (1, 3, 2),
    ApiKey.DELETE_GROUPS: (0, 3, 2),
    ApiKey.ELECT_LEADERS: (0, 2, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1, 0),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0, 0),
    ApiKey.OFFSET_DELETE: (0, 0, NEVER_FLEXIBLE),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0, 0),
    ApiKey.VOTE: (0, 2, 0),
    ApiKey.BEGIN_QUORUM_EPOCH: (0, 1, 1),
    ApiKey.END_QUORUM_EPOCH: (0, 1, 1),
    ApiKey.DESCRIBE_QUORUM: (0, 2, 0),
    ApiKey.ALTER_PARTITION: (2, 3, 0),
    ApiKey.UPDATE_FEATURES: (0, 2, 0),
    ApiKey.ENVELOPE: (0, 0, 0),
    ApiKey.FETCH_SNAPSHOT: (0, 1, 0),
    ApiKey.DESCRIBE_CLUSTER: (0, 2, 0),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0, 0),
    ApiKey.BROKER_REGISTRATION: (0, 4, 0),
    ApiKey.BROKER_HEARTBEAT: (0, 2, 0),
    ApiKey.UNREGISTER_BROKER: (0, 0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 2, 0),
    ApiKey.ALLOCATE_PRODUCER_IDS: (0, 0, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1, 0),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1, 0),
    ApiKey.CONTROLLER_REGISTRATION: (0, 0, 0),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: (0, 0, 0),
    ApiKey.PUSH_TELEMETRY: (0, 0, 0),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: (0, 0, 0),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1, 0),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0, 0),
    ApiKey.SHARE_GROUP_HEARTBEAT: (1, 1, 0),
    ApiKey.SHARE_GROUP_DESCRIBE: (1, 1, 0),
    ApiKey.SHARE_FETCH: (1, 2, 0),
    ApiKey.SHARE_ACKNOWLEDGE: (1, 2, 0),
    ApiKey.ADD_RAFT_VOTER: (0, 1, 0),
    ApiKey.REMOVE_RAFT_VOTER: (0, 0, 0),
    ApiKey.UPDATE_RAFT_VOTER: (0, 0, 0),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: (0, 0, 0),
    ApiKey.READ_SHARE_GROUP_STATE: (0, 0, 0),
    ApiKey.WRITE_SHARE_GROUP_STATE: (0, 1, 0),
    ApiKey.DELETE_SHARE_GROUP_STATE: (0, 0, 0),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: (0, 1, 0),
    ApiKey.STREAMS_GROUP_HEARTBEAT: (0, 1, 0),
    ApiKey.STREAMS_GROUP_DESCRIBE: (0, 1, 0),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (0, 1, 0),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (0, 0, 0),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (0, 0, 0),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: (0, 0, 0),
    ApiKey.UNREGISTER_CONTROLLER: (0, 0, 0),
}

# What only brokers of Barnabas request. Not as Kafka has it: there is no foreign peer.
_PRIVATE: Final = {
    ApiKey.METADATA_PROMISE: (0, 0, 0),
    ApiKey.METADATA_FETCH: (0, 0, 0),
    ApiKey.METADATA_SNAPSHOT: (0, 0, 0),
    ApiKey.LOG_ENDS: (0, 0, 0),
    ApiKey.REPORT_LOST_REPLICAS: (0, 0, 0),
}

KNOWN: Final[dict[ApiKey, VersionRange]] = {key: row[:2] for key, row in _TABLE.items()}

SERVED: Final[dict[ApiKey, VersionRange]] = {
    ApiKey.PRODUCE: (0, 13),
    ApiKey.FETCH: (4, 17),
    ApiKey.LIST_OFFSETS: (1, 11),
    ApiKey.METADATA: (0, 13),
    ApiKey.OFFSET_COMMIT: (2, 9),
    ApiKey.OFFSET_FETCH: (1, 9),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.DELETE_RECORDS: (0, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.END_TXN: (0, 5),
    ApiKey.WRITE_TXN_MARKERS: (1, 2),
    ApiKey.TXN_OFFSET_COMMIT: (0, 6),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (1, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (0, 5),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.ELECT_LEADERS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.DESCRIBE_ACLS: (1, 3),
    ApiKey.CREATE_ACLS: (1, 3),
    ApiKey.DELETE_ACLS: (1, 3),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.DESCRIBE_QUORUM: (0, 2),
    ApiKey.UPDATE_FEATURES: (0, 2),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.UNREGISTER_BROKER: (0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 2),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: (0, 0),
    ApiKey.PUSH_TELEMETRY: (0, 0),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
    ApiKey.SHARE_GROUP_HEARTBEAT: (1, 1),
    ApiKey.SHARE_GROUP_DESCRIBE: (1, 1),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (0, 1),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (0, 0),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (0, 0),
    ApiKey.SHARE_FETCH: (1, 2),
    ApiKey.SHARE_ACKNOWLEDGE: (1, 2),
}

INTERNAL: Final[dict[ApiKey, VersionRange]] = {
    ApiKey.ALTER_PARTITION: (2, 3),
    ApiKey.ENVELOPE: (0, 0),
    ApiKey.BROKER_REGISTRATION: (0, 4),
    ApiKey.BROKER_HEARTBEAT: (0, 2),
    ApiKey.ALLOCATE_PRODUCER_IDS: (0, 0),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: (0, 0),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: (0, 0),
    ApiKey.READ_SHARE_GROUP_STATE: (0, 0),
    ApiKey.WRITE_SHARE_GROUP_STATE: (0, 1),
    ApiKey.DELETE_SHARE_GROUP_STATE: (0, 0),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: (0, 1),
    **{key: row[:2] for key, row in _PRIVATE.items()},
}

_FLEXIBLE_FROM: Final[dict[int, int]] = {
    int(key): row[2] for key, row in (*_TABLE.items(), *_PRIVATE.items())
}


def first_flexible_version(key: int) -> int:
    """Return the first version with compact lengths and tagged fields, or `NEVER_FLEXIBLE`."""
    return _FLEXIBLE_FROM.get(key, NEVER_FLEXIBLE)


def request_header_version(key: int, version: int) -> int:
    """Return 2 for the header with tagged fields, else 1."""
    return 2 if version >= _FLEXIBLE_FROM.get(key, NEVER_FLEXIBLE) else 1


def response_header_version(key: int, version: int) -> int:
    """Return 1 for the header with tagged fields, else 0; always 0 for ApiVersions."""
    if key == ApiKey.API_VERSIONS:
        return 0
    return 1 if version >= _FLEXIBLE_FROM.get(key, NEVER_FLEXIBLE) else 0


def newest_version(key: ApiKey) -> int:
    """Return the version in which one of our brokers sends requests to another.

    Raises: KeyError if no broker of ours serves that API.
    """
    return (INTERNAL.get(key) or SERVED[key])[1]
