"""DescribeAcls (29), versions 1 to 3: the ACLs that a filter fits (KIP-140, KIP-290).

Any broker responds by its own metadata. Since version 2 the encoding is flexible; version 3 adds a
type of resource. Source: SEC-43.
"""

from collections.abc import Coroutine
from typing import Any, Final

from barnabas_broker.handlers.request_limits import encode_checked
from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.acl_table import AclTable
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.security.acl.acl import AclFilter
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

LOOP_ACLS_MAX: Final = 500
"""So many are looked at and described in a few milliseconds."""


def handle(
    services: Services, in_flight: InFlightRequest, request: DescribeAclsRequest
) -> DescribeAclsResponse | Coroutine[Any, Any, bytes]:
    """Describe what a filter selects.

    A coroutine where there are very many ACLs: what is sent is made in a thread then.
    """
    if services.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    wanted = AclFilter(
        resource_type=request.resource_type_filter,
        resource_name=request.resource_name_filter,
        pattern_type=request.pattern_type_filter,
        principal=request.principal_filter,
        host=request.host_filter,
        operation=request.operation,
        permission=request.permission_type,
    )
    acls = services.image.acls
    if len(acls) > LOOP_ACLS_MAX:
        return services.heavy_work.run(in_flight, _encoded, in_flight, acls, wanted)
    return _described(acls, wanted)


def _encoded(in_flight: InFlightRequest, acls: AclTable, wanted: AclFilter) -> bytes:
    return encode_checked(in_flight, _described(acls, wanted))


def _described(acls: AclTable, wanted: AclFilter) -> DescribeAclsResponse:
    resources: dict[tuple[int, int, str], DescribeAclsResource] = {}
    for acl in wanted.selected(acls):
        pattern = (acl.resource_type, acl.pattern_type, acl.resource_name)
        resource = resources.get(pattern)
        if resource is None:
            resource = resources[pattern] = DescribeAclsResource(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
            )
        resource.acls.append(
            AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
        )
    return DescribeAclsResponse(error_message="", resources=list(resources.values()))


def failed(request: DescribeAclsRequest, error: KafkaError) -> DescribeAclsResponse:
    """The error alone."""
    return DescribeAclsResponse(error_code=error.code, error_message=error.message)
