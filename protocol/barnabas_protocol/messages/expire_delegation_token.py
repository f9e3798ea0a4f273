"""ExpireDelegationToken (key 40): versions 1-2, flexible from 2."""

from barnabas_protocol.schema import Buffer, Message, data, int16, int32, int64


class ExpireDelegationTokenRequest(Message, versions=(1, 2), flexible=2):
    """Request of ExpireDelegationToken."""

    hmac: Buffer = data()
    expiry_time_period_ms: int = int64()


class ExpireDelegationTokenResponse(Message, versions=(1, 2), flexible=2):
    """Response of ExpireDelegationToken."""

    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
