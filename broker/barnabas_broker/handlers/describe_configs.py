"""DescribeConfigs (32), versions 1 to 4: settings, where each comes from, and what else is set.

v1: sources and synonyms. v3: types and documentation. Source: CFG-1, KIP-226, KIP-569.
"""

from collections.abc import Coroutine, Sequence
from typing import Any

from barnabas_broker.config.dynamic import DescribedConfig
from barnabas_broker.controller.topics import validate_topic_name
from barnabas_broker.handlers.broker_loggers import describe_levels
from barnabas_broker.handlers.config_rights import config_refusal
from barnabas_broker.handlers.find_coordinator import INVALID_REQUEST_TEXT
from barnabas_broker.handlers.request_limits import each_once, encode_apart
from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
)
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

LOOP_RESOURCES_MAX = 4
"""So many topics are described in two milliseconds, with synonyms and documentation."""


def handle(
    services: Services, in_flight: InFlightRequest, request: DescribeConfigsRequest
) -> DescribeConfigsResponse | Coroutine[Any, Any, bytes]:
    """Describe each resource on its own; a coroutine where there are many.

    Six bytes name a resource, so a request that is small may name hundreds.
    """
    # One broker named two thousand times was a response of a hundred megabytes.
    resources = each_once(
        request.resources, lambda named: (named.resource_type, named.resource_name)
    )
    if len(resources) > LOOP_RESOURCES_MAX:
        return _described_in_slices(services, in_flight, request, resources)
    descriptions = _Descriptions(services, in_flight, request)
    for resource in resources:
        descriptions.add(resource)
    return descriptions.response()


async def _described_in_slices(
    services: Services,
    in_flight: InFlightRequest,
    request: DescribeConfigsRequest,
    resources: Sequence[DescribeConfigsResource],
) -> bytes:
    heavy_work, descriptions = services.heavy_work, _Descriptions(services, in_flight, request)
    async for resource in heavy_work.each(in_flight, resources, LOOP_RESOURCES_MAX):
        descriptions.add(resource)
    return await encode_apart(heavy_work, in_flight, descriptions.response())


class _Descriptions:
    """The results of a request: in Kafka's order, those that are refused at the end."""

    def __init__(
        self, services: Services, in_flight: InFlightRequest, request: DescribeConfigsRequest
    ) -> None:
        self._services = services
        self._request = request
        self._refusal = config_refusal(services, in_flight, AclOperation.DESCRIBE_CONFIGS)
        self._results: list[DescribeConfigsResult] = []
        self._refused: list[DescribeConfigsResult] = []

    def add(self, resource: DescribeConfigsResource) -> None:
        """Describe one more resource."""
        forbidden = self._refusal(resource.resource_type, resource.resource_name)
        if forbidden is not None:
            self._refused.append(_failed(resource, forbidden))
            return
        try:
            described = _describe(self._services, resource)
        except KafkaError as error:
            self._results.append(_failed(resource, error))
        else:
            self._results.append(
                DescribeConfigsResult(
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=[_config(config, self._request) for config in described],
                )
            )

    def response(self) -> DescribeConfigsResponse:
        """The response to all that was added."""
        return DescribeConfigsResponse(results=self._results + self._refused)


def _describe(services: Services, resource: DescribeConfigsResource) -> Sequence[DescribedConfig]:
    # No keys and an empty list of them both mean all.
    name, keys = resource.resource_name, resource.configuration_keys or None
    if resource.resource_type == RESOURCE_TOPIC:
        validate_topic_name(name)
        if name not in services.image.topics.by_name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        overrides = services.image.config_overrides(RESOURCE_TOPIC, name)
        return services.dynamic.describe_topic(overrides, keys)
    if resource.resource_type == RESOURCE_BROKER:
        if name == "":
            return services.dynamic.describe_cluster_default(keys)
        _check_broker(services, name, " or empty string,")
        return services.dynamic.describe_broker(keys)
    if resource.resource_type == RESOURCE_GROUP:
        _check_named(name, "Group name must not be empty")
        overrides = services.image.config_overrides(RESOURCE_GROUP, name)
        return services.dynamic.describe_group(overrides, keys)
    if resource.resource_type == RESOURCE_CLIENT_METRICS:
        _check_named(name, "Client metrics subscription name must not be empty")
        overrides = services.image.config_overrides(RESOURCE_CLIENT_METRICS, name)
        return services.dynamic.describe_client_metrics(overrides, keys)
    if resource.resource_type == RESOURCE_BROKER_LOGGER:
        _check_named(name, "Broker id must not be empty")
        _check_broker(services, name, "")
        return describe_levels(keys)
    raise KafkaError(ErrorCode.INVALID_REQUEST, INVALID_REQUEST_TEXT)


def _check_named(name: str, complaint: str) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, complaint)


def _check_broker(services: Services, name: str, alternative: str) -> None:
    """Only the broker itself knows its settings. Raises: KafkaError 42."""
    try:
        node_id = int(name)
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        ) from None
    if node_id != services.logs.node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {services.logs.node_id}{alternative} "
            f"but received {name}",
        )


def _config(
    config: DescribedConfig, request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=config.key,
        value=config.value,
        read_only=config.is_read_only,
        config_source=config.source,
        is_sensitive=config.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.key, value=synonym.value, source=synonym.source)
            for synonym in (config.synonyms if request.include_synonyms else ())
        ],
        config_type=config.type,
        documentation=config.documentation if request.include_documentation else None,
    )


def _failed(resource: DescribeConfigsResource, error: KafkaError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code,
        # Kafka sends an empty message and not none where it has nothing to add; tools print it.
        error_message=error.message or "",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def failed(request: DescribeConfigsRequest, error: KafkaError) -> DescribeConfigsResponse:
    """The same error for every resource."""
    return DescribeConfigsResponse(
        results=[_failed(resource, error) for resource in request.resources]
    )
