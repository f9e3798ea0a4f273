"""Where the logs of partitions end, of those that this broker leads and of those that others lead.

Not here: the requests to other leaders (`leader_offset_requests.py`). Invariant: what is not known
is absent.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas_broker.coordinator.group.leader_offset_requests import Ends, LeaderOffsetRequests
from barnabas_broker.metadata.image import NO_LEADER
from barnabas_broker.network.peers import Peers
from barnabas_broker.replication.partition import Partition
from barnabas_broker.replication.replica_manager import ReplicaManager
from barnabas_protocol.ids import TopicPartition


class PartitionEnds:
    """Log start offsets and high watermarks, by way of the leaders."""

    def __init__(self, replicas: ReplicaManager, peers: Peers) -> None:
        self._replicas = replicas
        self.leaders = LeaderOffsetRequests(peers, self._leader_of)

    async def ends(self, topic_partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Ends]:
        """Return the ends that can be found out."""
        found: dict[TopicPartition, Ends] = {}
        remote = []
        for topic_partition in topic_partitions:
            if self.led(topic_partition) is None:
                remote.append(topic_partition)
                continue
            ends = self.here(topic_partition)
            if ends is not None:
                found[topic_partition] = ends
        if remote:
            found |= await self.leaders.ends(remote)
        return found

    def here(self, topic_partition: TopicPartition) -> Ends | None:
        """Return the ends of a partition that this broker leads."""
        partition = self.led(topic_partition)
        if partition is None or not partition.is_end_known:
            return None
        return partition.log.log_start_offset, partition.log.high_watermark

    def led(self, topic_partition: TopicPartition) -> Partition | None:
        """Return the partition if this broker leads it."""
        partition = self._replicas.partitions.get(topic_partition)
        return partition if partition is not None and partition.is_leader else None

    def _leader_of(self, topic_partition: TopicPartition) -> int:
        partition = self._replicas.image.topics.partition(topic_partition)
        return NO_LEADER if partition is None else partition.leader
