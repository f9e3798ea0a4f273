"""AlterClientQuotas (49), versions 0 and 1: set and remove quotas of entities (KIP-546)."""

from barnabas_broker.controller.client_quotas import QuotaChange
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntityData,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Change each entity on its own."""
    changes = [
        QuotaChange(
            entity=[(part.entity_type, part.entity_name) for part in entry.entity],
            quotas=[(op.key, None if op.remove else op.value) for op in entry.ops],
        )
        for entry in request.entries
    ]
    errors = await services.controller.alter_client_quotas(changes, request.validate_only)
    return AlterClientQuotasResponse(
        entries=[_entry(entry, error) for entry, error in zip(request.entries, errors, strict=True)]
    )


def _entry(
    entry: AlterClientQuotasRequestEntryData, error: KafkaError | None
) -> AlterClientQuotasResponseEntryData:
    return AlterClientQuotasResponseEntryData(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        entity=[
            EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
            for part in entry.entity
        ],
    )


def failed(request: AlterClientQuotasRequest, error: KafkaError) -> AlterClientQuotasResponse:
    """The same error for every entity."""
    return AlterClientQuotasResponse(entries=[_entry(entry, error) for entry in request.entries])
