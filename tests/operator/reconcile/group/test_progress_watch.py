"""When a group counts as stuck: members are there, records arrive, nothing is committed."""

from barnabas_client.cluster.offset_ranges import OffsetRange
from barnabas_operator.reconcile.group.progress_watch import STUCK_AFTER_MS, ProgressWatch
from tests.support.memory_groups import MemoryGroups


class Watched:
    def __init__(self) -> None:
        self.cluster = MemoryGroups(2)
        self.cluster.commit(50, 50)
        self.cluster.join()
        self.watch = ProgressWatch()
        self.now_ms = 0

    def produce(self, end: int) -> None:
        self.cluster.ends = {
            topic_partition: OffsetRange(start=10, end=end)
            for topic_partition in self.cluster.topic_partitions
        }

    def stuck(self, after_ms: int = 0, told: tuple[int, ...] = ()) -> list[int]:
        self.now_ms += after_ms
        observed = self.cluster.observed()
        before = {self.cluster.topic_partitions[number] for number in told}
        found = self.watch.stuck(observed.groups["billing"], observed, self.now_ms, before)
        return sorted(topic_partition.partition for topic_partition in found)


def test_a_partition_whose_end_moves_and_whose_commit_does_not_is_stuck() -> None:
    """operator.md 8.1."""
    watched = Watched()
    assert watched.stuck() == []
    watched.produce(110)
    assert watched.stuck(STUCK_AFTER_MS - 1) == []
    assert watched.stuck(1) == [0, 1]
    watched.cluster.commit(51)
    assert watched.stuck() == [1]


def test_lag_alone_is_not_stuck() -> None:
    """Nothing arrives: the group may have its reasons, or be slow with one record."""
    watched = Watched()
    watched.stuck()
    assert watched.stuck(10 * STUCK_AFTER_MS) == []


def test_a_group_without_members_is_not_stuck() -> None:
    """A job that runs once a night is as it should be by day."""
    watched = Watched()
    watched.stuck()
    watched.cluster.leave()
    watched.produce(200)
    assert watched.stuck(STUCK_AFTER_MS) == []
    watched.cluster.join()
    assert watched.stuck() == []


def test_a_restart_of_the_operator_does_not_change_what_is_told() -> None:
    """Else each restart would write each status twice."""
    watched = Watched()
    assert watched.stuck(told=(1,)) == [1]
    assert watched.stuck(1000) == [1]
    watched.cluster.commit(60, 60)
    assert watched.stuck(1000) == []


def test_forgotten_groups_cost_no_memory() -> None:
    watched = Watched()
    watched.stuck()
    watched.watch.forget_others([])
    assert len(watched.watch) == 0
