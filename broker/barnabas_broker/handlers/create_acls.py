"""CreateAcls (30), versions 1 to 3: make ACLs, each by itself (KIP-140, KIP-290).

Up to 500 in one request take effect together. Since version 2 the encoding is flexible; version 3
adds a type of resource. Source: SEC-43.
"""

from collections.abc import Sequence

from barnabas_broker.controller.acls import ATOMIC_MAX
from barnabas_broker.handlers.request_limits import encode_checked
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.security.acl.acl import Acl
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: CreateAclsRequest
) -> CreateAclsResponse | bytes:
    """Make them as far as they are valid; the response to very many is encoded already."""
    if services.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    if len(request.creations) <= ATOMIC_MAX:
        return _response(await services.controller.create_acls(_acls(request)))
    run = services.heavy_work.run
    errors = await services.controller.create_acls(await run(in_flight, _acls, request))
    return await run(in_flight, _encoded, in_flight, errors)


def _acls(request: CreateAclsRequest) -> list[Acl]:
    return [
        Acl(
            creation.resource_type,
            creation.resource_name,
            creation.resource_pattern_type,
            creation.principal,
            creation.host,
            creation.operation,
            creation.permission_type,
        )
        for creation in request.creations
    ]


def _encoded(in_flight: InFlightRequest, errors: Sequence[KafkaError | None]) -> bytes:
    return encode_checked(in_flight, _response(errors))


def _response(errors: Sequence[KafkaError | None]) -> CreateAclsResponse:
    return CreateAclsResponse(results=[_result(error) for error in errors])


def _result(error: KafkaError | None) -> AclCreationResult:
    return AclCreationResult(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message="" if error is None else error.message,
    )


def failed(request: CreateAclsRequest, error: KafkaError) -> CreateAclsResponse:
    """The same error for every ACL."""
    return CreateAclsResponse(results=[_result(error) for _ in request.creations])
