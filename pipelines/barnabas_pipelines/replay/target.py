"""The topic that is replayed into, as driver and tasks ask for it: ends, and single records.

Not here: writing to it (`task.py`). Each call connects, asks and closes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from barnabas_client import Consumer, ConsumerRecord, TopicPartition
from barnabas_client.config.admin_settings import AdminSettings
from barnabas_client.config.client_settings import ClientSettings
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.config.settings import settings_of
from barnabas_client.env import Environment
from barnabas_client.errors import SeekRequiredError
from barnabas_pipelines.errors import StalledError
from barnabas_pipelines.jobs.cluster_facts import ClusterFacts

_POLL_SECONDS: Final = 0.25
_READ_TIMEOUT_SECONDS: Final = 30
_SETTLING_SECONDS_MAX: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A topic, and the settings of a producer that reaches it."""

    topic: str
    producer_settings: Mapping[str, Any]

    @property
    def cluster(self) -> ClusterFacts:
        """Who tells about the topic."""
        return ClusterFacts(self._servers, self._settings(AdminSettings))

    def ends(self) -> dict[int, int]:
        """Behind the last record of every partition that consumers see."""
        return dict(self.cluster.topics([self.topic])[self.topic].ends)

    def settled_ends(
        self, quiet_ms: int, partitions: Collection[int] | None = None
    ) -> dict[int, int]:
        """The ends, once those of the partitions (all, if None) have not moved for so long.

        What a killed producer had sent may still be on its way into the log, and a new leader
        learns only little by little how far consumers may read.
        Raises: StalledError if they go on moving: somebody writes.
        """
        clock = Environment().clock
        begin_ms = changed_ms = clock.monotonic_ms()
        ends = self.ends()
        while clock.monotonic_ms() - changed_ms < quiet_ms:
            if clock.monotonic_ms() - begin_ms > _SETTLING_SECONDS_MAX * 1000 + quiet_ms:
                raise StalledError(
                    f"topic {self.topic} goes on growing: a replay needs a target that nobody else "
                    "writes to"
                )
            time.sleep(_POLL_SECONDS)
            now = self.ends()
            watched = now if partitions is None else partitions
            if any(now.get(one) != ends.get(one) for one in watched):
                changed_ms = clock.monotonic_ms()
            ends = now
        return ends

    def record_at(self, partition: int, offset: int) -> ConsumerRecord | None:
        """The record with this offset; None if retention or compaction has removed it."""
        return asyncio.run(
            asyncio.wait_for(self._record_at(partition, offset), _READ_TIMEOUT_SECONDS)
        )

    async def _record_at(self, partition: int, offset: int) -> ConsumerRecord | None:
        where = TopicPartition(self.topic, partition)
        settings = {**self._settings(ConsumerSettings), "auto_offset_reset": "none"}
        async with Consumer(self._servers, **settings) as consumer:
            consumer.assign([where])
            consumer.seek(where, offset)
            try:
                while await consumer.position(where) <= offset:
                    for record in await consumer.poll():
                        if record.offset >= offset:
                            return record if record.offset == offset else None
            except SeekRequiredError:
                return None
        return None

    @property
    def _servers(self) -> str:
        return str(self.producer_settings["bootstrap_servers"])

    def _settings(self, role: type[ClientSettings]) -> dict[str, Any]:
        """The producer's settings that the role has, too."""
        known = settings_of(role)
        return {
            name: value
            for name, value in self.producer_settings.items()
            if name in known and name != "bootstrap_servers"
        }
