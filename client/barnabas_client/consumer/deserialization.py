"""Keys and values to objects: the settings `key_deserializer` and `value_deserializer`.

A deserializer is a function of the bytes alone, or an object with a method
`deserialize(topic, data, headers)`. Not here: reading records from batches.

Source: Kafka's Deserializer. Invariants: null stays null, without calling a deserializer; what one
raises becomes a SerializationError that names the record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from barnabas_client.config.serializers import Deserializer
from barnabas_client.consumer.records import ConsumerRecord
from barnabas_client.errors import SerializationError

_new_tuple = tuple.__new__

GivenDeserializer: TypeAlias = Callable[[bytes], Any] | Deserializer | None


class RecordDeserializer:
    """Applies the deserializers of keys and values, where there are any."""

    __slots__ = ("_key", "_key_takes_all", "_value", "_value_takes_all", "is_needed")

    def __init__(self, key: GivenDeserializer, value: GivenDeserializer) -> None:
        self._key, self._key_takes_all = _call(key)
        self._value, self._value_takes_all = _call(value)
        #: Without any, records are returned as they were read.
        self.is_needed = key is not None or value is not None

    def apply(
        self, records: Sequence[ConsumerRecord]
    ) -> tuple[list[ConsumerRecord], SerializationError | None]:
        """The records with their objects, up to the first that fails; and why that one did."""
        done: list[ConsumerRecord] = []
        append = done.append
        # Functions are called with the bytes alone: a wrapper would cost a call for each record.
        key_of, key_takes_all = self._key, self._key_takes_all
        value_of, value_takes_all = self._value, self._value_takes_all
        what = "key"
        for record in records:
            topic, partition, offset, timestamp, kind, key, value, headers, epoch = record
            try:
                what = "key"
                if key is not None and key_of is not None:
                    key = key_of(topic, key, headers) if key_takes_all else key_of(key)
                what = "value"
                if value is not None and value_of is not None:
                    value = value_of(topic, value, headers) if value_takes_all else value_of(value)
            except Exception as error:
                return done, _failure(record, what, error)
            fields = (topic, partition, offset, timestamp, kind, key, value, headers, epoch)
            append(_new_tuple(ConsumerRecord, fields))
        return done, None


def _call(given: GivenDeserializer) -> tuple[Callable[..., Any] | None, bool]:
    """What to call, and whether it takes topic and headers besides the bytes."""
    method = getattr(given, "deserialize", None)
    if method is not None:
        return method, True
    function: Any = given
    return function, False


def _failure(record: ConsumerRecord, what: str, error: Exception) -> SerializationError:
    failure = SerializationError(
        f"the deserializer refused the {what} of {record.topic}-{record.partition} at offset"
        f" {record.offset}: {error!r}. Seek behind it to go on without this record"
    )
    failure.position = (record.topic, record.partition, record.offset)
    failure.__cause__ = error
    return failure
