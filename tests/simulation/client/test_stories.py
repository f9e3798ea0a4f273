"""Stories of our clients, a few of them; `python -m tests.simulation.client` tells thousands."""

import pytest

from barnabas_client import Producer
from barnabas_client.errors import AbortableError, BarnabasError
from tests.simulation.client.kafka import Kafka
from tests.simulation.client.story import FAST, Story
from tests.simulation.client.telling import tell, tell_part
from tests.simulation.client.world import World

STORIES = 40


@pytest.mark.parametrize("first", range(0, STORIES, 10))
def test_stories_end_well(first: int) -> None:
    """Whatever befalls brokers, network and programs, the client keeps its word."""
    assert tell_part(first, 10).failures == []


def test_a_story_is_told_the_same_again() -> None:
    """The seed decides everything: a failure can be looked at again."""
    first, second = tell(7)[0], tell(7)[0]
    assert first.world.timeline == second.world.timeline
    assert first.world.request_count == second.world.request_count > 50


def test_a_story_draws_what_befalls_it() -> None:
    """No story has everything, and none of what there is never comes."""
    drawn = []
    for seed in range(200):
        story = Story(seed)
        drawn.append(story.faults.features)
        story.world.loop.close()
    assert len(frozenset().union(*drawn)) == 15
    assert len(set(map(len, drawn))) > 5


def test_a_transaction_does_not_commit_without_a_record_that_waited_too_long() -> None:
    """Found by seed 378: the record stood in line for metadata that did not come."""
    world = World(1)
    kafka = Kafka(world)
    kafka.create("t", 1)

    async def run() -> None:
        async with Producer(
            kafka.bootstrap, **{**FAST, "transactional_id": "x", "max_block_ms": 300}
        ) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            producer.send("t", b"there")
            lost = producer.send("none", b"nowhere")
            with pytest.raises(AbortableError):
                await producer.commit_transaction()
            with pytest.raises(BarnabasError):
                await lost
            await producer.abort_transaction()
            async with producer.transaction():
                producer.send("t", b"seen")
        (log,) = kafka.topics["t"]
        assert [value for _, value in log.committed_values()] == [b"seen"]

    world.run(run)


@pytest.mark.parametrize("produce", [11, 13])
def test_numbers_go_on_where_a_lagging_broker_tells_the_id_of_a_former_life(produce: int) -> None:
    """Found by seed 384: they began anew, and the broker took records for repetitions."""
    world = World(1)
    kafka = Kafka(world, 1, is_version_2=False, produce=produce)
    former = kafka.create("t", 1)
    kafka.create("t", 1)

    async def run() -> None:
        async with Producer(
            kafka.bootstrap, **{**FAST, "max_in_flight_requests_per_connection": 1}
        ) as producer:
            for number in range(3):
                await producer.send("t", b"%d" % number)
            (log,) = kafka.topics["t"]
            kafka.topics["t"] = former
            await producer._client.refresh()
            kafka.topics["t"] = [log]
            for number in range(3, 6):
                await producer.send("t", b"%d" % number)
            assert [value for _, value in log.values()] == [b"%d" % n for n in range(6)]

    world.run(run)
