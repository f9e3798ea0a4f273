"""DeleteAcls (31), versions 1 to 3: remove the ACLs that filters select (KIP-140, KIP-290).

All of them or none; the response names them for each filter. Since version 2 the encoding is
flexible; version 3 adds a type of resource. Source: SEC-43.
"""

from typing import Final

from barnabas_broker.controller.acls import Deletion, plan_deletion
from barnabas_broker.handlers.request_limits import encode_checked
from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.acl_table import AclTable
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.security.acl.acl import Acl, AclFilter
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

LOOP_COMPARISONS_MAX: Final = 2_000
"""So many ACLs are compared with filters in a few milliseconds."""
LOOP_FILTERS_MAX: Final = 200
LOOP_ACLS_MAX: Final = 500
"""So many removed ACLs are put in a response in a few milliseconds."""


async def handle(
    services: Services, in_flight: InFlightRequest, request: DeleteAclsRequest
) -> DeleteAclsResponse | bytes:
    """Remove what the filters select; the response is encoded already where it is large."""
    if services.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    filters = [_filter(wanted) for wanted in request.filters]
    run = services.heavy_work.run

    async def plan(acls: AclTable) -> Deletion:
        if len(filters) <= LOOP_FILTERS_MAX and len(acls) * len(filters) <= LOOP_COMPARISONS_MAX:
            return plan_deletion(acls, filters)
        return await run(in_flight, plan_deletion, acls, filters)

    selected = await services.controller.delete_acls(plan)
    if sum(len(acls) for acls in selected if isinstance(acls, list)) <= LOOP_ACLS_MAX:
        return _response(selected)
    return await run(in_flight, _encoded, in_flight, selected)


def _encoded(in_flight: InFlightRequest, selected: list[list[Acl] | KafkaError]) -> bytes:
    return encode_checked(in_flight, _response(selected))


def _filter(wanted: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        resource_type=wanted.resource_type_filter,
        resource_name=wanted.resource_name_filter,
        pattern_type=wanted.pattern_type_filter,
        principal=wanted.principal_filter,
        host=wanted.host_filter,
        operation=wanted.operation,
        permission=wanted.permission_type,
    )


def _response(selected: list[list[Acl] | KafkaError]) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            _refused(acls)
            if isinstance(acls, KafkaError)
            else DeleteAclsFilterResult(error_message=None, matching_acls=list(map(_removed, acls)))
            for acls in selected
        ]
    )


def _removed(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _refused(error: KafkaError) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=error.code, error_message=error.message)


def failed(request: DeleteAclsRequest, error: KafkaError) -> DeleteAclsResponse:
    """The same error for every filter."""
    return DeleteAclsResponse(filter_results=[_refused(error) for _ in request.filters])
