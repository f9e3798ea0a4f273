"""`admin.acls`: DescribeAcls (29), CreateAcls (30) and DeleteAcls (31), sent to any broker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from barnabas_client.admin.api_errors import ApiError, error_of
from barnabas_client.admin.lookup_strategies import AnyBrokerStrategy
from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting, Call, RequestContext, nameless
from barnabas_client.admin.values.acls import AclBinding, AclFilter
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas_protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas_protocol.messages.describe_acls import DescribeAclsRequest

_ALL = AclFilter()


class Acls:
    """What can be done about rights; without an authorizer it is all an UnsupportedError."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def list(
        self, wanted: AclFilter = _ALL, *, timeout_ms: int | None = None
    ) -> tuple[AclBinding, ...]:
        """The rights that a filter means, all of them by default.

        Raises: TimedOutError, or what the broker says.
        """
        call = Call[None, tuple[AclBinding, ...]](
            action="list ACLs",
            api=ApiKey.DESCRIBE_ACLS,
            to=AnyBrokerStrategy(),
            build=lambda context: DescribeAclsRequest(
                resource_type_filter=wanted.resource_type,
                resource_name_filter=wanted.resource_name,
                pattern_type_filter=wanted.pattern_type,
                principal_filter=wanted.principal,
                host_filter=wanted.host,
                operation=wanted.operation,
                permission_type=wanted.permission,
            ),
            read=lambda response, context: {
                None: error_of(response)
                or tuple(
                    _binding(resource, acl)
                    for resource in response.resources
                    for acl in resource.acls
                )
            },
            name=nameless,
        )
        return await self._routing.one(call, timeout_ms)

    async def create(
        self, bindings: Iterable[AclBinding], *, timeout_ms: int | None = None
    ) -> Outcomes[AclBinding, None]:
        """Give or take rights; one that is there already stays."""
        call = Call[AclBinding, None](
            action="create ACL",
            api=ApiKey.CREATE_ACLS,
            to=AnyBrokerStrategy(),
            build=lambda context: CreateAclsRequest(
                creations=[
                    AclCreation(
                        resource_type=one.resource_type,
                        resource_name=one.resource_name,
                        resource_pattern_type=one.pattern_type,
                        principal=one.principal,
                        host=one.host,
                        operation=one.operation,
                        permission_type=one.permission,
                    )
                    for one in context.keys
                ]
            ),
            # Results have no keys: they come in the order of the request.
            read=lambda response, context: {
                key: error_of(one) for key, one in zip(context.keys, response.results, strict=False)
            },
            name=_binding_name,
            is_change=True,
        )
        return await self._routing.each(bindings, call, timeout_ms)

    async def delete(
        self, filters: Iterable[AclFilter], *, timeout_ms: int | None = None
    ) -> Outcomes[AclFilter, tuple[AclBinding, ...]]:
        """Remove the rights that filters mean; the value is what was removed.

        A filter of which one right could not be removed has that right's error.
        """
        call = Call[AclFilter, tuple[AclBinding, ...]](
            action="delete ACLs",
            api=ApiKey.DELETE_ACLS,
            to=AnyBrokerStrategy(),
            build=lambda context: DeleteAclsRequest(
                filters=[
                    DeleteAclsFilter(
                        resource_type_filter=one.resource_type,
                        resource_name_filter=one.resource_name,
                        pattern_type_filter=one.pattern_type,
                        principal_filter=one.principal,
                        host_filter=one.host,
                        operation=one.operation,
                        permission_type=one.permission,
                    )
                    for one in context.keys
                ]
            ),
            read=_deleted,
            name=_filter_name,
            is_change=True,
        )
        return await self._routing.each(filters, call, timeout_ms)


def _binding(resource: Any, acl: Any) -> AclBinding:
    return AclBinding(
        resource_type=AclResourceType(resource.resource_type),
        resource_name=resource.resource_name,
        pattern_type=PatternType(resource.pattern_type),
        principal=acl.principal,
        host=acl.host,
        operation=AclOperation(acl.operation),
        permission=AclPermission(acl.permission_type),
    )


def _deleted(
    response: Any, context: RequestContext[AclFilter]
) -> dict[AclFilter, tuple[AclBinding, ...] | ApiError]:
    deleted: dict[AclFilter, tuple[AclBinding, ...] | ApiError] = {}
    for key, result in zip(context.keys, response.filter_results, strict=False):
        errors = [error_of(result), *(error_of(one) for one in result.matching_acls)]
        first = next((one for one in errors if one is not None), None)
        deleted[key] = first or tuple(_binding(one, one) for one in result.matching_acls)
    return deleted


def _binding_name(one: AclBinding) -> str:
    return (
        f"{one.permission.name} {one.operation.name} on {one.resource_type.name} "
        f"{one.resource_name} for {one.principal}"
    )


def _filter_name(one: AclFilter) -> str:
    return (
        f"{one.permission.name} {one.operation.name} on {one.resource_type.name} "
        f"{one.resource_name or '(any)'} for {one.principal or 'anybody'}"
    )
