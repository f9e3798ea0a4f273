"""DescribeTransactions (key 65): version 0, always flexible."""

from barnabas_protocol.schema import Message, array, int16, int32, int64, string


class DescribeTransactionsRequest(Message, versions=(0, 0), flexible=0):
    """Request of DescribeTransactions."""

    transactional_ids: list[str] = array(string)


class TopicData(Message):
    """One element of `TransactionState.topics`."""

    topic: str = string()
    partitions: list[int] = array(int32)


class TransactionState(Message):
    """One element of `DescribeTransactionsResponse.transaction_states`."""

    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[TopicData] = array(TopicData)


class DescribeTransactionsResponse(Message, versions=(0, 0), flexible=0):
    """Response of DescribeTransactions."""

    throttle_time_ms: int = int32()
    transaction_states: list[TransactionState] = array(TransactionState)
