"""DescribeUserScramCredentials (key 50): version 0, always flexible."""

from barnabas_protocol.schema import Message, array, int8, int16, int32, string


class UserName(Message):
    """One element of `DescribeUserScramCredentialsRequest.users`."""

    name: str = string()


class DescribeUserScramCredentialsRequest(Message, versions=(0, 0), flexible=0):
    """Request of DescribeUserScramCredentials."""

    users: list[UserName] | None = array(UserName, nullable=0)


class CredentialInfo(Message):
    """One element of `DescribeUserScramCredentialsResult.credential_infos`."""

    mechanism: int = int8()
    iterations: int = int32()


class DescribeUserScramCredentialsResult(Message):
    """One element of `DescribeUserScramCredentialsResponse.results`."""

    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=0)
    credential_infos: list[CredentialInfo] = array(CredentialInfo)


class DescribeUserScramCredentialsResponse(Message, versions=(0, 0), flexible=0):
    """Response of DescribeUserScramCredentials."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0)
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult)
