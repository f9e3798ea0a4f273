"""CreateAcls (key 30): versions 1-3, flexible from 2."""

from barnabas_protocol.schema import Message, array, int8, int16, int32, string


class AclCreation(Message):
    """One element of `CreateAclsRequest.creations`."""

    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class CreateAclsRequest(Message, versions=(1, 3), flexible=2):
    """Request of CreateAcls."""

    creations: list[AclCreation] = array(AclCreation)


class AclCreationResult(Message):
    """One element of `CreateAclsResponse.results`."""

    error_code: int = int16()
    error_message: str | None = string(nullable=0)


class CreateAclsResponse(Message, versions=(1, 3), flexible=2):
    """Response of CreateAcls."""

    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array(AclCreationResult)
