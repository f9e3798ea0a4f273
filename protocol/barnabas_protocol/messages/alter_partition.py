"""AlterPartition (key 56): versions 2-3, always flexible."""

from barnabas_protocol.schema import Message, array, int8, int16, int32, int64, uuid


class BrokerState(Message):
    """One element of `AlterPartitionRequestPartitionData.new_isr_with_epochs`."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


class AlterPartitionRequestPartitionData(Message):
    """One element of `AlterPartitionRequestTopicData.partitions`."""

    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: list[int] = array(int32, until=2)
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, since=3)
    leader_recovery_state: int = int8()
    partition_epoch: int = int32()


class AlterPartitionRequestTopicData(Message):
    """One element of `AlterPartitionRequest.topics`."""

    topic_id: bytes = uuid()
    partitions: list[AlterPartitionRequestPartitionData] = array(AlterPartitionRequestPartitionData)


class AlterPartitionRequest(Message, versions=(2, 3), flexible=0):
    """Request of AlterPartition."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[AlterPartitionRequestTopicData] = array(AlterPartitionRequestTopicData)


class AlterPartitionResponsePartitionData(Message):
    """One element of `AlterPartitionResponseTopicData.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    leader_recovery_state: int = int8()
    partition_epoch: int = int32()


class AlterPartitionResponseTopicData(Message):
    """One element of `AlterPartitionResponse.topics`."""

    topic_id: bytes = uuid()
    partitions: list[AlterPartitionResponsePartitionData] = array(
        AlterPartitionResponsePartitionData
    )


class AlterPartitionResponse(Message, versions=(2, 3), flexible=0):
    """Response of AlterPartition."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[AlterPartitionResponseTopicData] = array(AlterPartitionResponseTopicData)
