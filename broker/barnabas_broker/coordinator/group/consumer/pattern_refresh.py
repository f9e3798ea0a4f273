"""When the patterns of a group are resolved anew, and what comes of it.

The matching itself is done elsewhere, in slices (`coordinator.py`): a group may have many patterns,
and a cluster many topics. Source: CG-8.

    a heartbeat finds that something is to be resolved: the resolver is asked, once at a time
    the result comes as a command of its own: topics that changed raise the group epoch
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from barnabas_broker.coordinator.group.consumer.consumer_group import (
    ConsumerGroup,
    ResolvedPattern,
)
from barnabas_broker.coordinator.group.consumer.membership import Membership
from barnabas_broker.coordinator.runtime.shard import Instant, Result, no_change
from barnabas_protocol.errors import KafkaError

SeesTopic = Callable[[str], bool]
# After so long the result got lost on its way, and the resolver is asked again.
ANSWER_MS_MAX = 60_000


class PatternResolver(Protocol):
    """Who finds out which topics patterns match."""

    def resolve(
        self, group_id: str, patterns: frozenset[str], sees_topic: SeesTopic | None
    ) -> None:
        """Match all topics that are seen, and give `PatternRefresh.resolved` the result."""
        ...


class NoResolver:
    """Resolves nothing: where no topics are known."""

    def resolve(
        self, group_id: str, patterns: frozenset[str], sees_topic: SeesTopic | None
    ) -> None:
        """Do nothing."""


class PatternRefresh:
    """Keeps the patterns of all groups of a shard resolved."""

    def __init__(self, membership: Membership, resolver: PatternResolver) -> None:
        self._membership = membership
        self._resolver = resolver
        # Group id -> the version of the topics' names that is being matched, and since when.
        self._under_way: dict[str, tuple[int, int]] = {}

    def ask_if_due(self, group: ConsumerGroup, sees_topic: SeesTopic | None, now: Instant) -> None:
        """Have the group's patterns resolved if one is new, or topics are, or it is long ago.

        They match what the member that has them resolved may see, as in Apache Kafka.
        """
        patterns = group.pattern_counts
        group_id = group.group_id
        if not patterns:
            return
        _, asked_ms = self._under_way.get(group_id, (0, -ANSWER_MS_MAX))
        if now.monotonic_ms - asked_ms < ANSWER_MS_MAX:
            return
        settings = self._membership.settings
        resolved = [group.patterns[each] for each in patterns if each in group.patterns]
        newest_ms = max((each.resolved_ms for each in resolved), default=0)
        if 0 <= now.wall_ms - newest_ms <= settings.pattern_batch_ms:
            return
        version = self._membership.topics.names_version()
        if (
            len(resolved) < len(patterns)
            or group.names_matched != version
            or now.wall_ms - newest_ms >= settings.pattern_refresh_ms
        ):
            self._under_way[group_id] = version, now.monotonic_ms
            self._resolver.resolve(group_id, frozenset(patterns), sees_topic)

    def resolved(
        self, group_id: str, matched: Mapping[str, frozenset[str] | None], now: Instant
    ) -> Result[None]:
        """Take over what was found; a pattern that cannot be used (None) keeps what it had."""
        version, _ = self._under_way.pop(group_id, (None, 0))
        group = self._membership.groups.get(group_id)
        if group is None:
            return no_change()
        if version is not None:
            group.names_matched = version
        changes = self._membership.groups.changes(group)
        offset = self._membership.topics.metadata_offset()
        has_changed = False
        for pattern, found in matched.items():
            if pattern not in group.pattern_counts:
                continue
            before = group.patterns.get(pattern)
            known: frozenset[str] = frozenset() if before is None else before.topics
            topics = known if found is None else found
            has_changed |= topics != known
            changes.pattern(pattern, ResolvedPattern(topics, offset, now.wall_ms))
        if changes.records:
            self._membership.refresh_epoch(changes, is_due=has_changed)

        def on_append(error: KafkaError | None, then: Instant) -> Result[None]:
            if error is not None:
                group.names_matched = None
            return no_change()

        return Result(reply=None, records=changes.records, on_append=on_append)
