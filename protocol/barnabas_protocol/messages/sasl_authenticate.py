"""SaslAuthenticate (key 36): versions 0-2, flexible from 2."""

from barnabas_protocol.schema import Buffer, Message, data, int16, int64, string


class SaslAuthenticateRequest(Message, versions=(0, 2), flexible=2):
    """Request of SaslAuthenticate."""

    auth_bytes: Buffer = data()


class SaslAuthenticateResponse(Message, versions=(0, 2), flexible=2):
    """Response of SaslAuthenticate."""

    error_code: int = int16()
    error_message: str | None = string(nullable=0)
    auth_bytes: Buffer = data()
    session_lifetime_ms: int = int64(since=1)
