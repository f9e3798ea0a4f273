"""The settings of the group coordinator, parsed once from the broker's.

Source: GRP-2, GRP-3, GRP-6, GRP-9, OFS-5, OFS-7, OFS-8 for the defaults.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.config.share_group_configs import ShareGroupSettings
from barnabas_broker.coordinator.group.consumer.settings import ConsumerGroupSettings
from barnabas_broker.coordinator.group.group_memory import BrokerGroupMemory
from barnabas_broker.coordinator.group.groups import GroupQuota

OFFSETS_TOPIC = "__consumer_offsets"

# An abandoned join of a new member is forgotten after this long (GRP-9).
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """What can be set for the group coordinator."""

    session_timeout_ms_min: int = 6000
    session_timeout_ms_max: int = 1_800_000
    group_size_max: int = 2**31 - 1
    initial_rebalance_delay_ms: int = 3000
    new_member_join_timeout_ms: int = NEW_MEMBER_JOIN_TIMEOUT_MS
    offset_metadata_bytes_max: int = 4096
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1000
    expiry_interval_ms: int = 600_000
    # Tombstones that one expiry step writes; the rest follows in the next step.
    expiry_step_tombstones_max: int = 1000
    # Kafka bounds the members of a group, not what each of them says, nor the groups. More than
    # this of one member would fit into no record; a group has that of its members in memory.
    member_metadata_bytes_max: int = 1024 * 1024
    group_metadata_bytes_max: int = 16 * 1024 * 1024
    # Groups on this broker, in all and made from one host.
    groups_max: int = 100_000
    groups_per_host_max: int = 20_000
    # What is remembered of the members of all of them.
    groups_bytes_max: int = 1024 * 1024 * 1024
    groups_bytes_per_host_max: int = 256 * 1024 * 1024
    consumer: ConsumerGroupSettings = field(default_factory=ConsumerGroupSettings)
    share: ShareGroupSettings = field(default_factory=ShareGroupSettings)

    def new_quota(self) -> GroupQuota:
        """Return one for the groups of a broker."""
        memory = BrokerGroupMemory(self.groups_bytes_max, self.groups_bytes_per_host_max)
        return GroupQuota(self.groups_max, self.groups_per_host_max, memory)

    @classmethod
    def of(cls, config: BrokerConfig) -> GroupSettings:
        """Return the settings that the broker's configuration gives."""
        return cls(
            session_timeout_ms_min=config.group_min_session_timeout_ms,
            session_timeout_ms_max=config.group_max_session_timeout_ms,
            group_size_max=config.group_max_size,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            offset_metadata_bytes_max=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * 60 * 1000,
            expiry_interval_ms=config.offsets_retention_check_interval_ms,
            consumer=ConsumerGroupSettings.of(config),
            share=ShareGroupSettings.of(config),
        )
