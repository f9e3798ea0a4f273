"""ReportLostReplicas (key 20005, Barnabas's own): version 0, always flexible.

A broker that has not served yet tells the active controller which of its replicas have lost
records that were on the disk, so that none of them leads.
"""

from barnabas_protocol.schema import Message, array, int16, int32, int64, uuid


class ReportLostReplicasRequestTopic(Message):
    """One element of `ReportLostReplicasRequest.topics`."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ReportLostReplicasRequest(Message, versions=(0, 0), flexible=0):
    """Request of ReportLostReplicas."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[ReportLostReplicasRequestTopic] = array(ReportLostReplicasRequestTopic)


class ReportLostReplicasResponse(Message, versions=(0, 0), flexible=0):
    """Response of ReportLostReplicas."""

    error_code: int = int16()
