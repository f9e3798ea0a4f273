"""Calls find their brokers, follow what moves and end in time; brokers are scripted here."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas_client.admin.cluster import Cluster
from barnabas_client.admin.group_offsets import GroupOffsets
from barnabas_client.admin.groups import Groups
from barnabas_client.admin.partitions import Partitions
from barnabas_client.admin.routing import AdminRouting
from barnabas_client.admin.share_groups import ShareGroups
from barnabas_client.admin.topics import Topics
from barnabas_client.admin.transactions import Transactions
from barnabas_client.admin.values.partitions import OffsetSpec
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.errors import (
    AuthorizationError,
    BrokerUnreachableError,
    CoordinatorMovedError,
    DisconnectedError,
    NotFoundError,
    TimedOutError,
    UnsupportedError,
    UsageError,
)
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from barnabas_protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from barnabas_protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from barnabas_protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
from barnabas_protocol.messages.delete_topics import DeleteTopicsResponse
from barnabas_protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from barnabas_protocol.messages.init_producer_id import InitProducerIdResponse
from barnabas_protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from barnabas_protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas_protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas_protocol.messages.offset_commit import OffsetCommitResponse
from barnabas_protocol.messages.offset_delete import OffsetDeleteResponse
from barnabas_protocol.messages.offset_fetch import OffsetFetchResponse
from tests.client.admin.scripted_client import Answer, ScriptedClient

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def routing(client: ScriptedClient) -> AdminRouting:
    return AdminRouting(client)  # type: ignore[arg-type]


def created(**codes: int) -> Answer:
    """An answer of CreateTopics: success for the topics that are not named."""

    def answer(_: int, request: Any) -> Any:
        return CreateTopicsResponse(
            topics=[
                CreatableTopicResult(name=topic.name, error_code=codes.get(topic.name, 0))
                for topic in request.topics
            ]
        )

    return answer


def lost(_: int, __: Any) -> Any:
    raise DisconnectedError("the connection broke")


def unreachable(_: int, __: Any) -> Any:
    raise BrokerUnreachableError("no route")


def leaders(places: dict[TopicPartition, int]) -> Answer:
    def answer(_: int, request: Any) -> Any:
        topics = []
        for wanted in request.topics:
            partitions = [
                MetadataResponsePartition(partition_index=one.partition, leader_id=leader)
                for one, leader in places.items()
                if one.topic == wanted.name
            ]
            code = 0 if partitions else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            topics.append(
                MetadataResponseTopic(name=wanted.name, partitions=partitions, error_code=code)
            )
        return MetadataResponse(topics=topics)

    return answer


def offsets(code_of: Callable[[int, TopicPartition], int]) -> Answer:
    """An answer of ListOffsets; the offset is the number of the broker that answered."""

    def answer(node_id: int, request: Any) -> Any:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=one.partition_index,
                            offset=node_id,
                            error_code=code_of(
                                node_id, TopicPartition(topic.name, one.partition_index)
                            ),
                        )
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return answer


def coordinators(node_id: int, code: int = 0) -> Answer:
    def answer(_: int, request: Any) -> Any:
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(key=key, node_id=node_id, error_code=code)
                for key in request.coordinator_keys
            ]
        )

    return answer


def deleted(**codes: int) -> Answer:
    def answer(_: int, request: Any) -> Any:
        return DeleteGroupsResponse(
            results=[
                DeletableGroupResult(group_id=name, error_code=codes.get(name, 0))
                for name in request.groups_names
            ]
        )

    return answer


def test_a_call_follows_the_controller_and_repeats_only_what_was_refused() -> None:
    """NOT_CONTROLLER for one of two topics: metadata is asked again, the other one is not made
    twice."""
    client = ScriptedClient()
    client.next_controllers = [2]
    client.script(ApiKey.CREATE_TOPICS, created(b=ErrorCode.NOT_CONTROLLER), created())
    topics = [NewTopic(name="a"), NewTopic(name="b")]
    outcomes = asyncio.run(Topics(routing(client)).create(topics))
    assert outcomes.errors == {}
    assert client.nodes_asked(ApiKey.CREATE_TOPICS) == [1, 2]
    _, second, _ = client.asked[ApiKey.CREATE_TOPICS][1]
    assert [topic.name for topic in second.topics] == ["b"]
    assert client.refreshes == 1


def test_a_call_looks_for_the_controller_when_its_broker_is_gone() -> None:
    """A connection that cannot be made is reason enough to ask who the controller is."""
    client = ScriptedClient()
    client.next_controllers = [3]
    client.script(ApiKey.CREATE_TOPICS, unreachable, created())
    outcomes = asyncio.run(Topics(routing(client)).create([NewTopic(name="a")]))
    assert outcomes["a"].is_ok
    assert client.nodes_asked(ApiKey.CREATE_TOPICS) == [1, 3]


def test_a_deletion_by_name_is_not_repeated_when_its_response_is_lost() -> None:
    """The topic may be made anew by then: its records, and a group's commits, would be lost."""
    client = ScriptedClient()
    client.script(ApiKey.DELETE_TOPICS, lost, lambda *_: DeleteTopicsResponse())
    error = asyncio.run(Topics(routing(client)).delete(["a"]))["a"].error
    assert isinstance(error, DisconnectedError)
    assert "may have been carried out" in str(error)
    assert client.nodes_asked(ApiKey.DELETE_TOPICS) == [1]
    client.script(ApiKey.FIND_COORDINATOR, coordinators(2))
    client.script(ApiKey.DELETE_GROUPS, lost, deleted())
    assert not asyncio.run(Groups(routing(client)).delete(["g"]))["g"].is_ok
    assert client.nodes_asked(ApiKey.DELETE_GROUPS) == [2]


def test_a_deletion_of_offsets_is_not_repeated_when_its_response_is_lost() -> None:
    """Who reads as the group may have committed anew by then, and that would be lost."""
    client = ScriptedClient()
    client.script(ApiKey.FIND_COORDINATOR, coordinators(2))
    client.script(ApiKey.OFFSET_DELETE, lost, lambda *_: OffsetDeleteResponse())
    error = asyncio.run(GroupOffsets(routing(client)).delete("g", [A0]))[A0].error
    assert isinstance(error, DisconnectedError)
    assert "may have been carried out" in str(error)
    assert client.nodes_asked(ApiKey.OFFSET_DELETE) == [2]
    shared = ApiKey.DELETE_SHARE_GROUP_OFFSETS
    client.script(shared, lost, lambda *_: DeleteShareGroupOffsetsResponse())
    assert not asyncio.run(ShareGroups(routing(client)).delete_offsets("g", ["a"]))["a"].is_ok
    assert client.nodes_asked(shared) == [2]


def test_setting_offsets_is_not_repeated_when_its_response_is_lost() -> None:
    """A member may have come, committed and gone by then: it would read all of that again."""
    client = ScriptedClient()
    client.script(ApiKey.FIND_COORDINATOR, coordinators(2))
    client.script(ApiKey.OFFSET_COMMIT, lost, lambda *_: OffsetCommitResponse())
    altered = asyncio.run(GroupOffsets(routing(client)).alter("g", {A0: OffsetAndMetadata(1)}))
    assert "may have been carried out" in str(altered[A0].error)
    assert client.nodes_asked(ApiKey.OFFSET_COMMIT) == [2]
    shared = ApiKey.ALTER_SHARE_GROUP_OFFSETS
    client.script(shared, lost, lambda *_: AlterShareGroupOffsetsResponse())
    assert not asyncio.run(ShareGroups(routing(client)).alter_offsets("g", {A0: 1}))[A0].is_ok
    assert client.nodes_asked(shared) == [2]


def test_a_call_ends_in_time_and_says_that_it_may_have_been_carried_out() -> None:
    """The connection breaks after every request: nobody knows whether the topic is there."""
    client = ScriptedClient()
    client.script(ApiKey.CREATE_TOPICS, lost)
    call = Topics(routing(client)).create([NewTopic(name="a")], timeout_ms=50)
    error = asyncio.run(call)["a"].error
    assert isinstance(error, TimedOutError)
    assert "it may have been carried out" in str(error)
    assert len(client.asked[ApiKey.CREATE_TOPICS]) > 1


def test_a_violated_quota_is_waited_out() -> None:
    """THROTTLING_QUOTA_EXCEEDED (KIP-599): the topic is created when the quota allows it."""
    client = ScriptedClient()
    throttled = created(a=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    client.script(ApiKey.CREATE_TOPICS, throttled, throttled, created())
    assert asyncio.run(Topics(routing(client)).create([NewTopic(name="a")]))["a"].is_ok
    assert client.refreshes == 2, "which costs a look at who the controller is, and no more"


def test_partitions_are_asked_of_their_leaders_in_one_request_each() -> None:
    """Batched per destination: two leaders, two requests, whatever the number of partitions."""
    client = ScriptedClient()
    client.script(ApiKey.METADATA, leaders({A0: 1, A1: 2, B0: 1}))
    client.script(ApiKey.LIST_OFFSETS, offsets(lambda node_id, partition: 0))
    wanted = dict.fromkeys((A0, A1, B0), OffsetSpec.LATEST)
    listed = asyncio.run(Partitions(routing(client)).list_offsets(wanted)).unwrap()
    assert {one: value.offset for one, value in listed.items()} == {A0: 1, A1: 2, B0: 1}
    assert sorted(client.nodes_asked(ApiKey.LIST_OFFSETS)) == [1, 2]
    assert len(client.asked[ApiKey.METADATA]) == 1


def test_a_partition_whose_leader_moved_is_asked_of_the_new_one() -> None:
    """NOT_LEADER_OR_FOLLOWER: the leaders of what is pending are looked up before each attempt."""
    client = ScriptedClient()
    client.script(ApiKey.METADATA, leaders({A0: 1, A1: 1}), leaders({A0: 1, A1: 2}))
    moved = offsets(
        lambda node_id, one: (
            ErrorCode.NOT_LEADER_OR_FOLLOWER if (node_id, one) == (1, A1) else ErrorCode.NONE
        )
    )
    client.script(ApiKey.LIST_OFFSETS, moved)
    listed = asyncio.run(Partitions(routing(client)).list_offsets({A0: -1, A1: -1})).unwrap()
    assert {one: value.offset for one, value in listed.items()} == {A0: 1, A1: 2}
    assert client.nodes_asked(ApiKey.LIST_OFFSETS) == [1, 2]


def test_a_topic_that_is_not_there_fails_alone_and_soon() -> None:
    """After a few looks, and without keeping what is known of the others."""
    client = ScriptedClient()
    client.script(ApiKey.METADATA, leaders({A0: 1}))
    client.script(ApiKey.LIST_OFFSETS, offsets(lambda node_id, partition: 0))
    outcomes = asyncio.run(Partitions(routing(client)).list_offsets({A0: -1, B0: -1}))
    assert outcomes[A0].is_ok
    assert isinstance(outcomes[B0].error, NotFoundError)
    assert len(client.asked[ApiKey.METADATA]) == 4
    assert len(client.asked[ApiKey.LIST_OFFSETS]) == 1


def test_metadata_is_asked_without_creating_topics() -> None:
    """An administrator who mistypes a name must not find the topic made (AdminSettings)."""
    client = ScriptedClient()
    client.script(ApiKey.METADATA, leaders({A0: 1}))
    client.script(ApiKey.LIST_OFFSETS, offsets(lambda node_id, partition: 0))
    asyncio.run(Partitions(routing(client)).list_offsets({A0: -1}))
    _, request, _ = client.asked[ApiKey.METADATA][0]
    assert request.allow_auto_topic_creation is False


def test_groups_follow_their_coordinator() -> None:
    """NOT_COORDINATOR for one of two groups: looked up again and asked where it is by then."""
    client = ScriptedClient()
    client.script(ApiKey.FIND_COORDINATOR, coordinators(2), coordinators(3))
    client.script(ApiKey.DELETE_GROUPS, deleted(h=ErrorCode.NOT_COORDINATOR), deleted())
    outcomes = asyncio.run(Groups(routing(client)).delete(["g", "h"]))
    assert outcomes.errors == {}
    assert client.nodes_asked(ApiKey.DELETE_GROUPS) == [2, 3]
    _, second, _ = client.asked[ApiKey.DELETE_GROUPS][1]
    assert second.groups_names == ["h"]


def test_a_coordinator_that_is_loading_is_waited_for() -> None:
    """COORDINATOR_LOAD_IN_PROGRESS and COORDINATOR_NOT_AVAILABLE pass."""
    client = ScriptedClient()
    client.script(
        ApiKey.FIND_COORDINATOR,
        coordinators(-1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        coordinators(2),
    )
    loading = deleted(g=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    client.script(ApiKey.DELETE_GROUPS, loading, deleted())
    assert asyncio.run(Groups(routing(client)).delete(["g"]))["g"].is_ok
    assert client.nodes_asked(ApiKey.DELETE_GROUPS) == [2, 2]


def test_a_coordinator_that_never_comes_ends_the_call_in_time() -> None:
    """Offsets topic offline: the error says what was waited for."""
    client = ScriptedClient()
    missing = coordinators(-1, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    client.script(ApiKey.FIND_COORDINATOR, missing)
    error = asyncio.run(Groups(routing(client)).delete(["g"], timeout_ms=30))["g"].error
    assert isinstance(error, TimedOutError)
    assert isinstance(error.__cause__, CoordinatorMovedError)


def test_apis_that_take_one_item_are_asked_once_per_item() -> None:
    """InitProducerId fences one transactional id a request, all of them at the same time."""
    client = ScriptedClient()
    client.script(ApiKey.FIND_COORDINATOR, coordinators(2))
    client.script(
        ApiKey.INIT_PRODUCER_ID,
        lambda _, request: InitProducerIdResponse(producer_id=int(request.transactional_id)),
    )
    fenced = asyncio.run(Transactions(routing(client)).fence_producers(["7", "8"])).unwrap()
    assert {key: one.producer_id for key, one in fenced.items()} == {"7": 7, "8": 8}
    assert client.nodes_asked(ApiKey.INIT_PRODUCER_ID) == [2, 2]


def test_old_brokers_are_asked_for_the_offsets_of_one_group_a_request() -> None:
    """OffsetFetch takes many groups from version 8 on only."""
    client = ScriptedClient()
    client.versions[ApiKey.OFFSET_FETCH] = 7
    client.script(ApiKey.FIND_COORDINATOR, coordinators(2))
    client.script(ApiKey.OFFSET_FETCH, lambda _, request: OffsetFetchResponse())
    outcomes = asyncio.run(GroupOffsets(routing(client)).list(["g", "h"]))
    assert outcomes.unwrap() == {"g": {}, "h": {}}
    groups = [request.group_id for _, request, _ in client.asked[ApiKey.OFFSET_FETCH]]
    assert groups == ["g", "h"]


def test_coordinators_of_old_brokers_are_found_one_by_one() -> None:
    """FindCoordinator takes many keys from version 4 on only (KIP-699)."""
    client = ScriptedClient()
    client.versions[ApiKey.FIND_COORDINATOR] = 3
    client.script(ApiKey.FIND_COORDINATOR, lambda _, request: FindCoordinatorResponse(node_id=3))
    client.script(ApiKey.DELETE_GROUPS, deleted())
    assert asyncio.run(Groups(routing(client)).delete(["g", "h"])).errors == {}
    assert [request.key for _, request, _ in client.asked[ApiKey.FIND_COORDINATOR]] == ["g", "h"]


def test_a_call_that_the_broker_cannot_express_is_unsupported_at_once() -> None:
    """OffsetSpec.MAX_TIMESTAMP needs ListOffsets 7; nothing is sent, nothing is retried."""
    client = ScriptedClient()
    client.versions[ApiKey.LIST_OFFSETS] = 6
    client.script(ApiKey.METADATA, leaders({A0: 1}))
    call = Partitions(routing(client)).list_offsets({A0: OffsetSpec.MAX_TIMESTAMP})
    assert isinstance(asyncio.run(call)[A0].error, UnsupportedError)
    assert client.asked[ApiKey.LIST_OFFSETS] == []


def test_wrong_arguments_are_refused_before_anything_is_asked() -> None:
    """Two topics of one name, a timestamp below the specs, a negative timeout."""
    client = ScriptedClient()
    topics = Topics(routing(client))
    with pytest.raises(UsageError, match="same name"):
        asyncio.run(topics.create([NewTopic(name="a"), NewTopic(name="a")]))
    with pytest.raises(UsageError, match="-77"):
        asyncio.run(Partitions(routing(client)).list_offsets({A0: -77}))
    with pytest.raises(UsageError, match="timeout_ms"):
        asyncio.run(topics.delete(["a"], timeout_ms=-1))
    assert not client.asked


def test_brokers_without_paged_descriptions_are_asked_for_metadata() -> None:
    """DescribeTopicPartitions came with Kafka 3.8; the answer is the same without it."""
    client = ScriptedClient()
    client.versions[ApiKey.DESCRIBE_TOPIC_PARTITIONS] = -1
    client.script(ApiKey.METADATA, leaders({A0: 1, A1: 2}))
    described = asyncio.run(Topics(routing(client)).describe(["a", "b"]))
    assert described["a"].unwrap().partitions[1].leader_id == 2
    assert isinstance(described["b"].error, NotFoundError)
    assert client.asked[ApiKey.METADATA][0][1].allow_auto_topic_creation is False


def test_brokers_that_cannot_describe_the_cluster_are_asked_for_metadata() -> None:
    """DescribeCluster came with Kafka 2.8; but nothing else knows of fenced brokers."""
    client = ScriptedClient()
    client.versions[ApiKey.DESCRIBE_CLUSTER] = -1
    client.script(
        ApiKey.METADATA,
        lambda _, request: MetadataResponse(
            cluster_id="c",
            controller_id=2,
            brokers=[
                MetadataResponseBroker(node_id=node_id, host="h", port=1) for node_id in (2, 1)
            ],
        ),
    )
    cluster = Cluster(routing(client))
    described = asyncio.run(cluster.describe())
    assert [broker.node_id for broker in described.brokers] == [1, 2]
    assert (described.cluster_id, described.controller_id) == ("c", 2)
    with pytest.raises(UnsupportedError):
        asyncio.run(cluster.describe(include_fenced_brokers=True))


def test_a_list_of_all_brokers_fails_with_the_broker_that_fails() -> None:
    """Half a list must not look like a whole one."""
    client = ScriptedClient(node_ids=(1, 2))

    def answer(node_id: int, _: Any) -> Any:
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if node_id == 2 else ErrorCode.NONE
        return ListGroupsResponse(error_code=code, groups=[ListedGroup(group_id="g")])

    client.script(ApiKey.LIST_GROUPS, answer)
    with pytest.raises(AuthorizationError, match="list groups of broker 2"):
        asyncio.run(Groups(routing(client)).list())
    client.script(ApiKey.LIST_GROUPS, lambda _, request: ListGroupsResponse(groups=[]))
    assert asyncio.run(Groups(routing(client)).list()) == ()


def test_a_bug_in_a_call_is_raised_as_it_is() -> None:
    """Not wrapped into a group of errors: the caller sees the line that is wrong."""
    client = ScriptedClient()
    client.script(ApiKey.CREATE_TOPICS, lambda _, request: None)
    with pytest.raises(AttributeError):
        asyncio.run(Topics(routing(client)).create([NewTopic(name="a")]))


def test_a_cancelled_call_leaves_nothing_running() -> None:
    """Requests to all brokers end with the call that made them."""
    client = ScriptedClient()
    answer = leaders({A0: 1, A1: 2})

    async def run() -> None:
        waiting = asyncio.Event()

        async def request(node_id: int, request: Any, **_: Any) -> Any:
            waiting.set()
            await asyncio.Event().wait()

        async def request_any(request: Any, **_: Any) -> Any:
            return answer(0, request)

        client.request_any = request_any  # type: ignore[method-assign]
        client.request = request  # type: ignore[method-assign]
        call = asyncio.create_task(Partitions(routing(client)).list_offsets({A0: -1, A1: -1}))
        await waiting.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
