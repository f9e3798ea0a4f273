"""DescribeConfigs (32), versions 1 to 4: settings, where each comes from, and what else is set.

v1: sources and synonyms. v3: types and documentation. Source: CFG-1, KIP-226, KIP-569.
"""

from collections.abc import Sequence

from barnabas_broker.config.dynamic import DescribedConfig
from barnabas_broker.controller.topics import validate_topic_name
from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.image import RESOURCE_BROKER, RESOURCE_TOPIC
from barnabas_broker.network.session import Exchange
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


def handle(
    services: Services, exchange: Exchange, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Describe each resource on its own."""
    results = []
    for resource in request.resources:
        try:
            described = _describe(services, resource)
        except KafkaError as error:
            results.append(_failed(resource, error))
        else:
            results.append(
                DescribeConfigsResult(
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=[_config(config, request) for config in described],
                )
            )
    return DescribeConfigsResponse(results=results)


def _describe(services: Services, resource: DescribeConfigsResource) -> Sequence[DescribedConfig]:
    name, keys = resource.resource_name, resource.configuration_keys
    if resource.resource_type == RESOURCE_TOPIC:
        validate_topic_name(name)
        if name not in services.image.topics.by_name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        overrides = services.image.config_overrides(RESOURCE_TOPIC, name)
        return services.dynamic.describe_topic(overrides, keys)
    if resource.resource_type == RESOURCE_BROKER:
        if name == "":
            return services.dynamic.describe_cluster_default(keys)
        if name != str(services.logs.node_id):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {services.logs.node_id} or empty string, "
                f"but received {name}",
            )
        return services.dynamic.describe_broker(keys)
    raise KafkaError(
        ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}"
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
