"""When a group counts as stuck: members are there, records arrive, nothing is committed."""

from barnabas_client.facts.progress_watch import STUCK_AFTER_MS, ProgressWatch
from barnabas_protocol.ids import TopicPartition

PLACES = (TopicPartition("orders", 0), TopicPartition("orders", 1))


class Watched:
    """A group of one member that has read fifty of a hundred records in each of two partitions."""

    def __init__(self) -> None:
        self.watch = ProgressWatch()
        self.now_ms = 0
        self.committed = dict.fromkeys(PLACES, 50)
        self.ends = dict.fromkeys(PLACES, 100)
        self.has_members = True

    def produce(self, end: int) -> None:
        self.ends = dict.fromkeys(PLACES, end)

    def commit(self, *offsets: int) -> None:
        self.committed.update(zip(PLACES, offsets, strict=False))

    def stuck(self, after_ms: int = 0, told: tuple[int, ...] = ()) -> list[int]:
        self.now_ms += after_ms
        found = self.watch.stuck(
            "billing",
            self.committed,
            self.ends,
            self.now_ms,
            has_members=self.has_members,
            told_before={PLACES[number] for number in told},
        )
        assert all(since_ms <= self.now_ms for since_ms in found.values())
        return sorted(topic_partition.partition for topic_partition in found)


def test_a_partition_whose_end_moves_and_whose_commit_does_not_is_stuck() -> None:
    """operator.md 8.1."""
    watched = Watched()
    assert watched.stuck() == []
    watched.produce(110)
    assert watched.stuck(STUCK_AFTER_MS - 1) == []
    assert watched.stuck(1) == [0, 1]
    watched.commit(51)
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
    watched.has_members = False
    watched.produce(200)
    assert watched.stuck(STUCK_AFTER_MS) == []
    watched.has_members = True
    assert watched.stuck() == []


def test_a_restart_of_the_operator_does_not_change_what_is_told() -> None:
    """Else each restart would write each status twice."""
    watched = Watched()
    assert watched.stuck(told=(1,)) == [1]
    assert watched.stuck(1000) == [1]
    watched.commit(60, 60)
    assert watched.stuck(1000) == []


def test_forgotten_groups_cost_no_memory() -> None:
    watched = Watched()
    watched.stuck()
    watched.watch.forget_others([])
    assert len(watched.watch) == 0
