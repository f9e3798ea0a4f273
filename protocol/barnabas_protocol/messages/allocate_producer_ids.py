"""AllocateProducerIds (key 67): version 0, always flexible."""

from barnabas_protocol.schema import Message, int16, int32, int64


class AllocateProducerIdsRequest(Message, versions=(0, 0), flexible=0):
    """Request of AllocateProducerIds."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


class AllocateProducerIdsResponse(Message, versions=(0, 0), flexible=0):
    """Response of AllocateProducerIds."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()
