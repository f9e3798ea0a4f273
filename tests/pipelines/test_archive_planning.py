"""What the next batch of an archive reads, and when it must not go on."""

import random
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from barnabas_pipelines.archive.planning import BatchPlan, check_losses, plan_batch
from barnabas_pipelines.errors import DataLossError, OptionsError, TopicGoneError
from barnabas_pipelines.tables.marks import Gap, Mark
from barnabas_protocol.ids import TopicPartition


@dataclass(frozen=True)
class FakeLog:
    """A topic as the cluster tells it."""

    name: str
    starts: dict[int, int]
    ends: dict[int, int]
    topic_id: str | None = "one"
    epochs: dict[int, int] = field(default_factory=dict)


LOG = FakeLog("orders", {0: 0, 1: 0}, {0: 10, 1: 20})


def of(topic: str, **offsets: int) -> dict[TopicPartition, int]:
    """Offsets by partition: `of("orders", p0=3)`."""
    return {TopicPartition(topic, int(name[1:])): offset for name, offset in offsets.items()}


def plan(mark: Mark | None, *logs: FakeLog, **more: Any) -> BatchPlan:
    return plan_batch(mark, logs, **{"first_offsets": "earliest", **more})


def committed(planned: BatchPlan, sequence: int = 1) -> Mark:
    """The mark of the table when the batch is in it."""
    return Mark(
        kind="archive", sequence=sequence, attempt="x", topics=planned.topics, base=sequence - 2
    )


def test_the_first_batch_reads_all_there_is() -> None:
    """And says of every partition how far the table reaches, empty ones too."""
    log = replace(LOG, starts={0: 3, 1: 0, 2: 0}, ends={0: 10, 1: 20, 2: 0})
    found = plan(None, log)
    assert (found.starts, found.ends) == (of("orders", p0=3, p1=0), of("orders", p0=10, p1=20))
    (reach,) = found.topics
    assert (reach.starts, reach.ends) == ({0: 3, 1: 0, 2: 0}, {0: 10, 1: 20, 2: 0})
    assert (found.left_count, found.lost) == (0, ())


def test_the_next_begins_where_the_table_ends() -> None:
    """Nothing else is remembered anywhere."""
    mark = committed(plan(None, LOG))
    assert not plan(mark, LOG).is_needed
    found = plan(mark, replace(LOG, ends={0: 12, 1: 20}))
    assert (found.starts, found.ends) == (of("orders", p0=10), of("orders", p0=12))
    assert found.topics[0].starts == {0: 0, 1: 0}
    assert found.topics[0].ends == {0: 12, 1: 20}


def test_batches_in_portions_are_what_one_would_be() -> None:
    """Whatever the limit and whoever is killed in between: no offset twice, none left out."""
    chance = random.Random(7)
    for _ in range(200):
        ends = {partition: chance.randrange(50) for partition in range(3)}
        log = FakeLog("orders", dict.fromkeys(ends, 0), ends)
        mark, read = None, []
        while (found := plan(mark, log, limit=chance.randrange(1, 40))).is_needed:
            read += [
                (key.partition, offset)
                for key, end in found.ends.items()
                for offset in range(found.starts[key], end)
            ]
            mark = committed(found)
        assert sorted(read) == [(p, offset) for p, end in ends.items() for offset in range(end)]


def test_a_goal_is_not_passed() -> None:
    """What comes while a run reads what is there is of the next run."""
    goal = of("orders", p0=10, p1=20)
    later = replace(LOG, ends={0: 100, 1: 200})
    found = plan(None, later, goal=goal)
    assert found.ends == goal
    assert not plan(committed(found), later, goal=goal).is_needed
    wider = replace(later, starts={0: 0, 1: 0, 2: 0}, ends={0: 100, 1: 200, 2: 7})
    noted = plan(committed(found), wider, goal=goal)
    assert noted.topics[0].ends == {0: 10, 1: 20, 2: 0}, "or a run might never end"
    assert not plan(committed(noted), wider, goal=goal).is_needed


def test_latest_is_remembered_before_anything_comes() -> None:
    """Else what comes between two runs would be passed over."""
    found = plan(None, LOG, first_offsets="latest")
    assert found.is_needed and not found.ends
    after = plan(committed(found), replace(LOG, ends={0: 11, 1: 20}), first_offsets="latest")
    assert after.ends == of("orders", p0=11)
    assert after.starts == of("orders", p0=10)


def test_offsets_to_begin_at_are_taken_as_told() -> None:
    """As Spark's sources take them; what is not there is refused."""
    chosen = '{"orders": {"0": 4, "1": -1}}'
    assert plan(None, LOG, first_offsets=chosen).starts == of("orders", p0=4)
    for wrong in ('{"orders": {"0": 4}}', '{"orders": {"0": 11, "1": 0}}', "soon", "[]"):
        with pytest.raises(OptionsError, match="starting-offsets"):
            plan(None, LOG, first_offsets=wrong)


def test_a_partition_that_was_added_is_read_from_its_beginning() -> None:
    """Also where a first run was to begin at the latest; what retention took of it is told."""
    mark = committed(plan(None, LOG, first_offsets="latest"))
    more = replace(LOG, starts={0: 0, 1: 0, 2: 0}, ends={0: 10, 1: 20, 2: 5})
    assert plan(mark, more, first_offsets="latest").starts == of("orders", p2=0)
    late = plan(mark, replace(more, starts={0: 0, 1: 0, 2: 3}), first_offsets="latest")
    assert "3 offsets are gone" in late.lost[0]


def test_what_retention_took_is_refused_or_counted_and_remembered() -> None:
    """Once: the next batch goes on behind the gap."""
    mark = committed(plan(None, LOG))
    log = replace(LOG, starts={0: 13, 1: 0}, ends={0: 15, 1: 20})
    found = plan(mark, log)
    with pytest.raises(DataLossError, match=r"ends at offset 10, the topic begins at 13, 3 off"):
        check_losses(found, is_loss_allowed=False)
    check_losses(found, is_loss_allowed=True)
    assert found.starts == of("orders", p0=13)
    after = committed(found)
    assert after.topics[0].gaps == (Gap(0, 10, 13),)
    assert plan(after, log).lost == ()
    assert not plan(after, log).is_needed


def test_a_loss_alone_is_something_to_remember() -> None:
    """All that was new is gone: no record to write, but a gap to tell."""
    mark = committed(plan(None, LOG))
    found = plan(mark, replace(LOG, starts={0: 12, 1: 0}, ends={0: 12, 1: 20}))
    assert found.is_needed and not found.ends
    assert found.topics[0].ends == {0: 12, 1: 20}


def test_a_topic_that_was_made_anew_is_refused() -> None:
    """Its first records would count as archived, and be missing."""
    mark = committed(plan(None, LOG))
    with pytest.raises(TopicGoneError, match=r"its id was one, now it is two"):
        plan(mark, replace(LOG, topic_id="two"))
    with pytest.raises(TopicGoneError, match=r"partition 1 is not there any more"):
        plan(mark, FakeLog("orders", {0: 0}, {0: 10}, None))


def test_a_topic_that_was_left_out_of_a_run_is_not_forgotten() -> None:
    """Neither its id nor its offsets: made anew meanwhile, it is recognised."""
    other = FakeLog("others", {0: 0}, {0: 1000}, "b1")
    mark = committed(plan(None, LOG, other))
    mark = committed(plan(mark, replace(LOG, ends={0: 30, 1: 20})))
    assert mark.topic("others") is not None
    with pytest.raises(TopicGoneError, match="others"):
        plan(mark, LOG, replace(other, topic_id="b2", ends={0: 1500}))
    assert plan(mark, replace(other, ends={0: 1001})).starts == of("others", p0=1000)


def test_brokers_without_topic_ids_are_trusted() -> None:
    """Nothing can be compared; offsets are checked all the same."""
    mark = committed(plan(None, LOG))
    assert not plan(mark, replace(LOG, topic_id=None)).is_needed


def test_a_topic_that_ends_before_the_table_is_a_contradiction() -> None:
    """A leader that was just elected may say so for a while; the caller asks again."""
    mark = committed(plan(None, LOG))
    found = plan(mark, replace(LOG, ends={0: 9, 1: 20}))
    assert found.contradictions == ("orders-0: the archive ends at offset 10, the topic at 9",)


def test_a_topic_that_was_cut_and_has_grown_again_is_a_contradiction() -> None:
    """Its end says nothing: an unclean election put other records at the archive's offsets."""
    mark = committed(plan(None, replace(LOG, epochs={0: 4, 1: 4})))
    assert mark.topics[0].epochs == {0: 4, 1: 4}
    later = replace(LOG, ends={0: 30, 1: 40})
    cut = plan(mark, later, epoch_ends=of("orders", p0=7, p1=20))
    assert cut.contradictions == (
        "orders-0: the archive ends at offset 10, but the topic has lost the records from offset 7 "
        "on, and has others there",
    )
    assert not plan(mark, later, epoch_ends=of("orders", p0=10, p1=20)).contradictions
