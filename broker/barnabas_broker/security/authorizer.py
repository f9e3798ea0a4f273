"""What decides who may do what; without one, everybody may do everything.

Source: SEC-40 to SEC-42, KIP-11.
"""

from __future__ import annotations

from typing import Final, Protocol

from barnabas_broker.security.principal import Principal
from barnabas_protocol.acl import AclOperation, AclResourceType

CLUSTER_NAME: Final = "kafka-cluster"
"""The only resource of the type CLUSTER."""


class Authorizer(Protocol):
    """Answers from the newest metadata; never waits."""

    @property
    def generation(self) -> int:
        """Counts up with every change of what it answers from, so that answers may be kept."""
        ...

    def is_allowed(
        self,
        principal: Principal,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
        *,
        is_filter: bool = False,
    ) -> bool:
        """Whether somebody at an address may do something to a resource, existing or not.

        `is_filter`: nobody has named the resource, it is left out of a list where the right is
        missing; such a denial is no event (SEC-71).
        """
        ...

    def is_allowed_somewhere(
        self,
        principal: Principal,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
    ) -> bool:
        """Whether there can be a resource of this type to which somebody may do it (SEC-42)."""
        ...

    def may_change_rights(self, principal: Principal, host: str) -> bool:
        """Whether somebody may ALTER the cluster, in every mode: also where denials only show."""
        ...

    def is_super_user(self, principal: Principal) -> bool:
        """Whether somebody may do everything, whatever ACLs say."""
        ...
