"""Records of `__transaction_state`: keys and values, and their bytes.

Not here: what a record means (`state.py`, `shard.py`). Source: formats.md 11.

    key    int16 type = 0, string transactional id
    value  int16 version, fields of the version; null forgets the id

Written: version 0 while `transaction.version` is 0, else 1, whose new fields are tagged. A
transaction of version 2 has version 1 at any level: version 0 has no room for what its producer was
told, and the level may be lowered while it is open.
Invariant: an unknown type or version is not an error; it is skipped and counted.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from barnabas_broker.coordinator.runtime.shard import CoordinatorRecord
from barnabas_broker.coordinator.transaction.state import (
    EPOCH_BUMP,
    Transaction,
    TransactionState,
    by_topic,
)
from barnabas_protocol.codec import decode, encode
from barnabas_protocol.errors import ParseError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.records_transaction_state import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

KEY_TYPE = 0
VALUE_VERSION_MAX = 1
# A transactional id is written three times for each transaction; it has 1,024 bytes at most.
KEYS_KEPT = 1024

_INT16 = struct.Struct(">h")


def transaction_record(transaction: Transaction, feature_level: int) -> CoordinatorRecord:
    """Return the record that stores a transactional id, at a level of `transaction.version`."""
    value_version = 1 if feature_level >= 1 or transaction.client_version >= EPOCH_BUMP else 0
    partitions = [
        PartitionsSchema(topic=topic, partition_ids=indexes)
        for topic, indexes in by_topic(transaction.partitions).items()
    ]
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state.value,
        transaction_partitions=None if transaction.state is TransactionState.EMPTY else partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.client_version,
    )
    return CoordinatorRecord(
        _key(transaction.transactional_id),
        _INT16.pack(value_version) + encode(value, value_version),
    )


def transaction_tombstone(transactional_id: str) -> CoordinatorRecord:
    """Return the record that forgets a transactional id."""
    return CoordinatorRecord(_key(transactional_id), None)


@lru_cache(maxsize=KEYS_KEPT)
def _key(transactional_id: str) -> bytes:
    return _INT16.pack(KEY_TYPE) + encode(TransactionLogKey(transactional_id=transactional_id), 0)


def read_key(data: bytes) -> str | None:
    """Return the transactional id of a key; None for an unknown type. Raises: ParseError."""
    if len(data) < _INT16.size:
        raise ParseError(f"key of {len(data)} bytes", 0)
    (key_type,) = _INT16.unpack_from(data)
    if key_type != KEY_TYPE:
        return None
    key, _ = decode(TransactionLogKey, data, 0, _INT16.size)
    return key.transactional_id


def read_transaction(transactional_id: str, data: bytes) -> Transaction | None:
    """Return what a value says; None for an unknown version. Raises: ParseError."""
    if len(data) < _INT16.size:
        raise ParseError(f"value of {len(data)} bytes", 0)
    (version,) = _INT16.unpack_from(data)
    if not 0 <= version <= VALUE_VERSION_MAX:
        return None
    value, _ = decode(TransactionLogValue, data, version, _INT16.size)
    try:
        state = TransactionState(value.transaction_status)
    except ValueError:
        raise ParseError(f"transaction state {value.transaction_status}", 0) from None
    return Transaction(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(topic.topic, index)
            for topic in value.transaction_partitions or ()
            for index in topic.partition_ids
        ),
        started_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_transaction_version,
    )
