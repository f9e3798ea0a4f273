"""How much replication traffic may pass: rates for replicas that catch up, not for those in sync.

One quota for what leaders send and one for what followers fetch. Pure but for the clock. Source:
KIP-73, QUO-3, QUO-6, QUO-8. Invariants: a replica in sync is never held back, though its bytes
count; without a rate, or for a topic that lists no replicas, a check costs one comparison.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas_broker.env.clock import Clock
from barnabas_broker.quotas.rate_limit import RateLimit
from barnabas_protocol.ids import TopicPartition

ALL_REPLICAS = "*"


class ReplicationThrottle:
    """The two quotas of one broker, for the replicas that the topics' settings list."""

    __slots__ = ("follower", "leader")

    def __init__(self, clock: Clock) -> None:
        self.leader = RateLimit(clock)
        self.follower = RateLimit(clock)

    # As a leader.

    def leader_allows(
        self,
        topic_partition: TopicPartition,
        listed: Sequence[str],
        follower_id: int,
        *,
        is_in_sync: bool,
    ) -> bool:
        """Whether records may be sent to a follower now.

        `listed`: the topic's `leader.replication.throttled.replicas`; `is_in_sync`: whether the
        follower has all that is committed.
        """
        if not listed or is_in_sync or not self.leader.is_limited:
            return True
        return not (is_listed(listed, topic_partition, follower_id) and self.leader.is_exceeded)

    def leader_sent(
        self,
        topic_partition: TopicPartition,
        listed: Sequence[str],
        follower_id: int,
        size_bytes: int,
    ) -> None:
        """Count records that a follower was sent."""
        if (
            listed
            and size_bytes
            and self.leader.is_limited
            and is_listed(listed, topic_partition, follower_id)
        ):
            self.leader.record(size_bytes)

    # As a follower.

    def follower_waits_ms(
        self,
        topic_partition: TopicPartition,
        listed: Sequence[str],
        node_id: int,
        *,
        is_in_sync: bool,
    ) -> int:
        """How long not to fetch a partition; 0: fetch it."""
        if not listed or is_in_sync or not self.follower.is_limited:
            return 0
        if is_listed(listed, topic_partition, node_id) and self.follower.is_exceeded:
            return self.follower.wait_ms
        return 0

    def follower_fetched(
        self, topic_partition: TopicPartition, listed: Sequence[str], node_id: int, size_bytes: int
    ) -> None:
        """Count records that were fetched."""
        if (
            listed
            and size_bytes
            and self.follower.is_limited
            and is_listed(listed, topic_partition, node_id)
        ):
            self.follower.record(size_bytes)


def is_listed(listed: Sequence[str], topic_partition: TopicPartition, node_id: int) -> bool:
    """Whether a list of `partition:broker`, or `*`, names a replica."""
    return ALL_REPLICAS in listed or f"{topic_partition.partition}:{node_id}" in listed
