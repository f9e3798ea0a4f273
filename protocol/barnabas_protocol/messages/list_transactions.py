"""ListTransactions (key 66): versions 0-2, always flexible."""

from barnabas_protocol.schema import Message, array, int16, int32, int64, string


class ListTransactionsRequest(Message, versions=(0, 2), flexible=0):
    """Request of ListTransactions."""

    state_filters: list[str] = array(string)
    producer_id_filters: list[int] = array(int64)
    duration_filter: int = int64(since=1, default=-1)
    transactional_id_pattern: str | None = string(since=2, nullable=0, default=None)


class TransactionState(Message):
    """One element of `ListTransactionsResponse.transaction_states`."""

    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


class ListTransactionsResponse(Message, versions=(0, 2), flexible=0):
    """Response of ListTransactions."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(string)
    transaction_states: list[TransactionState] = array(TransactionState)
