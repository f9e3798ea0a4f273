"""`admin.cluster`, `admin.features`, `admin.quorum` and `admin.log_dirs` on real brokers."""

import asyncio
from collections.abc import Callable

import pytest

from barnabas_client.admin.values.cluster import FeatureUpdate, FeatureUpgradeType, RaftEndpoint
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.errors import BarnabasError, NotFoundError, RejectedError, UnsupportedError
from barnabas_protocol.acl import AclOperation
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from tests.client.admin.raw_requests import connected, create_topics, produce

Unique = Callable[[str], str]


def test_the_cluster_is_described_with_its_brokers(bootstrap: str) -> None:
    """Who is there, who is controller, under which id."""

    async def run() -> None:
        async with connected(bootstrap) as (client, admin):
            cluster = await admin.cluster.describe()
            assert cluster.cluster_id == client.cluster.cluster_id
            assert cluster.controller_id == 1
            (broker,) = cluster.brokers
            assert (broker.node_id, broker.is_fenced) == (1, False)
            assert f"{broker.host}:{broker.port}" == bootstrap
            assert cluster.authorized_operations is None
            fenced = await admin.cluster.describe(include_fenced_brokers=True)
            assert fenced.brokers == cluster.brokers
            may = await admin.cluster.describe(include_authorized_operations=True)
            assert may.authorized_operations is not None
            assert AclOperation.ALTER in may.authorized_operations

    asyncio.run(run())


def test_log_directories_are_described_with_the_replicas_in_them(
    bootstrap: str, unique: Unique
) -> None:
    """Sizes per replica, space per directory; a broker that is not there fails alone."""
    partition = TopicPartition(unique("admin.dirs"), 0)

    async def run() -> None:
        async with connected(bootstrap) as (client, admin):
            await create_topics(admin, NewTopic(name=partition.topic, partition_count=2))
            await produce(client, partition, [1, 2, 3])
            everything = (await admin.log_dirs.describe()).unwrap()
            assert everything.keys() == {1}
            some = await admin.log_dirs.describe([1, 9], partitions=[partition])
            assert isinstance(some[9].error, NotFoundError)
            (directory,) = some[1].unwrap().values()
            assert directory.error is None
            assert directory.replicas.keys() == {partition}
            replica = directory.replicas[partition]
            assert replica.size_bytes > 60
            assert (replica.offset_lag, replica.is_future) == (0, False)
            assert directory.total_bytes is not None
            assert directory.usable_bytes is not None
            assert directory.total_bytes >= directory.usable_bytes > 0
            await admin.topics.delete([partition.topic])

    asyncio.run(run())


def test_barnabas_chooses_its_members_itself_and_says_so(barnabas: str) -> None:
    """Voters of its metadata log are not added by hand: each is refused in one line."""

    async def run() -> None:
        async with connected(barnabas) as (_, admin):
            voter = bytes(16)
            endpoint = RaftEndpoint("CONTROLLER", "localhost", 9093)
            for call in (
                admin.quorum.add_voter(2, voter, [endpoint]),
                admin.quorum.remove_voter(2, voter),
                admin.cluster.unregister_controller(2),
            ):
                with pytest.raises(UnsupportedError) as raised:
                    await call
                assert "\n" not in str(raised.value)

    asyncio.run(run())


def test_barnabas_tells_its_features_and_refuses_others(barnabas: str) -> None:
    """A level above what is supported, or a feature of Kafka's own, is refused."""

    async def run() -> None:
        async with connected(barnabas) as (_, admin):
            before = await admin.features.describe()
            assert before.supported["barnabas.version"] == (1, 3)
            assert before.supported["transaction.version"] == (0, 2)
            assert before.finalized == {
                "barnabas.version": (3, 3),
                "transaction.version": (2, 2),
                "group.version": (1, 1),
                "share.version": (2, 2),
            }
            assert before.finalized_epoch is not None
            for name, level in (("metadata.version", 7), ("barnabas.version", 4)):
                outcomes = await admin.features.update({name: FeatureUpdate(level=level)})
                error = outcomes[name].error
                assert error is not None
                assert error.code is ErrorCode.INVALID_UPDATE_VERSION
            same = {"barnabas.version": FeatureUpdate(level=3)}
            assert (await admin.features.update(same))["barnabas.version"].is_ok

    asyncio.run(run())


def test_barnabas_does_not_unregister_whom_it_does_not_know(barnabas: str) -> None:
    """UnregisterBroker says so, as Apache Kafka's does."""

    async def run() -> None:
        async with connected(barnabas) as (_, admin):
            with pytest.raises(NotFoundError) as raised:
                await admin.cluster.unregister_broker(77)
            assert raised.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED

    asyncio.run(run())


@pytest.mark.interop
def test_features_are_described_and_refused_where_they_cannot_be(apache: str) -> None:
    """A level above what is supported is error_of, and nothing changes."""

    async def run() -> None:
        async with connected(apache) as (_, admin):
            before = await admin.features.describe()
            level = before.finalized["metadata.version"].maximum
            assert before.supported["metadata.version"].maximum >= level
            assert before.finalized_epoch is not None
            named = await admin.features.describe(node_id=1)
            assert (named.supported, named.finalized) == (before.supported, before.finalized)
            too_high = {"metadata.version": FeatureUpdate(level=999)}
            outcomes = await admin.features.update(too_high)
            error = outcomes["metadata.version"].error
            assert error is not None
            assert error.code is ErrorCode.INVALID_UPDATE_VERSION
            unsafe = FeatureUpdate(level=1, upgrade_type=FeatureUpgradeType.UNSAFE_DOWNGRADE)
            dry = await admin.features.update({"transaction.version": unsafe}, validate_only=True)
            assert dry["transaction.version"].is_ok
            assert (await admin.features.describe()).finalized == before.finalized

    asyncio.run(run())


@pytest.mark.interop
def test_the_quorum_is_described_and_does_not_change_without_reason(apache: str) -> None:
    """A static quorum of one: its voter is the leader, and voters cannot be added to it."""

    async def run() -> None:
        async with connected(apache) as (_, admin):
            quorum = await admin.quorum.describe()
            assert quorum.leader_id == 1
            assert [voter.replica_id for voter in quorum.voters] == [1]
            assert quorum.high_watermark > 0
            assert quorum.endpoints[1][0].listener == "CONTROLLER"
            endpoint = RaftEndpoint("CONTROLLER", "127.0.0.1", 1)
            for call in (
                admin.quorum.add_voter(7, bytes(range(16)), [endpoint]),
                admin.quorum.remove_voter(7, bytes(range(16))),
            ):
                with pytest.raises(BarnabasError) as raised:
                    await call
                assert raised.value.code is not None

    asyncio.run(run())


@pytest.mark.interop
def test_brokers_that_are_not_registered_cannot_be_unregistered(apache: str) -> None:
    """UnregisterBroker says so; UnregisterController is of a later version than this broker."""

    async def run() -> None:
        async with connected(apache) as (_, admin):
            with pytest.raises(NotFoundError) as raised:
                await admin.cluster.unregister_broker(77)
            assert raised.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED
            with pytest.raises((UnsupportedError, RejectedError)):
                await admin.cluster.unregister_controller(77)

    asyncio.run(run())
