"""Asks brokers how far their replicas reach, for the controller (LogEnds, 20004).

What this broker itself has is looked at directly. Nothing is decided here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from barnabas_broker.controller.log_comparison import LogEnds, TopicIdPartition
from barnabas_broker.metadata.log_ends import LogEnd
from barnabas_broker.network.peers import Peers, PeerUnreachableError
from barnabas_protocol.messages.log_ends import LogEndsRequest, LogEndsRequestTopic

_VERSION: Final = 0


class LogEndRequests:
    """The way of the controller to the logs of all brokers."""

    def __init__(
        self,
        peers: Peers,
        *,
        node_id: int,
        cluster_id: Callable[[], str],
        history_id: Callable[[], bytes],
        own: Callable[[Sequence[TopicIdPartition]], LogEnds],
    ) -> None:
        """`own` tells what this broker has."""
        self._peers = peers
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._history_id = history_id
        self._own = own

    async def __call__(
        self, node_id: int, partitions: Sequence[TopicIdPartition], timeout_ms: int
    ) -> LogEnds | None:
        """How far a broker's replicas reach; None if it does not answer in time."""
        if node_id == self._node_id:
            return self._own(partitions)
        topics: dict[bytes, list[int]] = defaultdict(list)
        for topic_id, index in partitions:
            topics[topic_id].append(index)
        request = LogEndsRequest(
            cluster_id=self._cluster_id() or None,
            receiver_id=node_id,
            history_id=self._history_id(),
            topics=[
                LogEndsRequestTopic(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
        )
        try:
            response = await self._peers.request(
                node_id, request, _VERSION, channel="log-ends", timeout_ms=timeout_ms
            )
        except PeerUnreachableError:
            return None
        if response.error_code:
            return None
        return LogEnds(
            response.broker_epoch,
            {
                (topic.topic_id, partition.partition_index): LogEnd(
                    partition.last_epoch, partition.end_offset
                )
                for topic in response.topics
                for partition in topic.partitions
            },
        )
