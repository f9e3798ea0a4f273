"""Prepares a record for a batch: serializes it and checks it against the limits.

Invariants: an invalid record raises before anything has changed (PRD-1, PRD-2).
"""

from __future__ import annotations

import operator
from typing import Any, Final, NamedTuple

from barnabas_client.cluster.topic_names import check_topic_name
from barnabas_client.config.producer_settings import ProducerSettings
from barnabas_client.errors import RecordTooLargeError, UsageError
from barnabas_client.producer.interceptors import ProducerRecord
from barnabas_client.producer.record_encoding import (
    RECORD_OVERHEAD_BYTES_MAX,
    Headers,
    headers_size,
)
from barnabas_client.producer.serializers import checked_headers, create_serializer
from barnabas_protocol.records.batch import HEADER_BYTES

TIMESTAMP_MS_MAX: Final = 1 << 53
"""A larger timestamp, hundreds of thousands of years ahead, is in another unit."""
_OVERHEAD_BYTES: Final = HEADER_BYTES + RECORD_OVERHEAD_BYTES_MAX


class PreparedRecord(NamedTuple):
    """A record as it goes into a batch; without a timestamp it gets the time of sending."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None
    timestamp_ms: int | None
    headers: Headers


class Preparation:
    """The serializers and limits of one producer."""

    def __init__(self, settings: ProducerSettings) -> None:
        self._key_to_bytes = create_serializer("key", settings.key_serializer)
        self._value_to_bytes = create_serializer("value", settings.value_serializer)
        self._max_request_size = settings.max_request_size
        self._buffer_memory = settings.buffer_memory
        self._bytes_max = min(settings.max_request_size, settings.buffer_memory) - _OVERHEAD_BYTES

    def prepare(self, record: ProducerRecord) -> PreparedRecord:
        """The record in bytes.

        Raises: SerializationError, RecordTooLargeError, UsageError.
        """
        topic, value, key, partition, timestamp_ms, headers = record
        if topic.__class__ is not str:
            check_topic_name(topic)
        if headers:
            headers = checked_headers(headers)
        key_bytes = None if key is None else self._key_to_bytes(topic, key, headers)
        value_bytes = None if value is None else self._value_to_bytes(topic, value, headers)
        self._check_size(topic, key_bytes, value_bytes, headers)
        if partition is not None:
            partition = _whole("partition", partition)
            if partition < 0:
                raise UsageError(f"partition {partition} of {topic}: partitions count from 0")
        if timestamp_ms is not None:
            timestamp_ms = _whole("timestamp_ms", timestamp_ms)
            if timestamp_ms < 0:
                raise UsageError(f"timestamp_ms={timestamp_ms} lies before 1970")
            if timestamp_ms > TIMESTAMP_MS_MAX:
                raise UsageError(f"timestamp_ms={timestamp_ms} is too large: give milliseconds")
        return PreparedRecord(topic, key_bytes, value_bytes, partition, timestamp_ms, headers)

    def _check_size(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers
    ) -> None:
        size = (len(value) if value else 0) + (len(key) if key else 0)
        if headers:
            size += headers_size(headers)
        if size > self._bytes_max:
            raise RecordTooLargeError(
                f"a record of {size} bytes for {topic} does not fit: the most is "
                f"{self._bytes_max}, by max_request_size={self._max_request_size} and "
                f"buffer_memory={self._buffer_memory}"
            )


def _whole(name: str, value: Any) -> int:
    """An int of any integer type; a fraction would fail only when the batch is encoded."""
    try:
        return operator.index(value)
    except TypeError:
        raise UsageError(f"{name}={value!r} is not a whole number: give an int") from None
