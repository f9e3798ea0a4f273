"""The share partitions and share sessions of a broker: built and connected.

Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Final

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.config.share_group_configs import ShareGroupConfigs, ShareGroupSettings
from barnabas_broker.controller.features import SHARE_VERSION
from barnabas_broker.env.clock import Clock
from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import RESOURCE_GROUP, MetadataImage
from barnabas_broker.metadata.publisher import MetadataPublisher
from barnabas_broker.metrics.sample import Sample
from barnabas_broker.network.heavy_work import Pause
from barnabas_broker.purgatory.timer import Timer
from barnabas_broker.replication.replica_manager import ReplicaManager
from barnabas_broker.share.loaded_share_partition import ShareContext
from barnabas_broker.share.persister import SharePersister
from barnabas_broker.share.share_metrics import ShareMetrics
from barnabas_broker.share.share_partitions import SharePartitions
from barnabas_broker.share.share_settings import ShareSettings

_KNOWN_MAX: Final = 1_000
"""Groups whose settings are kept: their names are the clients' to choose."""


class _GroupSettings:
    """The settings of share groups by the newest metadata, each looked up once for an image."""

    def __init__(self, config: BrokerConfig, publisher: MetadataPublisher) -> None:
        self._publisher = publisher
        self._configs = ShareGroupConfigs(ShareGroupSettings.of(config), self._overrides)
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
            configs = self._configs
            settings = self._known[group_id] = ShareSettings(
                record_lock_duration_ms=configs.record_lock_duration_ms(group_id),
                delivery_count_limit=configs.delivery_count_limit(group_id),
                record_locks_max=configs.partition_record_locks_max(group_id),
                auto_offset_reset=configs.auto_offset_reset(group_id),
                read_committed=configs.reads_committed(group_id),
                renew_acknowledge_enable=configs.may_renew(group_id),
            )
        return settings


class ShareServing:
    """What serves the members of share groups."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        clock: Clock,
        timer: Timer,
        publisher: MetadataPublisher,
        replicas: ReplicaManager,
        persister: Callable[[], SharePersister],
        pause: Pause,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """Make the parts; share partitions come with the first fetches."""
        self._metrics = ShareMetrics()
        self.share_partitions = SharePartitions(
            replicas,
            ShareContext(
                persister=persister,
                settings=_GroupSettings(config, publisher),
                timer=timer,
                clock=clock,
                spawn=spawn,
                metrics=self._metrics,
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
