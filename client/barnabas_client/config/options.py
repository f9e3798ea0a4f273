"""The settings of each role as keyword arguments, for editors and type checkers.

They say the same as the settings classes, which a test compares; `bootstrap_servers` is missing
because constructors take it by position. Ranges, defaults and meanings are there.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypedDict

from barnabas_client.config.serializers import Deserializer, Serializer


class ClientOptions(TypedDict, total=False):
    """What `ClientSettings` takes."""

    client_id: str | None
    client_rack: str | None
    request_timeout_ms: int
    default_api_timeout_ms: int
    bootstrap_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    connections_max_idle_ms: int
    max_in_flight_requests_per_connection: int
    metadata_max_age_ms: int
    metadata_recovery_strategy: str
    metadata_recovery_rebootstrap_trigger_ms: int
    allow_auto_create_topics: bool
    send_buffer_bytes: int
    receive_buffer_bytes: int
    receive_message_max_bytes: int
    security_protocol: str
    sasl_mechanism: str
    sasl_username: str | None
    sasl_password: str | None
    sasl_oauthbearer_token_file: str | None
    sasl_oauthbearer_token_callback: Callable[[], str | Awaitable[str]] | None
    sasl_exchange: Callable[[str], Any] | None
    ssl_cafile: str | None
    ssl_ca_pem: str | None
    ssl_certfile: str | None
    ssl_certificate_pem: str | None
    ssl_keyfile: str | None
    ssl_key_pem: str | None
    ssl_password: str | None
    ssl_check_hostname: bool
    ssl_enabled_protocols: Sequence[str]
    ssl_context: ssl.SSLContext | None


class ProducerOptions(ClientOptions, total=False):
    """What `ProducerSettings` takes."""

    acks: int | str
    enable_idempotence: bool
    transactional_id: str | None
    transaction_timeout_ms: int
    batch_size: int
    linger_ms: int
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    compression_type: str
    compression_level: int | None
    delivery_timeout_ms: int
    retries: int
    partitioner: Any
    partitioner_ignore_keys: bool
    key_serializer: Callable[[Any], Any] | Serializer | None
    value_serializer: Callable[[Any], Any] | Serializer | None
    interceptors: Sequence[Any]


class ConsumerOptions(ClientOptions, total=False):
    """What `ConsumerSettings` takes."""

    group_id: str | None
    group_instance_id: str | None
    group_protocol: str
    group_remote_assignor: str | None
    partition_assignment_strategy: Sequence[Any]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    max_poll_records: int
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    auto_offset_reset: str
    isolation_level: str
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    prefetch_bytes_max: int
    check_crcs: bool
    exclude_internal_topics: bool
    key_deserializer: Callable[[bytes], Any] | Deserializer | None
    value_deserializer: Callable[[bytes], Any] | Deserializer | None
    interceptors: Sequence[Any]


class ShareConsumerOptions(ClientOptions, total=False):
    """What `ShareConsumerSettings` takes."""

    group_id: str
    share_acknowledgement_mode: str
    share_acquire_mode: str
    max_poll_records: int
    max_poll_interval_ms: int
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    check_crcs: bool
    key_deserializer: Callable[[bytes], Any] | Deserializer | None
    value_deserializer: Callable[[bytes], Any] | Deserializer | None


class AdminOptions(ClientOptions, total=False):
    """What `AdminSettings` takes."""
