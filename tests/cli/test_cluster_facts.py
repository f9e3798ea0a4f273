"""The health of a cluster, from what brokers tell."""

from barnabas_cli.cluster_facts import status_of
from barnabas_client.admin.values.cluster import BrokerDescription, ClusterDescription
from barnabas_client.admin.values.topics import PartitionDescription, TopicDescription

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
