"""Heartbeats, fencing and controlled shutdown, as the active controller sees them."""

import asyncio

import pytest

from barnabas_broker.metadata.image import NO_LEADER
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from tests.support.controller_world import ControllerWorld, run_world
from tests.support.partition_images import (
    TOPIC_ID,
    applied,
    cluster,
    directory,
    partition,
    registered,
    with_topic,
)


def test_a_fenced_broker_is_unfenced_when_it_asks_and_has_caught_up() -> None:
    """REG-6: when it asks and its metadata offset ≥ its own registration record."""

    async def test(world: ControllerWorld) -> None:
        epoch = (await world.register(1)).broker_epoch
        answer = await world.beat(1, current_metadata_offset=epoch - 1)
        assert (answer.is_caught_up, answer.is_fenced) == (False, True)
        answer = await world.beat(1, current_metadata_offset=epoch, want_fence=True)
        assert (answer.is_caught_up, answer.is_fenced) == (True, True)
        answer = await world.beat(1, current_metadata_offset=epoch)
        assert (answer.is_caught_up, answer.is_fenced) == (True, False)
        assert not world.image.brokers[1].fenced

    run_world(cluster([0]), test)


def test_unfencing_elects_only_where_there_is_no_leader() -> None:
    """REG-7: only for partitions that have no leader and may use that broker."""
    led, leaderless, foreign = (
        partition([1, 0], [0], 0),
        partition([1, 0], [1], NO_LEADER),
        partition([0, 1], [0], NO_LEADER),
    )

    async def test(world: ControllerWorld) -> None:
        await world.beat(1, current_metadata_offset=101)
        assert [world.partition(index).leader for index in range(3)] == [0, 1, 0]
        assert world.partition(0) == led

    # Nobody led the third one either: the controller itself finds that when it begins (CTL-6).
    run_world(with_topic(cluster([0], fenced=[1]), led, leaderless, foreign), test)


def test_a_broker_may_ask_to_be_fenced() -> None:
    """REG-6: Unfenced → Fenced on request. REG-9: a clean stop deregisters actively."""

    async def test(world: ControllerWorld) -> None:
        answer = await world.beat(1, want_fence=True)
        assert answer.is_fenced
        assert world.image.brokers[1].fenced
        assert (world.partition().leader, world.partition().isr) == (0, (0,))

    run_world(with_topic(cluster([0, 1]), partition([1, 0])), test)


def test_a_silent_broker_is_fenced_after_the_session_timeout() -> None:
    """REG-5: it leads nothing, leaves every ISR (except as last member); **ours:** 6000."""

    async def test(world: ControllerWorld) -> None:
        world.keep_beating(0, 1)
        await world.pass_ms(10_000)
        world.stop_beating(1)
        await world.beat(1)
        await world.pass_ms(5990)
        assert not world.image.brokers[1].fenced
        await world.pass_ms(20)
        assert world.image.brokers[1].fenced
        assert (world.partition(0).leader, world.partition(0).isr) == (0, (0,))
        assert (world.partition(1).leader, world.partition(1).isr) == (NO_LEADER, (1,))
        assert not world.image.brokers[0].fenced

    run_world(with_topic(cluster([0, 1]), partition([1, 0]), partition([1])), test)


def test_a_broker_whose_address_refuses_is_fenced_within_half_a_second() -> None:
    """REG-5: **ours:** reconnecting is *refused*: broker.fence.on.refused.ms 500."""

    async def test(world: ControllerWorld) -> None:
        world.keep_beating(0)
        await world.beat(1)
        world.controller.connection_ended(1, "connection of 1")
        assert world.refused.suspected == [1]
        world.refused.refuse(1, world.clock.monotonic_ms())
        await world.pass_ms(499)
        assert not world.image.brokers[1].fenced
        await world.pass_ms(2)
        assert world.image.brokers[1].fenced
        assert world.partition().leader == 0

    run_world(with_topic(cluster([0, 1]), partition([1, 0])), test)


def test_a_refusal_that_ends_in_time_fences_nobody() -> None:
    """REG-5: a listener that was away for a moment."""

    async def test(world: ControllerWorld) -> None:
        world.keep_beating(0, 1)
        world.refused.refuse(1, world.clock.monotonic_ms())
        await world.pass_ms(400)
        world.refused.forget(1)
        await world.pass_ms(2000)
        assert not world.image.brokers[1].fenced

    run_world(cluster([0, 1]), test)


def test_who_refused_before_the_controller_began_is_fenced_at_once() -> None:
    """CTL-6: a failover need not wait once more for what is known already."""

    async def test(world: ControllerWorld) -> None:
        world.refused.since[1] = world.clock.monotonic_ms() - 500
        world.log.lead(2)
        world.controller.activate(2)
        await world.pass_ms(1)
        assert world.image.brokers[1].fenced
        assert not world.image.brokers[0].fenced

    run_world(cluster([0, 1]), test, is_active=False)


def test_a_broker_that_cannot_be_reached_stays_fenced_though_it_beats() -> None:
    """REG-6: it would be fenced again at once, and so on; a registration shows that it listens."""

    async def test(world: ControllerWorld) -> None:
        world.refused.refuse(1, world.clock.monotonic_ms())
        await world.pass_ms(600)
        assert (await world.beat(1)).is_fenced
        await world.register(1)
        assert not (await world.beat(1)).is_fenced

    run_world(cluster([0], fenced=[1]), test)


def test_a_heartbeat_in_the_queue_counts_from_when_it_came() -> None:
    """REG-5: a slow commit is not the brokers' silence."""

    async def test(world: ControllerWorld) -> None:
        await world.log.hold()
        held = asyncio.create_task(world.register(2))
        await world.pass_ms(5000)
        beats = [asyncio.create_task(world.beat(node_id)) for node_id in (0, 1)]
        await world.pass_ms(3000)
        await world.log.release()
        await asyncio.gather(held, *beats)
        await world.pass_ms(1)
        assert not any(world.image.brokers[node_id].fenced for node_id in (0, 1))

    run_world(cluster([0, 1]), test)


def test_all_that_are_lost_together_are_fenced_one_after_the_other() -> None:
    """CTL-8: one event each: the second sees what the first has changed."""

    async def test(world: ControllerWorld) -> None:
        world.keep_beating(0)
        await world.pass_ms(6100)
        state = world.partition()
        assert (state.leader, state.isr, state.leader_epoch) == (0, (0,), 7)

    run_world(with_topic(cluster([0, 1, 2]), partition([1, 2, 0])), test)


# ---- controlled shutdown -------------------------------------------------------------------------


def test_leaderships_move_and_the_isr_shrinks_before_a_broker_stops() -> None:
    """STOP-3: factor > 1 and it leads → new leader by LEAD-5, ISR shrinks; REG-6."""

    async def test(world: ControllerWorld) -> None:
        world.keep_beating(0, 2, interval_ms=100)
        answer = await world.beat(1, want_shut_down=True)
        assert (answer.is_fenced, answer.should_shut_down) == (False, False)
        assert world.image.brokers[1].is_shutting_down
        assert (world.partition(0).leader, world.partition(0).isr) == (2, (2, 0))
        assert (world.partition(1).leader, world.partition(1).isr) == (0, (0,))

    image = with_topic(cluster([0, 1, 2]), partition([1, 2, 0]), partition([0, 1]))
    run_world(image, test)


def test_a_broker_may_stop_once_all_live_brokers_know_that_it_does() -> None:
    """STOP-5: it leads nothing *and* all other live brokers have applied metadata up to it."""

    async def test(world: ControllerWorld) -> None:
        for node_id in (0, 1, 2):
            await world.beat(node_id)
        await world.beat(1, want_shut_down=True)
        change = world.image.offset
        world.offsets = {0: change, 2: change - 1}
        for node_id in (0, 2):
            await world.beat(node_id)
        answer = await world.beat(1, want_shut_down=True)
        assert (answer.is_fenced, answer.should_shut_down) == (False, False)
        world.offsets[2] = change
        await world.beat(2)
        answer = await world.beat(1, want_shut_down=True)
        assert (answer.is_fenced, answer.should_shut_down) == (True, True)
        assert world.image.brokers[1].fenced

    run_world(with_topic(cluster([0, 1, 2]), partition([1, 2, 0])), test)


def test_a_fenced_broker_holds_no_shutdown_up() -> None:
    """STOP-5: all other *live* brokers."""

    async def test(world: ControllerWorld) -> None:
        await world.beat(0)
        await world.beat(1, want_shut_down=True)
        await world.beat(0)
        assert (await world.beat(1, want_shut_down=True)).should_shut_down

    run_world(with_topic(cluster([0, 1], fenced=[2]), partition([1, 0])), test)


def test_who_leads_nothing_stops_at_once() -> None:
    """REG-6: ControlledShutdown if it leads anything, else ShutdownNow."""

    async def test(world: ControllerWorld) -> None:
        answer = await world.beat(1, want_shut_down=True)
        assert (answer.is_fenced, answer.should_shut_down) == (True, True)
        assert world.partition().isr == (0,)

    run_world(with_topic(cluster([0, 1]), partition([0, 1])), test)


@pytest.mark.parametrize("replicas", [(1,), (1, 0)])
def test_what_nobody_else_can_lead_is_not_waited_for(replicas: tuple[int, ...]) -> None:
    """STOP-7: one whose partitions have no other ISR member does not wait; STOP-3: factor 1."""

    async def test(world: ControllerWorld) -> None:
        answer = await world.beat(1, want_shut_down=True)
        assert (answer.is_fenced, answer.should_shut_down) == (True, True)
        assert (world.partition().leader, world.partition().isr) == (NO_LEADER, (1,))

    run_world(with_topic(cluster([0, 1]), partition(replicas, [1], 1)), test)


def test_the_only_broker_of_a_cluster_does_not_wait() -> None:
    """STOP-7."""

    async def test(world: ControllerWorld) -> None:
        assert (await world.beat(0, want_shut_down=True)).should_shut_down

    run_world(with_topic(cluster([0]), partition([0])), test)


def test_a_fenced_broker_that_wants_to_stop_is_told_to() -> None:
    """REG-6: Fenced + wantShutDown → ShutdownNow."""

    async def test(world: ControllerWorld) -> None:
        offset = world.image.offset
        answer = await world.beat(1, want_shut_down=True)
        assert (answer.is_fenced, answer.should_shut_down) == (True, True)
        assert world.image.offset == offset

    run_world(cluster([0], fenced=[1]), test)


def test_a_broker_that_is_killed_while_it_drains_is_fenced_like_any_other() -> None:
    """REG-5, STOP-6."""

    async def test(world: ControllerWorld) -> None:
        world.keep_beating(0)
        await world.beat(1, want_shut_down=True)
        await world.pass_ms(6100)
        assert world.image.brokers[1].fenced

    run_world(with_topic(cluster([0, 1]), partition([1, 0])), test)


def test_a_draining_broker_gets_no_new_leadership() -> None:
    """STOP-6: no new leadership; what it cannot give away it goes on leading."""

    async def test(world: ControllerWorld) -> None:
        world.keep_beating(0, 1, 2, interval_ms=100)
        await world.beat(1, want_shut_down=True)
        assert [world.partition(index).leader for index in (0, 1)] == [2, 1]
        await world.beat(2, want_fence=True)
        assert world.partition(0).leader != 1

    image = with_topic(cluster([0, 1, 2]), partition([1, 2], [1, 2]), partition([1, 0], [1]))
    run_world(image, test)


def proposal(*isr: int) -> AlterPartitionRequest:
    """Broker 1 wants the ISR of the second partition to be these."""
    members = [BrokerState(broker_id=node, broker_epoch=100 + node) for node in isr]
    change = AlterPartitionRequestPartitionData(
        partition_index=1, leader_epoch=5, partition_epoch=9, new_isr_with_epochs=members
    )
    topic = AlterPartitionRequestTopicData(topic_id=TOPIC_ID, partitions=[change])
    return AlterPartitionRequest(broker_id=1, broker_epoch=101, topics=[topic])


def test_what_could_not_move_does_as_soon_as_another_replica_is_in_sync() -> None:
    """STOP-4: what remains is tried again; the broker asks for as long as its budget lasts."""

    async def test(world: ControllerWorld) -> None:
        await world.beat(1, want_shut_down=True)
        assert [world.partition(index).leader for index in (0, 1)] == [0, 1]
        await world.local.answer(proposal(1, 0))
        assert [world.partition(index).leader for index in (0, 1)] == [0, 0]

    image = with_topic(cluster([0, 1]), partition([1, 0]), partition([1, 0], [1]))
    run_world(image, test)


def test_a_draining_broker_is_not_taken_into_an_isr() -> None:
    """STOP-6: a broker in controlled shutdown cannot (re)join an ISR."""

    async def test(world: ControllerWorld) -> None:
        await world.beat(2, want_shut_down=True)
        answer = await world.local.answer(proposal(1, 2))
        assert answer.topics[0].partitions[0].error_code == ErrorCode.INELIGIBLE_REPLICA
        assert world.partition(1).isr == (1,)

    image = with_topic(cluster([0, 1, 2]), partition([2, 0]), partition([1, 2], [1]))
    run_world(image, test)


def test_a_shutdown_goes_on_under_the_next_controller() -> None:
    """STOP-2: the controller is looked up again for every attempt; it waits for all once more."""

    async def test(world: ControllerWorld) -> None:
        await world.beat(1, want_shut_down=True)
        world.controller.resign()
        world.log.lead(3)
        world.controller.activate(3)
        assert not (await world.beat(1, want_shut_down=True)).should_shut_down
        await world.beat(0)
        assert (await world.beat(1, want_shut_down=True)).should_shut_down

    run_world(with_topic(cluster([0, 1]), partition([1, 0])), test)


# ---- log directories -----------------------------------------------------------------------------


def test_a_failed_directory_moves_its_leaderships_at_once() -> None:
    """REG-6: heartbeat request: offline dirs; KIP-858: the rest of the broker goes on."""
    image = applied(cluster([0]), [registered(1, directories=2)])
    places = [(directory(1, number), directory(0)) for number in (0, 1)]
    image = with_topic(image, *(partition([1, 0], directories=place) for place in places))

    async def test(world: ControllerWorld) -> None:
        answer = await world.beat(1, offline_log_dirs=[directory(1, 1)])
        assert not answer.is_fenced
        assert world.image.brokers[1].directories == (directory(1, 0),)
        assert [world.partition(index).leader for index in (0, 1)] == [1, 0]
        assert world.partition(1).isr == (0,)
        offset = world.image.offset
        await world.beat(1, offline_log_dirs=[directory(1, 1)])
        assert world.image.offset == offset

    run_world(image, test)


def test_a_directory_may_fail_while_its_broker_shuts_down() -> None:
    """REG-6: both at once: the shutdown goes by what is left."""
    image = applied(cluster([0]), [registered(1, directories=2)])
    image = with_topic(image, partition([1, 0], directories=[directory(1, 1), directory(0)]))

    async def test(world: ControllerWorld) -> None:
        answer = await world.beat(1, want_shut_down=True, offline_log_dirs=[directory(1, 1)])
        assert answer.should_shut_down
        assert (world.partition().leader, world.partition().isr) == (0, (0,))
        broker = world.image.brokers[1]
        assert (broker.fenced, broker.directories) == (True, (directory(1, 0),))

    run_world(image, test)


# ---- not the controller --------------------------------------------------------------------------


def test_who_is_not_the_controller_says_so() -> None:
    """CTL-4: brokers look for the next one; REG-5: and are not fenced for it."""

    async def test(world: ControllerWorld) -> None:
        answer = await world.beat(1)
        assert answer.error_code == ErrorCode.NOT_CONTROLLER
        assert (await world.register(1)).error_code == ErrorCode.NOT_CONTROLLER
        await world.pass_ms(60_000)
        assert not world.image.brokers[1].fenced

    run_world(cluster([0, 1]), test, is_active=False)
