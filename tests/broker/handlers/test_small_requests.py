"""Requests of few bytes whose response is long: the loop goes on while that is made."""

from pathlib import Path

import pytest

from barnabas_broker.coordinator.group import coordinator as coordinating
from barnabas_broker.handlers import describe_configs as describing
from barnabas_broker.handlers import list_config_resources as listing
from barnabas_broker.handlers import request_limits
from barnabas_broker.handlers.describe_transactions import IDS_SLICE
from barnabas_broker.handlers.dispatch import CLIENT_ID_LENGTH_MAX
from barnabas_broker.handlers.list_groups import LOOP_GROUPS_MAX
from barnabas_broker.network.heavy_work import SLICE
from barnabas_broker.server import Server
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import (
    create_topics,
    describe_configs,
    describe_transactions,
    join_group,
    list_config_resources,
    list_groups,
    offset_commit,
    offset_fetch,
)
from tests.broker.broker_requests import topic_id_of, with_broker
from tests.support.raw_client import RawClient
from tests.support.transactional_client import make_topic

GROUP = 32


def test_settings_of_hundreds_of_groups_are_described_a_few_at_a_time(tmp_path: Path) -> None:
    """Six bytes name a group: 640 in 4 KiB held the loop for a tenth of a second."""
    names = [f"g{number}" for number in range(10 * describing.LOOP_RESOURCES_MAX)]

    async def work(server: Server, client: RawClient) -> None:
        request = describe_configs.DescribeConfigsRequest(
            resources=[
                describe_configs.DescribeConfigsResource(resource_type=GROUP, resource_name=name)
                for name in names
            ]
        )
        heavy_work = server.heavy_work
        paused, run = heavy_work.pause_count, heavy_work.run_count
        response = await client.call(ApiKey.DESCRIBE_CONFIGS, 4, request)
        assert [result.resource_name for result in response.results] == names
        assert heavy_work.pause_count - paused == 9
        assert heavy_work.run_count - run == 1  # it is encoded in a thread

    with_broker(tmp_path, work)


def test_very_many_groups_are_listed_in_slices(tmp_path: Path) -> None:
    """Twenty thousand, as one host may make, held the loop for 30 ms and more."""
    count = LOOP_GROUPS_MAX + SLICE

    async def work(server: Server, client: RawClient) -> None:
        await topic_id_of(client)
        await make_topic(client, "__consumer_offsets")
        partition = offset_commit.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1
        )
        topic = offset_commit.OffsetCommitRequestTopic(name="orders", partitions=[partition])

        for first in range(0, count, 50):
            numbers = range(first, min(first + 50, count))
            for number in numbers:
                request = offset_commit.OffsetCommitRequest(group_id=f"g{number}", topics=[topic])
                client.send(ApiKey.OFFSET_COMMIT, 8, request)
            for _ in numbers:
                await client.receive(ApiKey.OFFSET_COMMIT, 8)
        heavy_work = server.heavy_work
        paused, run = heavy_work.pause_count, heavy_work.run_count
        response = await client.call(ApiKey.LIST_GROUPS, 5, list_groups.ListGroupsRequest())
        assert {group.group_id for group in response.groups} == {f"g{n}" for n in range(count)}
        assert (heavy_work.pause_count - paused, heavy_work.run_count - run) == (1, 1)
        few = list_groups.ListGroupsRequest(types_filter=["consumer"])
        assert (await client.call(ApiKey.LIST_GROUPS, 5, few)).groups == []

    with_broker(tmp_path, work)


def test_very_many_resources_with_settings_are_listed_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster may have tens of thousands of topics."""
    monkeypatch.setattr(listing, "LOOP_RESOURCES_MAX", 0)

    async def work(server: Server, client: RawClient) -> None:
        await topic_id_of(client)
        run = server.heavy_work.run_count
        response = await client.call(
            ApiKey.LIST_CONFIG_RESOURCES, 1, list_config_resources.ListConfigResourcesRequest()
        )
        assert "orders" in {one.resource_name for one in response.config_resources}
        assert server.heavy_work.run_count == run + 1

    with_broker(tmp_path, work)


def test_a_client_id_has_an_end(tmp_path: Path) -> None:
    """One of 30 kB was in each member id that was given out, for half an hour each."""

    async def work(server: Server, _: RawClient) -> None:
        request = list_groups.ListGroupsRequest()
        async with await RawClient.connect(
            server.port, client_id="c" * CLIENT_ID_LENGTH_MAX
        ) as client:
            await client.call(ApiKey.LIST_GROUPS, 5, request)
        async with await RawClient.connect(
            server.port, client_id="c" * (CLIENT_ID_LENGTH_MAX + 1)
        ) as client:
            client.send(ApiKey.LIST_GROUPS, 5, request)
            assert await client.is_closed_by_peer()

    with_broker(tmp_path, work)


def test_a_member_has_few_protocols(tmp_path: Path) -> None:
    """10,000 names of three bytes were as many objects for each member, and were voted on."""

    async def work(server: Server, client: RawClient) -> None:
        await make_topic(client, "__consumer_offsets")
        for count in (100, 101):
            protocols = [
                join_group.JoinGroupRequestProtocol(name=str(n), metadata=b"") for n in range(count)
            ]
            request = join_group.JoinGroupRequest(
                group_id="g",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                protocol_type="consumer",
                protocols=protocols,
            )
            async with await RawClient.connect(server.port) as member:
                member.send(ApiKey.JOIN_GROUP, 5, request)
                if count > 100:
                    assert await member.is_closed_by_peer()
                else:
                    joined = await member.receive(ApiKey.JOIN_GROUP, 5)
                    assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED

    with_broker(tmp_path, work)


def test_all_offsets_of_many_groups_are_fetched_a_few_groups_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """125 bytes name 20 groups: with 2,000 offsets each they held the loop for 0.2 s."""
    monkeypatch.setattr(coordinating, "OFFSETS_PER_TURN", 2)
    monkeypatch.setattr(coordinating, "OFFSETS_PER_RESPONSE_MAX", 16)
    monkeypatch.setattr(request_limits, "LOOP_ELEMENTS_MAX", 20)
    names = [f"g{number}" for number in range(10)]

    async def work(server: Server, client: RawClient) -> None:
        topic = create_topics.CreatableTopic(name="orders", num_partitions=2, replication_factor=1)
        creation = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        await client.call(ApiKey.CREATE_TOPICS, 5, creation)
        await make_topic(client, "__consumer_offsets")
        partitions = [
            offset_commit.OffsetCommitRequestPartition(partition_index=index, committed_offset=1)
            for index in range(2)
        ]
        topics = [offset_commit.OffsetCommitRequestTopic(name="orders", partitions=partitions)]
        for name in names:
            commit = offset_commit.OffsetCommitRequest(group_id=name, topics=topics)
            committed = await client.call(ApiKey.OFFSET_COMMIT, 8, commit)
            assert {one.error_code for one in committed.topics[0].partitions} == {0}
        heavy_work = server.heavy_work
        paused, run = heavy_work.pause_count, heavy_work.run_count
        request = offset_fetch.OffsetFetchRequest(
            groups=[
                offset_fetch.OffsetFetchRequestGroup(group_id=name, topics=None) for name in names
            ]
        )
        response = await client.call(ApiKey.OFFSET_FETCH, 8, request)
        counts = [sum(len(one.partitions) for one in group.topics) for group in response.groups]
        assert counts == [2] * 8 + [0] * 2
        codes = [group.error_code for group in response.groups]
        assert codes == [0] * 8 + [ErrorCode.INVALID_REQUEST] * 2
        assert (heavy_work.pause_count - paused, heavy_work.run_count - run) == (8, 1)

    with_broker(tmp_path, work)


def test_hundreds_of_transactional_ids_are_described_in_slices(tmp_path: Path) -> None:
    """Three bytes name one: 1,300 in 4 KiB held the loop for 13 ms."""
    names = [f"t{number}" for number in range(3 * IDS_SLICE)]

    async def work(server: Server, client: RawClient) -> None:
        request = describe_transactions.DescribeTransactionsRequest(transactional_ids=names)
        paused = server.heavy_work.pause_count
        response = await client.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, request)
        assert [one.transactional_id for one in response.transaction_states] == names
        assert server.heavy_work.pause_count - paused == 2

    with_broker(tmp_path, work)
