"""The partitions of one broker, their coordinators and the requests that wait: built and connected.

Nothing is decided here. Coordinators follow the leadership of their topic's partitions; the broker
ends when no log directory is left, or the one with its metadata is lost (NODE-8).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, cast

from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.config.topic import LogConfig
from barnabas_broker.controller.channel import ControllerChannel
from barnabas_broker.coordinator.group.coordinator import GroupCoordinator
from barnabas_broker.coordinator.group.settings import GroupSettings
from barnabas_broker.coordinator.runtime.pipeline import RuntimeSettings
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.randomness import Random
from barnabas_broker.handlers.topic_creation import OFFSETS_TOPIC
from barnabas_broker.log.log_directory import LogDirectory
from barnabas_broker.log.log_manager import LogManager
from barnabas_broker.metadata.image import MetadataImage, PartitionImage
from barnabas_broker.metadata.metadata_log import METADATA_PARTITION
from barnabas_broker.network.peers import Peers
from barnabas_broker.network.turn import Turn
from barnabas_broker.purgatory.purgatory import Purgatory
from barnabas_broker.purgatory.timer import Timer
from barnabas_broker.replication.commit_wait import CommittedWriter
from barnabas_broker.replication.fetch_plan import FetchSettings
from barnabas_broker.replication.fetch_session import FetchSessionCache
from barnabas_broker.replication.fetchers import Fetchers
from barnabas_broker.replication.isr_changes import IsrChanges, keep_shrinking
from barnabas_broker.replication.partition import Partition
from barnabas_broker.replication.replica_manager import ReplicaManager
from barnabas_broker.replication.throttle import ReplicationThrottle
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from barnabas_protocol.records.compression import Compression


class _ImageTopics:
    """The topics of the newest image, for the coordinators.

    An image is the newest before its partitions are led: whoever loads one of them knows every
    topic that the coordinator before it knew.
    """

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image

    def topic_id(self, name: str) -> bytes | None:
        known = self._image().topics.by_name.get(name)
        return None if known is None else known.topic_id

    def partition_count(self, name: str) -> int:
        known = self._image().topics.by_name.get(name)
        return 0 if known is None else len(known.partitions)


class DataPlane:
    """What serves records, offsets and groups."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        logs: LogManager,
        clock: Clock,
        random: Random,
        turn: Turn,
        timer: Timer,
        topic_config: Callable[[str], LogConfig],
        image: Callable[[], MetadataImage],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """Make the parts; partitions come with the first image that is applied."""
        self._config = config
        self._logs = logs
        self._clock = clock
        self._image = image
        self._on_fatal = on_fatal
        self._timer = timer
        self.produce_purgatory = Purgatory("produce", timer)
        self.fetch_purgatory = Purgatory("fetch", timer)
        self.fetch_sessions = FetchSessionCache(
            config.max_incremental_fetch_session_cache_slots, random
        )
        self.replicas = ReplicaManager(
            node_id=logs.node_id,
            logs=logs,
            topic_config=topic_config,
            turn=turn,
            produce_purgatory=self.produce_purgatory,
            fetch_purgatory=self.fetch_purgatory,
            clock=clock,
            lag_ms_max=config.replica_lag_time_max_ms,
        )
        self.replicas.on_leadership.append(self._leadership_changed)
        self.replicas.on_removed.append(self._partition_removed)
        self.replicas.on_directory_offline.append(self._directory_went_offline)
        logs.remembered_directory = self._remembered_directory
        logs.is_whole = self._is_whole
        self.groups = GroupCoordinator(
            settings=GroupSettings.of(config),
            writer=CommittedWriter(self.replicas, turn, clock),
            clock=clock,
            random=random,
            timer=timer,
            runtime_settings=RuntimeSettings(
                commit_timeout_ms=config.offsets_commit_timeout_ms,
                load_buffer_bytes=config.offsets_load_buffer_size,
                compression=Compression(config.offsets_topic_compression_codec),
            ),
            topics=_ImageTopics(image),
        )

    def connect(
        self,
        peers: Peers,
        channel: ControllerChannel,
        dynamic: DynamicConfig,
        broker_epoch: Callable[[], int],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """Follow leaders on other brokers, and let leaders here ask for their ISRs."""
        config, replicas = self._config, self.replicas
        self.throttle = replicas.follower_fetches.throttle = ReplicationThrottle(self._clock)
        self.isr_changes = replicas.isr_changes = IsrChanges(
            channel,
            node_id=self._logs.node_id,
            broker_epoch=broker_epoch,
            spawn=spawn,
            timeout_ms=config.request_timeout_ms,
        )
        self.fetchers = replicas.fetchers = Fetchers(
            peers,
            self._clock,
            FetchSettings(
                wait_ms_max=config.replica_fetch_wait_max_ms,
                min_bytes=config.replica_fetch_min_bytes,
                response_bytes_max=config.replica_fetch_response_max_bytes,
                partition_bytes_max=config.replica_fetch_max_bytes,
                backoff_ms=config.replica_fetch_backoff_ms,
                request_timeout_ms=config.replica_socket_timeout_ms,
            ),
            replicas.follower_hooks,
            self.throttle,
            node_id=self._logs.node_id,
            broker_epoch=broker_epoch,
            fetchers_per_leader=config.num_replica_fetchers,
        )
        self._take_over(dynamic)
        dynamic.subscribe(lambda changed: self._take_over(dynamic))
        spawn(
            keep_shrinking(replicas.partitions.values, self._clock, config.replica_lag_time_max_ms)
        )

    def _take_over(self, dynamic: DynamicConfig) -> None:
        """Use the dynamic settings of replication from now on."""
        self.fetchers.resize(cast("int", dynamic.value("num.replica.fetchers")))
        self.throttle.leader.rate = cast("int", dynamic.value("leader.replication.throttled.rate"))
        self.throttle.follower.rate = cast(
            "int", dynamic.value("follower.replication.throttled.rate")
        )

    async def answer_parked(self) -> None:
        """Answer what waits; nothing may wait from now on (STOP-9)."""
        await self.replicas.close()
        await self.groups.close()
        self.produce_purgatory.close()
        self.fetch_purgatory.close()

    def _remembered_directory(self, topic_partition: TopicPartition) -> bytes:
        """Where the metadata has the replica here; zero where it has none, or does not know."""
        node_id, partition = self._logs.node_id, self._known(topic_partition)
        if partition is None or node_id not in partition.replicas or not partition.directories:
            return ZERO_UUID
        return partition.directories[partition.replicas.index(node_id)]

    def _is_whole(self, topic_partition: TopicPartition) -> bool:
        """Whether all replicas are in sync, and so have all that is below the high watermark."""
        partition = self._known(topic_partition)
        return partition is not None and len(partition.isr) == len(partition.replicas)

    def _known(self, topic_partition: TopicPartition) -> PartitionImage | None:
        topic, index = topic_partition
        known = self._image().topics.by_name.get(topic)
        if known is None or index >= len(known.partitions):
            return None
        return known.partitions[index]

    def _leadership_changed(self, partition: Partition) -> None:
        topic, index = partition.topic_partition
        if topic != OFFSETS_TOPIC:
            return
        if partition.is_leader:
            self.groups.load_partition(index, partition.leader_epoch)
        else:
            self.groups.unload_partition(index)

    def _partition_removed(self, topic_partition: TopicPartition) -> None:
        if topic_partition.topic == OFFSETS_TOPIC:
            self.groups.unload_partition(topic_partition.partition)

    def _directory_went_offline(self, directory: LogDirectory) -> None:
        online = self._logs.online_directories()
        if not online or METADATA_PARTITION in directory.logs:
            self._on_fatal(OSError(f"log directory {directory.path} is offline: {directory.error}"))
