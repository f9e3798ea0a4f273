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

    def is_allowed(
        self,
        principal: Principal,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
    ) -> bool:
        """Whether somebody at an address may do something to a resource, existing or not."""
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

    def is_super_user(self, principal: Principal) -> bool:
        """Whether somebody may do everything, whatever ACLs say."""
        ...
