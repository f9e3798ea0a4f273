"""One admin client for a cluster."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from barnabas_client.admin.values.configs import ConfigChange, ConfigResource
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.errors import BarnabasError, TimedOutError
from barnabas_operator.admin_pool import AdminPool, bootstrap_servers
from barnabas_operator.kubernetes.kinds import BROKER
from barnabas_operator.kubernetes.leader_lease import NotLeaderError
from barnabas_protocol.ids import TopicPartition
from tests.support.in_process_broker import running_broker
from tests.support.processes import free_port
from tests.support.simulated_clock import HandClock
from tests.support.store_api import StoreApi


def broker(servers: str, name: str = "demo") -> dict[str, Any]:
    annotations = {"barnabas.dev/bootstrap-servers": servers}
    return {
        "apiVersion": BROKER.api_version,
        "kind": BROKER.kind,
        "metadata": {"namespace": "default", "name": name, "annotations": annotations},
        "spec": {},
    }


def test_a_cluster_is_reached_by_its_service_unless_its_resource_says_otherwise() -> None:
    plain = {"metadata": {"namespace": "ns", "name": "demo"}}
    assert bootstrap_servers(plain) == "demo-bootstrap.ns.svc:9092"
    assert bootstrap_servers(broker("host:1")) == "host:1"


def test_all_share_one_client_until_the_address_changes(tmp_path: Path) -> None:
    """operator.md 3, pain 10: a connection for each topic and pass floods brokers."""

    async def run() -> None:
        async with running_broker(tmp_path / "data") as server:
            api = StoreApi()
            await api.create(broker(f"127.0.0.1:{server.port}"))
            pool = AdminPool(api, HandClock())
            admins = await asyncio.gather(*(pool.admin("default", "demo") for _ in range(5)))
            assert len(set(map(id, admins))) == 1
            assert api.calls.count("get") <= 5
            pool.learn(broker(f"localhost:{server.port}"))
            other = await pool.admin("default", "demo")
            assert other is not admins[0]
            assert (await other.cluster.describe()).brokers
            await pool.forget("default", "demo")
            assert await pool.admin("default", "demo") is not other
            await pool.close()

    asyncio.run(run())


def test_a_cluster_that_is_away_is_not_tried_by_everybody() -> None:
    """Else all workers would wait for it, and nobody would look after the other clusters."""

    async def run() -> None:
        clock = HandClock()
        pool = AdminPool(StoreApi(), clock, timeout_seconds=0.5)
        pool.learn(broker(f"127.0.0.1:{free_port()}"))
        with pytest.raises(BarnabasError) as first:
            await pool.admin("default", "demo")
        with pytest.raises(BarnabasError) as second:
            await pool.admin("default", "demo")
        assert second.value is first.value
        clock.now_ms += 4000
        with pytest.raises(BarnabasError) as third:
            await pool.admin("default", "demo")
        assert third.value is not first.value
        await pool.close()

    asyncio.run(run())


def test_a_silent_cluster_of_somebody_else_is_tried_later_and_later() -> None:
    """Each try takes the whole time, and whoever may make Brokers may make many of them."""

    async def tries(resource: dict[str, Any]) -> int:
        clock, errors = HandClock(), set()
        pool = AdminPool(StoreApi(), clock, timeout_seconds=0.02)
        pool.learn(resource)
        for _ in range(100):
            with pytest.raises(BarnabasError) as error:
                await pool.admin("default", "demo")
            errors.add(error.value)
            clock.now_ms += 3000
        pool.learn({**resource, "metadata": {**resource["metadata"], "annotations": {}}})
        with pytest.raises(BarnabasError) as changed:
            await pool.admin("default", "demo")
        assert changed.value not in errors
        await pool.close()
        return len(errors)

    async def run() -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        assert await tries(broker(f"127.0.0.1:{port}")) < 12
        server.close()

    asyncio.run(run())


def test_how_long_a_cluster_has_been_away_counts_from_the_first_failure(tmp_path: Path) -> None:
    """After that time deletions are let through (operator.md 2)."""

    async def run() -> None:
        async with running_broker(tmp_path / "data") as server:
            clock = HandClock()
            pool = AdminPool(StoreApi(), clock)
            pool.learn(broker(f"127.0.0.1:{server.port}"))

            async def fail() -> None:
                async with pool.using("default", "demo"):
                    raise TimedOutError("no answer")

            for _ in range(3):
                with pytest.raises(TimedOutError):
                    await fail()
                clock.now_ms += 1000
            assert pool.unreachable_seconds("default", "demo") == 3
            async with pool.using("default", "demo"):
                pass
            assert pool.unreachable_seconds("default", "demo") == 0
            assert pool.unreachable_seconds("default", "unknown") == 0
            await pool.close()

    asyncio.run(run())


def test_nothing_is_changed_at_brokers_without_the_lease(tmp_path: Path) -> None:
    """operator.md 6, rule 6: the deadline is checked at each write, those to brokers included."""
    guarded: list[str] = []

    def guard() -> None:
        guarded.append("asked")
        if len(guarded) > 2:
            raise NotLeaderError("deposed")

    async def run() -> None:
        async with running_broker(tmp_path / "data") as server:
            api = StoreApi()
            await api.create(broker(f"127.0.0.1:{server.port}"))
            pool = AdminPool(api, HandClock(), guard=guard)
            admin = await pool.admin("default", "demo")
            (await admin.topics.create([NewTopic(name="orders", partition_count=1)])).unwrap()
            place = TopicPartition("orders", 0)
            committed = {place: OffsetAndMetadata(0)}
            (await admin.group_offsets.alter("billing", committed)).unwrap()
            changes = (
                lambda: admin.group_offsets.alter("billing", {place: OffsetAndMetadata(7)}),
                lambda: admin.group_offsets.delete("billing", [place]),
                lambda: admin.groups.delete(["billing"]),
                lambda: admin.topics.delete(["orders"]),
                lambda: admin.topics.add_partitions({"orders": 2}),
                lambda: admin.partitions.reassign({place: [0]}),
                lambda: admin.configs.alter(
                    {ConfigResource.topic("orders"): [ConfigChange.set("retention.ms", "1")]}
                ),
                lambda: admin.cluster.unregister_broker(7),
            )
            for change in changes:
                with pytest.raises(NotLeaderError):
                    await change()
            (found,) = (await admin.group_offsets.list(["billing"])).unwrap().values()
            assert found == committed
            described = (await admin.topics.describe(["orders"])).unwrap()["orders"]
            assert len(described.partitions) == 1
            assert len(guarded) == 2 + len(changes)
            await pool.close()

    asyncio.run(run())


def test_a_cluster_that_is_forgotten_while_it_is_used_harms_nobody(tmp_path: Path) -> None:
    """The groups of a Broker may still be looked after when its topics find that it has gone."""

    async def run() -> None:
        async with running_broker(tmp_path / "data") as server:
            api = StoreApi()
            await api.create(broker(f"127.0.0.1:{server.port}"))
            pool = AdminPool(api, HandClock())
            async with pool.using("default", "demo"):
                await pool.forget("default", "demo")
            with pytest.raises(BarnabasError):
                async with pool.using("default", "demo") as admin:
                    await pool.forget("default", "demo")
                    await admin.cluster.describe()
            assert pool.unreachable_seconds("default", "demo") == 0
            await pool.close()

    asyncio.run(run())
