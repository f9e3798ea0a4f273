"""What holds for one share group: its own settings, within the bounds of the broker's.

Both the group coordinator and the leaders of partitions ask here, with each use, so that a change
of a group's settings holds at once. Source: SHR-38. Not here: the rows (`share_group_settings.py`,
`group_settings.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from barnabas_broker.config.bounded_settings import Bounded
from barnabas_broker.config.parse import BrokerConfig

SESSION_TIMEOUT_MS = Bounded(45_000, 45_000, 60_000)
HEARTBEAT_INTERVAL_MS = Bounded(5_000, 5_000, 15_000)
ASSIGNMENT_INTERVAL_MS = Bounded(1_000, 0, 15_000)
RECORD_LOCK_DURATION_MS = Bounded(30_000, 15_000, 60_000)
DELIVERY_COUNT_LIMIT = Bounded(5, 2, 10)
PARTITION_RECORD_LOCKS_MAX = Bounded(2_000, 100, 4_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupSettings:
    """What the broker's configuration says of all share groups."""

    session_timeout_ms: Bounded = SESSION_TIMEOUT_MS
    heartbeat_interval_ms: Bounded = HEARTBEAT_INTERVAL_MS
    assignment_interval_ms: Bounded = ASSIGNMENT_INTERVAL_MS
    record_lock_duration_ms: Bounded = RECORD_LOCK_DURATION_MS
    delivery_count_limit: Bounded = DELIVERY_COUNT_LIMIT
    partition_record_locks_max: Bounded = PARTITION_RECORD_LOCKS_MAX
    group_size_max: int = 200
    assignors: tuple[str, ...] = ("simple",)
    initialize_retry_ms: int = 30_000
    # Kafka bounds the members of a group, not what each of them says.
    member_metadata_bytes_max: int = 512 * 1024
    group_metadata_bytes_max: int = 16 * 1024 * 1024
    # Names of topics that all members of a group subscribe to together.
    group_subscriptions_max: int = 20_000
    # All of them are in one record, and are assigned at a time.
    group_partitions_max: int = 20_000

    @classmethod
    def of(cls, config: BrokerConfig) -> ShareGroupSettings:
        """Return the settings that the broker's configuration gives."""
        return cls(
            session_timeout_ms=Bounded(
                config.group_share_session_timeout_ms,
                config.group_share_min_session_timeout_ms,
                config.group_share_max_session_timeout_ms,
            ),
            heartbeat_interval_ms=Bounded(
                config.group_share_heartbeat_interval_ms,
                config.group_share_min_heartbeat_interval_ms,
                config.group_share_max_heartbeat_interval_ms,
            ),
            assignment_interval_ms=Bounded(
                config.group_share_assignment_interval_ms,
                config.group_share_min_assignment_interval_ms,
                config.group_share_max_assignment_interval_ms,
            ),
            record_lock_duration_ms=Bounded(
                config.group_share_record_lock_duration_ms,
                config.group_share_min_record_lock_duration_ms,
                config.group_share_max_record_lock_duration_ms,
            ),
            delivery_count_limit=Bounded(
                config.group_share_delivery_count_limit,
                config.group_share_min_delivery_count_limit,
                config.group_share_max_delivery_count_limit,
            ),
            partition_record_locks_max=Bounded(
                config.group_share_partition_max_record_locks,
                config.group_share_min_partition_max_record_locks,
                config.group_share_max_partition_max_record_locks,
            ),
            group_size_max=config.group_share_max_size,
            assignors=config.group_share_assignors,
            initialize_retry_ms=config.group_share_initialize_retry_interval_ms,
        )


def _no_overrides(group_id: str) -> Mapping[str, str]:
    return {}


class ShareGroupConfigs:
    """What holds for each share group now."""

    def __init__(
        self,
        settings: ShareGroupSettings,
        overrides: Callable[[str], Mapping[str, str]] = _no_overrides,
    ) -> None:
        self._settings = settings
        self._overrides = overrides

    def session_timeout_ms(self, group_id: str) -> int:
        """Return after which silence a member is removed."""
        return self._bounded(group_id, "session.timeout.ms", self._settings.session_timeout_ms)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Return how often members are to send a heartbeat."""
        bounded = self._settings.heartbeat_interval_ms
        return self._bounded(group_id, "heartbeat.interval.ms", bounded)

    def assignment_interval_ms(self, group_id: str) -> int:
        """Return how long a target lasts at least."""
        bounded = self._settings.assignment_interval_ms
        return self._bounded(group_id, "assignment.interval.ms", bounded)

    def record_lock_duration_ms(self, group_id: str) -> int:
        """Return how long a delivered record is locked."""
        bounded = self._settings.record_lock_duration_ms
        return self._bounded(group_id, "record.lock.duration.ms", bounded)

    def delivery_count_limit(self, group_id: str) -> int:
        """Return how often a record is delivered at most."""
        bounded = self._settings.delivery_count_limit
        return self._bounded(group_id, "delivery.count.limit", bounded)

    def partition_record_locks_max(self, group_id: str) -> int:
        """Return how many offsets of a partition may be in flight."""
        bounded = self._settings.partition_record_locks_max
        return self._bounded(group_id, "partition.max.record.locks", bounded)

    def auto_offset_reset(self, group_id: str) -> str:
        """Return where a partition without a start begins: latest, earliest or by_duration:..."""
        return self._overrides(group_id).get("share.auto.offset.reset", "latest")

    def reads_committed(self, group_id: str) -> bool:
        """Whether records of undecided and aborted transactions are held back."""
        isolation = self._overrides(group_id).get("share.isolation.level", "read_uncommitted")
        return isolation == "read_committed"

    def may_renew(self, group_id: str) -> bool:
        """Whether members may prolong locks."""
        text = self._overrides(group_id).get("share.renew.acknowledge.enable", "true")
        return text.strip().lower() == "true"

    def dead_letter_topic(self, group_id: str) -> str:
        """Return the topic for dead letters; empty where there is none."""
        return self._overrides(group_id).get("errors.deadletterqueue.topic.name", "").strip()

    def copies_dead_letters(self, group_id: str) -> bool:
        """Whether dead letters have the key and value of the record."""
        overrides = self._overrides(group_id)
        text = overrides.get("errors.deadletterqueue.copy.record.enable", "false")
        return text.strip().lower() == "true"

    def _bounded(self, group_id: str, key: str, bounded: Bounded) -> int:
        return bounded.in_force(self._overrides(group_id).get(f"share.{key}"))
