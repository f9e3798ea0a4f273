"""The health of a cluster, from what brokers tell."""

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas_client.admin.outcome import Outcome, Outcomes
from barnabas_client.admin.values.cluster import BrokerDescription, ClusterDescription
from barnabas_client.admin.values.topics import PartitionDescription, TopicDescription
from barnabas_client.errors import UnsupportedError
from barnabas_client.facts.cluster_facts import LEAVING, cluster_status, status_of

ALL = (1, 2)


def cluster(*node_ids: int, controller_id: int | None = 1) -> ClusterDescription:
    return ClusterDescription(
        cluster_id="c",
        controller_id=controller_id,
        brokers=tuple(BrokerDescription(node_id=one, host="h", port=9) for one in node_ids),
    )


def topic(leader_id: int | None, in_sync: tuple[int, ...]) -> TopicDescription:
    partition = PartitionDescription(
        partition=0, leader_id=leader_id, replica_ids=ALL, in_sync_replica_ids=in_sync
    )
    return TopicDescription(name="t", partitions={0: partition})


def test_all_in_sync_is_healthy() -> None:
    status = status_of(cluster(1, 2), [topic(1, ALL)], {1: 10})
    assert (status["health"], status["troubles"]) == ("healthy", [])
    first, second = status["brokers"]
    assert (first["leaders"], first["replicas"], first["size_bytes"]) == (1, 1, 10)
    assert (second["leaders"], second["replicas"], second["size_bytes"]) == (0, 1, None)


def test_a_broker_that_is_gone_is_shown_with_what_it_lacks() -> None:
    status = status_of(cluster(1), [topic(1, (1,))], {})
    assert status["health"] == "degraded"
    assert (status["under_replicated_partitions"], status["offline_partitions"]) == (1, 0)
    gone = status["brokers"][1]
    assert (gone["broker"], gone["state"], gone["out_of_sync"]) == (2, "gone", 1)


def test_a_partition_without_a_leader_is_unhealthy() -> None:
    status = status_of(cluster(1, 2), [topic(None, ())], {})
    assert (status["health"], status["offline_partitions"]) == ("unhealthy", 1)
    assert status["troubles"][0]["trouble"] == "offline"


def test_a_cluster_without_a_controller_is_degraded() -> None:
    assert status_of(cluster(1, 2, controller_id=None), [], {})["health"] == "degraded"


class ThreeBrokers:
    """What an Admin is asked for; broker 2 is to go, and the members are given."""

    def __init__(self, members: Iterable[int], error: Exception | None = None) -> None:
        self._members = members
        self._error = error
        self.cluster = SimpleNamespace(describe=self._cluster)
        self.topics = SimpleNamespace(list=self._nothing, describe=self._nothing)
        self.log_dirs = SimpleNamespace(describe=self._nothing)
        self.quorum = SimpleNamespace(describe=self._quorum)
        self.configs = SimpleNamespace(describe=self._configs)

    async def _cluster(self, **_: object) -> ClusterDescription:
        return cluster(0, 1, 2)

    async def _nothing(self, *_: object, **__: object) -> Any:
        return Outcomes[Any, Any]({})

    async def _quorum(self, **_: object) -> Any:
        if self._error is not None:
            raise self._error
        return SimpleNamespace(voters=[SimpleNamespace(replica_id=one) for one in self._members])

    async def _configs(self, asked: Any, **_: object) -> Any:
        values = {one: "true" if one.name == "2" else "false" for one in asked}
        return Outcomes(
            {
                one: Outcome.of({LEAVING: SimpleNamespace(value=value)})
                for one, value in values.items()
            }
        )


@pytest.mark.parametrize(
    ("members", "roles"),
    [((0, 1, 2), ["member", "member", "leaving"]), ((0,), ["member", None, "left"])],
)
def test_brokers_that_leave_the_metadata_log_are_shown(
    members: tuple[int, ...], roles: list[str | None]
) -> None:
    """Issue 17: who scales in sees what the operator waits for."""
    admin: Any = ThreeBrokers(members)
    told = asyncio.run(cluster_status(admin))
    assert [one["metadata_log"] for one in told["brokers"]] == roles


def test_brokers_that_do_not_tell_their_members_are_shown_all_the_same() -> None:
    """An older broker, or a cluster without a controller."""
    admin: Any = ThreeBrokers((0, 1, 2), UnsupportedError("no quorum"))
    told = asyncio.run(cluster_status(admin))
    assert [one["metadata_log"] for one in told["brokers"]] == [None] * 3
