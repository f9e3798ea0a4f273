"""EndTxn (key 26): versions 0-5, flexible from 3."""

from barnabas_protocol.schema import Message, boolean, int16, int32, int64, string


class EndTxnRequest(Message, versions=(0, 5), flexible=3):
    """Request of EndTxn."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


class EndTxnResponse(Message, versions=(0, 5), flexible=3):
    """Response of EndTxn."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(since=5, default=-1)
    producer_epoch: int = int16(since=5, default=-1)
