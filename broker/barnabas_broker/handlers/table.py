"""The APIs that this broker serves: one visible list.

A client's key is advertised if and only if it is here (NET-16); what brokers send one another is
here too, and never advertised.

Which requests to the controller may be repeated is here, too, each with its reason.

Handler modules are imported at the first request of their API, so that they cost nothing at start.
"""

from typing import NamedTuple

from barnabas_protocol.api import INTERNAL, SERVED, ApiKey

HANDLERS: dict[ApiKey, str] = {
    ApiKey.PRODUCE: "produce",
    ApiKey.FETCH: "fetch",
    ApiKey.LIST_OFFSETS: "list_offsets",
    ApiKey.METADATA: "metadata",
    ApiKey.OFFSET_COMMIT: "offset_commit",
    ApiKey.OFFSET_FETCH: "offset_fetch",
    ApiKey.FIND_COORDINATOR: "find_coordinator",
    ApiKey.JOIN_GROUP: "join_group",
    ApiKey.HEARTBEAT: "heartbeat",
    ApiKey.LEAVE_GROUP: "leave_group",
    ApiKey.SYNC_GROUP: "sync_group",
    ApiKey.DESCRIBE_GROUPS: "describe_groups",
    ApiKey.LIST_GROUPS: "list_groups",
    ApiKey.SASL_HANDSHAKE: "sasl_handshake",
    ApiKey.API_VERSIONS: "api_versions",
    ApiKey.CREATE_TOPICS: "create_topics",
    ApiKey.DELETE_TOPICS: "delete_topics",
    ApiKey.DELETE_RECORDS: "delete_records",
    ApiKey.INIT_PRODUCER_ID: "init_producer_id",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "offset_for_leader_epoch",
    ApiKey.ADD_PARTITIONS_TO_TXN: "add_partitions_to_txn",
    ApiKey.ADD_OFFSETS_TO_TXN: "add_offsets_to_txn",
    ApiKey.END_TXN: "end_txn",
    ApiKey.WRITE_TXN_MARKERS: "write_txn_markers",
    ApiKey.TXN_OFFSET_COMMIT: "txn_offset_commit",
    ApiKey.DESCRIBE_ACLS: "describe_acls",
    ApiKey.CREATE_ACLS: "create_acls",
    ApiKey.DELETE_ACLS: "delete_acls",
    ApiKey.DESCRIBE_CONFIGS: "describe_configs",
    ApiKey.ALTER_CONFIGS: "alter_configs",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "alter_replica_log_dirs",
    ApiKey.DESCRIBE_LOG_DIRS: "describe_log_dirs",
    ApiKey.SASL_AUTHENTICATE: "sasl_authenticate",
    ApiKey.CREATE_PARTITIONS: "create_partitions",
    ApiKey.DELETE_GROUPS: "delete_groups",
    ApiKey.ELECT_LEADERS: "elect_leaders",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "incremental_alter_configs",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "alter_partition_reassignments",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "list_partition_reassignments",
    ApiKey.OFFSET_DELETE: "offset_delete",
    ApiKey.DESCRIBE_QUORUM: "describe_quorum",
    ApiKey.UPDATE_FEATURES: "update_features",
    ApiKey.DESCRIBE_CLUSTER: "describe_cluster",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "describe_client_quotas",
    ApiKey.ALTER_CLIENT_QUOTAS: "alter_client_quotas",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "describe_user_scram_credentials",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "alter_user_scram_credentials",
    ApiKey.DESCRIBE_PRODUCERS: "describe_producers",
    ApiKey.UNREGISTER_BROKER: "unregister_broker",
    ApiKey.DESCRIBE_TRANSACTIONS: "describe_transactions",
    ApiKey.LIST_TRANSACTIONS: "list_transactions",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "consumer_group_heartbeat",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "consumer_group_describe",
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: "get_telemetry_subscriptions",
    ApiKey.PUSH_TELEMETRY: "push_telemetry",
    ApiKey.LIST_CONFIG_RESOURCES: "list_config_resources",
    ApiKey.SHARE_FETCH: "share_fetch",
    ApiKey.SHARE_ACKNOWLEDGE: "share_acknowledge",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "describe_topic_partitions",
    ApiKey.SHARE_GROUP_HEARTBEAT: "share_group_heartbeat",
    ApiKey.SHARE_GROUP_DESCRIBE: "share_group_describe",
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "describe_share_group_offsets",
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: "alter_share_group_offsets",
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: "delete_share_group_offsets",
    # Among brokers.
    ApiKey.ALTER_PARTITION: "alter_partition",
    ApiKey.ENVELOPE: "envelope",
    ApiKey.BROKER_REGISTRATION: "broker_registration",
    ApiKey.BROKER_HEARTBEAT: "broker_heartbeat",
    ApiKey.ALLOCATE_PRODUCER_IDS: "allocate_producer_ids",
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: "assign_replicas_to_dirs",
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: "initialize_share_group_state",
    ApiKey.READ_SHARE_GROUP_STATE: "read_share_group_state",
    ApiKey.WRITE_SHARE_GROUP_STATE: "write_share_group_state",
    ApiKey.DELETE_SHARE_GROUP_STATE: "delete_share_group_state",
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: "read_share_group_state_summary",
    ApiKey.METADATA_PROMISE: "metadata_promise",
    ApiKey.METADATA_FETCH: "metadata_fetch",
    ApiKey.METADATA_SNAPSHOT: "metadata_snapshot",
    ApiKey.LOG_ENDS: "log_ends",
    ApiKey.REPORT_LOST_REPLICAS: "report_lost_replicas",
}

VERSIONS: dict[ApiKey, tuple[int, int]] = {
    key: INTERNAL.get(key) or SERVED[key] for key in HANDLERS
}

ADVERTISED: dict[ApiKey, tuple[int, int]] = {
    key: VERSIONS[key] for key in sorted(HANDLERS) if key not in INTERNAL
}


class Repetition(NamedTuple):
    """Whether a request to the controller is sent again when its response was lost, and why.

    It may have been carried out, and others may have acted since; and what was sent may arrive
    late, after the repetition. Who may not repeat responds with REQUEST_TIMED_OUT: not known.
    """

    is_harmless: bool
    reason: str


# What only the active controller does: other brokers send it there in an envelope (CTL-15).
FORWARDED: dict[ApiKey, Repetition] = {
    ApiKey.CREATE_TOPICS: Repetition(False, "would make anew what was deleted since"),
    ApiKey.DELETE_TOPICS: Repetition(
        False, "would delete what was made anew since; by ids it is harmless, see its `resolve`"
    ),
    ApiKey.ALTER_CONFIGS: Repetition(False, "would undo what others have set since"),
    ApiKey.CREATE_PARTITIONS: Repetition(
        False, "fails if it was carried out; the name may be another topic's since"
    ),
    ApiKey.ELECT_LEADERS: Repetition(
        False, "an unclean election may cost records where there has been a leader since"
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Repetition(False, "would undo what others have set since"),
    ApiKey.ALTER_CLIENT_QUOTAS: Repetition(False, "would undo what others have set since"),
    ApiKey.CREATE_ACLS: Repetition(False, "would bring back what others have deleted since"),
    ApiKey.DELETE_ACLS: Repetition(False, "would delete what others have created since"),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Repetition(
        False, "would undo what others have set since, a password that was changed"
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Repetition(
        False, "would undo a later reassignment or its cancellation"
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Repetition(True, "changes nothing"),
    ApiKey.DESCRIBE_QUORUM: Repetition(True, "changes nothing"),
    ApiKey.UPDATE_FEATURES: Repetition(False, "would undo a later change of the level"),
    ApiKey.UNREGISTER_BROKER: Repetition(
        False, "would take out a broker that has registered anew since"
    ),
}

# What brokers send to the controller by themselves; `CREATE_TOPICS` as above.
OWN_REQUESTS: dict[ApiKey, Repetition] = {
    ApiKey.ALTER_PARTITION: Repetition(
        True, "names a partition epoch, which every change and every refusal of members raises"
    ),
    ApiKey.BROKER_REGISTRATION: Repetition(
        True, "the broker takes the newest epoch, and registers again where it has an old one"
    ),
    ApiKey.BROKER_HEARTBEAT: Repetition(True, "names the broker epoch; the next one repeats it"),
    ApiKey.ALLOCATE_PRODUCER_IDS: Repetition(True, "costs a block of ids that nobody uses"),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: Repetition(
        True, "names the broker epoch; a replica that is elsewhere since is reported again"
    ),
    ApiKey.REPORT_LOST_REPLICAS: Repetition(
        True, "names the broker epoch, and counts only before the broker serves"
    ),
}


def is_repeatable(key: ApiKey) -> bool:
    """Whether a request to the controller may be sent again when its response was lost."""
    repetition = OWN_REQUESTS.get(key) or FORWARDED[key]
    return repetition.is_harmless


# What the cluster needs of a broker that does not serve clients (yet).
CONTROL: frozenset[ApiKey] = frozenset((*INTERNAL, ApiKey.UNREGISTER_BROKER))
