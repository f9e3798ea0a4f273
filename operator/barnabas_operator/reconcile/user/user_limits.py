"""What a User may be given by where it is (SEC-86). Pure.

A User in the Broker's namespace may have anything: who writes there runs the Broker. One of another
namespace needs a place in the Broker's list, and gets rights on topics, groups and transactional
ids whose names begin as that place says: a User must be no way to another team's topics.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas_client.admin.values.acls import AclBinding
from barnabas_operator.security_spec import NamespaceLimit
from barnabas_operator.user_spec import UserSpec
from barnabas_protocol.acl import AclPermission, AclResourceType

_LIMITED = (AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.TRANSACTIONAL_ID)


def beyond_limits(spec: UserSpec, limits: Mapping[str, NamespaceLimit]) -> str:
    """Why a User is not admitted as it is, empty where it is."""
    if not spec.is_from_elsewhere:
        return ""
    limit = limits.get(spec.namespace)
    if limit is None:
        return (
            f"Broker {spec.broker_namespace}/{spec.broker} takes no Users of namespace"
            f" {spec.namespace}: its spec.security.userNamespaces does not name it"
        )
    if spec.quotas and not limit.may_set_quotas:
        return f"Users of namespace {spec.namespace} may not set quotas"
    refused = sorted(_text(right) for right in spec.rights if not _is_within(right, limit))
    if not refused:
        return ""
    allowed = ", ".join(limit.prefixes) or "nothing"
    return (
        f"rights beyond those of namespace {spec.namespace}, whose names begin with {allowed}:"
        f" {', '.join(refused[:5])}"
    )


def _is_within(right: AclBinding, limit: NamespaceLimit) -> bool:
    if right.permission is AclPermission.DENY:
        return True  # of its own user; it takes away only
    # The literal name * means every resource, and no beginning covers it.
    return (
        right.resource_type in _LIMITED
        and right.resource_name != "*"
        and any(prefix and right.resource_name.startswith(prefix) for prefix in limit.prefixes)
    )


def _text(right: AclBinding) -> str:
    return f"{right.operation.name} on {right.resource_type.name} {right.resource_name}"
