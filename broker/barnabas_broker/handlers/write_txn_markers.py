"""WriteTxnMarkers (27), versions 1 and 2: end transactions in partitions that are led here.

Sent by transaction coordinators, and by `kafka-transactions abort`. v2: the version of each
transaction (KIP-1228). Source: TXN-6.
"""

from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """Write the markers; the response leaves when their outcome is known."""
    return await services.marker_writer.write(request)
