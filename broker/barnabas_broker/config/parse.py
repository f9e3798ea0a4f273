"""The broker's own settings: text in the form of a Java properties file becomes `BrokerConfig`.

Parsed once at the start; later changes are `dynamic`'s. Unknown keys are refused with the nearest
known one named (BOOT-10): Kafka only warns, and a typing error then goes unnoticed for years.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from barnabas_broker.config.admin_settings import (
    ADMIN_LISTENER,
    HTTPS,
    admin_tls,
    check_token_listener,
    join_admin,
)
from barnabas_broker.config.arbiter_settings import check_arbiter
from barnabas_broker.config.authorizer_settings import join_authorizer
from barnabas_broker.config.broker_settings import BROKER_SETTINGS
from barnabas_broker.config.consumer_group_settings import check_consumer_groups
from barnabas_broker.config.definitions import (
    CLUSTER_WIDE,
    DEFAULT_ONLY,
    BrokerSetting,
    ConfigError,
)
from barnabas_broker.config.ignored_security_settings import SECURITY
from barnabas_broker.config.ignored_settings import IGNORED_SETTINGS
from barnabas_broker.config.listener_properties import listener_key, split_listener_key
from barnabas_broker.config.listeners import (
    ENCRYPTED,
    Endpoint,
    parse_connection_overrides,
    parse_endpoints,
    parse_protocol_map,
)
from barnabas_broker.config.other_kafka import of_other_kafka
from barnabas_broker.config.sasl_settings import (
    GSSAPI,
    SASL,
    SASL_BY_KEY,
    SASL_PROTOCOLS,
    SCRAM_MECHANISMS,
    SaslSettings,
    sasl_settings,
)
from barnabas_broker.config.share_group_settings import check_share_groups
from barnabas_broker.config.tls_settings import TLS, TLS_BY_KEY, ListenerTlsSettings, tls_settings
from barnabas_protocol.settings import properties
from barnabas_protocol.settings.kinds import split_list
from barnabas_protocol.settings.setting import by_name
from barnabas_protocol.settings.suggestions import unknown_name

BY_KEY: Final[dict[str, BrokerSetting]] = by_name(BROKER_SETTINGS, TLS, SASL, IGNORED_SETTINGS)

REPLICATION_LISTENER: Final = "REPLICATION"
"""The listener of the brokers where `inter.broker.listener.name` names none."""
REPLICATION_PORT_DISTANCE: Final = 10_000
"""Between the port of the first listener and that of the brokers' own, where none is given."""
PORT_MAX: Final = 65535

_BROKER_MECHANISM: Final = "sasl_mechanism_inter_broker_protocol"
LIMITS_OF_LISTENERS: Final = ("max.connections", "max.connection.creation.rate")
_OF_MECHANISMS: Final = frozenset((*SASL_BY_KEY, *(row[0] for row in SECURITY)))
_OF_LISTENERS: Final = _OF_MECHANISMS.union(
    TLS_BY_KEY, LIMITS_OF_LISTENERS, ["num.network.threads"]
)
"""Settings that may be given for one listener alone (SEC-1)."""


def parse_properties(text: str) -> dict[str, str]:
    """The keys and values of a properties file. Raises: ConfigError."""
    try:
        return properties.parse_properties(text)
    except ValueError as error:
        raise ConfigError(str(error)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """The settings that the broker started with: one attribute for each row that takes effect."""

    node_id: int
    broker_id: int
    broker_rack: str | None
    cluster_id: str | None
    listeners: tuple[Endpoint, ...]
    advertised_listeners: tuple[Endpoint, ...]
    listener_security_protocol_map: Mapping[str, str]
    controller_listener_names: tuple[str, ...]
    socket_listen_backlog_size: int
    socket_send_buffer_bytes: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    queued_max_request_bytes: int
    connections_max_idle_ms: int
    max_connections: int
    max_connection_creation_rate: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: Mapping[str, int]
    max_incremental_fetch_session_cache_slots: int
    fetch_max_bytes: int
    num_partitions: int
    default_replication_factor: int
    auto_create_topics_enable: bool
    delete_topic_enable: bool
    max_request_partition_size_limit: int
    log_dir: str
    log_dirs: tuple[str, ...]
    log_segment_bytes: int
    log_roll_ms: int | None
    log_roll_hours: int
    log_roll_jitter_ms: int | None
    log_roll_jitter_hours: int
    log_retention_ms: int | None
    log_retention_minutes: int | None
    log_retention_hours: int
    log_retention_bytes: int
    log_retention_check_interval_ms: int
    log_cleanup_policy: tuple[str, ...]
    log_index_size_max_bytes: int
    log_index_interval_bytes: int
    log_flush_interval_messages: int
    log_flush_interval_ms: int | None
    log_flush_scheduler_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_segment_delete_delay_ms: int
    log_preallocate: bool
    barnabas_disk_reserve_percent: int
    barnabas_disk_reserve_bytes_min: int
    barnabas_disk_reserve_bytes_max: int
    log_message_timestamp_type: str
    log_message_timestamp_before_max_ms: int
    log_message_timestamp_after_max_ms: int
    message_max_bytes: int
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    min_insync_replicas: int
    num_recovery_threads_per_data_dir: int
    replica_high_watermark_checkpoint_interval_ms: int
    log_cleaner_enable: bool
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_backoff_ms: int
    log_cleaner_min_cleanable_ratio: float
    log_cleaner_delete_retention_ms: int
    log_cleaner_min_compaction_lag_ms: int
    log_cleaner_max_compaction_lag_ms: int
    group_initial_rebalance_delay_ms: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_consumer_session_timeout_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_heartbeat_interval_ms: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_assignment_interval_ms: int
    group_consumer_min_assignment_interval_ms: int
    group_consumer_max_assignment_interval_ms: int
    group_consumer_max_size: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_migration_policy: str
    group_consumer_regex_refresh_interval_ms: int
    group_share_session_timeout_ms: int
    group_share_min_session_timeout_ms: int
    group_share_max_session_timeout_ms: int
    group_share_heartbeat_interval_ms: int
    group_share_min_heartbeat_interval_ms: int
    group_share_max_heartbeat_interval_ms: int
    group_share_assignment_interval_ms: int
    group_share_min_assignment_interval_ms: int
    group_share_max_assignment_interval_ms: int
    group_share_record_lock_duration_ms: int
    group_share_min_record_lock_duration_ms: int
    group_share_max_record_lock_duration_ms: int
    group_share_delivery_count_limit: int
    group_share_min_delivery_count_limit: int
    group_share_max_delivery_count_limit: int
    group_share_partition_max_record_locks: int
    group_share_min_partition_max_record_locks: int
    group_share_max_partition_max_record_locks: int
    group_share_max_size: int
    group_share_max_share_sessions: int
    group_share_assignors: tuple[str, ...]
    group_share_initialize_retry_interval_ms: int
    errors_deadletterqueue_auto_create_topics_enable: bool
    errors_deadletterqueue_topic_name_prefix: str
    offset_metadata_max_bytes: int
    offsets_commit_timeout_ms: int
    offsets_load_buffer_size: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    offsets_topic_compression_codec: int
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int
    transaction_max_timeout_ms: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transactional_id_expiration_ms: int
    transaction_partition_verification_enable: bool
    add_partitions_to_txn_retry_backoff_ms: int
    add_partitions_to_txn_retry_backoff_max_ms: int
    transaction_state_log_load_buffer_size: int
    transaction_state_log_min_isr: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_segment_bytes: int
    share_coordinator_cold_partition_snapshot_interval_ms: int
    share_coordinator_load_buffer_size: int
    share_coordinator_snapshot_update_records_per_snapshot: int
    share_coordinator_state_topic_compression_codec: int
    share_coordinator_state_topic_min_isr: int
    share_coordinator_state_topic_num_partitions: int
    share_coordinator_state_topic_prune_interval_ms: int
    share_coordinator_state_topic_replication_factor: int
    share_coordinator_state_topic_segment_bytes: int
    share_coordinator_write_timeout_ms: int
    metadata_log_dir: str
    metadata_log_segment_bytes: int
    metadata_log_max_record_bytes_between_snapshots: int
    barnabas_flush_policy: str
    barnabas_flush_bytes: int
    barnabas_tail_cache_bytes: int
    barnabas_max_requests_per_connection: int
    telemetry_max_bytes: int
    barnabas_client_metrics_series_max: int
    admin_http_host: str
    admin_http_port: int
    admin_http_protocol: str
    admin_http_principals: tuple[str, ...]
    admin_http_token_file: str | None
    admin_http_token_listener: str | None
    admin_http_socket: str | None
    console_url: str | None
    broker_heartbeat_interval_ms: int
    broker_session_timeout_ms: int
    initial_broker_registration_timeout_ms: int
    server_max_startup_time_ms: int
    controlled_shutdown_enable: bool
    inter_broker_listener_name: str
    barnabas_other_broker_listeners: tuple[str, ...]
    barnabas_port_unification_listeners: tuple[str, ...]
    security_inter_broker_protocol: str
    request_timeout_ms: int
    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_seconds: int
    unclean_leader_election_enable: bool
    num_replica_fetchers: int
    replica_fetch_backoff_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_lag_time_max_ms: int
    replica_socket_timeout_ms: int
    replica_selector_class: str | None
    leader_replication_throttled_rate: int
    follower_replication_throttled_rate: int
    broker_fence_on_refused_ms: int
    controller_quorum_lost_ms: int
    arbiter_time_to_live_ms: int
    metadata_members: int
    metadata_min_members: int
    metadata_member_leaving: bool
    metadata_member_lost_ms: int
    barnabas_drain_budget_ms: int
    barnabas_broker_principals: str
    barnabas_broker_users_file: str | None
    sasl_mechanism_inter_broker_protocol: str
    barnabas_login_timeout_ms: int
    barnabas_half_open_connections_max: int
    barnabas_half_open_connections_per_ip_max: int
    arbiter_backend: str
    arbiter_poll_interval_ms: int
    arbiter_request_timeout_ms: int
    arbiter_file_path: str
    arbiter_etcd_endpoints: tuple[str, ...]
    arbiter_etcd_key: str
    arbiter_etcd_username: str | None
    arbiter_etcd_password: str | None
    arbiter_etcd_ca_file: str | None
    arbiter_etcd_client_certificate_file: str | None
    arbiter_etcd_client_key_file: str | None
    arbiter_kubernetes_server: str | None
    arbiter_kubernetes_namespace: str | None
    arbiter_kubernetes_lease_name: str
    arbiter_kubernetes_token_file: str | None
    arbiter_kubernetes_ca_file: str | None
    authorizer_class_name: str
    super_users: tuple[str, ...]
    allow_everyone_if_no_acl_found: bool
    barnabas_authorizer_mode: str
    barnabas_audit: str
    barnabas_audit_file: str | None
    barnabas_audit_file_bytes_max: int

    # By the name of the listener, for those with TLS.
    tls: Mapping[str, ListenerTlsSettings]
    barnabas_scram_previous_credential_ms: int
    barnabas_bootstrap_users_file: str | None

    # How clients log in, by the name of the listener; those without SASL are not here.
    sasl: Mapping[str, SaslSettings]

    # What was written, key by key: the static level of DescribeConfigs.
    properties: Mapping[str, str]

    @staticmethod
    def parse(properties: Mapping[str, str]) -> BrokerConfig:
        """The settings with Kafka's defaults where the properties are silent.

        Raises: ConfigError, naming the key and for an unknown one the nearest known (BOOT-10).
        """
        for key, text in properties.items():
            _check_given(key, text)
        values: dict[str, Any] = {
            setting.attribute: setting.parse(properties.get(setting.name, setting.default))
            for setting in BROKER_SETTINGS
        }
        _join_node_id(values)
        _join_listeners(values)
        _join_directories(values)
        check_arbiter(values)
        join_admin(values)
        check_consumer_groups(values)
        check_share_groups(values)
        _join_inter_broker_listener(values)
        _join_port_unification(values)
        join_authorizer(values)
        _check_replica_waits(values)
        _check_listener_names(properties, values)
        values["tls"] = tls_of(values["listeners"], properties, values)
        values["sasl"] = {
            endpoint.name: sasl_settings(endpoint.name, endpoint.security_protocol, properties)
            for endpoint in values["listeners"]
            if endpoint.security_protocol in SASL_PROTOCOLS
        }
        values["tls"].update(admin_tls(properties, values))
        _check_broker_login(values)
        check_token_listener(values)
        given = dict(properties)
        if values["node_id"] >= 0:
            given["node.id"] = given["broker.id"] = str(values["node_id"])
        return BrokerConfig(properties=given, **values)

    def with_values(self, values: Mapping[str, str]) -> BrokerConfig:
        """The same with the values in force, for those that may change for all brokers at once.

        The values are those of `DynamicConfig`, which are valid. Raises: ConfigError.
        """
        dynamic = [setting for setting in BROKER_SETTINGS if setting.update == CLUSTER_WIDE]
        changed: dict[str, Any] = {
            setting.attribute: setting.parse(values.get(setting.name, setting.default))
            for setting in dynamic
        }
        changed["max_connections_per_ip_overrides"] = parse_connection_overrides(
            changed["max_connections_per_ip_overrides"]
        )
        given = dict(self.properties)
        for setting in dynamic:
            given.pop(setting.name, None)
            if setting.name in values:
                given[setting.name] = values[setting.name]
        return replace(self, properties=given, **changed)


def row_of(key: str) -> BrokerSetting | None:
    """The row of a setting, also where it is given for one listener alone."""
    setting = BY_KEY.get(key)
    split = split_listener_key(key)
    if setting is not None or split is None:
        return setting
    if split.key in _OF_LISTENERS:
        return BY_KEY[split.key]
    of_mechanism = split.key.partition(".")[2]
    return BY_KEY[of_mechanism] if of_mechanism in _OF_MECHANISMS else None


def check_prefix(key: str) -> None:
    """Refuse what nobody reads: a listener's prefix in upper case. Raises: ConfigError."""
    split = split_listener_key(key)
    if split is not None and key != listener_key(*split):
        raise ConfigError(f"{key} has no effect: write {listener_key(*split)}")


def _check_given(key: str, text: str) -> None:
    check_prefix(key)
    setting = row_of(key)
    if setting is None:
        split = split_listener_key(key)
        if split is None:
            explanation = of_other_kafka(key)
            if explanation:
                raise ConfigError(f"{key} is no setting here: {explanation}")
            raise ConfigError(unknown_name("setting", key, BY_KEY))
        if split.key in BY_KEY:
            raise ConfigError(f"{key}: {split.key} holds for all listeners alike")
        raise ConfigError(unknown_name("setting of a listener", split.key, _OF_LISTENERS))
    setting.parse(text)
    if setting.support == DEFAULT_ONLY and text.strip() != (setting.default or ""):
        raise ConfigError(f"{key}: only the default is accepted: {setting.why}")


def _join_node_id(values: dict[str, Any]) -> None:
    """`node.id` and `broker.id` are two names of one setting (NODE-4)."""
    node_id, broker_id = values["node_id"], values["broker_id"]
    if node_id >= 0 and broker_id >= 0 and node_id != broker_id:
        raise ConfigError(f"node.id is {node_id} but broker.id is {broker_id}")
    values["node_id"] = values["broker_id"] = max(node_id, broker_id)


def _join_listeners(values: dict[str, Any]) -> None:
    protocols = parse_protocol_map(values["listener_security_protocol_map"])
    controllers = tuple(
        name.upper() for name in split_list(values["controller_listener_names"] or "")
    )
    # Kafka's example files leave the controller's listener out of the map if it is its own name.
    known = {
        **dict.fromkeys(controllers, "PLAINTEXT"),
        REPLICATION_LISTENER: values["security_inter_broker_protocol"],
        **protocols,
    }
    listeners = tuple(
        endpoint
        for endpoint in parse_endpoints("listeners", values["listeners"], known)
        if endpoint.name not in controllers
    )
    if not listeners:
        raise ConfigError("listeners: at least one listener is needed")
    advertised = listeners
    if values["advertised_listeners"]:
        advertised = tuple(
            endpoint
            for endpoint in parse_endpoints(
                "advertised.listeners", values["advertised_listeners"], known
            )
            if endpoint.name not in controllers
        )
        _check_advertised(listeners, advertised)
    values["controller_listener_names"] = controllers
    values["listener_security_protocol_map"] = protocols
    values["listeners"], values["advertised_listeners"] = listeners, advertised
    values["max_connections_per_ip_overrides"] = parse_connection_overrides(
        values["max_connections_per_ip_overrides"]
    )


def _check_listener_names(properties: Mapping[str, str], values: Mapping[str, Any]) -> None:
    """Refuse a setting of a listener that there is not: it would have no effect (BOOT-10)."""
    names = {endpoint.name for endpoint in values["listeners"]}
    names |= {*values["controller_listener_names"], *values["listener_security_protocol_map"]}
    if values["admin_http_protocol"] == HTTPS:
        names.add(ADMIN_LISTENER)
    for key in properties:
        split = split_listener_key(key)
        if split is not None and split.listener not in names:
            raise ConfigError(f"{key}: no listener is called {split.listener}")


def tls_of(
    listeners: Sequence[Endpoint], properties: Mapping[str, str], values: Mapping[str, Any]
) -> dict[str, ListenerTlsSettings]:
    """What TLS is on each listener that has it. Raises: ConfigError."""
    return {
        endpoint.name: tls_settings(
            endpoint.name,
            endpoint.security_protocol,
            properties,
            is_of_brokers=endpoint.name == values["inter_broker_listener_name"],
        )
        for endpoint in listeners
        if endpoint.security_protocol in ENCRYPTED
    }


def _check_broker_login(values: dict[str, Any]) -> None:
    """Brokers log in by SCRAM, from a file, for good: nothing of it needs the quorum (SEC-61)."""
    name = values["inter_broker_listener_name"]
    sasl: SaslSettings | None = values["sasl"].get(name)
    path, principals = values["barnabas_broker_users_file"], values["barnabas_broker_principals"]
    values[_BROKER_MECHANISM] = _broker_mechanism(values, sasl)
    if sasl is None:
        if path is not None:
            raise ConfigError(f"barnabas.broker.users.file: the listener {name} has no SASL")
        return
    if path is None or not principals.strip():
        raise ConfigError(
            f"{name}: brokers that log in by SASL need barnabas.broker.users.file and "
            "barnabas.broker.principals"
        )
    others = [one for one in sasl.mechanisms if one not in SCRAM_MECHANISMS]
    if others:
        raise ConfigError(f"{name}: brokers log in by SCRAM, not by {', '.join(others)}")
    if any(sasl.session_lifetimes_ms.values()):
        raise ConfigError(
            f"listener.name.{name.lower()}.connections.max.reauth.ms: brokers log in once for a "
            "connection; set it to 0"
        )


def _broker_mechanism(values: Mapping[str, Any], sasl: SaslSettings | None) -> str:
    """By which mechanism brokers log in with one another; empty where they do not.

    Raises: ConfigError where another is named than their listener has.
    """
    key, named = "sasl.mechanism.inter.broker.protocol", values[_BROKER_MECHANISM].upper()
    name = values["inter_broker_listener_name"]
    if named == GSSAPI:
        return "" if sasl is None else sasl.mechanisms[0]
    if sasl is None:
        raise ConfigError(
            f"{key} is {named}, but brokers do not log in here: the listener {name} has no SASL"
        )
    if named not in sasl.mechanisms:
        raise ConfigError(
            f"{key} is {named}, but the listener {name} has {', '.join(sasl.mechanisms)}"
        )
    return str(named)


def _join_inter_broker_listener(values: dict[str, Any]) -> None:
    """Find or make the listener that is the brokers' own (decision 0014).

    The only listener is the clients', also where `inter.broker.listener.name` names it, as Kafka's
    example files do.
    """
    listeners, advertised = values["listeners"], values["advertised_listeners"]
    given = values["inter_broker_listener_name"]
    protocol = values["security_inter_broker_protocol"]
    if protocol != "PLAINTEXT":
        if given is not None:
            raise ConfigError(
                "inter.broker.listener.name and security.inter.broker.protocol both say which "
                "listener is the brokers' own; keep one of them"
            )
        if len(listeners) > 1 and protocol in [endpoint.name for endpoint in advertised]:
            given = protocol
    name = (given or REPLICATION_LISTENER).upper()
    if given is not None and name not in [endpoint.name for endpoint in advertised]:
        raise ConfigError(f"inter.broker.listener.name: {given} is not one of advertised.listeners")
    if len(listeners) == 1:
        if listeners[0].name == REPLICATION_LISTENER:
            raise ConfigError(
                f"listeners: {REPLICATION_LISTENER} is for brokers; clients need another listener"
            )
        name = REPLICATION_LISTENER
    own = next((endpoint for endpoint in listeners if endpoint.name == name), None)
    if own is None:
        protocol = values["listener_security_protocol_map"].get(REPLICATION_LISTENER, protocol)
        own = _own_listener(values["arbiter_backend"], listeners, protocol)
        values["listeners"] = (*listeners, own)
    if name not in [endpoint.name for endpoint in advertised]:
        values["advertised_listeners"] = (*advertised, own)
        _check_advertised(values["listeners"], values["advertised_listeners"])
    values["inter_broker_listener_name"] = name
    others = tuple(one.upper() for one in values["barnabas_other_broker_listeners"])
    for one in others:
        if one not in [endpoint.name for endpoint in values["listeners"]]:
            raise ConfigError(f"barnabas.other.broker.listeners: {one} is not one of listeners")
    values["barnabas_other_broker_listeners"] = others


def _join_port_unification(values: dict[str, Any]) -> None:
    """Only clients' listeners with TLS may serve others, too. Raises: ConfigError."""
    key = "barnabas.port.unification.listeners"
    protocols = {one.name: one.security_protocol for one in values["listeners"]}
    of_brokers = {
        values["inter_broker_listener_name"],
        *values["barnabas_other_broker_listeners"],
    }
    unified = tuple(one.upper() for one in values["barnabas_port_unification_listeners"])
    for one in unified:
        if one not in protocols:
            raise ConfigError(f"{key}: {one} is not one of listeners")
        if protocols[one] not in ENCRYPTED:
            raise ConfigError(f"{key}: {one} is {protocols[one]}, so it has no TLS to be without")
        if one in of_brokers:
            raise ConfigError(f"{key}: {one} is a listener of brokers, which have TLS or have not")
    values["barnabas_port_unification_listeners"] = unified


def _own_listener(arbiter_backend: str, listeners: tuple[Endpoint, ...], protocol: str) -> Endpoint:
    """A listener for brokers on the loopback address. Raises: ConfigError.

    That is enough for brokers that share an arbiter in a local file, and for a single one.
    """
    if arbiter_backend != "file":
        raise ConfigError(
            "listeners: brokers on several machines need a listener of their own, which clients "
            f"cannot reach: add {REPLICATION_LISTENER}://host:port to listeners and to "
            "advertised.listeners, or name it by inter.broker.listener.name"
        )
    first = listeners[0]
    port = first.port + REPLICATION_PORT_DISTANCE if first.port else 0
    if port > PORT_MAX:
        port = first.port - REPLICATION_PORT_DISTANCE
    taken = next((one.name for one in listeners if port and one.port == port), None)
    if taken is not None:
        raise ConfigError(
            f"listeners: {taken} has port {port}, at which the listener for brokers would be "
            f"added: give it another, or add {REPLICATION_LISTENER}://host:port to listeners"
        )
    return Endpoint(REPLICATION_LISTENER, "127.0.0.1", port, protocol)


def _check_replica_waits(values: dict[str, Any]) -> None:
    """A follower that waits for records must count neither as lost nor as lagging (as in Kafka)."""
    wait_ms = values["replica_fetch_wait_max_ms"]
    for key in ("replica.socket.timeout.ms", "replica.lag.time.max.ms"):
        limit_ms = values[key.replace(".", "_")]
        if wait_ms > limit_ms:
            raise ConfigError(
                f"replica.fetch.wait.max.ms: {wait_ms} is more than {key}, which is {limit_ms}"
            )


def _check_advertised(listeners: tuple[Endpoint, ...], advertised: tuple[Endpoint, ...]) -> None:
    names = {endpoint.name for endpoint in listeners}
    for endpoint in advertised:
        if endpoint.name not in names:
            raise ConfigError(f"advertised.listeners: {endpoint.name} is not one of listeners")
        if endpoint.host == "0.0.0.0":
            raise ConfigError(f"advertised.listeners: {endpoint} cannot be reached from elsewhere")


def _check_apart(directories: Sequence[str]) -> None:
    """Raises: ConfigError where one lies within another, whose logs its own would seem to be."""
    paths = sorted((Path(path).resolve(), path) for path in directories)
    for (outer, outer_as_given), (inner, inner_as_given) in pairwise(paths):
        if inner.is_relative_to(outer):
            what = "is" if inner == outer else "lies within"
            raise ConfigError(f"log.dirs: {inner_as_given} {what} {outer_as_given}")


def _join_directories(values: dict[str, Any]) -> None:
    directories = split_list(values["log_dirs"] or values["log_dir"])
    directories = tuple(directory for directory in directories if directory)
    if not directories:
        raise ConfigError("log.dirs: at least one directory is needed")
    if len(set(directories)) != len(directories):
        raise ConfigError("log.dirs: a directory is named twice")
    _check_apart(directories)
    values["log_dirs"] = directories
    metadata_directory = values["metadata_log_dir"] or directories[0]
    if metadata_directory not in directories:
        raise ConfigError(f"metadata.log.dir: {metadata_directory} is not one of log.dirs")
    values["metadata_log_dir"] = metadata_directory
    values["arbiter_file_path"] = (
        values["arbiter_file_path"] or f"{metadata_directory}/arbiter.json"
    )
