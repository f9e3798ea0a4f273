"""The controller's queue and its life: order, commit before reply, restarts, faults."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from barnabas_broker.arbiter.arbiter import ArbiterError, Leader, Stored
from barnabas_broker.arbiter.local_file import encode
from barnabas_broker.controller.brokers import Registration
from barnabas_broker.controller.heartbeats import Heartbeat
from barnabas_broker.controller.topics import NewTopic
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.records import MetadataRecord
from barnabas_protocol.errors import ErrorCode, KafkaError
from tests.support.control_plane import CLUSTER_ID, LISTENER, ControlPlane
from tests.support.virtual_loop import VirtualClock, run_virtual


async def refused(reply: Coroutine[Any, Any, Any]) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        await reply
    return raised.value.code


def test_first_controller_epoch_is_one_and_each_start_adds_one() -> None:
    """CTL-2: also when the same node wins again."""

    async def run() -> None:
        plane = ControlPlane()
        for epoch in (1, 2, 3):
            await (plane.start() if epoch == 1 else plane.restart())
            assert plane.image.epoch == epoch
            stored = (await plane.arbiter.read()).record
            assert stored is not None
            assert (stored.controller_epoch, stored.leader) == (epoch, Leader(0, "localhost", 9092))
        await plane.close()

    asyncio.run(run())


def test_clearing_the_record_forces_an_election_and_keeps_the_metadata() -> None:
    """CTL-10."""

    async def run() -> None:
        plane = ControlPlane()
        await plane.start()
        await plane.controller.create_topics([NewTopic(name="a")])
        plane.disk.remove("data/arbiter.json")
        await plane.restart()
        assert plane.image.epoch == 2
        assert "a" in plane.image.topics.by_name
        await plane.close()

    asyncio.run(run())


def test_a_node_with_another_disk_may_not_lead() -> None:
    """Rule 6 of the control plane: a voter belongs to a disk."""

    async def run() -> None:
        plane = ControlPlane(clock=VirtualClock(asyncio.get_running_loop()))
        await plane.start()
        plane.directory_id = b"another-dir-id.."
        with pytest.raises(ArbiterError):
            await plane.restart()
        assert not plane.controller.is_active
        await plane.close()

    run_virtual(run())


def test_reply_leaves_only_after_the_records_are_flushed() -> None:
    """CTL-11."""

    async def run() -> None:
        plane = ControlPlane()
        await plane.start()
        (result,) = await plane.controller.create_topics([NewTopic(name="a")])
        assert result.error is None
        assert plane.log.high_watermark == plane.log.log_end_offset == plane.image.offset + 1
        await plane.restart()
        assert plane.image.topics.by_name["a"].topic_id == result.topic_id
        await plane.close()

    asyncio.run(run())


def test_commands_that_wait_together_share_a_flush_and_see_each_other() -> None:
    """CTL-8: first in, first out; the second sees what the first decided."""

    async def run() -> None:
        plane = ControlPlane()
        await plane.start()
        flushes = plane.log.flush_count
        replies = await asyncio.gather(
            *(plane.controller.create_topics([NewTopic(name=name)]) for name in ("a", "b", "a"))
        )
        codes = [result.error and result.error.code for (result,) in replies]
        assert codes == [None, None, ErrorCode.TOPIC_ALREADY_EXISTS]
        assert plane.log.flush_count == flushes + 1
        assert list(plane.image.topics.by_name) == ["a", "b"]
        await plane.close()

    asyncio.run(run())


def test_changes_are_published_once_and_in_order_before_the_reply() -> None:
    """CTL-12."""

    async def run() -> None:
        plane = ControlPlane()
        await plane.start()
        plane.published.clear()
        await asyncio.gather(
            *(plane.controller.create_topics([NewTopic(name=f"t{index}")]) for index in range(5))
        )
        created = [list(delta.created) for delta, _ in plane.published if delta is not None]
        assert created == [[f"t{index}"] for index in range(5)]
        offsets = [image.offset for _, image in plane.published]
        assert offsets == sorted(set(offsets))
        await plane.close()

    asyncio.run(run())


def test_failed_write_answers_everybody_and_stops_the_controller() -> None:
    """CTL-7, CTL-11: nothing is acknowledged that may not be on disk."""

    async def run() -> None:
        plane = ControlPlane()
        await plane.start()
        plane.log.write_error = OSError("no space left")
        replies = await asyncio.gather(
            *(plane.controller.create_topics([NewTopic(name=f"t{index}")]) for index in range(3)),
            return_exceptions=True,
        )
        assert [isinstance(reply, KafkaError) and reply.code for reply in replies] == [
            ErrorCode.REQUEST_TIMED_OUT
        ] * 3
        assert plane.failures == [plane.log.write_error]
        assert not plane.controller.is_active
        assert plane.image.topics.by_name == {}
        assert await refused(plane.controller.create_topics([])) == ErrorCode.NOT_CONTROLLER
        await plane.close()

    asyncio.run(run())


def test_controller_resigns_when_another_epoch_is_stored() -> None:
    """CTL-4: before anything else, and its callers are told to look for the next one."""

    async def run() -> None:
        plane = ControlPlane(clock=VirtualClock(asyncio.get_running_loop()))
        await plane.start()
        stored = await plane.arbiter.read()
        assert stored.record is not None
        plane.disk.write_atomically("data/arbiter.json", b"damaged")
        await asyncio.sleep(5)
        assert plane.controller.is_active
        rival = stored.record._replace(controller_epoch=2, leader=Leader(1, "other", 1))
        plane.disk.write_atomically("data/arbiter.json", encode(Stored(rival, 2)))
        async with asyncio.timeout(20):
            while plane.controller.is_active:
                await asyncio.sleep(0.001)
        assert await refused(plane.controller.create_topics([])) == ErrorCode.NOT_CONTROLLER
        assert plane.failures == []
        await plane.close()

    run_virtual(run())


def test_a_command_that_fails_is_told_and_the_next_one_runs() -> None:
    """CTL-8: a fault of one event does not take the queue down."""

    def broken(image: MetadataImage) -> tuple[list[MetadataRecord], None]:
        raise ZeroDivisionError

    async def run() -> None:
        plane = ControlPlane()
        await plane.start()
        code = await refused(plane.controller.submit(broken))
        assert code == ErrorCode.UNKNOWN_SERVER_ERROR
        (result,) = await plane.controller.create_topics([NewTopic(name="a")])
        assert result.error is None
        assert plane.controller.metrics.failed_count == 1
        await plane.close()

    asyncio.run(run())


def test_closing_answers_what_is_queued_and_refuses_what_comes_later() -> None:
    """CTL-8, BOOT-7: idempotent."""

    async def run() -> None:
        plane = ControlPlane()
        await plane.start()
        queued = asyncio.create_task(plane.controller.create_topics([NewTopic(name="a")]))
        await asyncio.sleep(0)
        await plane.controller.close()
        assert (await queued)[0].error is None
        assert await refused(plane.controller.create_topics([])) == ErrorCode.NOT_CONTROLLER
        await plane.close()

    asyncio.run(run())


def test_controller_leads_as_soon_as_the_store_can_be_written() -> None:
    """CTL-7: without the arbiter's word nobody leads."""

    async def run() -> None:
        plane = ControlPlane(clock=VirtualClock(asyncio.get_running_loop()))
        for _ in range(5):
            plane.disk.fail("rename", "arbiter")
        await plane.start()
        assert plane.image.epoch == 1
        await plane.close()

    run_virtual(run())


def test_each_registration_gets_a_higher_broker_epoch() -> None:
    """REG-4: and requests with an older one are refused."""

    async def run() -> None:
        plane = ControlPlane()
        first = await plane.start()
        second = await plane.restart()
        assert second > first
        assert plane.image.brokers[0].epoch == second
        code = await refused(plane.controller.allocate_producer_ids(0, first))
        assert code == ErrorCode.STALE_BROKER_EPOCH
        code = await refused(plane.controller.allocate_producer_ids(9, first))
        assert code == ErrorCode.BROKER_ID_NOT_REGISTERED
        await plane.close()

    asyncio.run(run())


def test_a_second_live_broker_of_an_id_is_refused() -> None:
    """NODE-7; the same incarnation may register again (REG-3)."""

    async def run() -> None:
        plane = ControlPlane()
        await plane.start()
        incarnation = plane.image.brokers[0].incarnation

        def registration(incarnation_id: bytes, cluster_id: str = CLUSTER_ID) -> Registration:
            return Registration(
                node_id=0,
                incarnation_id=incarnation_id,
                cluster_id=cluster_id,
                listeners=(LISTENER,),
            )

        register = plane.controller.register_broker
        code = await refused(register(registration(b"another-one.....")))
        assert code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        code = await refused(register(registration(incarnation, "another cluster")))
        assert code == ErrorCode.INCONSISTENT_CLUSTER_ID
        assert await register(registration(incarnation)) > 0
        await plane.close()

    asyncio.run(run())


def test_unclean_restart_raises_leader_epochs_and_a_clean_one_does_not() -> None:
    """REG-8: the end of the logs may be lost, and clients must be able to notice."""

    async def run() -> None:
        plane = ControlPlane()
        epoch = await plane.start()
        await plane.controller.create_topics([NewTopic(name="a", partition_count=2)])

        def leader_epochs() -> list[tuple[int, int]]:
            return [
                (partition.leader, partition.leader_epoch)
                for partition in plane.image.topics.by_name["a"].partitions
            ]

        assert leader_epochs() == [(0, 0), (0, 0)]
        epoch = await plane.restart(previous_broker_epoch=epoch)
        assert leader_epochs() == [(0, 0), (0, 0)]
        await plane.restart(previous_broker_epoch=epoch - 1)
        assert leader_epochs() == [(0, 2), (0, 2)]  # without a leader first, for want of an ISR
        await plane.close()

    asyncio.run(run())


def test_fenced_broker_leads_nothing_new_until_it_is_unfenced() -> None:
    """REG-6, TOP-12."""

    async def run() -> None:
        plane = ControlPlane()
        epoch = await plane.start()
        beat = Heartbeat(node_id=0, broker_epoch=epoch, metadata_offset=epoch, wants_fence=True)
        await plane.controller.heartbeat(beat)
        (result,) = await plane.controller.create_topics([NewTopic(name="a")])
        assert result.error is not None
        assert result.error.code == ErrorCode.INVALID_REPLICATION_FACTOR
        await plane.controller.heartbeat(replace(beat, wants_fence=False))
        (result,) = await plane.controller.create_topics([NewTopic(name="a")])
        assert result.error is None
        await plane.close()

    asyncio.run(run())


def test_no_producer_id_is_given_twice() -> None:
    """CTL-15, TXN-8: blocks of 1000, across restarts."""

    async def run() -> None:
        plane = ControlPlane()
        await plane.start()
        blocks = [await plane.controller.allocate_producer_ids() for _ in range(3)]
        await plane.restart()
        blocks.append(await plane.controller.allocate_producer_ids())
        assert blocks == [(0, 1000), (1000, 1000), (2000, 1000), (3000, 1000)]
        await plane.close()

    asyncio.run(run())
