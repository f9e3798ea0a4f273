"""What a set of ACLs decides, found by looking at each of them: the dumb twin of the index.

Written from Kafka's rules (SEC-41, SEC-42), not from the index: nothing is shared but the values.
"""

import ipaddress
from collections.abc import Collection, Iterator

from barnabas_broker.security.acl.acl import Acl
from barnabas_protocol.acl import AclOperation as Op
from barnabas_protocol.acl import AclPermission as Permission
from barnabas_protocol.acl import PatternType

IMPLIES_DESCRIBE = {Op.READ, Op.WRITE, Op.DELETE, Op.ALTER}


def is_from(acl: Acl, host: str) -> bool:
    if acl.host == "*":
        return True
    try:
        address = ipaddress.ip_address(host)
        if "/" in acl.host:
            return address in ipaddress.ip_network(acl.host, strict=False)
        return address == ipaddress.ip_address(acl.host)
    except ValueError:
        return acl.host == host


def names(acl: Acl, name: str) -> bool:
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in ("*", name)


def permits(acl: Acl, operation: int) -> bool:
    """Whether an ACL is about an operation."""
    if acl.operation in (operation, Op.ALL):
        return True
    if acl.permission == Permission.DENY:
        return False
    if operation == Op.DESCRIBE:
        return acl.operation in IMPLIES_DESCRIBE
    return operation == Op.DESCRIBE_CONFIGS and acl.operation == Op.ALTER_CONFIGS


def of(acls: Collection[Acl], principal: str, host: str) -> Iterator[Acl]:
    for acl in acls:
        if acl.principal in (principal, "User:*") and is_from(acl, host):
            yield acl


def decide(
    acls: Collection[Acl], principal: str, host: str, operation: int, kind: int, name: str
) -> bool | None:
    """False where a DENY fits, True where an ALLOW does, None without either."""
    fitting = [
        acl.permission
        for acl in of(acls, principal, host)
        if acl.resource_type == kind and names(acl, name) and permits(acl, operation)
    ]
    if Permission.DENY in fitting:
        return False
    return True if fitting else None


def has_any(acls: Collection[Acl], kind: int, name: str) -> bool:
    return any(acl.resource_type == kind and names(acl, name) for acl in acls)


def somewhere(acls: Collection[Acl], principal: str, host: str, operation: int, kind: int) -> bool:
    """Whether an ALLOW has a pattern that no DENY dominates."""
    about = [
        acl
        for acl in of(acls, principal, host)
        if acl.resource_type == kind and acl.operation in (operation, Op.ALL)
    ]
    denied = [acl for acl in about if acl.permission == Permission.DENY]

    def is_dominated(allowed: Acl) -> bool:
        for deny in denied:
            if deny.pattern_type == PatternType.PREFIXED:
                # A prefix of the text `*` leaves all other names of the pattern `*`.
                is_everything = (allowed.pattern_type, allowed.resource_name) == (
                    PatternType.LITERAL,
                    "*",
                )
                if not is_everything and allowed.resource_name.startswith(deny.resource_name):
                    return True
            elif deny.resource_name == "*" or (
                allowed.pattern_type == PatternType.LITERAL
                and deny.resource_name == allowed.resource_name
            ):
                return True
        return False

    return any(acl.permission == Permission.ALLOW and not is_dominated(acl) for acl in about)
