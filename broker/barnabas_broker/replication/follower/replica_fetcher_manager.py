"""All fetchers of a broker: which of them follows which partition.

One fetcher for each leader and number; a partition's number depends on its name alone, so that it
stays with its connection. Fetchers come and go with what they follow. Not here: what a fetcher does
(`replica_fetcher.py`), who leads a partition (`replica_manager.py`).

Source: REP-9, MET-7. Invariants: a partition is in at most one fetcher; after `unfollow` returns
nothing is appended to it any more.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from barnabas_broker.env.clock import Clock
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.replication.follower.fetch_plan import FetchSettings, PartitionFetchState
from barnabas_broker.replication.follower.follower_append import FindReplica, FollowerAppend
from barnabas_broker.replication.follower.replica_fetcher import PeerRequests, ReplicaFetcher
from barnabas_broker.replication.leader.follower_states import FindBroker
from barnabas_broker.replication.throttle import ReplicationThrottle
from barnabas_protocol.ids import TopicPartition


class Following(NamedTuple):
    """What to follow: a partition, the topic's id, its leader and leader epoch."""

    topic_partition: TopicPartition
    topic_id: bytes
    leader_id: int
    leader_epoch: int


class FollowerHooks(NamedTuple):
    """What fetchers need of the rest of the broker."""

    find: FindReplica
    on_directory_error: Callable[[LogDirectoryError], None]
    note_truncations: Callable[[Sequence[PartitionLog]], Awaitable[None]]
    find_broker: FindBroker


class ReplicaFetcherManager:
    """The follower side of a broker. Used from the loop only."""

    def __init__(
        self,
        peers: PeerRequests,
        clock: Clock,
        settings: FetchSettings,
        hooks: FollowerHooks,
        throttle: ReplicationThrottle,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        fetchers_per_leader: int = 1,
    ) -> None:
        self._peers = peers
        self._clock = clock
        self._settings = settings
        self._hooks = hooks
        self._throttle = throttle
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self.fetchers_per_leader = fetchers_per_leader
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._targets: dict[tuple[int, int], FollowerAppend] = {}
        self._by_partition: dict[TopicPartition, tuple[Following, ReplicaFetcher]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._is_closed = False
        # Of fetchers that are gone.
        self._bytes_in = 0
        self._truncation_count = 0

    # Partitions.

    def update(self, changes: Mapping[TopicPartition, Following | None]) -> None:
        """Follow partitions so, or (None) no more. What is followed so already goes on."""
        by_fetcher: dict[ReplicaFetcher, list[PartitionFetchState]] = {}
        for topic_partition, following in changes.items():
            known = self._by_partition.get(topic_partition)
            if known is not None:
                if following == known[0]:
                    continue
                self._unfollow(topic_partition)
            if following is not None and not self._is_closed:
                fetcher = self._fetcher_for(following)
                self._by_partition[topic_partition] = following, fetcher
                followed = PartitionFetchState(
                    topic_partition, following.topic_id, following.leader_epoch
                )
                by_fetcher.setdefault(fetcher, []).append(followed)
        for fetcher, followed_here in by_fetcher.items():
            fetcher.follow(followed_here)
        if any(fetcher.is_idle for fetcher in self._fetchers.values()):
            self._end_idle()

    def _unfollow(self, topic_partition: TopicPartition) -> None:
        known = self._by_partition.pop(topic_partition, None)
        if known is not None:
            known[1].unfollow(topic_partition)

    def unfollow(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Follow partitions no more."""
        self.update(dict.fromkeys(topic_partitions))

    def leader_changed(self, node_id: int) -> None:
        """Note that a broker came back or has another address: fetch from it at once."""
        for (leader_id, _), fetcher in self._fetchers.items():
            if leader_id == node_id:
                fetcher.hurry()

    def resize(self, fetchers_per_leader: int) -> None:
        """Take over another `num.replica.fetchers`."""
        if fetchers_per_leader == self.fetchers_per_leader:
            return
        self.fetchers_per_leader = fetchers_per_leader
        followed = {name: known[0] for name, known in self._by_partition.items()}
        self.unfollow(followed)
        self.update(followed)

    def _fetcher_for(self, following: Following) -> ReplicaFetcher:
        number = fetcher_number(following.topic_partition, self.fetchers_per_leader)
        key = following.leader_id, number
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            target = self._targets[key] = FollowerAppend(
                self._hooks.find,
                on_directory_error=self._hooks.on_directory_error,
                note_truncations=self._hooks.note_truncations,
                knows_epochs=self._knows_own_registration,
            )
            fetcher = self._fetchers[key] = ReplicaFetcher(
                following.leader_id,
                number,
                self._peers,
                self._clock,
                self._settings,
                target,
                self,
                node_id=self._node_id,
                broker_epoch=self._broker_epoch,
            )
        return fetcher

    def _knows_own_registration(self) -> bool:
        """Whether the metadata here is at least as new as all that was on disk at the start."""
        broker = self._hooks.find_broker(self._node_id)
        return broker is not None and broker.epoch == self._broker_epoch()

    def _end_idle(self) -> None:
        for key, fetcher in list(self._fetchers.items()):
            if fetcher.is_idle:
                del self._fetchers[key]
                target = self._targets.pop(key)
                self._bytes_in += target.bytes_in
                self._truncation_count += target.truncation_count
                task = asyncio.get_running_loop().create_task(fetcher.close())
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Follow nothing any more; returns when no fetcher is at work."""
        self._is_closed = True
        self.unfollow(list(self._by_partition))
        while self._ending:
            await asyncio.wait(self._ending)

    # Throttling, for the fetchers.

    def waits_ms(self, followed: PartitionFetchState) -> int:
        """How long the follower's quota holds a partition back; 0: not at all."""
        partition = self._hooks.find(followed.topic_partition)
        if partition is None:
            return 0
        return self._throttle.follower_waits_ms(
            followed.topic_partition,
            partition.log.config.follower_replication_throttled_replicas,
            self._node_id,
            is_in_sync=followed.lag == 0,
        )

    def fetched(self, followed: PartitionFetchState, size_bytes: int) -> None:
        """Count what a partition was sent."""
        partition = self._hooks.find(followed.topic_partition)
        if partition is not None:
            self._throttle.follower_fetched(
                followed.topic_partition,
                partition.log.config.follower_replication_throttled_replicas,
                self._node_id,
                size_bytes,
            )

    # For metrics.

    def __len__(self) -> int:
        return len(self._fetchers)

    @property
    def followed_count(self) -> int:
        """Partitions that are followed."""
        return len(self._by_partition)

    @property
    def failed_count(self) -> int:
        """Partitions that are no longer fetched, after a fault of our own."""
        return sum(fetcher.plan.failed_count for fetcher in self._fetchers.values())

    @property
    def lag_max(self) -> int:
        """The most committed records that a followed partition was last known to lack."""
        return max(
            (item.lag for f in self._fetchers.values() for item in f.plan.followed.values()),
            default=0,
        )

    @property
    def bytes_in(self) -> int:
        """Bytes that were fetched and appended; only ever rises."""
        return self._bytes_in + sum(target.bytes_in for target in self._targets.values())

    @property
    def truncation_count(self) -> int:
        """Truncations; only ever rises."""
        return self._truncation_count + sum(t.truncation_count for t in self._targets.values())


def fetcher_number(topic_partition: TopicPartition, count: int) -> int:
    """Which of a leader's fetchers a partition belongs to."""
    return (zlib.crc32(topic_partition.topic.encode()) + topic_partition.partition) % count
