"""The settings of consumer groups: the broker's, and those of a single group within its bounds.

Source: CG-5; the rows are in `config/broker_settings.py` and `config/group_settings.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from barnabas_broker.config.bounded_settings import Bounded
from barnabas_broker.config.parse import BrokerConfig


class MigrationPolicy(Enum):
    """Which conversions of groups with members are allowed, by the words of the setting."""

    DISABLED = "disabled"
    DOWNGRADE = "downgrade"
    UPGRADE = "upgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        """Whether a classic group may become a consumer group."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        """Whether a consumer group may become a classic group."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


SESSION_TIMEOUT_MS = Bounded(45_000, 45_000, 60_000)
HEARTBEAT_INTERVAL_MS = Bounded(5_000, 5_000, 15_000)
ASSIGNMENT_INTERVAL_MS = Bounded(1_000, 0, 15_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupSettings:
    """What can be set for consumer groups."""

    session_timeout_ms: Bounded = SESSION_TIMEOUT_MS
    heartbeat_interval_ms: Bounded = HEARTBEAT_INTERVAL_MS
    assignment_interval_ms: Bounded = ASSIGNMENT_INTERVAL_MS
    group_size_max: int = 2**31 - 1
    # Kafka bounds the members of a group, not what each of them says.
    member_metadata_bytes_max: int = 512 * 1024
    group_metadata_bytes_max: int = 16 * 1024 * 1024
    # By name; each is looked at several times when a subscription changes. Patterns match more.
    member_topics_max: int = 10_000
    # Different names of all members: they are looked at with each group epoch.
    group_topics_max: int = 20_000
    assignors: tuple[str, ...] = ("uniform", "range")
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    pattern_refresh_ms: int = 600_000
    # Patterns of a group are resolved together, and at most so often.
    pattern_batch_ms: int = 10_000
    # RE2 takes time and memory in proportion to the pattern.
    pattern_chars_max: int = 4_096

    @classmethod
    def of(cls, config: BrokerConfig) -> ConsumerGroupSettings:
        """Return the settings that the broker's configuration gives."""
        return cls(
            session_timeout_ms=Bounded(
                config.group_consumer_session_timeout_ms,
                config.group_consumer_min_session_timeout_ms,
                config.group_consumer_max_session_timeout_ms,
            ),
            heartbeat_interval_ms=Bounded(
                config.group_consumer_heartbeat_interval_ms,
                config.group_consumer_min_heartbeat_interval_ms,
                config.group_consumer_max_heartbeat_interval_ms,
            ),
            assignment_interval_ms=Bounded(
                config.group_consumer_assignment_interval_ms,
                config.group_consumer_min_assignment_interval_ms,
                config.group_consumer_max_assignment_interval_ms,
            ),
            group_size_max=config.group_consumer_max_size,
            assignors=config.group_consumer_assignors,
            migration_policy=MigrationPolicy(config.group_consumer_migration_policy.lower()),
            pattern_refresh_ms=config.group_consumer_regex_refresh_interval_ms,
        )


def _no_overrides(group_id: str) -> Mapping[str, str]:
    return {}


class GroupConfigs:
    """What holds for one group: its own settings, within the bounds of the broker's."""

    def __init__(
        self,
        settings: ConsumerGroupSettings,
        overrides: Callable[[str], Mapping[str, str]] = _no_overrides,
    ) -> None:
        self._settings = settings
        self._overrides = overrides

    def session_timeout_ms(self, group_id: str) -> int:
        """Return after which silence a member is removed."""
        return self._of(group_id, "consumer.session.timeout.ms", self._settings.session_timeout_ms)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Return how often members are to send a heartbeat."""
        return self._of(
            group_id, "consumer.heartbeat.interval.ms", self._settings.heartbeat_interval_ms
        )

    def assignment_interval_ms(self, group_id: str) -> int:
        """Return how long a target lasts at least."""
        return self._of(
            group_id, "consumer.assignment.interval.ms", self._settings.assignment_interval_ms
        )

    def _of(self, group_id: str, key: str, bounded: Bounded) -> int:
        return bounded.in_force(self._overrides(group_id).get(key))
