"""AlterUserScramCredentials (key 51): version 0, always flexible."""

from barnabas_protocol.schema import Buffer, Message, array, data, int8, int16, int32, string


class ScramCredentialDeletion(Message):
    """One element of `AlterUserScramCredentialsRequest.deletions`."""

    name: str = string()
    mechanism: int = int8()


class ScramCredentialUpsertion(Message):
    """One element of `AlterUserScramCredentialsRequest.upsertions`."""

    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: Buffer = data()
    salted_password: Buffer = data()


class AlterUserScramCredentialsRequest(Message, versions=(0, 0), flexible=0):
    """Request of AlterUserScramCredentials."""

    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


class AlterUserScramCredentialsResult(Message):
    """One element of `AlterUserScramCredentialsResponse.results`."""

    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=0)


class AlterUserScramCredentialsResponse(Message, versions=(0, 0), flexible=0):
    """Response of AlterUserScramCredentials."""

    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
