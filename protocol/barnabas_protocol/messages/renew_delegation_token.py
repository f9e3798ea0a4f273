"""RenewDelegationToken (key 39): versions 1-2, flexible from 2."""

from barnabas_protocol.schema import Buffer, Message, data, int16, int32, int64


class RenewDelegationTokenRequest(Message, versions=(1, 2), flexible=2):
    """Request of RenewDelegationToken."""

    hmac: Buffer = data()
    renew_period_ms: int = int64()


class RenewDelegationTokenResponse(Message, versions=(1, 2), flexible=2):
    """Response of RenewDelegationToken."""

    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
