"""Keys and values from bytes to the program's objects, and the program's interceptors.

Not here: reading records from batches. Source: Kafka's Deserializer and ConsumerInterceptor.
Invariants: null stays null, without asking a deserializer; what one raises becomes a
SerializationError that names the record; what an interceptor raises is logged and goes no further.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.consumer.records import ConsumerRecord
from barnabas_client.errors import SerializationError
from barnabas_protocol.ids import TopicPartition

_log = logging.getLogger(__name__)
_new_tuple = tuple.__new__

Deserializer = Callable[[bytes], Any]


class RecordDeserializer:
    """Applies the deserializers of keys and values, where there are any."""

    __slots__ = ("_key", "_value", "is_needed")

    def __init__(self, key: Deserializer | None, value: Deserializer | None) -> None:
        self._key = key
        self._value = value
        #: Without any, records are handed out as they were read.
        self.is_needed = key is not None or value is not None

    def apply(
        self, records: Sequence[ConsumerRecord]
    ) -> tuple[list[ConsumerRecord], SerializationError | None]:
        """The records with their objects, up to the first that fails; and why that one did."""
        done: list[ConsumerRecord] = []
        append = done.append
        key_of, value_of = self._key, self._value
        what = "key"
        for record in records:
            topic, partition, offset, timestamp, kind, key, value, headers, epoch = record
            try:
                what = "key"
                if key is not None and key_of is not None:
                    key = key_of(key)
                what = "value"
                if value is not None and value_of is not None:
                    value = value_of(value)
            except Exception as error:
                return done, _failure(record, what, error)
            fields = (topic, partition, offset, timestamp, kind, key, value, headers, epoch)
            append(_new_tuple(ConsumerRecord, fields))
        return done, None


class Interceptors:
    """The program's observers, in the configured order; each method is optional."""

    __slots__ = ("_interceptors",)

    def __init__(self, interceptors: Sequence[Any]) -> None:
        self._interceptors = tuple(interceptors)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._interceptors)

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """What the program is to see of the records; an interceptor's output feeds the next."""
        for interceptor in self._interceptors:
            method = getattr(interceptor, "on_consume", None)
            if method is None:
                continue
            try:
                records = list(method(records))
            except Exception:
                _log.exception("%s.on_consume failed", type(interceptor).__name__)
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Tell of offsets that the group has accepted."""
        for interceptor in self._interceptors:
            method = getattr(interceptor, "on_commit", None)
            if method is None:
                continue
            try:
                method(offsets)
            except Exception:
                _log.exception("%s.on_commit failed", type(interceptor).__name__)


def _failure(record: ConsumerRecord, what: str, error: Exception) -> SerializationError:
    failure = SerializationError(
        f"the deserializer refused the {what} of {record.topic}-{record.partition} at offset"
        f" {record.offset}: {error!r}. Seek behind it to go on without this record"
    )
    failure.position = (record.topic, record.partition, record.offset)
    failure.__cause__ = error
    return failure
