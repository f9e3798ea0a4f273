"""What the requests of groups share: who sent them, and whether consumer groups are switched on."""

from barnabas_broker.controller.features import GROUP_VERSION
from barnabas_broker.coordinator.group.context import RequestContext
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import ErrorCode, KafkaError


def group_context(in_flight: InFlightRequest) -> RequestContext:
    """The client's id and host, and the version that it speaks."""
    return RequestContext(
        client_id=in_flight.client_id or "",
        client_host=f"/{in_flight.session.host}",
        api_version=in_flight.api_version,
    )


def check_group_version(services: Services) -> None:
    """Refuse the consumer protocol where the cluster has not switched it on.

    Raises: KafkaError 35.
    """
    if services.image.features.get(GROUP_VERSION, 0) < 1:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
