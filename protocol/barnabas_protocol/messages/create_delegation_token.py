"""CreateDelegationToken (key 38): versions 1-3, flexible from 2."""

from barnabas_protocol.schema import Buffer, Message, array, data, int16, int32, int64, string


class CreatableRenewers(Message):
    """One element of `CreateDelegationTokenRequest.renewers`."""

    principal_type: str = string()
    principal_name: str = string()


class CreateDelegationTokenRequest(Message, versions=(1, 3), flexible=2):
    """Request of CreateDelegationToken."""

    owner_principal_type: str | None = string(since=3, nullable=0)
    owner_principal_name: str | None = string(since=3, nullable=0)
    renewers: list[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()


class CreateDelegationTokenResponse(Message, versions=(1, 3), flexible=2):
    """Response of CreateDelegationToken."""

    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string(since=3)
    token_requester_principal_name: str = string(since=3)
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: Buffer = data()
    throttle_time_ms: int = int32()
