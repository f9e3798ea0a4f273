"""What a broker does with each newly committed metadata image, in order (CTL-12).

ACLs first: what is denied from now on is to be denied before anything else happens. Then configs,
so that logs are made with the settings they are to have; then partitions; then those who depend on
partitions. A smaller `min.insync.replicas` comes last: an image may say that and that
another broker leads, and who led must not acknowledge by the one before it hears of the other.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import Any

from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.config.topic import LogConfig
from barnabas_broker.controller.eligible_replicas import MIN_IN_SYNC
from barnabas_broker.coordinator.group.coordinator import GroupCoordinator
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.metadata.acl_table import AclTable
from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_TOPIC,
    MetadataImage,
)
from barnabas_broker.metadata.records import QuotaEntity
from barnabas_broker.metadata.scram_records import CredentialKey, ScramCredentialRecord
from barnabas_broker.replication.partition import Partition
from barnabas_broker.replication.replica_manager import ReplicaManager
from barnabas_broker.security.acl.acl import Acl
from barnabas_protocol.ids import TopicPartition

logger = logging.getLogger(__name__)

UpdateQuotas = Callable[
    [Mapping[QuotaEntity, Mapping[str, float]], Iterable[QuotaEntity] | None], Awaitable[None]
]
UpdateCredentials = Callable[
    [Mapping[CredentialKey, ScramCredentialRecord], bytes, Collection[CredentialKey] | None],
    Awaitable[None],
]
UpdateSubscriptions = Callable[[Mapping[str, Mapping[str, str]]], None]
"""Takes the settings of the subscriptions to metrics of clients, by name."""
UpdateAcls = Callable[[AclTable, Callable[[], Mapping[Acl, bool]] | None, int], Awaitable[None]]
"""Takes all ACLs, what tells which are there from now on or no longer, and how many those are.

All are taken anew without that.
"""
ALL_BROKERS = ""  # the name of the configs that hold for every broker


class BrokerMetadataPublisher:
    """Hands an image to those who act on it."""

    def __init__(
        self,
        *,
        node_id: int,
        dynamic: DynamicConfig,
        logs: LogManager,
        replicas: ReplicaManager,
        groups: GroupCoordinator,
        report_directories: Callable[[Mapping[TopicPartition, bytes]], None],
        applied: Callable[[MetadataDelta | None, MetadataImage], None],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        update_quotas: UpdateQuotas | None = None,
        update_credentials: UpdateCredentials | None = None,
        update_subscriptions: UpdateSubscriptions = lambda subscriptions: None,
        update_acls: UpdateAcls | None = None,
    ) -> None:
        """`report_directories` has the metadata remember where logs are (LOG-11).

        `applied` is called when everybody has acted on an image.
        """
        self._node_id = node_id
        self._told_minimum: tuple[str, str] | None = None
        self._dynamic = dynamic
        self._logs = logs
        self._replicas = replicas
        self._groups = groups
        self._report_directories = report_directories
        self._applied = applied
        self._spawn = spawn
        self._update_quotas = update_quotas
        self._update_credentials = update_credentials
        self._update_subscriptions = update_subscriptions
        self._update_acls = update_acls
        replicas.future_logs.on_moved.append(self._is_in_place)
        replicas.on_made_late.append(self._is_in_place)

    async def apply(self, delta: MetadataDelta | None, image: MetadataImage) -> None:
        """Apply a change; with no delta, the whole image."""
        if self._update_acls is not None:
            if delta is None:
                await self._update_acls(image.acls, None, len(image.acls))
            elif delta.changed_acls:
                await self._update_acls(image.acls, delta.acl_changes, len(delta.changed_acls))
        if self._update_credentials and (delta is None or delta.changed_credentials):
            changed_users = None if delta is None else delta.changed_credentials
            await self._update_credentials(
                image.scram_credentials, image.decoy_secret, changed_users
            )
        if self._update_quotas and (delta is None or delta.changed_quotas):
            changed = None if delta is None else delta.changed_quotas
            await self._update_quotas(image.client_quotas, changed)
        self._take_subscriptions(delta, image)
        lowered = self._take_configs(self._changed_configs(delta, image))
        await self._replicas.apply(delta, image)
        if lowered:
            self._logs.update_topic_configs(lowered)
            self._replicas.minimums_lowered(lowered)
        # Not waited for: the answer comes as another image.
        self._report_directories(self._replicas.misplaced(delta))
        if delta is not None and delta.deleted:
            # Not waited for: it appends, and the next image must not wait for that.
            self._spawn(self._groups.on_topics_deleted(dict(delta.deleted)))
        self._applied(delta, image)

    def _take_subscriptions(self, delta: MetadataDelta | None, image: MetadataImage) -> None:
        """Hand on the subscriptions to metrics of clients, where one may have changed."""
        kind = RESOURCE_CLIENT_METRICS
        if delta is None or any(changed == kind for changed, _ in delta.changed_configs):
            self._update_subscriptions(
                {name: overrides for (of, name), overrides in image.configs.items() if of == kind}
            )

    def _is_in_place(self, partition: Partition) -> None:
        """Tell where a replica is that was moved, or got its log late (KIP-858)."""
        self._report_directories(self._replicas.misplaced_of([partition.topic_partition]))

    def apply_broker_configs(self, image: MetadataImage) -> None:
        """Take over the dynamic settings of all brokers and of this one."""
        self._dynamic.update(
            image.config_overrides(RESOURCE_BROKER, ALL_BROKERS),
            image.config_overrides(RESOURCE_BROKER, str(self._node_id)),
        )
        self._tell_of_minimum()

    def _tell_of_minimum(self) -> None:
        """Warn who believes the configuration: the cluster's minimum holds for all brokers."""
        overruled = self._dynamic.overruled(MIN_IN_SYNC)
        if overruled is not None and overruled != self._told_minimum:
            logger.warning(
                "the configuration has %s=%s, the cluster has %s, which holds: it is changed by"
                " kafka-configs --entity-type brokers --entity-default",
                MIN_IN_SYNC,
                *overruled,
            )
        self._told_minimum = overruled

    def _take_configs(self, configs: dict[str, LogConfig]) -> dict[str, LogConfig]:
        """Give logs new settings, but no smaller minimum; returns those that have one."""
        if not configs:
            return {}
        minimums = {
            log.topic_partition.topic: log.config.min_insync_replicas
            for log in self._logs.logs.values()
        }
        lowered = {
            topic: config
            for topic, config in configs.items()
            if config.min_insync_replicas < minimums.get(topic, 0)
        }
        careful = {
            topic: replace(config, min_insync_replicas=minimums[topic])
            for topic, config in lowered.items()
        }
        self._logs.update_topic_configs({**configs, **careful})
        return lowered

    def _changed_configs(
        self, delta: MetadataDelta | None, image: MetadataImage
    ) -> dict[str, LogConfig]:
        """The settings of the topics whose logs may have others; takes over those of brokers."""
        names = (ALL_BROKERS, str(self._node_id))
        if delta is None or any((RESOURCE_BROKER, name) in delta.changed_configs for name in names):
            # Every log may have a new default; the first image is newer than loaded logs know.
            self.apply_broker_configs(image)
            changed = {topic_partition.topic for topic_partition in self._logs.logs}
        else:
            changed = {
                name
                for resource_type, name in delta.changed_configs
                if resource_type == RESOURCE_TOPIC and name not in delta.created
            }
        return {
            name: self._dynamic.log_config(image.config_overrides(RESOURCE_TOPIC, name))
            for name in changed
            if name in image.topics.by_name
        }
