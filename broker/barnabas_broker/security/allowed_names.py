"""What one connection may do, as far as it has been asked: for requests that come all the time.

Only what is allowed is kept, and only until the authorizer decides by something else: a denial is
asked for again, so that it is told each time. Bounded in names, which are the client's to invent.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Final

from barnabas_broker.security.authorizer import AccessQuestion, Authorizer
from barnabas_broker.security.principal import ANONYMOUS, Principal
from barnabas_protocol.acl import AclOperation, AclResourceType

NAMES_MAX: Final = 500
"""Of one operation; whoever uses more is asked about the others each time."""
NAME_LENGTH_MAX: Final = 249
"""No topic has a longer name; a client may name what does not exist."""


class AllowedNames:
    """The resources of one type on which a connection's principal may do something."""

    __slots__ = ("_generation", "_names", "_principal", "_resource_type")

    def __init__(self, resource_type: AclResourceType) -> None:
        self._resource_type = resource_type
        self._generation = -1
        self._principal = ANONYMOUS
        self._names: dict[AclOperation, set[str]] = {}

    def refused(
        self,
        authorizer: Authorizer,
        principal: Principal,
        host: str,
        operation: AclOperation,
        names: Set[str],
        note: Callable[[AccessQuestion, bool], bool] | None = None,
    ) -> Set[str]:
        """Those of the names on which the principal may not do it.

        `note` is told what the authorizer says, where it is asked, and says whether it need not be
        told again.
        """
        if authorizer.generation != self._generation or principal is not self._principal:
            self._generation, self._principal = authorizer.generation, principal
            self._names.clear()
        known = self._names.get(operation)
        if known is None:
            known = self._names[operation] = set()
        unknown = names - known
        if not unknown:
            return unknown
        refused = set()
        for name in unknown:
            question = AccessQuestion(principal, host, operation, self._resource_type, name)
            is_allowed = authorizer.is_allowed(question)
            is_settled = note is None or note(question, is_allowed)
            if not is_allowed:
                refused.add(name)
            elif is_settled and len(known) < NAMES_MAX and len(name) <= NAME_LENGTH_MAX:
                known.add(name)
        return refused
