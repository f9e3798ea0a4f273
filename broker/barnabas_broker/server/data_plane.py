"""The partitions of one broker, their coordinators and the requests that wait: built and connected.

Nothing is decided here. Coordinators follow the leadership of their topic's partitions; the broker
ends when no log directory is left, or the one with its metadata is lost (NODE-8).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.config.topic import LogConfig
from barnabas_broker.controller.channel import ControllerChannel
from barnabas_broker.coordinator.group.coordinator import GroupCoordinator
from barnabas_broker.coordinator.group.partition_ends import PartitionEnds
from barnabas_broker.coordinator.group.settings import GroupSettings
from barnabas_broker.coordinator.group.topics import ImageTopics
from barnabas_broker.coordinator.runtime.pipeline import RuntimeSettings
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.randomness import Random
from barnabas_broker.handlers.topic_creation import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TopicCreation,
)
from barnabas_broker.log.manager.log_directory import LogDirectory
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.metadata.image import RESOURCE_GROUP
from barnabas_broker.metadata.metadata_log import METADATA_PARTITION
from barnabas_broker.metadata.publisher import MetadataPublisher
from barnabas_broker.network.heavy_work import HeavyWork
from barnabas_broker.network.peers import Peers
from barnabas_broker.purgatory.purgatory import Purgatory
from barnabas_broker.purgatory.timer import Timer
from barnabas_broker.replication.committed_writer import CommittedWriter
from barnabas_broker.replication.follower.fetch_plan import FetchSettings
from barnabas_broker.replication.follower.replica_fetcher_manager import ReplicaFetcherManager
from barnabas_broker.replication.leader.alter_partition_manager import (
    AlterPartitionManager,
    keep_shrinking,
)
from barnabas_broker.replication.leader.fetch_session import FetchSessionCache
from barnabas_broker.replication.partition import Partition
from barnabas_broker.replication.replica_manager import ReplicaManager
from barnabas_broker.replication.throttle import ReplicationThrottle
from barnabas_broker.replication.turn import Turn
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from barnabas_protocol.records.compression import Compression

if TYPE_CHECKING:
    from barnabas_broker.coordinator.share.coordinator import ShareCoordinator
    from barnabas_broker.coordinator.transaction.coordinator import TransactionCoordinator
    from barnabas_broker.server.share_serving import ShareServing
    from barnabas_broker.server.share_state import ShareStateParts
    from barnabas_broker.server.transactions import TransactionParts


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
        publisher: MetadataPublisher,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """Make the parts; partitions come with the first image that is applied."""
        self._config = config
        self._logs = logs
        self._clock = clock
        self._publisher = publisher
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
        self._writer = CommittedWriter(self.replicas, turn, clock)
        self._topics = ImageTopics(publisher)
        self.groups = GroupCoordinator(
            settings=GroupSettings.of(config),
            writer=self._writer,
            clock=clock,
            random=random,
            timer=timer,
            runtime_settings=RuntimeSettings(
                commit_timeout_ms=config.offsets_commit_timeout_ms,
                load_buffer_bytes=config.offsets_load_buffer_size,
                compression=Compression(config.offsets_topic_compression_codec),
            ),
            topics=self._topics,
            overrides=lambda group_id: publisher.image.config_overrides(RESOURCE_GROUP, group_id),
        )

        self._make_transactions: Callable[[], TransactionParts] | None = None
        self._transactions: TransactionParts | None = None
        self._make_share_state: Callable[[], ShareStateParts] | None = None
        self._share_state: ShareStateParts | None = None
        self._make_share_serving: Callable[[], ShareServing] | None = None
        self._share_serving: ShareServing | None = None
        self._serves_coordinators = False

    def connect(
        self,
        peers: Peers,
        channel: ControllerChannel,
        dynamic: DynamicConfig,
        broker_epoch: Callable[[], int],
        lease: Callable[[], int | None],
        take_producer_id: Callable[[], Awaitable[int]],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        heavy_work: HeavyWork,
        topic_creation: TopicCreation,
    ) -> None:
        """Follow leaders on other brokers, and let leaders here ask for their ISRs."""
        config, replicas = self._config, self.replicas
        self.throttle = replicas.follower_fetches.throttle = ReplicationThrottle(self._clock)
        self.alter_partition_manager = replicas.alter_partition_manager = AlterPartitionManager(
            channel,
            node_id=self._logs.node_id,
            broker_epoch=broker_epoch,
            spawn=spawn,
            timeout_ms=config.request_timeout_ms,
        )
        self.fetchers = replicas.fetchers = ReplicaFetcherManager(
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

        self.topic_creation = topic_creation
        self._make_transactions = partial(self._new_transactions, dynamic, peers, take_producer_id)
        self._make_share_state = partial(self._new_share_state, peers, spawn)
        self._make_share_serving = partial(
            self._new_share_serving, dynamic, peers, spawn, heavy_work, lease
        )
        self.groups.share.connect(
            lambda: self.share_state.persister, PartitionEnds(replicas, peers).ends
        )
        self._take_over(dynamic)
        dynamic.subscribe(lambda changed: self._take_over(dynamic))
        spawn(
            keep_shrinking(replicas.partitions.values, self._clock, config.replica_lag_time_max_ms)
        )

    def _new_transactions(
        self,
        dynamic: DynamicConfig,
        peers: Peers,
        take_producer_id: Callable[[], Awaitable[int]],
    ) -> TransactionParts:
        # A broker without transactions does without the modules: they cost time at its start.
        from barnabas_broker.server.transactions import TransactionParts

        return TransactionParts(
            config=self._config,
            dynamic=dynamic,
            clock=self._clock,
            timer=self._timer,
            topics=self._topics,
            image=lambda: self._publisher.image,
            node_id=self._logs.node_id,
            peers=peers,
            replicas=self.replicas,
            writer=self._writer,
            groups=self.groups,
            take_producer_id=take_producer_id,
        )

    def _new_share_state(
        self, peers: Peers, spawn: Callable[[Coroutine[Any, Any, None]], None]
    ) -> ShareStateParts:
        # A broker without share groups does without the modules, too.
        from barnabas_broker.server.share_state import ShareStateParts

        return ShareStateParts(
            config=self._config,
            clock=self._clock,
            timer=self._timer,
            topics=self._topics,
            publisher=self._publisher,
            node_id=self._logs.node_id,
            peers=peers,
            writer=self._writer,
            create_topic=lambda: self.topic_creation.ensure(SHARE_STATE_TOPIC),
            spawn=spawn,
        )

    def _new_share_serving(
        self,
        dynamic: DynamicConfig,
        peers: Peers,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        heavy_work: HeavyWork,
        lease: Callable[[], int | None],
    ) -> ShareServing:
        from barnabas_broker.server.share_serving import ShareServing

        return ShareServing(
            node_id=self._logs.node_id,
            config=self._config,
            dynamic=dynamic,
            clock=self._clock,
            timer=self._timer,
            publisher=self._publisher,
            replicas=self.replicas,
            peers=peers,
            topic_creation=self.topic_creation,
            persister=lambda: self.share_state.persister,
            run=heavy_work.run_own,
            pause=heavy_work.pause,
            spawn=spawn,
            lease=lease,
        )

    def _take_over(self, dynamic: DynamicConfig) -> None:
        """Use the dynamic settings of replication from now on."""
        self.fetchers.resize(cast("int", dynamic.value("num.replica.fetchers")))
        self.throttle.leader.rate = cast("int", dynamic.value("leader.replication.throttled.rate"))
        self.throttle.follower.rate = cast(
            "int", dynamic.value("follower.replication.throttled.rate")
        )

    @property
    def transactions(self) -> TransactionParts:
        """The transaction coordinator and its parts, made when they are first needed.

        Not before `connect`: they need the other brokers.
        """
        if self._transactions is None:
            assert self._make_transactions is not None
            self._transactions = self._make_transactions()
            if self._serves_coordinators:
                self._transactions.coordinator.runtime.start()
        return self._transactions

    @property
    def has_transactions(self) -> bool:
        """Whether anybody has needed the transaction coordinator."""
        return self._transactions is not None

    @property
    def share_state(self) -> ShareStateParts:
        """The share coordinator and the persister, made when they are first needed.

        Not before `connect`: they need the other brokers.
        """
        if self._share_state is None:
            assert self._make_share_state is not None
            self._share_state = self._make_share_state()
            if self._serves_coordinators:
                self._share_state.coordinator.runtime.start()
        return self._share_state

    @property
    def has_share_state(self) -> bool:
        """Whether anybody has needed the share coordinator."""
        return self._share_state is not None

    @property
    def share_serving(self) -> ShareServing:
        """The share partitions and share sessions, made when they are first needed."""
        if self._share_serving is None:
            assert self._make_share_serving is not None
            self._share_serving = self._make_share_serving()
        return self._share_serving

    @property
    def has_share_serving(self) -> bool:
        """Whether any member of a share group has been here."""
        return self._share_serving is not None

    def start_coordinators(self) -> None:
        """Serve all kinds of groups and transactions; before, they are answered 15 (GRP-1)."""
        self.groups.runtime.start()
        self._serves_coordinators = True
        if self._transactions is not None:
            self._transactions.coordinator.runtime.start()
        if self._share_state is not None:
            self._share_state.coordinator.runtime.start()

    async def answer_parked(self) -> None:
        """Answer what waits; nothing may wait from now on (STOP-9)."""
        if self._share_serving is not None:
            self._share_serving.share_partitions.close()
        await self.replicas.close()
        await self.groups.close()
        if self._transactions is not None:
            await self._transactions.close()
        if self._share_state is not None:
            await self._share_state.close()
        self.produce_purgatory.close()
        self.fetch_purgatory.close()

    def _remembered_directory(self, topic_partition: TopicPartition) -> bytes:
        """Where the metadata has the replica here; zero where it has none, or does not know."""
        partition = self._publisher.image.topics.partition(topic_partition)
        return ZERO_UUID if partition is None else partition.directory_of(self._logs.node_id)

    def _is_whole(self, topic_partition: TopicPartition) -> bool:
        """Whether all replicas are in sync, as far as the metadata is known here."""
        partition = self._publisher.image.topics.partition(topic_partition)
        return partition is not None and partition.is_whole

    def _leadership_changed(self, partition: Partition) -> None:
        coordinator = self._coordinator_of(partition.topic_partition.topic)
        if coordinator is None:
            return
        index = partition.topic_partition.partition
        if partition.is_leader:
            coordinator.runtime.load(index, partition.leader_epoch)
        else:
            coordinator.runtime.unload(index)

    def _partition_removed(self, topic_partition: TopicPartition) -> None:
        coordinator = self._coordinator_of(topic_partition.topic)
        if coordinator is not None:
            coordinator.runtime.unload(topic_partition.partition)

    def _coordinator_of(
        self, topic: str
    ) -> GroupCoordinator | TransactionCoordinator | ShareCoordinator | None:
        if topic == OFFSETS_TOPIC:
            return self.groups
        if topic == SHARE_STATE_TOPIC:
            return self.share_state.coordinator
        return self.transactions.coordinator if topic == TRANSACTION_STATE_TOPIC else None

    def _directory_went_offline(self, directory: LogDirectory) -> None:
        online = self._logs.online_directories()
        if not online or METADATA_PARTITION in directory.logs:
            self._on_fatal(OSError(f"log directory {directory.path} is offline: {directory.error}"))
