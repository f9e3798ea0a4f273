"""What a client is not told: what it may not see is left out of lists, and of what it waits for."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from barnabas_broker.handlers.authorized_operations import APPLICABLE, NOT_ASKED, bits_of
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import ZERO_UUID
from barnabas_protocol.messages import (
    consumer_group_describe,
    consumer_group_heartbeat,
    describe_cluster,
    describe_groups,
    describe_share_group_offsets,
    describe_topic_partitions,
    describe_transactions,
    list_groups,
    list_transactions,
    metadata,
    offset_fetch,
    share_group_describe,
)
from tests.broker.rights_world import commit, with_named
from tests.broker.share_member import create_topic
from tests.support.in_process_broker import eventually
from tests.support.memory_authorizer import Given, MemoryAuthorizer, to_cluster
from tests.support.raw_client import RawClient
from tests.support.rights_cases import CASES
from tests.support.rights_requests import MEMBER, Named
from tests.support.transactional_client import TransactionalClient

DESCRIBE, READ = AclOperation.DESCRIBE, AclOperation.READ
TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
TRANSACTION = AclResourceType.TRANSACTIONAL_ID


def case_of(key: ApiKey) -> Any:
    return next(case for case in CASES if case.key is key)


async def ask_metadata(client: RawClient, version: int = 12, **fields: Any) -> Any:
    return await client.call(ApiKey.METADATA, version, metadata.MetadataRequest(**fields))


def names_in(topics: Sequence[Any]) -> list[tuple[str, int]]:
    return sorted((topic.name, topic.error_code) for topic in topics)


def test_lists_of_topics_have_what_may_be_seen(tmp_path: Path) -> None:
    """SEC-46: keys 3 and 75; nobody is told that something was left out, nor is it an event."""

    async def work(authorizer: MemoryAuthorizer, client: RawClient, named: Named) -> None:
        await create_topic(client, "other")
        for allowed in ([], ["other"], ["other", named.topic]):
            authorizer.grant(*(Given(DESCRIBE, TOPIC, name) for name in allowed))
            expected = sorted((name, 0) for name in allowed)
            response = await ask_metadata(client, topics=None)
            assert response.brokers
            assert names_in(response.topics) == expected
            request = describe_topic_partitions.DescribeTopicPartitionsRequest()
            response = await client.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)
            assert names_in(response.topics) == expected
            assert authorizer.asked == []

    with_named(tmp_path, None, work)


def test_pages_of_topics_go_on_where_they_ended(tmp_path: Path) -> None:
    """Key 75: hidden and absent topics are errors in their place, and cost no partition."""

    async def work(authorizer: MemoryAuthorizer, client: RawClient, named: Named) -> None:
        for name, partitions in (("a", 3), ("b", 1), ("d", 3)):
            await create_topic(client, name, partitions)
        authorizer.allow_all(denied=(Given(DESCRIBE, TOPIC, "b"),))
        cursor, pages = None, []
        while True:
            request = describe_topic_partitions.DescribeTopicPartitionsRequest(
                topics=[describe_topic_partitions.TopicRequest(name=name) for name in "abcd"],
                response_partition_limit=2,
                cursor=cursor,
            )
            response = await client.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)
            pages += [
                (topic.name, topic.error_code, [one.partition_index for one in topic.partitions])
                for topic in response.topics
            ]
            cursor = response.next_cursor
            if cursor is None:
                break
        assert pages == [
            ("a", 0, [0, 1]),
            ("a", 0, [2]),
            ("b", ErrorCode.TOPIC_AUTHORIZATION_FAILED, []),
            ("c", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []),
            ("d", 0, [0]),
            ("d", 0, [1, 2]),
        ]

    with_named(tmp_path, None, work)


@pytest.mark.parametrize("topic", ["a", "z"])
def test_a_page_after_a_topic_that_is_gone_begins_with_partition_0(
    tmp_path: Path, topic: str
) -> None:
    """Key 75: the cursor's partition is that of its topic, not of the next one."""

    async def work(authorizer: MemoryAuthorizer, client: RawClient, named: Named) -> None:
        request = describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=[
                describe_topic_partitions.TopicRequest(name=name) for name in ("a", "orders", "z")
            ],
            cursor=describe_topic_partitions.Cursor(topic_name="a", partition_index=1),
        )
        response = await client.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)
        described = {one.name: len(one.partitions) for one in response.topics}
        assert described == {"a": 0, "orders": 1, "z": 0}

    with_named(tmp_path, None, work)


def test_a_page_is_no_longer_for_a_cursor_behind_its_topic(tmp_path: Path) -> None:
    """Key 75: partitions that there are not make no room for others; a page held up the loop."""

    async def work(authorizer: MemoryAuthorizer, client: RawClient, named: Named) -> None:
        for name in ("a", "b"):
            await create_topic(client, name, 3)
        request = describe_topic_partitions.DescribeTopicPartitionsRequest(
            response_partition_limit=2,
            cursor=describe_topic_partitions.Cursor(topic_name="a", partition_index=2**31 - 1),
        )
        response = await client.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)
        assert {one.name: len(one.partitions) for one in response.topics} == {"a": 0, "b": 2}
        cursor = response.next_cursor
        assert (cursor.topic_name, cursor.partition_index) == ("b", 2)

    with_named(tmp_path, None, work)


def test_topics_are_made_on_demand_for_who_may_create_them(tmp_path: Path) -> None:
    """SEC-46: CREATE on the cluster or the topic; without, the id is zero and nothing is made."""

    async def work(authorizer: MemoryAuthorizer, client: RawClient, named: Named) -> None:
        async def is_made(name: str) -> bool:
            topics = [metadata.MetadataRequestTopic(name=name)]
            response = await ask_metadata(client, topics=topics)
            return bool(response.topics[0].error_code == 0)

        describe = Given(DESCRIBE, TOPIC)
        authorizer.grant(describe)
        topics = [metadata.MetadataRequestTopic(name=name) for name in ("new", "__consumer_x")]
        response = await ask_metadata(client, topics=topics)
        assert [(one.error_code, one.topic_id) for one in response.topics] == [
            (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ZERO_UUID)
        ] * 2
        response = await ask_metadata(client, topics=topics, allow_auto_topic_creation=False)
        assert {one.error_code for one in response.topics} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        authorizer.grant(describe, Given(AclOperation.CREATE, TOPIC, "new"))
        await eventually(lambda: is_made("new"))
        authorizer.grant(describe, to_cluster(AclOperation.CREATE))
        await eventually(lambda: is_made("newer"))

    with_named(tmp_path, None, work)


def test_a_topic_by_its_id_keeps_its_name_for_itself(tmp_path: Path) -> None:
    """SEC-46, key 3: an id is no secret, the name is."""

    async def work(authorizer: MemoryAuthorizer, client: RawClient, named: Named) -> None:
        authorizer.grant()
        unknown = bytes(15) + b"x"
        topics = [
            metadata.MetadataRequestTopic(topic_id=topic_id, name=None)
            for topic_id in (named.topic_id, unknown)
        ]
        response = await ask_metadata(client, topics=topics)
        assert {(one.error_code, one.name, one.topic_id) for one in response.topics} == {
            (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, named.topic_id),
            (ErrorCode.UNKNOWN_TOPIC_ID, None, unknown),
        }

    with_named(tmp_path, None, work)


def test_operations_are_those_that_are_allowed(tmp_path: Path) -> None:
    """SEC-45: what ACLs imply included; of the cluster 0 for who may not see it."""

    async def work(authorizer: MemoryAuthorizer, client: RawClient, named: Named) -> None:
        await commit(client, named)

        async def operations() -> tuple[int, int, int, int]:
            topics = await ask_metadata(
                client,
                9,
                topics=[metadata.MetadataRequestTopic(name=named.topic)],
                include_topic_authorized_operations=True,
                include_cluster_authorized_operations=True,
            )
            cluster = await client.call(
                ApiKey.DESCRIBE_CLUSTER,
                0,
                describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True),
            )
            groups = await client.call(
                ApiKey.DESCRIBE_GROUPS,
                5,
                describe_groups.DescribeGroupsRequest(
                    groups=[named.group], include_authorized_operations=True
                ),
            )
            assert topics.cluster_authorized_operations == cluster.cluster_authorized_operations
            pages = await client.call(
                ApiKey.DESCRIBE_TOPIC_PARTITIONS,
                0,
                case_of(ApiKey.DESCRIBE_TOPIC_PARTITIONS).request(named),
            )
            return (
                topics.topics[0].topic_authorized_operations,
                pages.topics[0].topic_authorized_operations,
                groups.groups[0].authorized_operations,
                cluster.cluster_authorized_operations,
            )

        every = {kind: bits_of(*each) for kind, each in APPLICABLE.items()}
        assert every == {
            TOPIC: sum(1 << one for one in (3, 4, 5, 6, 7, 8, 10, 11)),
            GROUP: sum(1 << one for one in (3, 6, 8, 10, 11)),
            AclResourceType.CLUSTER: sum(1 << one for one in (5, 7, 8, 9, 10, 11, 12)),
        }
        authorizer.allow_all()
        everything = every[TOPIC], every[TOPIC], every[GROUP], every[AclResourceType.CLUSTER]
        assert await operations() == everything
        authorizer.grant()
        assert await operations() == (NOT_ASKED, NOT_ASKED, NOT_ASKED, 0)
        authorizer.grant(
            Given(READ, TOPIC, named.topic),
            Given(AclOperation.DELETE, GROUP, named.group),
            to_cluster(AclOperation.CREATE),
        )
        read = bits_of(READ, DESCRIBE)
        assert await operations() == (read, read, bits_of(AclOperation.DELETE, DESCRIBE), 0)
        authorizer.grant(to_cluster(AclOperation.ALTER))
        assert (await operations())[3] == bits_of(AclOperation.ALTER, DESCRIBE)

    with_named(tmp_path, None, work)


def test_lists_of_groups_have_what_may_be_seen(tmp_path: Path) -> None:
    """SEC-46, key 16: DESCRIBE on the cluster shows all, else each group is judged."""

    async def work(authorizer: MemoryAuthorizer, client: RawClient, named: Named) -> None:
        await commit(client, named)
        await commit(client, Named(group="others"))
        for granted, expected in (
            ([], []),
            ([Given(READ, GROUP, "others")], ["others"]),
            ([to_cluster(DESCRIBE)], ["others", named.group]),
        ):
            authorizer.grant(*granted)
            response = await client.call(ApiKey.LIST_GROUPS, 4, list_groups.ListGroupsRequest())
            assert sorted(one.group_id for one in response.groups) == sorted(expected)
            assert authorizer.asked == []

    with_named(tmp_path, None, work)


def test_all_offsets_of_a_group_are_those_of_topics_that_may_be_seen(tmp_path: Path) -> None:
    """SEC-46, key 9: where no topic is named, the others are left out."""

    async def work(authorizer: MemoryAuthorizer, client: RawClient, named: Named) -> None:
        await create_topic(client, "other")
        await commit(client, named)
        await commit(client, Named(topic="other"))
        group = Given(DESCRIBE, GROUP, named.group)
        for allowed in ([], ["other"], ["other", named.topic]):
            authorizer.grant(group, *(Given(DESCRIBE, TOPIC, name) for name in allowed))
            one = await client.call(
                ApiKey.OFFSET_FETCH,
                7,
                offset_fetch.OffsetFetchRequest(group_id=named.group, topics=None),
            )
            groups = [
                offset_fetch.OffsetFetchRequestGroup(group_id=each, topics=None)
                for each in (named.group, "hidden")
            ]
            request = offset_fetch.OffsetFetchRequest(groups=groups)
            many = await client.call(ApiKey.OFFSET_FETCH, 8, request)
            seen, hidden = many.groups
            for topics in (one.topics, seen.topics):
                assert sorted(topic.name for topic in topics) == sorted(allowed)
            assert (hidden.error_code, hidden.topics) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, [])

    with_named(tmp_path, None, work)


def test_transactions_are_listed_and_described_as_far_as_they_may_be_seen(tmp_path: Path) -> None:
    """SEC-46, keys 65 and 66: ids are left out of the list, topics out of a description."""

    async def work(authorizer: MemoryAuthorizer, client: RawClient, named: Named) -> None:
        producer = TransactionalClient(client, named.transactional_id, version=1)
        await producer.find_coordinator()
        await producer.init()
        assert await producer.add(named.topic, 0) == [0]

        async def seen() -> tuple[list[str], list[str]]:
            listed = await client.call(
                ApiKey.LIST_TRANSACTIONS, 0, list_transactions.ListTransactionsRequest()
            )
            described = await client.call(
                ApiKey.DESCRIBE_TRANSACTIONS,
                0,
                describe_transactions.DescribeTransactionsRequest(
                    transactional_ids=[named.transactional_id]
                ),
            )
            return (
                [one.transactional_id for one in listed.transaction_states],
                [one.topic for one in described.transaction_states[0].topics],
            )

        assert await seen() == ([named.transactional_id], [named.topic])
        authorizer.grant(Given(DESCRIBE, TRANSACTION, named.transactional_id))
        assert await seen() == ([named.transactional_id], [])
        authorizer.grant(Given(DESCRIBE, TOPIC, named.topic))
        assert await seen() == ([], [])

    with_named(tmp_path, None, work)


async def beat(client: RawClient, group: str, **fields: Any) -> Any:
    request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=MEMBER, rebalance_timeout_ms=5_000, topic_partitions=[], **fields
    )
    return await client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)


async def described_topics(client: RawClient, group: str) -> tuple[int, set[str]]:
    """The error, and the topics that members of a consumer group have."""
    response = await client.call(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        0,
        consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[group]),
    )
    (described,) = response.groups
    names = {
        topic.topic_name
        for member in described.members
        for topic in member.target_assignment.topic_partitions
    }
    return described.error_code, names


def test_a_pattern_matches_what_its_member_may_see(tmp_path: Path) -> None:
    """SEC-46, key 68: topics that are hidden from it are not assigned, nor is that an event."""

    async def work(authorizer: MemoryAuthorizer, client: RawClient, named: Named) -> None:
        await create_topic(client, "orders-secret")
        authorizer.grant(
            Given(READ, GROUP, "patterns"),
            Given(READ, TOPIC, named.topic),
            Given(READ, TOPIC, "elsewhere"),
        )
        joined = await beat(client, "patterns", member_epoch=0, subscribed_topic_regex="orders.*")
        assert joined.error_code == 0

        async def has_topics() -> bool:
            response = await beat(client, "patterns", member_epoch=epoch[0])
            assert response.error_code == 0
            epoch[0] = response.member_epoch
            return (await described_topics(client, "patterns"))[1] != set()

        epoch = [joined.member_epoch]
        await eventually(has_topics)
        assert await described_topics(client, "patterns") == (0, {named.topic})
        assert Given(DESCRIBE, TOPIC, "orders-secret") not in authorizer.asked
        assert Given(DESCRIBE, TOPIC, "orders-secret") in authorizer.filters

    with_named(tmp_path, None, work)


def test_a_group_with_a_hidden_topic_is_described_without_members(tmp_path: Path) -> None:
    """SEC-46, key 69: all or nothing, and bits are no way around it."""

    async def work(authorizer: MemoryAuthorizer, client: RawClient, named: Named) -> None:
        joined = await beat(client, "g", member_epoch=0, subscribed_topic_names=[named.topic])
        assert joined.error_code == 0
        assert await described_topics(client, "g") == (0, {named.topic})
        authorizer.grant(Given(DESCRIBE, GROUP, "g"))
        code, names = await described_topics(client, "g")
        assert (code, names) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, set())

    with_named(tmp_path, None, work)


def test_a_share_group_with_a_hidden_topic_is_described_without_members(tmp_path: Path) -> None:
    """SEC-46, keys 77 and 90: as of consumer groups; offsets of hidden topics are left out."""
    join = case_of(ApiKey.SHARE_GROUP_HEARTBEAT)

    async def work(authorizer: MemoryAuthorizer, client: RawClient, named: Named) -> None:
        async def has_partition() -> bool:
            response = await client.call(join.key, join.version, join.request(named))
            assert response.error_code == 0
            return bool(response.assignment and response.assignment.topic_partitions)

        await eventually(has_partition)
        request = share_group_describe.ShareGroupDescribeRequest(group_ids=[named.share_group])
        offsets = describe_share_group_offsets.DescribeShareGroupOffsetsRequest(
            groups=[
                describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(
                    group_id=named.share_group, topics=None
                )
            ]
        )

        async def seen() -> tuple[int, int, list[str]]:
            described = await client.call(ApiKey.SHARE_GROUP_DESCRIBE, 1, request)
            begins = await client.call(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, offsets)
            (group,) = described.groups
            topics = [topic.topic_name for topic in begins.groups[0].topics]
            return group.error_code, len(group.members), topics

        async def has_offsets() -> bool:
            return await seen() == (0, 1, [named.topic])

        await eventually(has_offsets)
        authorizer.grant(Given(DESCRIBE, GROUP, named.share_group))
        assert await seen() == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0, [])

    with_named(tmp_path, join, work)


def test_many_topics_are_filtered_while_the_loop_goes_on(tmp_path: Path) -> None:
    """Nothing holds the loop up for long: lists of thousands are looked at in slices."""

    async def work(authorizer: MemoryAuthorizer, client: RawClient, named: Named) -> None:
        requested = [metadata.MetadataRequestTopic(name=f"t-{index}") for index in range(2_000)]
        authorizer.grant()
        response = await ask_metadata(client, topics=requested)
        codes = {topic.error_code for topic in response.topics}
        assert (len(response.topics), codes) == (2_000, {ErrorCode.TOPIC_AUTHORIZATION_FAILED})
        await asyncio.sleep(0)

    with_named(tmp_path, None, work)
