"""DescribeCluster (60), versions 0 to 2: the brokers and who the controller is.

V1: endpoint type. v2: fenced brokers on request.
"""

from barnabas_broker.handlers.authorized_operations import NOT_ASKED, cluster_operations
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1
CONTROLLERS = 2


def handle(
    services: Services, in_flight: InFlightRequest, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Describe the brokers on the client's listener."""
    if request.endpoint_type == CONTROLLERS:
        raise KafkaError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type "
            "CONTROLLER",
        )
    if request.endpoint_type != BROKERS:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            f"Unsupported endpoint type {request.endpoint_type}",
        )
    image = services.image
    name = in_flight.session.listener_name
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=broker.node_id,
                host=broker.listeners[name].host,
                port=broker.listeners[name].port,
                rack=broker.rack,
                is_fenced=broker.fenced,
            )
            for broker in image.brokers.values()
            if name in broker.listeners and (request.include_fenced_brokers or not broker.fenced)
        ],
        cluster_authorized_operations=(
            cluster_operations(services, in_flight)
            if request.include_cluster_authorized_operations
            else NOT_ASKED
        ),
    )


def failed(request: DescribeClusterRequest, error: KafkaError) -> DescribeClusterResponse:
    """The error alone."""
    return DescribeClusterResponse(error_code=error.code, error_message=error.message)
