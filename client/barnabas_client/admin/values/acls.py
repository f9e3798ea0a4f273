"""Values of `admin.acls`."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType

OPERATIONS_NOT_SAID = -(1 << 31)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclBinding:
    """One right: who (`User:alice`) may do what from which host to which resource."""

    resource_type: AclResourceType
    resource_name: str
    pattern_type: PatternType = PatternType.LITERAL
    principal: str
    host: str = "*"
    operation: AclOperation
    permission: AclPermission = AclPermission.ALLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """Selects rights; None and ANY leave a part open, the default means all rights."""

    resource_type: AclResourceType = AclResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY


def operations_of_bits(bits: int) -> frozenset[AclOperation] | None:
    """The operations of a bit field in a response; None where they were not requested."""
    if bits == OPERATIONS_NOT_SAID:
        return None
    return frozenset(operation for operation in AclOperation if bits >> operation & 1)
