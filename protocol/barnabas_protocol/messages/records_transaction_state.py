"""Records of `__transaction_state`."""

from barnabas_protocol.schema import Message, array, int8, int16, int32, int64, string


class TransactionLogKey(Message, versions=(0, 0)):
    """Key of record type 0."""

    transactional_id: str = string()


class PartitionsSchema(Message):
    """One element of `TransactionLogValue.transaction_partitions`."""

    topic: str = string()
    partition_ids: list[int] = array(int32)


class TransactionLogValue(Message, versions=(0, 1), flexible=1):
    """Value of record type 0."""

    producer_id: int = int64()
    previous_producer_id: int = int64(since=1, tag=0, default=-1)
    next_producer_id: int = int64(since=1, tag=1, default=-1)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16(since=1, tag=3, default=-1)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, nullable=0)
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16(since=1, tag=2)
