"""The topic that is replayed into, and how much of a replay is in it.

The number of records that a partition has got stands as a committed offset in a consumer group of
the replay's own. It is committed in the transaction that the records are in, so both are there or
neither is, whoever is killed when and whoever else writes to the topic.

Not here: writing (`sender.py`). Each call connects, reads and closes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from barnabas_client.config.admin_settings import AdminSettings
from barnabas_client.config.settings import settings_of
from barnabas_pipelines.jobs.cluster_facts import ClusterFacts

_PREFIX: Final = "barnabas-replay-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A topic, and the settings of a producer that reaches it."""

    topic: str
    producer_settings: Mapping[str, Any]

    @property
    def cluster(self) -> ClusterFacts:
        """The facts about the topic."""
        known = settings_of(AdminSettings)
        servers = str(self.producer_settings["bootstrap_servers"])
        settings = {
            name: value
            for name, value in self.producer_settings.items()
            if name in known and name != "bootstrap_servers"
        }
        return ClusterFacts(servers, settings)

    def sent(self, replay_id: str) -> dict[int, int]:
        """How many records of the replay each partition has got at least."""
        return self.cluster.committed_offsets(group_of(replay_id), self.topic)

    def settled(self, replay_id: str) -> dict[int, int]:
        """How many records each partition has got; what is being committed is waited for."""
        return self.cluster.committed_offsets(group_of(replay_id), self.topic, require_stable=True)

    def begin(self, replay_id: str, partitions: range) -> None:
        """Note that no partition has got any. Raises: UnreachableError."""
        self.cluster.commit_offsets(group_of(replay_id), self.topic, dict.fromkeys(partitions, 0))


def group_of(replay_id: str) -> str:
    """The consumer group that has a replay's progress."""
    return f"{_PREFIX}{replay_id}"


def transactional_id_of(replay_id: str, partition: int) -> str:
    """The one by which a task that fills a partition shuts out all earlier ones."""
    return f"{_PREFIX}{replay_id}-{partition}"
