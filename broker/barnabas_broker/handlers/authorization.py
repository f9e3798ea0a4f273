"""Whether a request's principal may do what it asks for.

Without an authorizer everybody may do everything. Rights come before look-ups: who may not see a
resource is told the same whether it exists or not (SEC-46).
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.security.authorizer import CLUSTER_NAME
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError

REFUSALS = {
    AclResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""What a request is told that lacks a right to a resource of a type."""


def may(
    services: Services,
    in_flight: InFlightRequest,
    operation: AclOperation,
    resource_type: AclResourceType,
    name: str,
) -> bool:
    """Whether the request's principal may do something to a resource."""
    authorizer = services.authorizer
    return authorizer is None or authorizer.is_allowed(
        in_flight.principal, in_flight.host, operation, resource_type, name
    )


def may_cluster(services: Services, in_flight: InFlightRequest, operation: AclOperation) -> bool:
    """Whether the request's principal may do something to the cluster."""
    return may(services, in_flight, operation, AclResourceType.CLUSTER, CLUSTER_NAME)


def allowed(
    services: Services,
    in_flight: InFlightRequest,
    operation: AclOperation,
    resource_type: AclResourceType,
    names: Iterable[str],
) -> set[str]:
    """Those of the names to which the request's principal may do something, each asked once."""
    wanted = set(names)
    if services.authorizer is None:
        return wanted
    return {name for name in wanted if may(services, in_flight, operation, resource_type, name)}


def require(
    services: Services,
    in_flight: InFlightRequest,
    operation: AclOperation,
    resource_type: AclResourceType,
    name: str,
) -> None:
    """Refuse the whole request where a right is missing. Raises: KafkaError."""
    if not may(services, in_flight, operation, resource_type, name):
        raise KafkaError(REFUSALS[resource_type])


def require_cluster(
    services: Services, in_flight: InFlightRequest, operation: AclOperation
) -> None:
    """Refuse the whole request where a right to the cluster is missing. Raises: KafkaError 31."""
    require(services, in_flight, operation, AclResourceType.CLUSTER, CLUSTER_NAME)
