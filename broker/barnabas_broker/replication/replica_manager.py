"""The replicas of this broker, kept in line with the metadata image.

Makes, changes and drops partitions with their logs, finds them by name or id, sets the fetchers to
their leaders, and passes failures of log directories on. Leadership is `partition.py`'s; what
produce and fetch requests do is in `leader/`. Source: LEAD-10 to LEAD-12, LOG-11, REQ-1, TOP-14,
TOP-15.
Invariants: a partition is here exactly if the newest image assigns it to this broker and its log
could be opened; one that is led here is not followed.
"""

import asyncio
import logging
from collections.abc import Callable, Container, Coroutine, Iterable, Sequence
from typing import Any

from barnabas_broker.config.topic import LogConfig
from barnabas_broker.env.clock import Clock
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.manager.disk_room import Room
from barnabas_broker.log.manager.log_directory import LogDirectory
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from barnabas_broker.metadata.log_ends import LogEnd
from barnabas_broker.metadata.metadata_log import METADATA_PARTITION
from barnabas_broker.purgatory.purgatory import Purgatory
from barnabas_broker.replication.follower.replica_fetcher_manager import (
    FollowerHooks,
    Following,
    ReplicaFetcherManager,
)
from barnabas_broker.replication.future_log import FutureLogs
from barnabas_broker.replication.leader.delayed_fetch import ClientFetches
from barnabas_broker.replication.leader.delayed_follower_fetch import FollowerFetches
from barnabas_broker.replication.leader.delayed_produce import LeaderAppend
from barnabas_broker.replication.leader.fetch_session import FetchPartition
from barnabas_broker.replication.leader.follower_session import FollowerSessions
from barnabas_broker.replication.partition import (
    NO_EPOCH,
    IsrProposer,
    Partition,
    ReplicationContext,
)
from barnabas_broker.replication.turn import Turn
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID, TopicPartition

logger = logging.getLogger(__name__)

# Making or deleting this many takes some milliseconds, each with its files.
PARTITIONS_PER_TURN = 8
# How soon a truncation or a deletion is noted again that found no room to be.
_NOTE_AGAIN_SECONDS = 0.1

CLIENT_READS_MAX = 2
"""Reads of clients that keep a thread of the disk's at a time. The other threads are for followers,
flushes, the metadata log and the arbiter: a hundred fetches of old records must not keep a leader
from reading its own lease."""
TopicConfig = Callable[[str], LogConfig]


class ReplicaManager:
    """The partitions of one broker, and what serves requests for them."""

    def __init__(
        self,
        *,
        node_id: int,
        logs: LogManager,
        topic_config: TopicConfig,
        turn: Turn,
        produce_purgatory: Purgatory,
        fetch_purgatory: Purgatory,
        clock: Clock,
        lag_ms_max: int,
    ) -> None:
        self._node_id = node_id
        self._logs = logs
        self._topic_config = topic_config
        self._turn = turn
        self.partitions: dict[TopicPartition, Partition] = {}
        self.image = MetadataImage.empty()
        self._tasks: set[asyncio.Task[None]] = set()
        # Set where there is a controller: an ISR never changes otherwise.
        self.alter_partition_manager: IsrProposer | None = None
        # Set where there are other brokers to follow.
        self.fetchers: ReplicaFetcherManager | None = None
        self.future_logs = FutureLogs(logs, self.find, self._spawn)
        self._to_follow: dict[TopicPartition, Following | None] = {}
        self._context = ReplicationContext(
            now_ms=clock.monotonic_ms,
            find_broker=lambda node_id: self.image.brokers.get(node_id),
            lag_ms_max=lambda: lag_ms_max,
            propose_isr=self._propose_isr,
        )
        self._is_applying = False
        # Replicas whose log found no room to be made, with their topic's id and `is_new`.
        self.without_log: dict[TopicPartition, tuple[bytes, bool]] = {}
        # Those that are to lead when a truncation of their logs is settled.
        self._settling: set[TopicPartition] = set()
        self._is_noting = False
        # Called with a partition that has got its log only now.
        self.on_made_late: list[Callable[[Partition], None]] = []
        # Set when the broker stops: partitions that are not made yet wait for the next start.
        self.is_closing = False
        self.on_leadership: list[Callable[[Partition], None]] = []
        # Called when a high watermark or a leadership is another, or a log has gone.
        self.on_progress: list[Callable[[Partition], None]] = []
        self.on_brokers: list[Callable[[Iterable[int]], None]] = []
        self.on_removed: list[Callable[[TopicPartition], None]] = []
        self.on_directory_offline: list[Callable[[LogDirectory], None]] = []
        self._listen_to_logs()
        self.produce_purgatory = produce_purgatory
        self.fetch_purgatory = fetch_purgatory
        self.leader_append = LeaderAppend(
            node_id=node_id,
            partitions=self.partitions,
            find=self.find,
            logs=logs,
            turn=turn,
            purgatory=produce_purgatory,
        )
        self.client_reads = asyncio.Semaphore(CLIENT_READS_MAX)
        self.client_fetches = ClientFetches(
            find_leader=self.find_leader,
            find_replica=self.find_replica,
            purgatory=fetch_purgatory,
            reads=self.client_reads,
            spawn=self._spawn,
        )
        self.follower_sessions = self._new_follower_sessions()
        self.follower_fetches = FollowerFetches(self.follower_sessions, self._spawn)

    def _new_follower_sessions(self) -> FollowerSessions:
        sessions = FollowerSessions(
            partitions=self.partitions,
            find=self.find_leader,
            purgatory=self.fetch_purgatory,
            after=self._turn.after,
            find_broker=self._context.find_broker,
        )
        self.on_brokers.append(sessions.brokers_changed)
        self.on_leadership.append(sessions.leadership_changed)
        return sessions

    def _listen_to_logs(self) -> None:
        logs = self._logs
        logs.on_directory_offline = self._directory_went_offline
        logs.disk_guard.on_change.append(self._room_changed)
        logs.reopening.on_closed = self._log_closed
        logs.reopening.on_reopened = self._log_reopened

    @property
    def follower_hooks(self) -> FollowerHooks:
        """What fetchers need of the partitions here."""
        return FollowerHooks(
            self.partitions.get,
            self._directory_failed,
            self._logs.note_truncations,
            self._context.find_broker,
        )

    # Look-ups.

    def find(self, topic_partition: TopicPartition) -> Partition:
        """The partition of that name.

        Raises: KafkaError 3 where there is none, 56 where its directory is offline, 6 where it
        lives elsewhere.
        """
        partition = self.partitions.get(topic_partition)
        if partition is not None:
            return partition
        topic = self.image.topics.by_name.get(topic_partition.topic)
        if topic is None or not 0 <= topic_partition.partition < len(topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if self._node_id in topic.partitions[topic_partition.partition].replicas:
            if self._is_applying:  # it is about to be made
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def find_leader(self, request: FetchPartition) -> Partition:
        """The partition of a fetch, led here.

        Raises: KafkaError also for an unknown id (100), another id than ours (103) and leader
        epochs (74, 75).
        """
        partition = self._find_named(request)
        partition.check_leader(max(NO_EPOCH, request.current_leader_epoch))
        return partition

    def find_replica(self, request: FetchPartition) -> Partition:
        """The partition of a consumer's fetch, led here or not (KIP-392).

        Raises: KafkaError as `find_leader`.
        """
        partition = self._find_named(request)
        partition.check_replica(max(NO_EPOCH, request.current_leader_epoch))
        return partition

    def _find_named(self, request: FetchPartition) -> Partition:
        if not request.topic_partition.topic:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = self.find(request.topic_partition)
        if request.topic_id != ZERO_UUID and partition.topic_id != request.topic_id:
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
        return partition

    def log_ends(
        self, topic_partitions: Iterable[tuple[bytes, int]]
    ) -> dict[tuple[bytes, int], LogEnd]:
        """The ends of the logs of some partitions, by topic id and partition (LEAD-7, KIP-966).

        What is not here, or in a directory that has failed, is left out.
        """
        ends: dict[tuple[bytes, int], LogEnd] = {}
        for topic_id, index in topic_partitions:
            topic = self.image.topics.by_id.get(topic_id)
            if topic is None:
                continue
            partition = self.partitions.get(TopicPartition(topic.name, index))
            if partition is None or partition.topic_id != topic_id or partition.log.is_offline:
                continue
            log = partition.log
            ends[topic_id, index] = LogEnd(log.leader_epochs.latest, log.log_end_offset)
        return ends

    # Metadata.

    async def apply(self, delta: MetadataDelta | None, image: MetadataImage) -> None:
        """Bring partitions in line with an image; with no delta, with all of it."""
        before, self.image = self.image, image
        changed_brokers = (
            {**before.brokers, **image.brokers} if delta is None else delta.changed_brokers
        )
        if changed_brokers:
            self._forget_other_incarnations(changed_brokers)
        self._is_applying = True
        try:
            await self._drop_deleted(delta, image)
            changed = image.topics.by_name if delta is None else delta.changed_topics
            await self._apply_topics(changed, None if delta is None else before, image)
            if changed_brokers:
                self._brokers_changed(changed_brokers)
        finally:
            self._is_applying = False
            self._update_fetchers()

    def minimums_lowered(self, topics: Container[str]) -> None:
        """See what is committed by now: fewer replicas than before have to be in sync."""
        for topic_partition, partition in self.partitions.items():
            if topic_partition.topic in topics:
                partition.advance()

    async def _apply_topics(
        self, names: Iterable[str], before: MetadataImage | None, image: MetadataImage
    ) -> None:
        """Make, change and drop partitions, giving way to the loop now and then."""
        made = 0
        dropped: list[Partition] = []
        for name in names:
            topic = image.topics.by_name.get(name)
            if topic is None:
                continue
            config: LogConfig | None = None
            for index, partition in enumerate(topic.partitions):
                existing = self.partitions.get(TopicPartition(name, index))
                if self._node_id not in partition.replicas:
                    if existing is not None:
                        dropped.append(existing)
                    continue
                if self.is_closing:
                    return
                if existing is not None:
                    if partition.leader == self._node_id and self._is_being_cut(existing):
                        self._change_when_settled(existing)
                    else:
                        self._change_partition(existing, partition)
                    continue
                config = config or self._topic_config(name)
                is_new = self._is_new(topic, index, before)
                self._make_partition(topic, index, partition, config, is_new=is_new)
                made += 1
                if made % PARTITIONS_PER_TURN == 0:
                    self._update_fetchers()
                    await asyncio.sleep(0)
        if dropped:
            await self._drop(dropped)

    def _change_when_settled(self, partition: Partition) -> None:
        """Let a partition lead, and append, only when a truncation is settled.

        Other partitions do not wait: its disk may hang, or have no room to write that down.
        """
        topic_partition = partition.topic_partition
        self._to_follow[topic_partition] = None
        if topic_partition not in self._settling:
            self._settling.add(topic_partition)
            self._spawn(self._settle_cut(partition))

    async def _settle_cut(self, partition: Partition) -> None:
        """Settle a truncation, then take over what the metadata has of the partition by now."""
        topic_partition = partition.topic_partition
        try:
            while self._is_being_cut(partition) and self._is_served(partition):
                await self._logs.note_truncations([partition.log])
                if self._is_being_cut(partition):
                    await asyncio.sleep(_NOTE_AGAIN_SECONDS)  # there is no room
        finally:
            self._settling.discard(topic_partition)
        topic = self.image.topics.by_id.get(partition.topic_id)
        if topic is None or not self._is_served(partition):
            return
        image = topic.partitions[topic_partition.partition]
        if self._node_id in image.replicas:
            self._change_partition(partition, image)
            if not self._is_applying:
                self._update_fetchers()

    def _is_being_cut(self, partition: Partition) -> bool:
        """Whether a crash could still undo a truncation, or take what comes after it for flushed.

        A log that is out of service because it found no room comes back as one that is being cut.
        """
        log = partition.log
        return log.is_cut_unnoted and not self._logs.directory_of(log).is_offline

    def _is_served(self, partition: Partition) -> bool:
        return not self.is_closing and self.partitions.get(partition.topic_partition) is partition

    def _is_new(self, topic: TopicImage, index: int, before: MetadataImage | None) -> bool:
        """Whether a replica's log may be made although it is expected to be somewhere.

        Certainly if it was not assigned to us before; and if nobody counts on what it had, as
        after a disk was replaced, while no directory that may hold it is merely offline. With no
        image before, after a start, everything was there before.
        """
        image = topic.partitions[index]
        if before is not None:
            known = before.topics.by_id.get(topic.topic_id)
            if known is None or index >= len(known.partitions):
                return True
            if self._node_id not in known.partitions[index].replicas:
                return True
        counted = {*image.isr, *image.eligible_leader_replicas}
        if image.leader == NO_LEADER:
            counted.update(image.last_known_elr)  # the best of these may lead
        return self._node_id not in counted and not any(
            directory.is_offline for directory in self._logs.directories
        )

    def _change_partition(self, existing: Partition, image: PartitionImage) -> None:
        if existing.image is image:
            return
        was_leader, leader_epoch = existing.is_leader, existing.leader_epoch
        existing.become(image)
        is_new_epoch = existing.leader_epoch != leader_epoch
        if is_new_epoch or existing.is_leader != was_leader:
            self._follow(existing)
        # Also where this broker goes on to lead: coordinators have to know whether another has led
        # in between, although nobody has cut the log here meanwhile (OFS-2).
        if existing.is_leader != was_leader or (is_new_epoch and existing.is_leader):
            self._leadership_changed(existing)

    def _make_partition(
        self,
        topic: TopicImage,
        index: int,
        image: PartitionImage,
        config: LogConfig,
        *,
        is_new: bool,
    ) -> None:
        topic_partition = TopicPartition(topic.name, index)
        log = self._logs.get(topic_partition)
        if log is None:
            path = self.future_logs.take_requested(topic_partition) if is_new else None
            try:
                log = self._logs.create(
                    topic_partition,
                    topic.topic_id,
                    config,
                    path,
                    is_new=is_new,
                    directory_id=self._directory_id(image),
                )
            except (KafkaError, LogDirectoryError, OSError) as error:
                logger.error("%s-%d has no log: %s", topic.name, index, error)
                if self._logs.disk_guard.is_any_full or self._logs.has_unnoted_deletions:
                    self.without_log[topic_partition] = (topic.topic_id, is_new)
                    self._see_to_unnoted()
                return
        partition = Partition(
            topic_partition,
            topic.topic_id,
            image,
            log,
            node_id=self._node_id,
            turn=self._turn,
            tasks=self._tasks,
            on_progress=self._progressed,
            on_directory_error=self._directory_failed,
            context=self._context,
        )
        self.partitions[topic_partition] = partition
        if partition.is_leader:
            partition.start_leading()
            self._leadership_changed(partition)
        else:
            self._follow(partition)
        self.future_logs.made(partition)

    def _make_missing(self) -> None:
        """Give those a log that found no room for one, if they still belong here."""
        waiting, self.without_log = self.without_log, {}
        for topic_partition, (topic_id, is_new) in waiting.items():
            topic = self.image.topics.by_id.get(topic_id)
            index = topic_partition.partition
            if topic is None or topic_partition in self.partitions or self.is_closing:
                continue
            image = topic.partitions[index]
            if self._node_id not in image.replicas:
                continue
            self._make_partition(topic, index, image, self._topic_config(topic.name), is_new=is_new)
            partition = self.partitions.get(topic_partition)
            if partition is not None:
                logger.info("%s-%d has its log now", topic.name, index)
                for made in self.on_made_late:
                    made(partition)
        if not self._is_applying:
            self._update_fetchers()

    # Dropping.

    async def _drop_deleted(self, delta: MetadataDelta | None, image: MetadataImage) -> None:
        """Stop serving topics that are no longer there under their id; files go later (TOP-14)."""
        by_id = image.topics.by_id
        if delta is None or delta.deleted:
            gone = [p for p in self.partitions.values() if p.topic_id not in by_id]
            await self._drop(gone)
        if delta is None:
            await self._drop_stray_logs(image)

    async def _drop_stray_logs(self, image: MetadataImage) -> None:
        """Let go of logs that were loaded, but are not ours by the image that is applied first.

        It may be newer than the one by which they were loaded (TOP-15).
        """
        stray = [
            log
            for topic_partition, log in self._logs.logs.items()
            if topic_partition not in self.partitions
            and topic_partition != METADATA_PARTITION
            and not self._is_assigned(topic_partition, log.topic_id, image)
        ]
        for log in stray:
            self._logs.put_log_aside(log, "is not assigned to this broker any more")
        if stray:
            await self._note_deletions()

    def _is_assigned(
        self, topic_partition: TopicPartition, topic_id: bytes, image: MetadataImage
    ) -> bool:
        topic = image.topics.by_name.get(topic_partition.topic)
        return (
            topic is not None
            and topic_id in (topic.topic_id, ZERO_UUID)
            and topic_partition.partition < len(topic.partitions)
            and self._node_id in topic.partitions[topic_partition.partition].replicas
        )

    async def _drop(self, partitions: Sequence[Partition]) -> None:
        """Serve partitions no more: deleted, or moved to other brokers (LEAD-10).

        Their logs go a few at a time.
        """
        for partition in partitions:
            topic_partition = partition.topic_partition
            del self.partitions[topic_partition]
            self._to_follow[topic_partition] = None
            self.future_logs.dropped(topic_partition)
            for removed in self.on_removed:
                removed(topic_partition)
            partition.stop_leading()
        self._update_fetchers()
        for count, partition in enumerate(partitions, 1):
            await self._logs.delete(partition.topic_partition)
            if count % PARTITIONS_PER_TURN == 0:
                await asyncio.sleep(0)
        if partitions:
            await self._note_deletions()

    async def _note_deletions(self) -> None:
        await self._logs.note_deletions()
        self._see_to_unnoted()

    def _see_to_unnoted(self) -> None:
        if self._logs.has_unnoted_deletions and not self._is_noting:
            self._is_noting = True
            self._spawn(self._note_deletions_again())

    async def _note_deletions_again(self) -> None:
        """Try until there is room, then make the logs whose names were not free."""
        try:
            while self._logs.has_unnoted_deletions and not self.is_closing:
                await asyncio.sleep(_NOTE_AGAIN_SECONDS)
                await self._logs.note_deletions()
        finally:
            self._is_noting = False
        self._make_missing()

    # Following.

    def _follow(self, partition: Partition) -> None:
        """Set whether a partition is followed, and from whom, by its image."""
        leader_id = partition.image.leader
        following = None
        if leader_id not in (NO_LEADER, self._node_id) and self._may_follow(partition):
            following = Following(
                partition.topic_partition, partition.topic_id, leader_id, partition.leader_epoch
            )
        self._to_follow[partition.topic_partition] = following

    def _may_follow(self, partition: Partition) -> bool:
        """Whether there is a log to append to, and room for a client's topic (VOL-4)."""
        log = partition.log
        if log.is_offline or partition.is_internal:
            return not log.is_offline
        return self._logs.disk_guard.room(self._logs.directory_of(log)) < Room.CRITICAL

    def _room_changed(self, directory: LogDirectory, before: Room) -> None:
        """Stop following client topics where the disk is nearly full, and go on later."""
        if self.without_log and self._logs.disk_guard.room(directory) < before:
            self._make_missing()
        if (self._logs.disk_guard.room(directory) < Room.CRITICAL) == (before < Room.CRITICAL):
            return
        for topic_partition, log in directory.logs.items():
            partition = self.partitions.get(topic_partition)
            if partition is not None and partition.log is log and not partition.is_leader:
                self._follow(partition)
        if not self._is_applying:
            self._update_fetchers()

    def _update_fetchers(self) -> None:
        changes, self._to_follow = self._to_follow, {}
        if self.fetchers is not None and changes:
            self.fetchers.update(changes)

    def _forget_other_incarnations(self, node_ids: Iterable[int]) -> None:
        """Let nothing count any more that was fetched under another broker epoch.

        In one go with taking the image: from here on all look at the brokers that it has.
        """
        for partition in self.partitions.values():
            partition.forget_other_incarnations()
        for changed in self.on_brokers:
            changed(node_ids)

    def _brokers_changed(self, node_ids: Iterable[int]) -> None:
        for partition in self.partitions.values():
            partition.brokers_changed()
        if self.fetchers is not None:
            for node_id in node_ids:
                self.fetchers.leader_changed(node_id)

    # Directories.

    def _directory_id(self, image: PartitionImage) -> bytes:
        """The directory that the metadata remembers for the replica here, zero for none."""
        if not image.directories:
            return ZERO_UUID
        return image.directories[image.replicas.index(self._node_id)]

    def misplaced(self, delta: MetadataDelta | None) -> dict[TopicPartition, bytes]:
        """The directories of the logs that are not where the metadata remembers them."""
        names = self.image.topics.by_name if delta is None else delta.changed_topics
        topics = [self.image.topics.by_name.get(name) for name in names]
        return self.misplaced_of(
            TopicPartition(topic.name, index)
            for topic in topics
            if topic is not None
            for index in range(len(topic.partitions))
        )

    def misplaced_of(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, bytes]:
        """As `misplaced`, of some partitions only.

        Also of logs in a directory that has failed: the controller elects others for the replicas
        that it knows to be there.
        """
        by_path = {item.path: item.directory_id for item in self._logs.directories}
        found: dict[TopicPartition, bytes] = {}
        for topic_partition in topic_partitions:
            partition = self.partitions.get(topic_partition)
            if partition is None:
                continue
            directory_id = by_path[partition.log.directory.rpartition("/")[0]]
            if self._directory_id(partition.image) != directory_id:
                found[topic_partition] = directory_id
        return found

    def _directory_failed(self, error: LogDirectoryError) -> None:
        self._logs.take_offline(error.path, error)

    def _directory_went_offline(self, directory: LogDirectory) -> None:
        """Fail all that waits for a partition of a failed directory (LOG-11)."""
        for partition in self.partitions.values():
            if partition.log.is_offline:
                self._to_follow[partition.topic_partition] = None
                self._progressed(partition)
        if not self._is_applying:
            self._update_fetchers()
        for went_offline in self.on_directory_offline:
            went_offline(directory)

    def _log_closed(self, log: PartitionLog) -> None:
        """Fail what waits for a log that found no room to write."""
        partition = self.partitions.get(log.topic_partition)
        if partition is None or partition.log is not log:
            return
        self._to_follow[log.topic_partition] = None
        self.future_logs.log_closed(log.topic_partition)
        self._progressed(partition)
        if not self._is_applying:
            self._update_fetchers()

    def _log_reopened(self, old: PartitionLog, new: PartitionLog) -> None:
        """Go on with a log that was opened again, from where it was."""
        partition = self.partitions.get(new.topic_partition)
        if partition is None or partition.log is not old:
            return
        partition.take_log(new)
        self.future_logs.log_reopened(new.topic_partition)
        if not partition.is_leader:
            self._follow(partition)
        self._progressed(partition)
        if not self._is_applying:
            self._update_fetchers()

    # What follows from changes.

    def _propose_isr(self, partition: Partition, isr: tuple[int, ...]) -> bool:
        if self.alter_partition_manager is None:
            return False
        self.alter_partition_manager.propose(partition, isr)
        return True

    def _leadership_changed(self, partition: Partition) -> None:
        for changed in self.on_leadership:
            changed(partition)
        self._progressed(partition)

    def _progressed(self, partition: Partition) -> None:
        """Try what waits for a partition."""
        # Most of the time nobody waits: two attributes are quicker than two look-ups.
        if self.produce_purgatory.watched_count:
            self.produce_purgatory.check_and_complete(partition.topic_partition)
        if self.fetch_purgatory.watched_count:
            self.fetch_purgatory.check_and_complete(partition.topic_partition)
        for progressed in self.on_progress:
            progressed(partition)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Make no more partitions, follow nobody, and wait for what is under way."""
        self.is_closing = True
        self.future_logs.close()
        if self.fetchers is not None:
            await self.fetchers.close()
        while self._tasks:
            # Unlike `gather`, this gives way to the loop also where all have ended, so that their
            # callbacks take them out of the set.
            await asyncio.wait(self._tasks)
