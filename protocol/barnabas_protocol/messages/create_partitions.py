"""CreatePartitions (key 37): versions 0-3, flexible from 2."""

from barnabas_protocol.schema import Message, array, boolean, int16, int32, string


class CreatePartitionsAssignment(Message):
    """One element of `CreatePartitionsTopic.assignments`."""

    broker_ids: list[int] = array(int32)


class CreatePartitionsTopic(Message):
    """One element of `CreatePartitionsRequest.topics`."""

    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, nullable=0
    )


class CreatePartitionsRequest(Message, versions=(0, 3), flexible=2):
    """Request of CreatePartitions."""

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


class CreatePartitionsTopicResult(Message):
    """One element of `CreatePartitionsResponse.results`."""

    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)


class CreatePartitionsResponse(Message, versions=(0, 3), flexible=2):
    """Response of CreatePartitions."""

    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
