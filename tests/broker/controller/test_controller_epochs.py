"""The controller follows the leadership of its log: what it begins with, and what it ends with."""

import asyncio
from typing import Any

import pytest

from barnabas_broker.controller.configs import ConfigChange, Operation, ResourceChange
from barnabas_broker.controller.controller_metrics import controller_samples
from barnabas_broker.controller.event_queue import QUEUED_COMMANDS_MAX
from barnabas_broker.controller.topics import NewTopic
from barnabas_broker.metadata.image import NO_LEADER, RESOURCE_TOPIC, MetadataImage
from barnabas_broker.metadata.image_log import RECORDS_PER_TURN
from barnabas_broker.metadata.records import ConfigRecord, MetadataRecord, TopicRecord
from barnabas_protocol.errors import ErrorCode, KafkaError
from tests.support.controller_world import ControllerWorld, run_world
from tests.support.partition_images import applied, cluster, partition, with_topic

UNCLEAN = "unclean.leader.election.enable"


def metric(world: ControllerWorld, name: str) -> float:
    samples = {sample.name: sample.value for sample in controller_samples(world.controller)}
    return samples[f"barnabas_controller_{name}"]


async def code_of(work: "asyncio.Future[Any]") -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        await work
    return raised.value.code


def test_a_controller_begins_with_the_partitions_that_have_no_leader() -> None:
    """CTL-6: start partition state handling (elect for leaderless partitions)."""

    async def test(world: ControllerWorld) -> None:
        world.keep_beating(0, 1)
        await world.pass_ms(1)
        assert world.partition(0).leader == 1
        assert world.partition(1).leader == NO_LEADER  # nobody of its ISR lives

    image = with_topic(
        cluster([0, 1], fenced=[2]),
        partition([2, 1], [2, 1], NO_LEADER),
        partition([2, 1], [2], NO_LEADER),
    )
    run_world(image, test)


def test_who_resigns_answers_everybody_before_anything_else() -> None:
    """CTL-4: resigns *before* anything else: stops timers, empties its queue."""

    async def test(world: ControllerWorld) -> None:
        await world.pass_ms(1)
        await world.log.hold()
        deciding = asyncio.create_task(world.controller.create_topics([NewTopic(name="a")]))
        await world.pass_ms(1)
        waiting = asyncio.create_task(world.controller.create_topics([NewTopic(name="b")]))
        await world.pass_ms(1)
        assert world.controller.queue_length == 1
        world.controller.resign()
        assert (world.controller.is_active, world.controller.queue_length) == (False, 0)
        # What is decided may yet be committed: the next controller must not decide it again.
        assert await code_of(deciding) == ErrorCode.REQUEST_TIMED_OUT
        assert await code_of(waiting) == ErrorCode.NOT_CONTROLLER
        refused = asyncio.ensure_future(world.controller.create_topics([NewTopic(name="c")]))
        assert await code_of(refused) == ErrorCode.NOT_CONTROLLER
        await world.log.step_down()
        offset = world.image.offset
        await world.pass_ms(600_000)  # no timer is left that would fence or balance
        assert (world.log.pending_image.offset, world.image.offset) == (offset, offset)

    run_world(with_topic(cluster([0, 1]), partition([1, 0], leader=0)), test)


def test_the_gauges_of_who_is_not_the_controller_are_zero() -> None:
    """CTL-4, MET-2: also what is told of partitions that nobody counts any more."""
    gauges = {
        "active": 1,
        "topics": 1,
        "partitions": 3,
        "offline_partitions": 1,
        "preferred_replica_imbalance": 2,
        "active_brokers": 2,
        "fenced_brokers": 1,
        "stopping_brokers": 0,
        "reassigning_partitions": 0,
    }

    async def test(world: ControllerWorld) -> None:
        await world.pass_ms(1)
        assert {name: metric(world, name) for name in gauges} == gauges
        world.controller.resign()
        assert {name: metric(world, name) for name in gauges} == dict.fromkeys(gauges, 0)

    image = with_topic(
        cluster([0, 1], fenced=[2]),
        partition([0, 1]),
        partition([1, 0], leader=0),
        partition([2], [2], NO_LEADER),
    )
    run_world(image, test)


def test_losing_and_regaining_leadership_runs_the_whole_path() -> None:
    """CTL-5: still resigns first, then runs the full election path; CTL-2."""

    async def test(world: ControllerWorld) -> None:
        await world.beat(1)
        await world.pass_ms(5000)
        await world.log.hold()
        old = asyncio.create_task(world.controller.create_topics([NewTopic(name="a")]))
        await world.pass_ms(1)
        await world.log.step_down()
        world.log.lead(3)
        world.controller.activate(3)
        assert await code_of(old) == ErrorCode.REQUEST_TIMED_OUT
        assert world.controller.is_active
        (result,) = await world.controller.create_topics([NewTopic(name="a")])
        assert result.error is None
        await world.pass_ms(5000)
        assert not world.image.brokers[1].fenced  # a fresh session
        await world.pass_ms(1100)
        assert world.image.brokers[1].fenced

    run_world(cluster([0, 1]), test)


def test_who_no_longer_leads_the_log_stops_without_stopping_the_broker() -> None:
    """CTL-1: a deposed leader can commit nothing more; what it has sent out others may commit."""

    async def test(world: ControllerWorld) -> None:
        await world.log.hold()
        task = asyncio.create_task(world.controller.create_topics([NewTopic(name="a")]))
        await world.pass_ms(1)
        await world.log.step_down()
        assert await code_of(task) == ErrorCode.REQUEST_TIMED_OUT
        assert not world.controller.is_active
        assert world.failures == []

    run_world(cluster([0]), test)


def test_a_log_that_fails_gives_the_controller_up() -> None:
    """CTL-7: the cluster must never be left with a holder that does not act."""

    async def test(world: ControllerWorld) -> None:
        await world.log.hold()
        task = asyncio.create_task(world.controller.create_topics([NewTopic(name="a")]))
        await world.pass_ms(1)
        await world.log.release(OSError("no space left"))
        assert await code_of(task) == ErrorCode.REQUEST_TIMED_OUT
        assert [str(error) for error in world.failures] == ["no space left"]
        world.failures.clear()

    run_world(cluster([0]), test)


def test_a_reply_waits_for_the_commit_and_so_does_a_refusal() -> None:
    """CTL-11: the reply leaves only after the records are committed."""

    async def test(world: ControllerWorld) -> None:
        await world.pass_ms(1)
        await world.log.hold()
        replies = [
            asyncio.create_task(world.controller.create_topics([NewTopic(name="a")]))
            for _ in range(2)
        ]
        await world.pass_ms(100)
        assert not any(reply.done() for reply in replies)
        await world.log.release()
        codes = [(await reply)[0].error for reply in replies]
        assert codes[0] is None
        assert codes[1] is not None
        assert codes[1].code == ErrorCode.TOPIC_ALREADY_EXISTS

    run_world(cluster([0]), test)


def test_events_are_handled_in_the_order_in_which_they_came() -> None:
    """CTL-8: **one event queue, strictly FIFO, one event at a time**."""
    order: list[int] = []

    async def test(world: ControllerWorld) -> None:
        def command(number: int) -> None:
            def decide(image: MetadataImage) -> tuple[list[MetadataRecord], None]:
                order.append(number)
                return [TopicRecord(f"t{number}", bytes([number]) * 16)], None

            world.controller.enqueue(decide)

        for number in range(50):
            command(number)
            if number % 7 == 0:
                await world.pass_ms(1)
        await world.pass_ms(1)
        assert order == list(range(50))
        assert list(world.image.topics.by_name) == [f"t{number}" for number in range(50)]

    run_world(cluster([0]), test)


def test_a_full_queue_refuses_users_but_not_its_own_timers() -> None:
    """CTL-8: bounded; timers only enqueue, few at a time."""

    def nothing(image: MetadataImage) -> tuple[list[MetadataRecord], None]:
        return [], None

    async def test(world: ControllerWorld) -> None:
        await world.log.hold()
        deciding = world.controller.enqueue(nothing)
        await world.pass_ms(1)
        waiting = [world.controller.enqueue(nothing) for _ in range(QUEUED_COMMANDS_MAX)]
        late = asyncio.ensure_future(world.controller.submit(nothing))
        assert await code_of(late) == ErrorCode.REQUEST_TIMED_OUT
        own = world.controller.enqueue(nothing)
        await world.log.release()
        await asyncio.gather(deciding, *waiting, own)

    run_world(cluster([0]), test)


def test_closing_without_a_majority_ends_all_the_same() -> None:
    """CTL-14, BOOT-7: what cannot be committed is answered, and the stop goes on."""

    async def test(world: ControllerWorld) -> None:
        await world.log.hold()
        task = asyncio.create_task(world.controller.create_topics([NewTopic(name="a")]))
        await world.pass_ms(1)
        await world.controller.close()
        assert await code_of(task) == ErrorCode.REQUEST_TIMED_OUT
        await world.controller.close()

    run_world(cluster([0]), test)


def test_leadership_goes_back_to_preferred_replicas_from_time_to_time() -> None:
    """LEAD-8: every leader.imbalance.check.interval.seconds (300); CTL-8: at most 1000 a pass."""
    states = [partition([1, 0], leader=0) for _ in range(1500)]

    async def test(world: ControllerWorld) -> None:
        world.keep_beating(0, 1)
        await world.pass_ms(299_000)
        assert {world.partition(index).leader for index in range(1500)} == {0}
        commands = world.controller.metrics.events_count
        await world.pass_ms(1100)
        assert {world.partition(index).leader for index in range(1500)} == {1}
        assert world.controller.metrics.events_count >= commands + 2

    run_world(with_topic(cluster([0, 1]), *states), test)


def test_leadership_stays_where_balancing_is_switched_off() -> None:
    """LEAD-8: auto.leader.rebalance.enable (default true)."""

    async def test(world: ControllerWorld) -> None:
        world.keep_beating(0, 1)
        await world.pass_ms(1_000_000)
        assert world.partition().leader == 0

    image = with_topic(cluster([0, 1]), partition([1, 0], leader=0))
    run_world(image, test, {"auto.leader.rebalance.enable": "false"})


def test_unclean_elections_allowed_later_take_effect_at_once() -> None:
    """LEAD-9: for already leaderless partitions; LEAD-2: it counts as data loss (own metric)."""

    async def test(world: ControllerWorld) -> None:
        world.keep_beating(0)
        await world.pass_ms(1)
        assert world.partition().leader == NO_LEADER
        await allow_unclean(world)
        await world.pass_ms(1)
        assert (world.partition().leader, world.partition().isr) == (0, (0,))
        assert metric(world, "unclean_elections_total") == 1

    image = with_topic(cluster([0], fenced=[1]), partition([1, 0], [1], NO_LEADER))
    run_world(image, test)


async def allow_unclean(world: ControllerWorld) -> None:
    setting = ConfigChange(key=UNCLEAN, operation=Operation.SET, value="true")
    change = ResourceChange(resource_type=RESOURCE_TOPIC, resource_name="t", changes=[setting])
    (result,) = await world.controller.incremental_alter_configs([change])
    assert result.error is None


def test_a_leaderless_partition_is_looked_at_again_from_time_to_time() -> None:
    """LEAD-9: within unclean.leader.election.interval.ms (5 min)."""

    async def test(world: ControllerWorld) -> None:
        world.keep_beating(0)
        await world.pass_ms(1000)
        override = ConfigRecord(RESOURCE_TOPIC, "t", UNCLEAN, "true")
        await world.controller.submit(lambda image: ([override], None))
        await world.pass_ms(298_000)
        assert world.partition().leader == NO_LEADER
        await world.pass_ms(2000)
        assert world.partition().leader == 0

    image = with_topic(cluster([0], fenced=[1]), partition([1, 0], [1], NO_LEADER))
    run_world(image, test)


def test_the_controller_goes_on_without_anything_but_its_log() -> None:
    """CTL-13: loss of the arbiter's store: it goes on electing and creating topics."""

    async def test(world: ControllerWorld) -> None:
        world.keep_beating(0)
        await world.pass_ms(6100)
        (result,) = await world.controller.create_topics([NewTopic(name="a")])
        assert result.error is None
        assert world.partition().leader == 0

    run_world(with_topic(cluster([0, 1]), partition([1, 0])), test)


def test_images_at_equal_offsets_are_equal() -> None:
    """CTL-12: what the controller decides on is what the records say, one by one."""

    async def test(world: ControllerWorld) -> None:
        start = world.image
        await world.register(2)
        await world.beat(1, want_shut_down=True)
        await world.controller.create_topics([NewTopic(name="a", partition_count=3)])
        assert applied(start, world.log.records) == world.log.pending_image

    run_world(with_topic(cluster([0, 1]), partition([1, 0])), test)


MANY = 3 * RECORDS_PER_TURN


def test_a_large_topic_is_made_at_once_and_not_in_one_turn() -> None:
    """CTL-8: 3,000 partitions held the loop for 27 ms; who comes meanwhile is decided behind it."""

    async def test(world: ControllerWorld) -> None:
        await world.pass_ms(1)
        start = world.image
        seen: set[int] = set()
        order: list[str] = []

        async def others() -> None:
            while True:
                seen.add(len(world.log.records))
                turns.append(None)
                await asyncio.sleep(0)

        async def make(name: str, count: int) -> None:
            topic = NewTopic(name=name, partition_count=count)
            (result,) = await world.controller.create_topics([topic])
            assert result.error is None
            order.append(name)

        turns: list[None] = []
        first = asyncio.create_task(make("large", MANY))
        await asyncio.sleep(0)
        watching = asyncio.create_task(others())
        await asyncio.gather(first, make("small", 1))
        watching.cancel()
        assert order == ["large", "small"]
        assert len(turns) >= MANY // RECORDS_PER_TURN
        assert not any(0 < count < MANY for count in seen), "the records are staged together"
        assert applied(start, world.log.records) == world.log.pending_image

    run_world(cluster([0]), test)


@pytest.mark.parametrize("leads_again", [False, True])
def test_a_large_command_of_an_epoch_that_is_over_is_not_carried_out(leads_again: bool) -> None:
    """CTL-4: it was told NOT_CONTROLLER, and so may ask the next controller for it."""

    async def test(world: ControllerWorld) -> None:
        await world.pass_ms(1)
        asked = [NewTopic(name="large", partition_count=MANY)]
        deciding = asyncio.ensure_future(world.controller.create_topics(asked))
        for _ in range(3):
            await asyncio.sleep(0)
        assert world.controller.queue_length == 0, "it is being prepared"
        assert not world.log.records
        world.controller.resign()
        if leads_again:
            world.log.lead(3)
            world.controller.activate(3)
        assert await code_of(deciding) == ErrorCode.NOT_CONTROLLER
        await world.pass_ms(100)
        assert "large" not in world.log.pending_image.topics.by_name

    run_world(cluster([0]), test)


def test_brokers_are_answered_while_the_controller_s_own_broker_makes_logs() -> None:
    """CTL-11: a reply leaves after the commit; a user's also once its effect can be seen here.

    CTL-8: nothing else waits for that: not a heartbeat, not the fencing of a broker that is lost.
    """

    async def test(world: ControllerWorld) -> None:
        world.keep_beating(0)
        await world.pass_ms(1)
        world.log.published.clear()
        making = asyncio.create_task(world.controller.create_topics([NewTopic(name="a")]))
        await world.pass_ms(1)
        assert "a" in world.image.topics.by_name
        async with asyncio.timeout(1):
            assert (await world.beat(1)).error_code == 0
        await world.pass_ms(20_000)
        assert world.image.brokers[1].fenced
        assert not world.image.brokers[0].fenced
        assert not making.done()
        world.log.published.set()
        assert [result.error for result in await making] == [None]

    run_world(cluster([0, 1]), test)


def test_what_is_committed_is_answered_when_the_controller_stops_before_it_is_seen() -> None:
    """CTL-11: nothing is answered with a doubt about what is known to be committed."""

    async def test(world: ControllerWorld) -> None:
        world.log.published.clear()
        making = asyncio.create_task(world.controller.create_topics([NewTopic(name="a")]))
        await world.pass_ms(1)
        await world.controller.close()
        assert [result.error for result in await making] == [None]

    run_world(cluster([0]), test)
