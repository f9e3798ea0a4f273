"""DescribeQuorum (55), versions 0 to 2: who has the metadata log, and how far each copy is.

There is no Raft quorum: its voters are the members of the metadata log, whose majority commits, and
its observers are the other brokers, which follow it. The leader is the active controller, which
alone knows, so that other brokers send the request on. V1: times. V2: directories, and where the
members are.

Source: KIP-595, KIP-836; for requests about any other partition Apache Kafka 4.1.
"""

from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.metadata_log import METADATA_PARTITION
from barnabas_broker.metadata.quorum.description import CopyDescription
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)


def handle(
    services: Services, in_flight: InFlightRequest, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    """Describe the metadata log.

    Raises: NotLeadingError where this node does not lead it; KafkaError where there is none.
    """
    if not _is_of_metadata(request):
        return _unknown(request)
    if services.quorum is None:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    quorum = services.quorum.describe()
    partition = DescribeQuorumResponsePartitionData(
        partition_index=METADATA_PARTITION.partition,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.controller_epoch,
        high_watermark=quorum.high_watermark,
        current_voters=[_state(copy) for copy in quorum.members],
        observers=[_state(copy) for copy in quorum.observers],
    )
    brokers = services.image.brokers
    return DescribeQuorumResponse(
        error_message="",
        topics=[
            DescribeQuorumResponseTopicData(
                topic_name=METADATA_PARTITION.topic, partitions=[partition]
            )
        ],
        nodes=[
            Node(
                node_id=copy.voter.node_id,
                listeners=[
                    Listener(name=name, host=listener.host, port=listener.port)
                    for name, listener in brokers[copy.voter.node_id].listeners.items()
                ],
            )
            for copy in quorum.members
            if copy.voter.node_id in brokers
        ],
    )


def _is_of_metadata(request: DescribeQuorumRequest) -> bool:
    """Whether the metadata log is requested, and nothing else."""
    return [
        (topic.topic_name, [partition.partition_index for partition in topic.partitions])
        for topic in request.topics
    ] == [(METADATA_PARTITION.topic, [METADATA_PARTITION.partition])]


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeQuorumResponse(
        error_message="",
        topics=[
            DescribeQuorumResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    DescribeQuorumResponsePartitionData(
                        partition_index=partition.partition_index,
                        error_code=code,
                        error_message=KafkaError(code).message,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _state(copy: CopyDescription) -> ReplicaState:
    return ReplicaState(
        replica_id=copy.voter.node_id,
        replica_directory_id=copy.voter.directory_id,
        log_end_offset=copy.log_end_offset,
        last_fetch_timestamp=copy.last_fetch_ms,
        last_caught_up_timestamp=copy.last_caught_up_ms,
    )


def failed(request: DescribeQuorumRequest, error: KafkaError) -> DescribeQuorumResponse:
    """The error alone."""
    return DescribeQuorumResponse(error_code=error.code, error_message=error.message)
