"""AddOffsetsToTxn (key 25): versions 0-4, flexible from 3."""

from barnabas_protocol.schema import Message, int16, int32, int64, string


class AddOffsetsToTxnRequest(Message, versions=(0, 4), flexible=3):
    """Request of AddOffsetsToTxn."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


class AddOffsetsToTxnResponse(Message, versions=(0, 4), flexible=3):
    """Response of AddOffsetsToTxn."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
