"""LogEnds (20004, between brokers), version 0: how far the replicas of this broker reach.

Source: `docs/formats/between-brokers.md`.
"""

from barnabas_broker.handlers.quorum_receiver import checked_quorum
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.log_ends import (
    LogEndsRequest,
    LogEndsResponse,
    LogEndsResponsePartition,
    LogEndsResponseTopic,
)


def handle(
    services: Services, in_flight: InFlightRequest, request: LogEndsRequest
) -> LogEndsResponse:
    """Last epoch and end of each log that is here and can be used."""
    logs = services.logs
    checked_quorum(services, request)
    broker = services.image.brokers.get(logs.node_id)
    ends = services.replicas.log_ends(
        (topic.topic_id, index) for topic in request.topics for index in topic.partitions
    )
    return LogEndsResponse(
        broker_epoch=-1 if broker is None else broker.epoch,
        topics=[
            LogEndsResponseTopic(
                topic_id=topic.topic_id,
                partitions=[
                    LogEndsResponsePartition(
                        partition_index=index, last_epoch=end.last_epoch, end_offset=end.end_offset
                    )
                    for index in topic.partitions
                    if (end := ends.get((topic.topic_id, index))) is not None
                ],
            )
            for topic in request.topics
        ],
    )


def failed(request: LogEndsRequest, error: KafkaError) -> LogEndsResponse:
    """The error alone."""
    return LogEndsResponse(error_code=error.code)
