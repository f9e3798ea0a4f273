"""Share groups through whole brokers: members request by request, admins by the client."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas_broker.server import Server
from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.cluster import FeatureUpdate, FeatureUpgradeType
from barnabas_client.admin.values.configs import ConfigChange, ConfigResource
from barnabas_client.admin.values.groups import GroupState, GroupType
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.errors import BarnabasError
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from barnabas_protocol.messages.api_versions import ApiVersionsRequest
from barnabas_protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from barnabas_protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from barnabas_protocol.messages.share_group_describe import ShareGroupDescribeRequest
from barnabas_protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.in_process_broker import eventually, running_broker
from tests.support.kafka_cluster import until
from tests.support.raw_client import RawClient

GROUP, TOPIC = "queue", "work"
PROPERTIES = {
    "share_coordinator_state_topic_replication_factor": "1",
    "share_coordinator_state_topic_min_isr": "1",
    "share_coordinator_state_topic_num_partitions": "3",
}


class World:
    """A broker with share groups on, a topic of three partitions, and clients."""

    def __init__(self, server: Server, client: RawClient, admin: Admin) -> None:
        self.server = server
        self.client = client
        self.admin = admin

    async def beat(self, member_id: str, epoch: int, *topics: str) -> ShareGroupHeartbeatResponse:
        """A heartbeat, once the group has a coordinator."""
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=list(topics) or None,
        )
        return await beat(self.client, request)

    async def joined(self, member_id: str) -> int:
        """A member that has all three partitions; its epoch."""
        epoch = (await self.beat(member_id, 0, TOPIC)).member_epoch
        response = ShareGroupHeartbeatResponse()

        async def has_partitions() -> bool:
            nonlocal epoch, response
            response = await self.beat(member_id, epoch)
            assert response.error_code == 0
            epoch = response.member_epoch
            return response.assignment is not None and bool(response.assignment.topic_partitions)

        await eventually(has_partitions)
        assert response.assignment is not None
        assert response.assignment.topic_partitions[0].partitions == [0, 1, 2]
        return epoch


async def beat(
    client: RawClient, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse:
    response = ShareGroupHeartbeatResponse()

    async def is_coordinated() -> bool:
        nonlocal response
        response = await client.call(ApiKey.SHARE_GROUP_HEARTBEAT, 1, request)
        return response.error_code not in (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.NOT_COORDINATOR,
        )

    await eventually(is_coordinated)
    return response


@asynccontextmanager
async def world_on(directory: Path) -> AsyncIterator[World]:
    async with (
        running_broker(directory, **PROPERTIES) as server,
        await RawClient.connect(server.port) as client,
        Admin(f"127.0.0.1:{server.port}") as admin,
    ):
        yield World(server, client, admin)


def in_world(directory: Path, work: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with world_on(directory) as world:
            await world.admin.topics.create([NewTopic(name=TOPIC, partition_count=3)])
            # Makes the topic of the groups.
            await world.admin.groups.describe(["any"])
            await work(world)

    asyncio.run(run())


REQUESTS: dict[ApiKey, Any] = {
    ApiKey.SHARE_GROUP_HEARTBEAT: ShareGroupHeartbeatRequest(
        group_id=GROUP, member_id="a", subscribed_topic_names=[TOPIC]
    ),
    ApiKey.SHARE_GROUP_DESCRIBE: ShareGroupDescribeRequest(group_ids=[GROUP]),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=GROUP)]
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: AlterShareGroupOffsetsRequest(group_id=GROUP),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: DeleteShareGroupOffsetsRequest(group_id=GROUP),
}


def test_everything_is_refused_while_the_feature_is_off(tmp_path: Path) -> None:
    """SHR-1: 35; a new cluster has it on, and the early versions are never listed."""

    async def run() -> None:
        async with world_on(tmp_path) as world:
            features = world.admin.features
            assert (await features.describe()).finalized["share.version"].maximum == 2
            off = FeatureUpdate(level=0, upgrade_type=FeatureUpgradeType.SAFE_DOWNGRADE)
            (await features.update({"share.version": off})).unwrap()
            for key, request in REQUESTS.items():
                version = 1 if key in (76, 77) else 0
                response = await world.client.call(key, version, request)
                codes = [getattr(response, "error_code", 0)]
                codes += [group.error_code for group in getattr(response, "groups", [])]
                assert max(codes) == ErrorCode.UNSUPPORTED_VERSION, key
            versions = await world.client.call(
                ApiKey.API_VERSIONS,
                4,
                ApiVersionsRequest(client_software_name="t", client_software_version="1"),
            )
            listed = {
                each.api_key: (each.min_version, each.max_version) for each in versions.api_keys
            }
            assert {key: listed[key] for key in (76, 77, 90, 91, 92)} == {
                76: (1, 1),
                77: (1, 1),
                90: (0, 1),
                91: (0, 0),
                92: (0, 0),
            }
            assert "share.version" not in (await world.admin.features.describe()).finalized
            assert not world.server.groups.count_share_groups()["Empty"]

    asyncio.run(run())


def test_members_get_partitions_and_admins_see_them(tmp_path: Path) -> None:
    """SHR-28, SHR-29, SHR-32: the share coordinators of the broker itself keep the state."""

    async def work(world: World) -> None:
        epoch = await world.joined("a")
        admin = world.admin
        (listed,) = await admin.groups.list(types=[GroupType.SHARE])
        assert (listed.group_id, listed.state) == (GROUP, GroupState.STABLE)
        described = (await admin.share_groups.describe([GROUP])).unwrap()[GROUP]
        (member,) = described.members
        assert (member.member_id, member.member_epoch) == ("a", epoch)
        assert member.assignment == tuple(TopicPartition(TOPIC, index) for index in range(3))
        offsets = (await admin.share_groups.list_offsets([GROUP])).unwrap()[GROUP]
        assert offsets == {TopicPartition(TOPIC, index): None for index in range(3)}
        refused = await admin.share_groups.alter_offsets(GROUP, {TopicPartition(TOPIC, 0): 0})
        assert _codes(refused.errors) == {ErrorCode.NON_EMPTY_GROUP}
        samples = [
            sample.value
            for sample in world.server.collector.snapshot()
            if sample.name == "barnabas_groups"
            and {"protocol": "share", "state": "Stable"}.items() <= dict(sample.labels).items()
        ]
        assert samples == [1]
        assert (await world.beat("a", -1)).error_code == 0
        starts = {TopicPartition(TOPIC, 0): 0, TopicPartition(TOPIC, 9): 0}
        altered = await admin.share_groups.alter_offsets(GROUP, starts)
        assert _codes(altered.errors) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        offsets = (await admin.share_groups.list_offsets([GROUP])).unwrap()[GROUP]
        begun = offsets[TopicPartition(TOPIC, 0)]
        assert begun is not None
        assert begun.start_offset == 0
        (await admin.share_groups.delete_offsets(GROUP, [TOPIC])).unwrap()
        assert (await admin.share_groups.list_offsets([GROUP])).unwrap()[GROUP] == {}
        (await admin.groups.delete([GROUP])).unwrap()
        assert await admin.groups.list() == ()

    in_world(tmp_path, work)


def _codes(errors: dict[Any, BarnabasError]) -> set[ErrorCode | None]:
    return {error.code for error in errors.values()}


def test_settings_of_a_group_have_bounds_and_hold_at_once(tmp_path: Path) -> None:
    """SHR-38: IncrementalAlterConfigs on the group; outside of the bounds is 40."""

    async def work(world: World) -> None:
        resource = ConfigResource.group(GROUP)

        async def alter(key: str, value: str) -> set[ErrorCode | None]:
            changes = {resource: [ConfigChange.set(key, value)]}
            return _codes((await world.admin.configs.alter(changes)).errors)

        epoch = await world.joined("a")
        assert await alter("share.heartbeat.interval.ms", "7000") == set()
        assert (await world.beat("a", epoch)).heartbeat_interval_ms == 7_000
        for key, value in (
            ("share.heartbeat.interval.ms", "4999"),
            ("share.session.timeout.ms", "60001"),
            ("share.assignment.interval.ms", "15001"),
            ("share.record.lock.duration.ms", "14999"),
            ("share.delivery.count.limit", "11"),
            ("share.partition.max.record.locks", "4001"),
            ("share.isolation.level", "none"),
            ("share.renew.acknowledge.enable", "perhaps"),
        ):
            assert await alter(key, value) == {ErrorCode.INVALID_CONFIG}, key
        assert await alter("share.delivery.count.limit", "10") == set()
        described = (await world.admin.configs.describe([resource])).unwrap()[resource]
        assert described["share.delivery.count.limit"].value == "10"
        assert described["share.partition.max.record.locks"].value == "2000"

    in_world(tmp_path, work)


def test_a_group_survives_a_restart(tmp_path: Path) -> None:
    """SHR-30: members go on at their epochs with what they have."""
    epochs: list[int] = []

    async def work(world: World) -> None:
        epochs.append(await world.joined("a"))

    in_world(tmp_path, work)

    async def again() -> None:
        async with world_on(tmp_path) as world:
            response = await world.beat("a", epochs[0])
            assert (response.error_code, response.member_epoch) == (0, epochs[0])
            described = (await world.admin.share_groups.describe([GROUP])).unwrap()[GROUP]
            assert len(described.members[0].assignment) == 3

    asyncio.run(again())


HOSTILE: list[tuple[str, ShareGroupHeartbeatRequest, ErrorCode]] = [
    (
        "a group of 30,000 letters",
        ShareGroupHeartbeatRequest(
            group_id="g" * 30_000, member_id="m", subscribed_topic_names=["t"]
        ),
        ErrorCode.NONE,
    ),
    (
        "a member of 30,000 letters",
        ShareGroupHeartbeatRequest(
            group_id="g", member_id="m" * 30_000, subscribed_topic_names=["t"]
        ),
        ErrorCode.INVALID_REQUEST,
    ),
    (
        "four thousand topics",
        ShareGroupHeartbeatRequest(
            group_id="h", member_id="m", subscribed_topic_names=[f"t{n}" for n in range(4_000)]
        ),
        ErrorCode.NONE,
    ),
    (
        "a megabyte of topics",
        ShareGroupHeartbeatRequest(
            group_id="i",
            member_id="m",
            subscribed_topic_names=[f"{n:04}" + "t" * 250 for n in range(4_000)],
        ),
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    ),
]


def test_hostile_heartbeats_do_no_harm(tmp_path: Path) -> None:
    """SHR-28: what is refused leaves no group, and the broker goes on serving."""

    async def work(world: World) -> None:
        for what, request, code in HOSTILE:
            assert (await beat(world.client, request)).error_code == code, what
        listed = {each.group_id for each in await world.admin.groups.list()}
        assert listed == {"g" * 30_000, "h"}
        async with await RawClient.connect(world.server.port) as other:
            request = ShareGroupHeartbeatRequest(
                group_id="j", member_id="m", subscribed_topic_names=["t"] * 5_001
            )
            other.send(ApiKey.SHARE_GROUP_HEARTBEAT, 1, request)
            assert await other.is_closed_by_peer()
        await world.joined("a")

    in_world(tmp_path, work)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Any:
    properties = {"share.coordinator.state.topic.num.partitions": "3"}
    with BarnabasCluster(tmp_path_factory.mktemp("shared"), properties=properties) as cluster:
        yield cluster


def test_a_group_survives_its_coordinator(cluster: BarnabasCluster) -> None:
    """SHR-28, SHR-30: the next one has members, epochs and partitions; a new member gets some."""

    async def run() -> None:
        async with Admin(cluster.bootstrap, request_timeout_ms=2_000) as admin:
            await cluster.until_formed(admin)
            topic = NewTopic(name=TOPIC, partition_count=4, replication_factor=3)
            await cluster.create_topics(admin, topic)
            await until(lambda: _is_described(admin))
            epoch = await _join(cluster, admin, "a", 4)
            described = (await admin.share_groups.describe([GROUP])).unwrap()[GROUP]
            before = described.coordinator_id
            await asyncio.to_thread(cluster.brokers[before].kill)
            response = await _beat(cluster, admin, "a", epoch)
            assert (response.error_code, response.member_epoch) == (0, epoch)
            await _join(cluster, admin, "b", 2)
            described = (await admin.share_groups.describe([GROUP])).unwrap()[GROUP]
            assert described.coordinator_id != before
            assert {member.member_id for member in described.members} == {"a", "b"}

    try:
        asyncio.run(run())
    except BaseException:
        print(cluster.logs())
        raise


async def _is_described(admin: Admin) -> bool:
    outcome = (await admin.share_groups.describe([GROUP])).errors
    return _codes(outcome) == {ErrorCode.GROUP_ID_NOT_FOUND}


async def _beat(
    cluster: BarnabasCluster, admin: Admin, member_id: str, epoch: int, *topics: str
) -> ShareGroupHeartbeatResponse:
    """A heartbeat to whichever broker coordinates the group now."""
    request = ShareGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=epoch,
        subscribed_topic_names=list(topics) or None,
    )
    responses: list[ShareGroupHeartbeatResponse] = []

    async def is_answered() -> bool:
        for broker in cluster.brokers.values():
            if broker.process is None or not broker.process.is_running():
                continue
            async with await RawClient.connect(broker.port) as client:
                response = await client.call(ApiKey.SHARE_GROUP_HEARTBEAT, 1, request)
            if response.error_code not in (14, 15, 16):
                responses.append(response)
                return True
        return False

    await until(is_answered)
    return responses[0]


async def _join(cluster: BarnabasCluster, admin: Admin, member_id: str, count: int) -> int:
    """Have a member join and get so many partitions; its epoch."""
    epoch = (await _beat(cluster, admin, member_id, 0, TOPIC)).member_epoch

    async def has_them() -> bool:
        nonlocal epoch
        response = await _beat(cluster, admin, member_id, epoch)
        epoch = response.member_epoch
        assigned = [] if response.assignment is None else response.assignment.topic_partitions
        return sum(len(each.partitions) for each in assigned) == count

    await until(has_them)
    return epoch
