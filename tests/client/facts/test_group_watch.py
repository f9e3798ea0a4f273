"""What several looks at a group tell: rates, rebalances, and that one look tells nothing."""

from dataclasses import replace

from barnabas_client.admin.values.groups import MemberDescription
from barnabas_client.facts.group_observation import GroupObservation
from barnabas_client.facts.group_watch import WINDOW_MS, GroupWatch
from barnabas_protocol.ids import TopicPartition

PLACES = (TopicPartition("orders", 0), TopicPartition("orders", 1))


def seen(committed: int, end: int, *members: str, **values: object) -> GroupObservation:
    return replace(
        GroupObservation(group_id="billing", type="Consumer", state="Stable"),
        members=tuple(
            MemberDescription(member_id=name, client_id=name, client_host="/h")
            for name in members or ("web-1",)
        ),
        committed=dict.fromkeys(PLACES, committed),
        ends=dict.fromkeys(PLACES, end),
        **values,  # type: ignore[arg-type]
    )


def test_one_look_tells_no_rate() -> None:
    """CON-119: a rule about movement needs two."""
    movement = GroupWatch().observe(seen(10, 20), 0)
    assert (movement.arriving, movement.reading, movement.low_after) == (None, None, None)


def test_rates_are_of_all_looks_within_five_minutes() -> None:
    """Commits come in bursts; over some minutes that evens out."""
    watch = GroupWatch()
    for number in range(100):
        movement = watch.observe(seen(100 * (number // 2), 100 * number), number * 10_000)
    assert movement.watched_ms == WINDOW_MS
    assert movement.arriving == 20.0
    assert movement.reading is not None
    assert 9 < movement.reading < 11
    assert movement.low_before is not None
    assert movement.low_after is not None
    assert movement.low_after > movement.low_before
    assert movement.arriving_by_place == dict.fromkeys(PLACES, 10.0)


def test_other_partitions_begin_a_new_count() -> None:
    """A sum over two partitions is not comparable with one over three."""
    watch = GroupWatch()
    watch.observe(seen(0, 100), 0)
    more = seen(0, 100)
    place = TopicPartition("orders", 2)
    more = replace(more, committed={**more.committed, place: 0}, ends={**more.ends, place: 1000})
    assert watch.observe(more, 10_000).arriving is None
    assert watch.observe(more, 20_000).arriving == 0


def test_an_epoch_that_the_broker_counts_up_is_a_rebalance() -> None:
    """Members of the newer protocol keep their ids while assignments change."""
    watch = GroupWatch()
    for epoch in range(5):
        movement = watch.observe(seen(0, 0, group_epoch=epoch), epoch * 1000)
    assert movement.rebalance_count == 4
    assert movement.since_rebalance_ms == 0
    assert watch.observe(seen(0, 0, group_epoch=4), WINDOW_MS + 4001).rebalance_count == 0


def test_a_rebalance_is_timed_from_its_first_look() -> None:
    """It may have begun earlier, never later."""
    watch = GroupWatch()
    watch.observe(seen(0, 0, state="PreparingRebalance"), 0)
    assert watch.observe(seen(0, 0, state="CompletingRebalance"), 70_000).rebalancing_ms == 70_000
    assert watch.observe(seen(0, 0), 80_000).rebalancing_ms == 0


def test_forgotten_groups_cost_no_memory() -> None:
    """Groups of consumers on a terminal come and go by the thousand."""
    watch = GroupWatch()
    watch.observe(seen(0, 0), 0)
    watch.forget_others([])
    assert len(watch) == 0
