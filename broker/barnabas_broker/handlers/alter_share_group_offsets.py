"""AlterShareGroupOffsets (91), version 0: have a share group without members begin elsewhere.

Source: SHR-1, SHR-32.
"""

from collections.abc import Coroutine
from typing import Any

from barnabas_broker.handlers.group_context import group_context
from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.share_version import check_share_version
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)


def handle(
    services: Services, in_flight: InFlightRequest, request: AlterShareGroupOffsetsRequest
) -> Coroutine[Any, Any, AlterShareGroupOffsetsResponse]:
    """Ask the coordinator of the group."""
    check_share_version(services)
    return services.groups.share.alter_offsets(request, group_context(in_flight))


def failed(
    request: AlterShareGroupOffsetsRequest, error: KafkaError
) -> AlterShareGroupOffsetsResponse:
    """The error alone."""
    return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
