"""DescribeDelegationToken (key 41): versions 1-3, flexible from 2."""

from barnabas_protocol.schema import Buffer, Message, array, data, int16, int32, int64, string


class DescribeDelegationTokenOwner(Message):
    """One element of `DescribeDelegationTokenRequest.owners`."""

    principal_type: str = string()
    principal_name: str = string()


class DescribeDelegationTokenRequest(Message, versions=(1, 3), flexible=2):
    """Request of DescribeDelegationToken."""

    owners: list[DescribeDelegationTokenOwner] | None = array(
        DescribeDelegationTokenOwner, nullable=0
    )


class DescribedDelegationTokenRenewer(Message):
    """One element of `DescribedDelegationToken.renewers`."""

    principal_type: str = string()
    principal_name: str = string()


class DescribedDelegationToken(Message):
    """One element of `DescribeDelegationTokenResponse.tokens`."""

    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string(since=3)
    token_requester_principal_name: str = string(since=3)
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: Buffer = data()
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer)


class DescribeDelegationTokenResponse(Message, versions=(1, 3), flexible=2):
    """Response of DescribeDelegationToken."""

    error_code: int = int16()
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32()
