"""What decides who may do what; without one, everybody may do everything.

Source: SEC-40 to SEC-42, KIP-11.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from barnabas_broker.security.principal import Principal
from barnabas_protocol.acl import AclOperation, AclResourceType

CLUSTER_NAME: Final = "kafka-cluster"
"""The only resource of the type CLUSTER."""


class AccessQuestion(NamedTuple):
    """Whether somebody at an address may do something to a resource, existing or not.

    Without a name: whether there can be a resource of this type to which they may do it (SEC-42).
    """

    principal: Principal
    host: str
    operation: AclOperation
    resource_type: AclResourceType
    name: str | None


class Authorizer(Protocol):
    """Answers from the newest metadata; never waits."""

    @property
    def generation(self) -> int:
        """Counts up with every change of what it answers from, so that answers may be kept."""
        ...

    def is_allowed(self, question: AccessQuestion, *, is_filter: bool = False) -> bool:
        """The answer to a question.

        `is_filter`: nobody has named the resource, it is left out of a list where the right is
        missing; such a denial is no event (SEC-71).
        """
        ...

    def weighing(self, question: AccessQuestion) -> Iterator[None]:
        """Steps that settle a question without a name, so that `is_allowed` is quick behind them.

        Each takes some milliseconds at most; there are none where it is quick anyway.
        """
        ...

    def may_change_rights(self, principal: Principal, host: str) -> bool:
        """Whether somebody may ALTER the cluster, in every mode: also where denials only show."""
        ...

    def is_super_user(self, principal: Principal) -> bool:
        """Whether somebody may do everything, whatever ACLs say."""
        ...
