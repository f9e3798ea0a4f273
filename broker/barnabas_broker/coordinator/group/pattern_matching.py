"""Finds out which topics the patterns of a group match, in slices between other work.

RE2 needs about a microsecond for a name; a cluster may have many thousands, and a group many
patterns. Not here: when that is due and what comes of it (`consumer/pattern_refresh.py`).
"""

from __future__ import annotations

import asyncio
import logging

from barnabas_broker.coordinator.group.consumer.pattern_refresh import SeesTopic
from barnabas_broker.coordinator.group.consumer.patterns import matching_in_turns
from barnabas_broker.coordinator.group.shard import GroupShard
from barnabas_broker.coordinator.group.topics import Topics
from barnabas_broker.coordinator.runtime.loop import CoordinatorRuntime
from barnabas_protocol.errors import KafkaError

logger = logging.getLogger(__name__)


class PatternMatching:
    """Matches for the groups of one shard, and gives the shard the results."""

    def __init__(
        self, runtime: CoordinatorRuntime[GroupShard], partition: int, topics: Topics
    ) -> None:
        self._runtime = runtime
        self._partition = partition
        self._topics = topics
        self._tasks: set[asyncio.Task[None]] = set()

    def resolve(
        self, group_id: str, patterns: frozenset[str], sees_topic: SeesTopic | None
    ) -> None:
        """Match all topics that are seen; at most one task for each group."""
        task = asyncio.get_running_loop().create_task(self._resolve(group_id, patterns, sees_topic))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _resolve(
        self, group_id: str, patterns: frozenset[str], sees_topic: SeesTopic | None
    ) -> None:
        names = list(self._topics.names())
        matched = {
            pattern: await self._match(group_id, pattern, names, sees_topic) for pattern in patterns
        }
        try:
            await self._runtime.execute(
                self._partition,
                lambda shard, now: shard.patterns.resolved(group_id, matched, now),
            )
        except KafkaError as error:
            # The next heartbeat of the group asks again.
            logger.info("the patterns of group %s were not taken over: %s", group_id, error)

    async def _match(
        self, group_id: str, pattern: str, names: list[str], sees_topic: SeesTopic | None
    ) -> frozenset[str] | None:
        """Return what a pattern matches; None for one that cannot be used."""
        topics: list[str] = []
        try:
            for turn in matching_in_turns(pattern, names):
                topics += turn if sees_topic is None else filter(sees_topic, turn)
                await asyncio.sleep(0)
        except KafkaError as error:
            # It came with the group from Kafka, or from an older release.
            logger.warning("a pattern of group %s cannot be resolved: %s", group_id, error)
            return None
        return frozenset(topics)
