"""The share partitions and share sessions of a broker: built and connected.

Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Any, Final

from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.config.share_group_configs import ShareGroupConfigs, ShareGroupSettings
from barnabas_broker.controller.features import SHARE_VERSION
from barnabas_broker.env.clock import Clock
from barnabas_broker.handlers.topic_creation import TopicCreation
from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import RESOURCE_GROUP, MetadataImage
from barnabas_broker.metadata.publisher import MetadataPublisher
from barnabas_broker.metrics.sample import Sample
from barnabas_broker.network.heavy_work import Pause
from barnabas_broker.network.peers import Peers
from barnabas_broker.purgatory.timer import Timer
from barnabas_broker.replication.replica_manager import ReplicaManager
from barnabas_broker.server.dead_letters import ClusterDeadLetterTopics
from barnabas_broker.share.dead_letter_writer import TopicDeadLetterWriter
from barnabas_broker.share.loaded_share_partition import ShareContext
from barnabas_broker.share.persister import SharePersister
from barnabas_broker.share.share_metrics import ShareMetrics
from barnabas_broker.share.share_partitions import SharePartitions
from barnabas_broker.share.share_settings import ShareSettings

_KNOWN_MAX: Final = 1_000
"""Groups whose settings are kept: their names are the clients' to choose."""
SINCE_DEAD_LETTERS: Final = 2
"""The level of `share.version` that has them (SHR-35)."""


class _GroupSettings:
    """The settings of share groups by the newest metadata, each looked up once for an image."""

    def __init__(self, config: BrokerConfig, publisher: MetadataPublisher) -> None:
        self._publisher = publisher
        self.configs = ShareGroupConfigs(ShareGroupSettings.of(config), self._overrides)
        self._known: dict[str, ShareSettings] = {}
        self._image = publisher.image

    def _overrides(self, group_id: str) -> Mapping[str, str]:
        return self._publisher.image.config_overrides(RESOURCE_GROUP, group_id)

    def __call__(self, group_id: str) -> ShareSettings:
        """What holds for a group now."""
        if self._image is not self._publisher.image or len(self._known) > _KNOWN_MAX:
            self._image = self._publisher.image
            self._known.clear()
        settings = self._known.get(group_id)
        if settings is None:
            configs, level = self.configs, self._image.features.get(SHARE_VERSION, 0)
            settings = self._known[group_id] = ShareSettings(
                record_lock_duration_ms=configs.record_lock_duration_ms(group_id),
                delivery_count_limit=configs.delivery_count_limit(group_id),
                record_locks_max=configs.partition_record_locks_max(group_id),
                auto_offset_reset=configs.auto_offset_reset(group_id),
                read_committed=configs.reads_committed(group_id),
                renew_acknowledge_enable=configs.may_renew(group_id),
                has_dead_letters=(
                    level >= SINCE_DEAD_LETTERS and bool(configs.dead_letter_topic(group_id))
                ),
            )
        return settings


class ShareServing:
    """What serves the members of share groups."""

    def __init__(
        self,
        *,
        node_id: int,
        config: BrokerConfig,
        dynamic: DynamicConfig,
        clock: Clock,
        timer: Timer,
        publisher: MetadataPublisher,
        replicas: ReplicaManager,
        peers: Peers,
        topic_creation: TopicCreation,
        persister: Callable[[], SharePersister],
        run: Callable[..., Awaitable[Any]],
        pause: Pause,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        lease: Callable[[], int | None],
    ) -> None:
        """Make the parts; share partitions come with the first fetches."""
        self._metrics = ShareMetrics()
        settings = _GroupSettings(config, publisher)
        topics = ClusterDeadLetterTopics(
            node_id=node_id,
            config=config,
            dynamic=dynamic,
            group_configs=settings.configs,
            clock=clock,
            publisher=publisher,
            replicas=replicas,
            peers=peers,
            topic_creation=topic_creation,
            run=run,
            pause=pause,
        )
        self.share_partitions = SharePartitions(
            replicas,
            ShareContext(
                persister=persister,
                settings=settings,
                dead_letters=TopicDeadLetterWriter(
                    topics,
                    clock=clock,
                    counts=self._metrics.dead_letters_of,
                    reads=replicas.client_reads,
                    run=run,
                ),
                timer=timer,
                clock=clock,
                spawn=spawn,
                metrics=self._metrics,
                lease=lease,
            ),
            pause=pause,
            session_slots=config.group_share_max_share_sessions,
        )
        publisher.subscribe(self._metadata_changed)

    def _metadata_changed(self, delta: MetadataDelta | None, image: MetadataImage) -> None:
        if not image.features.get(SHARE_VERSION, 0):
            self.share_partitions.switched_off()

    def samples(self) -> Iterator[Sample]:
        """What is counted, for the collector."""
        yield from self._metrics.samples()
        yield from self.share_partitions.samples()
        yield from self.share_partitions.purgatory.samples()
