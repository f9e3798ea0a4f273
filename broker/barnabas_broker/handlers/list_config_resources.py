"""ListConfigResources (74), versions 0 and 1: which resources have settings (KIP-1142).

v0 lists subscriptions to metrics of clients alone. v1: the requested types, or all (TEL-1).
"""

from collections.abc import Coroutine, Set
from typing import Any

from barnabas_broker.handlers.request_limits import encode_checked
from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    MetadataImage,
)
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

SUPPORTED = frozenset(
    {
        RESOURCE_TOPIC,
        RESOURCE_BROKER,
        RESOURCE_BROKER_LOGGER,
        RESOURCE_CLIENT_METRICS,
        RESOURCE_GROUP,
    }
)


LOOP_RESOURCES_MAX = 500
"""So many are listed and encoded in a few milliseconds."""


def handle(
    services: Services, in_flight: InFlightRequest, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse | Coroutine[Any, Any, bytes]:
    """List what is requested: topics and brokers all, the others that have settings.

    A coroutine where there is very much: what is sent is made in a thread then.
    """
    wanted = set(request.resource_types) or SUPPORTED
    if in_flight.api_version == 0:
        wanted = {RESOURCE_CLIENT_METRICS}
    if not wanted <= SUPPORTED:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    image = services.image
    if len(image.topics.by_name) + len(image.configs) > LOOP_RESOURCES_MAX:
        return services.heavy_work.run(in_flight, _encoded, in_flight, image, wanted)
    return _listed(image, wanted)


def _encoded(in_flight: InFlightRequest, image: MetadataImage, wanted: Set[int]) -> bytes:
    return encode_checked(in_flight, _listed(image, wanted))


def _listed(image: MetadataImage, wanted: Set[int]) -> ListConfigResourcesResponse:
    resources = []
    if RESOURCE_TOPIC in wanted:
        resources += [
            ConfigResource(resource_name=name, resource_type=RESOURCE_TOPIC)
            for name in image.topics.by_name
        ]
    for resource_type in (RESOURCE_BROKER, RESOURCE_BROKER_LOGGER):
        if resource_type in wanted:
            resources += [
                ConfigResource(resource_name=str(node_id), resource_type=resource_type)
                for node_id in image.brokers
            ]
    kept = wanted & {RESOURCE_GROUP, RESOURCE_CLIENT_METRICS}
    if kept:
        resources += [
            ConfigResource(resource_name=name, resource_type=resource_type)
            for resource_type, name in image.configs
            if resource_type in kept
        ]
    return ListConfigResourcesResponse(config_resources=resources)


def failed(request: ListConfigResourcesRequest, error: KafkaError) -> ListConfigResourcesResponse:
    """The error alone."""
    return ListConfigResourcesResponse(error_code=error.code)
