"""Values of `admin.acls`; the numbers of the enumerations are the wire's."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas_client.admin.values.wire_enum import WireEnum

OPERATIONS_NOT_SAID = -(1 << 31)


class AclResourceType(WireEnum):
    """What a right is about; ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(WireEnum):
    """How a resource's name is matched; ANY and MATCH are for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(WireEnum):
    """What one may do; ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(WireEnum):
    """Whether a right is given or taken; ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


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
