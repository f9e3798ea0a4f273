"""IncrementalAlterConfigs (44), versions 0 to 1: change single overrides, and levels of loggers.

Source: CFG-8, KIP-412.
"""

from collections.abc import Sequence

from barnabas_broker.controller.configs import ConfigChange, ResourceChange, ResourceResult
from barnabas_broker.handlers.broker_loggers import change_levels
from barnabas_broker.handlers.config_change import resource_result
from barnabas_broker.handlers.config_rights import config_refusal
from barnabas_broker.handlers.forwarding import Split
from barnabas_broker.handlers.listener_settings import refusing, unservable
from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.image import RESOURCE_BROKER_LOGGER
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
    """Change each resource on its own: loggers are this node's, the others the controller's."""
    levels = [_change(resource) for resource in request.resources if _is_logger(resource)]
    recorded = [_change(resource) for resource in request.resources if not _is_logger(resource)]
    rights = config_refusal(services, in_flight, AclOperation.ALTER_CONFIGS)
    results: Sequence[ResourceResult] = ()
    if recorded:
        error = await unservable(services, in_flight, recorded, is_incremental=True)
        results = await services.controller.incremental_alter_configs(
            recorded, request.validate_only, refusing(services, rights, error)
        )
    node_id, validate_only = services.logs.node_id, request.validate_only
    changed = change_levels(levels, node_id, rights, validate_only=validate_only)
    responses = [
        resource_result(AlterConfigsResourceResponse, result, result.error)
        for result in (*changed, *results)
    ]
    return IncrementalAlterConfigsResponse(responses=_in_order(request, responses))


def split(request: IncrementalAlterConfigsRequest) -> Split | None:
    """The loggers, which no controller is needed for, and what else there is."""
    levels = [resource for resource in request.resources if _is_logger(resource)]
    if not levels:
        return None
    others = [resource for resource in request.resources if not _is_logger(resource)]

    def joined(
        here: IncrementalAlterConfigsResponse, rest: IncrementalAlterConfigsResponse
    ) -> IncrementalAlterConfigsResponse:
        rest.responses = _in_order(request, [*here.responses, *rest.responses])
        return rest

    return Split(_part(request, levels), _part(request, others) if others else None, joined)


async def check(
    services: Services, in_flight: InFlightRequest, request: IncrementalAlterConfigsRequest
) -> None:
    """Refuse to send on what this broker could not serve with. Raises: KafkaError 42."""
    changes = [_change(resource) for resource in request.resources]
    error = await unservable(services, in_flight, changes, is_incremental=True)
    if error is not None:
        raise error


def _is_logger(resource: AlterConfigsResource) -> bool:
    return resource.resource_type == RESOURCE_BROKER_LOGGER


def _part(
    request: IncrementalAlterConfigsRequest, resources: list[AlterConfigsResource]
) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=request.validate_only)


def _in_order(
    request: IncrementalAlterConfigsRequest, responses: list[AlterConfigsResourceResponse]
) -> list[AlterConfigsResourceResponse]:
    """Loggers before the others, put where the request has them."""
    levels = iter(responses)
    others = iter(responses[sum(_is_logger(resource) for resource in request.resources) :])
    return [next(levels if _is_logger(resource) else others) for resource in request.resources]


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
