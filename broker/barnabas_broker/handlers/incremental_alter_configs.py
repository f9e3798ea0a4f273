"""IncrementalAlterConfigs (44), versions 0 to 1: change single overrides. Source: CFG-8."""

from barnabas_broker.controller.configs import ConfigChange, ResourceChange
from barnabas_broker.handlers.config_change import resource_result
from barnabas_broker.handlers.config_rights import config_refusal
from barnabas_broker.handlers.listener_settings import refusing, unservable
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change each resource on its own."""
    changes = [_change(resource) for resource in request.resources]
    error = await unservable(services, in_flight, changes, is_incremental=True)
    rights = config_refusal(services, in_flight, AclOperation.ALTER_CONFIGS)
    results = await services.controller.incremental_alter_configs(
        changes, request.validate_only, refusing(services, rights, error)
    )
    return IncrementalAlterConfigsResponse(
        responses=[
            resource_result(AlterConfigsResourceResponse, result, result.error)
            for result in results
        ]
    )


async def check(
    services: Services, in_flight: InFlightRequest, request: IncrementalAlterConfigsRequest
) -> None:
    """Refuse to send on what this broker could not serve with. Raises: KafkaError 42."""
    changes = [_change(resource) for resource in request.resources]
    error = await unservable(services, in_flight, changes, is_incremental=True)
    if error is not None:
        raise error


def _change(resource: AlterConfigsResource) -> ResourceChange:
    return ResourceChange(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        changes=[
            ConfigChange(config.name, config.config_operation, config.value)
            for config in resource.configs
        ],
    )


def failed(
    request: IncrementalAlterConfigsRequest, error: KafkaError
) -> IncrementalAlterConfigsResponse:
    """The same error for every resource."""
    return IncrementalAlterConfigsResponse(
        responses=[
            resource_result(AlterConfigsResourceResponse, resource, error)
            for resource in request.resources
        ]
    )
