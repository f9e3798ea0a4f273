"""An authorizer with its rules in memory, for tests of what asks it.

Everybody has the same rights: those given to literal names, or to `*` for all. As with the real
one, what is denied is denied whatever is allowed, and READ, WRITE, DELETE and ALTER imply DESCRIBE.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from barnabas_broker.security.authorizer import CLUSTER_NAME, AccessQuestion
from barnabas_broker.security.principal import Principal
from barnabas_protocol.acl import AclOperation, AclResourceType

IMPLY_DESCRIBE: Final = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DELETE,
    AclOperation.ALTER,
)


class Given(NamedTuple):
    """A right to one resource, or to all of its type by the name `*`."""

    operation: AclOperation
    resource_type: AclResourceType
    name: str = "*"


def to_cluster(operation: AclOperation) -> Given:
    """A right to the cluster."""
    return Given(operation, AclResourceType.CLUSTER, CLUSTER_NAME)


class MemoryAuthorizer:
    """Allows what was given and not taken away; `asked` has every question, `filters` too."""

    def __init__(self, *given: Given) -> None:
        self.generation = 0
        self.allowed = set(given)
        self.denied: set[Given] = set()
        self.asked: list[Given] = []
        self.filters: list[Given] = []
        self.seen: set[tuple[Principal, str]] = set()
        self.allows_all = False

    def grant(self, *allowed: Given, denied: tuple[Given, ...] = ()) -> None:
        """Replace all rights."""
        self.allowed, self.denied, self.allows_all = set(allowed), set(denied), False
        self.asked, self.filters = [], []
        self.generation += 1

    def allow_all(self, *, denied: tuple[Given, ...] = ()) -> None:
        """Allow whatever is not denied."""
        self.grant(denied=denied)
        self.allows_all = True

    def weighing(self, question: AccessQuestion) -> Iterator[None]:
        return iter(())

    def is_allowed(self, question: AccessQuestion, *, is_filter: bool = False) -> bool:
        principal, host, operation, resource_type, name = question
        if name is None:
            return self._is_allowed_somewhere(operation, resource_type)
        assert principal.type == "User"
        assert host
        self.seen.add((principal, host))
        (self.filters if is_filter else self.asked).append(Given(operation, resource_type, name))
        if self._has(self.denied, operation, resource_type, name):
            return False
        if self.allows_all:
            return True
        operations = (operation,)
        if operation is AclOperation.DESCRIBE:
            operations += IMPLY_DESCRIBE
        return any(self._has(self.allowed, each, resource_type, name) for each in operations)

    def _is_allowed_somewhere(
        self, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        self.asked.append(Given(operation, resource_type))
        is_denied = Given(operation, resource_type) in self.denied
        return not is_denied and (
            self.allows_all
            or any(
                (each.operation, each.resource_type) == (operation, resource_type)
                for each in self.allowed - self.denied
            )
        )

    def may_change_rights(self, principal: Principal, host: str) -> bool:
        cluster = AclResourceType.CLUSTER
        return self.is_allowed(
            AccessQuestion(principal, host, AclOperation.ALTER, cluster, CLUSTER_NAME)
        )

    def is_super_user(self, principal: Principal) -> bool:
        return False

    @staticmethod
    def _has(
        rights: set[Given], operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> bool:
        return (
            Given(operation, resource_type, name) in rights
            or Given(operation, resource_type) in rights
        )
