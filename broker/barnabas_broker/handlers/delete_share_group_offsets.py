"""DeleteShareGroupOffsets (92), version 0: forget where a share group without members begins.

Source: SHR-1, SHR-32.
"""

from collections.abc import Coroutine
from typing import Any

from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.share_version import check_share_version
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)


def handle(
    services: Services, in_flight: InFlightRequest, request: DeleteShareGroupOffsetsRequest
) -> Coroutine[Any, Any, DeleteShareGroupOffsetsResponse]:
    """Ask the coordinator of the group."""
    check_share_version(services)
    return services.groups.share.delete_offsets(request)


def failed(
    request: DeleteShareGroupOffsetsRequest, error: KafkaError
) -> DeleteShareGroupOffsetsResponse:
    """The error alone."""
    return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
