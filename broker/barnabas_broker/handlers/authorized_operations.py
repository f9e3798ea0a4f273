"""Which operations a caller may do, as the bit field of KIP-430 (SEC-45).

With no authorizer everybody may do everything that applies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas_broker.handlers.authorization import may, may_cluster
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.security.authorizer import CLUSTER_NAME
from barnabas_protocol.acl import AclOperation, AclResourceType

APPLICABLE: Final[Mapping[AclResourceType, tuple[AclOperation, ...]]] = {
    AclResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
}
"""The operations that there are on resources of a type."""
NOT_ASKED: Final = -(2**31)
OPERATIONS_SLICE: Final = 50
"""Resources between two pauses where each has its operations told: each of those is a question."""


def bits_of(*operations: AclOperation) -> int:
    """The bit field of some operations."""
    return sum(1 << operation for operation in operations)


_ALL: Final = {kind: bits_of(*operations) for kind, operations in APPLICABLE.items()}


def authorized_operations(
    services: Services, in_flight: InFlightRequest, resource_type: AclResourceType, name: str
) -> int:
    """What the request's principal may do to a resource, existing or not."""
    if services.authorizer is None:
        return _ALL[resource_type]
    return bits_of(
        *(
            operation
            for operation in APPLICABLE[resource_type]
            if may(services, in_flight, operation, resource_type, name, is_filter=True)
        )
    )


def cluster_operations(services: Services, in_flight: InFlightRequest) -> int:
    """What the request's principal may do to the cluster; nothing where it may not see that."""
    if not may_cluster(services, in_flight, AclOperation.DESCRIBE):
        return 0
    return authorized_operations(services, in_flight, AclResourceType.CLUSTER, CLUSTER_NAME)
