"""One reading of all topics (`reading`): rows, causes of trouble, brokers that must stay."""

import pytest

from barnabas_client.admin.values.partitions import Reassignment
from barnabas_client.admin.values.topics import PartitionDescription, TopicDescription
from barnabas_console.cluster.reading import (
    EXAMPLES_MAX,
    Cause,
    Reading,
    cause_of,
    is_in_trouble,
)
from barnabas_operator.reconcile.broker.cluster_state import ClusterView
from barnabas_operator.reconcile.broker.cluster_view import partition_views
from barnabas_operator.reconcile.broker.isr_gate import hindrance
from barnabas_protocol.ids import TopicPartition

ALL = (0, 1, 2)


def partition(
    number: int = 0, in_sync: tuple[int, ...] = ALL, leader: int | None = 0
) -> PartitionDescription:
    return PartitionDescription(
        partition=number, leader_id=leader, replica_ids=ALL, in_sync_replica_ids=in_sync
    )


def topic(name: str, *partitions: PartitionDescription, internal: bool = False) -> TopicDescription:
    by_number = {one.partition: one for one in partitions or (partition(),)}
    return TopicDescription(name=name, partitions=by_number, is_internal=internal)


def read(*topics: TopicDescription, in_sync_min: int = 2) -> Reading:
    reading = Reading({})
    for one in topics:  # each is a page
        reading.add([one], {one.name: in_sync_min}, {})
    return reading


def test_topics_in_sync_are_rows_and_keep_nobody() -> None:
    reading = read(topic("a"), topic("b", partition(0), partition(1)))
    assert reading.tally.partition_count == 3
    assert not reading.causes
    assert [reading.hindrance(node_id) for node_id in ALL] == ["", "", ""]


@pytest.mark.parametrize("in_sync_min", [1, 2, 3])
@pytest.mark.parametrize("in_sync", [(0, 1, 2), (0, 1), (0,), (1, 2), ()])
def test_brokers_must_stay_exactly_where_the_operator_s_gate_says_so(
    in_sync: tuple[int, ...], in_sync_min: int
) -> None:
    """CON-110: what is left out because it is in sync would change nothing."""
    one = topic("a", partition(0, in_sync, in_sync[0] if in_sync else None), partition(1))
    reading = read(one, in_sync_min=in_sync_min)
    view = ClusterView(partitions=tuple(partition_views(one, in_sync_min, {})))
    for node_id in ALL:
        assert reading.hindrance(node_id) == hindrance(view, node_id)


def test_partitions_of_one_cause_are_counted_and_a_few_are_named() -> None:
    """CON-110, T8: why, without going from topic to topic."""
    reading = read(*(topic(f"t{number}", partition(0, (0, 1))) for number in range(9)))
    (cause, found) = next(iter(reading.causes.items()))
    assert cause == Cause("under-replicated", (2,), is_moving=False)
    assert found.count == 9
    assert found.examples == [TopicPartition(f"t{number}", 0) for number in range(EXAMPLES_MAX)]
    assert "and 4 more cannot spare it" in reading.hindrance(0)


def test_a_cause_says_what_is_worst() -> None:
    assert cause_of(partition(), 2, is_moving=False) is None
    fewer = cause_of(partition(0, (0,)), 2, is_moving=False)
    assert fewer == Cause("read-only", (1, 2), is_moving=False)
    gone = cause_of(partition(0, (), None), 2, is_moving=True)
    assert gone == Cause("offline", ALL, is_moving=True)
    # More than there are replicas would be no trouble of these replicas.
    assert cause_of(partition(), 4, is_moving=False) is None


def test_a_partition_on_the_move_is_told_apart() -> None:
    place = TopicPartition("a", 0)
    move = Reassignment(replica_ids=ALL, adding_replica_ids=(2,), removing_replica_ids=())
    reading = Reading({place: move})
    reading.add([topic("a", partition(0, (0, 1)))], {"a": 1}, {})
    assert [cause.is_moving for cause in reading.causes] == [True]


def test_only_topics_in_trouble_need_their_settings() -> None:
    assert not is_in_trouble(topic("a"))
    assert is_in_trouble(topic("a", partition(0), partition(1, (0, 1))))
    assert is_in_trouble(topic("a", partition(0, ALL, None)))
