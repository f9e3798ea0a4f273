"""Brokers become part of a cluster, come back to it and are taken out of it."""

import pytest

from barnabas_broker.metadata.image import NO_LEADER, RESOURCE_BROKER
from barnabas_broker.metadata.records import BrokerRecord, ConfigRecord, FeatureRecord
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.broker_registration import Feature, Listener
from barnabas_protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.support.controller_world import ControllerWorld, run_world
from tests.support.partition_images import (
    applied,
    cluster,
    directory,
    partition,
    registered,
    with_topic,
)

OTHER_PROCESS = b"another process."


def test_a_registration_carries_what_others_need_of_a_broker() -> None:
    """REG-1: id, incarnation uuid, all listeners (name, host, port, protocol), rack, log dirs."""

    async def test(world: ControllerWorld) -> None:
        answer = await world.register(
            4,
            listeners=[
                Listener(name="A", host="host-4", port=9092, security_protocol=0),
                Listener(name="B", host="other", port=9093, security_protocol=3),
            ],
        )
        assert answer.error_code == 0
        broker = world.image.brokers[4]
        assert [
            (one.name, one.host, one.port, one.security_protocol)
            for one in broker.listeners.values()
        ] == [("A", "host-4", 9092, "PLAINTEXT"), ("B", "other", 9093, "SASL_SSL")]
        assert (broker.incarnation, broker.rack) == (bytes([4]) * 16, "a")
        assert (broker.directories, broker.epoch) == ((directory(4),), answer.broker_epoch)

    run_world(cluster([0]), test)


def test_a_broker_is_registered_fenced() -> None:
    """REG-6: Fenced → Unfenced when it asks and its metadata offset ≥ its own registration."""

    async def test(world: ControllerWorld) -> None:
        await world.register(4)
        assert world.image.brokers[4].fenced

    run_world(cluster([0]), test)


def test_each_registration_gets_a_higher_epoch_and_older_ones_are_refused() -> None:
    """REG-4: requests with an older one: STALE_BROKER_EPOCH (77)."""

    async def test(world: ControllerWorld) -> None:
        first = (await world.register(4)).broker_epoch
        second = (await world.register(4)).broker_epoch
        assert second > first
        answer = await world.beat(4, broker_epoch=first)
        assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
        answer = await world.beat(9, broker_epoch=first)
        assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED

    run_world(cluster([0]), test)


def test_the_same_process_registers_again_and_leads_on() -> None:
    """REG-3: session lost and regained: register again with the same data."""

    async def test(world: ControllerWorld) -> None:
        await world.beat(1)
        before = world.partition()
        answer = await world.register(1, previous_broker_epoch=101)
        assert (answer.error_code, answer.broker_epoch) == (0, world.image.brokers[1].epoch)
        assert answer.broker_epoch != 101
        assert not world.image.brokers[1].fenced
        assert world.partition() == before

    run_world(with_topic(cluster([0, 1]), partition([1, 0])), test)


@pytest.mark.parametrize("process", ["the same", "another"])
def test_whoever_registers_with_a_directory_less_has_no_replicas_there(process: str) -> None:
    """LOG-11, KIP-858: it failed before a heartbeat told of it, and none tells of it any more."""

    async def test(world: ControllerWorld) -> None:
        await world.beat(1)
        incarnation = world.image.brokers[1].incarnation
        if process == "another":
            incarnation = OTHER_PROCESS
            world.controller.connection_ended(1, "connection of 1")
        answer = await world.register(
            1,
            previous_broker_epoch=101,
            incarnation_id=incarnation,
            log_dirs=[directory(1, 0)],
            connection="of the second",
        )
        assert answer.error_code == 0
        lost, kept = world.partition(0), world.partition(1)
        assert (lost.leader, lost.isr) == (0, (0,))
        assert 1 not in lost.eligible_leader_replicas
        if process == "the same":
            assert (kept.leader, kept.isr) == (1, (1, 0))
        await world.beat(1, offline_log_dirs=[directory(1, 1)])
        assert world.partition(0).isr == (0,)

    where = [(directory(1, number), directory(0)) for number in (1, 0)]
    image = applied(cluster([0]), [registered(1, directories=2)])
    run_world(with_topic(image, *(partition([1, 0], directories=place) for place in where)), test)


def test_others_notice_that_a_broker_was_lost_and_that_it_is_back() -> None:
    """REG-3: other brokers must notice both the loss and the return."""

    async def test(world: ControllerWorld) -> None:
        world.keep_beating(0)
        await world.pass_ms(6100)
        assert world.image.brokers[1].fenced
        await world.register(1)
        await world.beat(1)
        assert not world.image.brokers[1].fenced

    run_world(cluster([0, 1]), test)


def test_a_second_process_of_a_live_broker_is_refused() -> None:
    """NODE-7: DUPLICATE_BROKER_REGISTRATION while the first one is heard."""

    async def test(world: ControllerWorld) -> None:
        await world.beat(1)
        answer = await world.register(1, incarnation_id=OTHER_PROCESS, connection="of the second")
        assert answer.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        assert world.image.brokers[1].incarnation != OTHER_PROCESS
        assert (await world.beat(1)).error_code == 0

    run_world(cluster([0, 1]), test)


def test_a_broker_that_was_killed_is_back_as_soon_as_its_next_process_is_there() -> None:
    """REG-4, NODE-7: the connection of the first has ended: its session need not be over."""

    async def test(world: ControllerWorld) -> None:
        await world.beat(1)
        world.controller.connection_ended(1, "connection of 1")
        assert world.refused.suspected == [1]
        answer = await world.register(1, incarnation_id=OTHER_PROCESS, connection="of the second")
        assert answer.error_code == 0

    run_world(cluster([0, 1]), test)


def test_the_next_process_may_come_while_the_last_one_shuts_down() -> None:
    """REG-4: as in Kafka, who is leaving anyway does not keep the id."""

    async def test(world: ControllerWorld) -> None:
        await world.beat(1)
        answer = await world.register(1, incarnation_id=OTHER_PROCESS)
        assert answer.error_code == 0
        assert not world.image.brokers[1].is_shutting_down

    run_world(cluster([0], shutting_down=[1]), test)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"log_dirs": [directory(4), directory(4)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(1)]}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": [Listener(security_protocol=-1)]}, ErrorCode.INVALID_REGISTRATION),
        ({"features": []}, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_registration_that_cannot_be_is_refused(
    changes: dict[str, object], code: ErrorCode
) -> None:
    """REG-1: another cluster, a disk that is another broker's, a feature that it does not know."""

    async def test(world: ControllerWorld) -> None:
        assert (await world.register(4, **changes)).error_code == code
        assert 4 not in world.image.brokers

    run_world(cluster([0, 1]), test)


def test_a_broker_too_old_for_a_feature_that_is_on_is_refused() -> None:
    """REG-1, KIP-584: features: a level in use must be within what the broker supports."""
    image = applied(cluster([0]), [FeatureRecord("x.version", 2)])
    able = Feature(name="barnabas.version", min_supported_version=1, max_supported_version=1)

    async def test(world: ControllerWorld) -> None:
        old = Feature(name="x.version", min_supported_version=0, max_supported_version=1)
        answer = await world.register(4, features=[able, old])
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        new = Feature(name="x.version", min_supported_version=0, max_supported_version=2)
        assert (await world.register(4, features=[able, new])).error_code == 0

    run_world(image, test)


def test_an_unclean_stop_takes_a_broker_out_of_the_isr_before_it_may_lead() -> None:
    """REG-8: registration without the clean-shutdown epoch counts as unclean."""

    async def test(world: ControllerWorld) -> None:
        await world.register(1, incarnation_id=OTHER_PROCESS, previous_broker_epoch=99)
        assert (world.partition().leader, world.partition().isr) == (0, (0,))
        await world.beat(1)
        assert world.partition().isr == (0,)

    run_world(with_topic(cluster([0, 1]), partition([1, 0])), test)


def test_the_only_replica_leads_again_in_a_new_epoch_after_an_unclean_stop() -> None:
    """REG-8: nobody has more than it; its leader epoch tells that the end may be lost."""

    async def test(world: ControllerWorld) -> None:
        await world.register(1, incarnation_id=OTHER_PROCESS)
        assert (world.partition().leader, world.partition().isr) == (NO_LEADER, (1,))
        await world.beat(1)
        assert (world.partition().leader, world.partition().isr) == (1, (1,))
        assert world.partition().leader_epoch > 5

    run_world(with_topic(cluster([0, 1]), partition([1])), test)


def test_after_a_clean_stop_the_last_in_sync_replica_leads_again() -> None:
    """REG-8: the marker names the epoch of the last registration."""

    async def test(world: ControllerWorld) -> None:
        await world.register(1, incarnation_id=OTHER_PROCESS, previous_broker_epoch=101)
        assert world.partition().isr == (1,)
        await world.beat(1)
        assert world.partition().leader == 1

    run_world(with_topic(cluster([0], fenced=[1]), partition([1, 0], [1], NO_LEADER)), test)


def test_an_unregistered_broker_leads_nothing_and_is_not_known_any_more() -> None:
    """KIP-631: as in Kafka, also a live one; what it is assigned to stays so."""

    async def test(world: ControllerWorld) -> None:
        answer = await world.local.answer(UnregisterBrokerRequest(broker_id=1))
        assert answer.error_code == 0
        assert 1 not in world.image.brokers
        state = world.partition()
        assert (state.replicas, state.isr, state.leader) == ((1, 0), (0,), 0)
        assert (await world.beat(1)).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        answer = await world.local.answer(UnregisterBrokerRequest(broker_id=1))
        assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        assert answer.error_message == "Broker ID 1 is not currently registered"

    run_world(with_topic(cluster([0, 1]), partition([1, 0])), test)


def test_an_unregistered_broker_that_was_to_go_may_be_a_member_again_when_it_comes_back() -> None:
    """It had left the metadata log for good; another broker of that id has not."""
    going = ConfigRecord(RESOURCE_BROKER, "1", "metadata.member.leaving", "true")
    kept = ConfigRecord(RESOURCE_BROKER, "1", "num.io.threads", "9")

    async def test(world: ControllerWorld) -> None:
        await world.local.answer(UnregisterBrokerRequest(broker_id=1))
        assert world.image.config_overrides(RESOURCE_BROKER, "1") == {"num.io.threads": "9"}

    run_world(applied(cluster([0, 1]), [going, kept]), test)


def test_a_registered_broker_gets_no_second_record_from_a_heartbeat() -> None:
    """REG-5: signs of life that change nothing cost nothing: no record."""

    async def test(world: ControllerWorld) -> None:
        await world.register(4)
        await world.beat(4)
        offset = world.image.offset
        for _ in range(5):
            assert not (await world.beat(4)).is_fenced
        assert world.image.offset == offset
        assert sum(isinstance(record, BrokerRecord) for record in world.log.records) == 1

    run_world(cluster([0]), test)
