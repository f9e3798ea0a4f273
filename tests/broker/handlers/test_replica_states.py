"""Which replicas clients are told to be offline."""

from dataclasses import replace

from barnabas_broker.handlers.replica_states import offline_replicas
from barnabas_protocol.ids import ZERO_UUID
from tests.support.partition_images import cluster, directory, partition


def test_replicas_of_fenced_and_unknown_brokers_are_offline() -> None:
    """protocol.md, Metadata: offline replicas are those that cannot serve."""
    brokers = cluster([0, 1], fenced=[2]).brokers
    assert offline_replicas(partition([0, 1]), brokers) == []
    assert offline_replicas(partition([2, 0, 7]), brokers) == [2, 7]


def test_a_replica_in_a_failed_directory_is_offline() -> None:
    """KIP-858: its broker is there, the directory is no longer among those that it has."""
    brokers = dict(cluster([0, 1]).brokers)
    both = partition([0, 1], directories=[directory(0), directory(1)])
    assert offline_replicas(both, brokers) == []
    brokers[1] = replace(brokers[1], directories=(directory(1, 9),))
    assert offline_replicas(both, brokers) == [1]
    unassigned = partition([0, 1], directories=[directory(0), ZERO_UUID])
    assert offline_replicas(unassigned, brokers) == []
