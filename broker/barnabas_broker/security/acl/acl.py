"""An ACL as a value, and the filters that select some.

Numbers are the wire's, as in `barnabas_protocol.acl`; a principal is text, `User:alice`. Comparison
is by code points: nothing is folded or trimmed. Pure.

Source: SEC-40, SEC-43; KIP-11, KIP-290 (prefixes). Not here: which requests are refused
(`controller.acls`), what ACLs decide (`index`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType

WILDCARD: Final = "*"
"""Every name as the name of a literal pattern, every host as a host."""
EVERYBODY: Final = "User:*"
"""The principal of ACLs that hold for all principals, whatever their type."""


class Acl(NamedTuple):
    """Who may or may not do what, from where, to which resources."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    def __str__(self) -> str:
        permission, operation = AclPermission(self.permission), AclOperation(self.operation)
        resource, pattern = AclResourceType(self.resource_type), PatternType(self.pattern_type)
        return (
            f"{permission.name} {operation.name} on"
            f" {resource.name}:{pattern.name}:{self.resource_name}"
            f" for {self.principal} from {self.host}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """Selects ACLs; None and ANY leave a part open, MATCH asks for patterns that apply to a name.

    A number that no ACL has selects none.
    """

    resource_type: int = AclResourceType.ANY
    resource_name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = AclOperation.ANY
    permission: int = AclPermission.ANY

    def matches(self, acl: Acl) -> bool:
        """Whether an ACL is one of those."""
        return (
            self.resource_type in (AclResourceType.ANY, acl.resource_type)
            and self.pattern_type in (PatternType.ANY, PatternType.MATCH, acl.pattern_type)
            and (self.resource_name is None or self._names(self.resource_name, acl))
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (AclPermission.ANY, acl.permission)
        )

    def _names(self, name: str, acl: Acl) -> bool:
        if self.pattern_type != PatternType.MATCH:
            return name == acl.resource_name
        if acl.pattern_type == PatternType.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name in (name, WILDCARD)

    def selected(self, acls: Iterable[Acl]) -> list[Acl]:
        """Those of some ACLs that the filter fits."""
        return [acl for acl in acls if self.matches(acl)]
