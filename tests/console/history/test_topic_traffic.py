"""Rates of topics from ends that are read by turns (CON-137)."""

import asyncio
from collections.abc import Mapping

from barnabas_console.history.changes import NO_LEADER, Leadership
from barnabas_console.history.topic_traffic import TopicTraffic
from barnabas_protocol.ids import TopicPartition
from tests.support.loop_turns import spent_slices, turns_beside


def led(*leaders: int) -> Leadership:
    return Leadership(leaders, tuple((leader,) for leader in leaders))


def ends(topic: str, *offsets: int) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, number): offset for number, offset in enumerate(offsets)}


def follow(traffic: TopicTraffic, leadership: Mapping[str, Leadership]) -> None:
    asyncio.run(traffic.follow(leadership, spent_slices()))


def test_a_rate_needs_two_readings() -> None:
    traffic = TopicTraffic()
    follow(traffic, {"orders": led(1, 2)})
    traffic.read(ends("orders", 10, 20), 1_000)
    assert traffic.rate("orders") is None
    traffic.read(ends("orders", 30, 20), 11_000)
    assert traffic.rate("orders") == 2.0
    assert traffic.partition_rates("orders") == [2.0, 0.0]
    assert traffic.rates_of_leaders() == {1: 2.0, 2: 0.0}


def test_a_partition_that_does_not_tell_makes_the_rate_unknown_and_one_without_a_leader_none() -> (
    None
):
    """A sum without a part would be too small; nothing comes to who has no leader."""
    traffic = TopicTraffic()
    follow(traffic, {"orders": led(1, 2)})
    traffic.read(ends("orders", 10, 20), 1_000)
    traffic.read(ends("orders", 20), 2_000)
    assert traffic.rate("orders") is None
    follow(traffic, {"orders": led(1, NO_LEADER)})
    traffic.read(ends("orders", 30), 3_000)
    assert traffic.rate("orders") == 10.0


def test_all_topics_have_their_turn_and_what_is_asked_for_comes_first() -> None:
    """CON-135: rows on the screen first; nobody waits for ever."""
    traffic = TopicTraffic()
    follow(traffic, {f"t{number}": led(1, 1) for number in range(10)})
    seen: set[str] = set()
    for _ in range(5):
        places = traffic.next_partitions(["t9"], 6)
        assert places[0].topic == "t9"
        assert len(places) == 6
        seen |= {place.topic for place in places}
    assert len(seen) == 10


def test_more_asked_than_a_look_reads_is_read_by_turns_too() -> None:
    """Else the last groups of the alphabet would never have a lag."""
    traffic = TopicTraffic()
    names = [f"t{number}" for number in range(10)]
    follow(traffic, dict.fromkeys(names, led(1)))
    seen = {place.topic for _ in range(3) for place in traffic.next_partitions(names, 4)}
    assert seen == set(names)


def test_a_topic_that_is_gone_or_grew_begins_anew() -> None:
    traffic = TopicTraffic()
    follow(traffic, {"orders": led(1)})
    traffic.read(ends("orders", 10), 1_000)
    follow(traffic, {"orders": led(1, 1)})
    traffic.read(ends("orders", 20, 5), 2_000)
    assert traffic.rate("orders") is None
    follow(traffic, {})
    assert traffic.rates() == {}
    assert traffic.next_partitions(["orders"], 10) == []


def test_ten_thousand_topics_are_placed_in_slices() -> None:
    """CON-174: in one piece, the first placing held the loop for 16 ms; all change at once."""
    traffic = TopicTraffic()
    follow(traffic, {"orders": led(1)})
    traffic.read(ends("orders", 10), 1_000)
    traffic.read(ends("orders", 20), 2_000)
    names = ["orders", *(f"t{number:05}" for number in range(10_000))]

    async def run() -> None:
        placing = asyncio.ensure_future(
            turns_beside(traffic.follow(dict.fromkeys(names, led(1)), spent_slices()))
        )
        await asyncio.sleep(0)
        while not placing.done():
            assert traffic.rate("orders") == 10.0
            assert len(traffic.leadership) in (1, len(names))
            assert (traffic.rate("t00000"), len(traffic.partition_rates("orders"))) == (None, 1)
            await asyncio.sleep(0)
        _, turns = await placing
        assert turns >= 100
        assert len(traffic.leadership) == len(names)

    asyncio.run(run())
