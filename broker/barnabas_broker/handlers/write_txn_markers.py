"""WriteTxnMarkers (27), versions 1 and 2: end transactions in partitions that are led here.

Sent by transaction coordinators, and by `kafka-transactions abort`. v2: the version of each
transaction (KIP-1228). Source: TXN-6.
"""

from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """Write the markers; the response leaves when their outcome is known."""
    return await services.marker_writer.write(request)


def failed(request: WriteTxnMarkersRequest, error: KafkaError) -> WriteTxnMarkersResponse:
    """The same error for every partition of every marker."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=error.code
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )
