"""The one path to the controller: request messages in, response messages out, on every version."""

from typing import Any

import pytest

from barnabas_broker.controller.channel import is_not_controller
from barnabas_broker.controller.local import LocalController, failed, registration_of
from barnabas_broker.handlers.table import ADVERTISED, CONTROL, FORWARDED, VERSIONS
from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas_protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from barnabas_protocol.messages.api_versions import ApiVersionsRequest
from barnabas_protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from barnabas_protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas_protocol.messages.report_lost_replicas import (
    ReportLostReplicasRequest,
    ReportLostReplicasRequestTopic,
)
from barnabas_protocol.messages.unregister_broker import UnregisterBrokerRequest
from barnabas_protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.controller_world import ControllerWorld, registration, run_world
from tests.support.partition_images import TOPIC_ID, cluster, directory, partition, with_topic

TWO_BROKERS = with_topic(cluster([0, 1]), partition([1, 0]), partition([0]))


def asked() -> dict[ApiKey, Any]:
    """A request of each API that succeeds."""
    return {
        ApiKey.CREATE_TOPICS: CreateTopicsRequest(
            topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=2)]
        ),
        ApiKey.ALTER_PARTITION: isr_change(1, 101, [0]),
        ApiKey.UPDATE_FEATURES: UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(feature="barnabas.version", max_version_level=1)]
        ),
        ApiKey.BROKER_REGISTRATION: registration(2),
        ApiKey.BROKER_HEARTBEAT: BrokerHeartbeatRequest(broker_id=1, broker_epoch=101),
        ApiKey.UNREGISTER_BROKER: UnregisterBrokerRequest(broker_id=1),
        ApiKey.ALLOCATE_PRODUCER_IDS: AllocateProducerIdsRequest(broker_id=1, broker_epoch=101),
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: placed(1, 101, (TOPIC_ID, 0)),
        ApiKey.REPORT_LOST_REPLICAS: ReportLostReplicasRequest(
            broker_id=1,
            broker_epoch=101,
            topics=[ReportLostReplicasRequestTopic(topic_id=TOPIC_ID, partitions=[0])],
        ),
    }


def isr_change(leader: int, broker_epoch: int, without: list[int]) -> AlterPartitionRequest:
    isr = [node for node in (1, 0) if node not in without]
    return AlterPartitionRequest(
        broker_id=leader,
        broker_epoch=broker_epoch,
        topics=[
            AlterPartitionRequestTopicData(
                topic_id=TOPIC_ID,
                partitions=[
                    AlterPartitionRequestPartitionData(
                        partition_index=0,
                        leader_epoch=5,
                        partition_epoch=9,
                        new_isr_with_epochs=[
                            BrokerState(broker_id=node, broker_epoch=100 + node) for node in isr
                        ],
                    )
                ],
            )
        ],
    )


def placed(
    node_id: int, broker_epoch: int, *partitions: tuple[bytes, int]
) -> AssignReplicasToDirsRequest:
    return AssignReplicasToDirsRequest(
        broker_id=node_id,
        broker_epoch=broker_epoch,
        directories=[
            AssignReplicasToDirsRequestDirectoryData(
                id=directory(node_id, 1),
                topics=[
                    AssignReplicasToDirsRequestTopicData(
                        topic_id=topic_id,
                        partitions=[
                            AssignReplicasToDirsRequestPartitionData(partition_index=index)
                        ],
                    )
                    for topic_id, index in partitions
                ],
            )
        ],
    )


@pytest.mark.parametrize("key", list(asked()), ids=lambda key: key.name)
def test_every_request_is_answered_on_every_version(key: ApiKey) -> None:
    """CTL-15: what the controller answers can be encoded in each version that is served."""

    async def test(world: ControllerWorld) -> None:
        response = await world.local.answer(asked()[key])
        assert not getattr(response, "error_code", 0)
        for answer in (response, failed(asked()[key], KafkaError(ErrorCode.REQUEST_TIMED_OUT))):
            for version in range(VERSIONS[key][0], VERSIONS[key][1] + 1):
                assert codec.encode_response(answer, key, version, 1)

    run_world(TWO_BROKERS, test)


@pytest.mark.parametrize("key", list(asked()), ids=lambda key: key.name)
def test_who_is_not_the_controller_says_so_on_every_request(key: ApiKey) -> None:
    """CTL-15: a broker then looks for the controller again."""

    async def test(world: ControllerWorld) -> None:
        assert is_not_controller(await world.local.answer(asked()[key]))

    run_world(TWO_BROKERS, test, is_active=False)


def test_what_is_not_the_controllers_is_a_fault_of_the_caller() -> None:
    """CTL-15: the commands are a list."""

    async def test(world: ControllerWorld) -> None:
        with pytest.raises(TypeError):
            await world.local.answer(ApiVersionsRequest())

    run_world(TWO_BROKERS, test)


def test_brokers_apis_are_not_shown_to_clients() -> None:
    """NET-16: as on a Kafka broker: UpdateFeatures and UnregisterBroker only."""
    shown = {key for key in asked() if key in ADVERTISED}
    assert shown == {ApiKey.CREATE_TOPICS, ApiKey.UPDATE_FEATURES, ApiKey.UNREGISTER_BROKER}
    assert shown <= FORWARDED.keys()
    assert asked().keys() - shown <= CONTROL


def test_producer_ids_come_in_blocks_of_a_thousand_for_registered_brokers() -> None:
    """CTL-15: producer-id blocks (1000 ids per block)."""

    async def test(world: ControllerWorld) -> None:
        async def allocate(node_id: int, epoch: int) -> tuple[int, int, int]:
            request = AllocateProducerIdsRequest(broker_id=node_id, broker_epoch=epoch)
            answer = await world.local.answer(request)
            return answer.error_code, answer.producer_id_start, answer.producer_id_len

        assert await allocate(1, 101) == (0, 0, 1000)
        assert await allocate(0, 100) == (0, 1000, 1000)
        assert (await allocate(0, 7))[0] == ErrorCode.STALE_BROKER_EPOCH
        assert (await allocate(9, 7))[0] == ErrorCode.BROKER_ID_NOT_REGISTERED
        assert await allocate(1, 101) == (0, 2000, 1000)

    run_world(TWO_BROKERS, test)


def test_a_broker_tells_where_its_replicas_are() -> None:
    """LOG-11, KIP-858: each partition has its own outcome."""
    nobodys = b"an id of no one."

    async def test(world: ControllerWorld) -> None:
        request = placed(1, 101, (TOPIC_ID, 0), (TOPIC_ID, 1), (TOPIC_ID, 7), (nobodys, 0))
        answer = await world.local.answer(request)
        codes = [
            part.error_code
            for place in answer.directories
            for topic in place.topics
            for part in topic.partitions
        ]
        assert codes == [
            ErrorCode.NONE,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_ID,
        ]
        assert world.partition(0).directories == (directory(1, 1), bytes(16))
        stale = await world.local.answer(placed(1, 99, (TOPIC_ID, 0)))
        assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH

    run_world(TWO_BROKERS, test)


def test_a_reassignment_goes_on_when_a_replica_tells_its_directory() -> None:
    """LEAD-10, LOG-11: what is remembered of a partition is not lost by a note on its place."""
    state = partition([2, 1, 0], [1, 0], 1, adding=[2], removing=[0])

    async def test(world: ControllerWorld) -> None:
        await world.local.answer(placed(1, 101, (TOPIC_ID, 0)))
        assert world.partition().directories != ()
        assert world.partition().adding_replicas == (2,)
        assert world.partition().removing_replicas == (0,)

    run_world(with_topic(cluster([0, 1, 2]), state), test)


def test_a_leaders_proposal_changes_the_isr() -> None:
    """CTL-15: ISR changes."""

    async def test(world: ControllerWorld) -> None:
        answer = await world.local.answer(isr_change(1, 101, without=[0]))
        assert answer.topics[0].partitions[0].error_code == 0
        assert world.partition().isr == (1,)
        answer = await world.local.answer(isr_change(1, 99, without=[0]))
        assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH

    run_world(TWO_BROKERS, test)


def test_topics_are_made_for_brokers_as_for_clients() -> None:
    """CTL-15, TOP-6: each topic has its own outcome."""

    async def test(world: ControllerWorld) -> None:
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(name=name, num_partitions=2, replication_factor=2)
                for name in ("a", "b", "b", "t")
            ]
        )
        answer = await world.local.answer(request)
        assert {topic.name: topic.error_code for topic in answer.topics} == {
            "a": 0,
            "b": ErrorCode.INVALID_REQUEST,
            "t": ErrorCode.TOPIC_ALREADY_EXISTS,
        }
        assert len(world.image.topics.by_name["a"].partitions) == 2

    run_world(TWO_BROKERS, test)


def test_a_registration_by_message_is_fenced_and_complete() -> None:
    """REG-1: nothing of what a broker says is lost on the way."""
    request = registration(3, previous_broker_epoch=12)
    taken = registration_of(request)
    assert (taken.node_id, taken.previous_broker_epoch, taken.is_fenced) == (3, 12, True)
    assert (taken.rack, taken.cluster_id) == ("a", "cluster")
    assert taken.features == {"barnabas.version": (1, 1)}


def test_a_local_controller_is_nothing_but_a_way_to_the_controller() -> None:
    """CTL-8: it keeps no state: as many as are wanted may be made."""
    assert LocalController.__slots__ == ("_controller",)
