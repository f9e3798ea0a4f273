"""WriteTxnMarkers (key 27): versions 1-2, always flexible."""

from barnabas_protocol.schema import Message, array, boolean, int8, int16, int32, int64, string


class WritableTxnMarkerTopic(Message):
    """One element of `WritableTxnMarker.topics`."""

    name: str = string()
    partition_indexes: list[int] = array(int32)


class WritableTxnMarker(Message):
    """One element of `WriteTxnMarkersRequest.markers`."""

    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8(since=2)


class WriteTxnMarkersRequest(Message, versions=(1, 2), flexible=1):
    """Request of WriteTxnMarkers."""

    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


class WritableTxnMarkerPartitionResult(Message):
    """One element of `WritableTxnMarkerTopicResult.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()


class WritableTxnMarkerTopicResult(Message):
    """One element of `WritableTxnMarkerResult.topics`."""

    name: str = string()
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


class WritableTxnMarkerResult(Message):
    """One element of `WriteTxnMarkersResponse.markers`."""

    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


class WriteTxnMarkersResponse(Message, versions=(1, 2), flexible=1):
    """Response of WriteTxnMarkers."""

    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)
