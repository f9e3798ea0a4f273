"""Overview, brokers and topics as JSON, beside what the command line says of the same cluster."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp.test_utils import TestClient

from barnabas_broker.server import Server
from barnabas_client.admin import Admin, NewTopic
from tests.support.console_commands import command
from tests.support.console_server import OWN, running_console, told
from tests.support.in_process_broker import eventually, running_broker
from tests.support.in_process_cluster import running_cluster

Client = TestClient[Any, Any]


def bootstrap_of(servers: list[Server]) -> str:
    return ",".join(f"127.0.0.1:{server.port}" for server in servers)


@asynccontextmanager
async def three_brokers(path: Path) -> AsyncIterator[tuple[list[Server], Admin, Client]]:
    """A cluster with a topic of two partitions on all of them, and a console."""
    async with running_cluster(path, 3, **{"min.insync.replicas": "2"}) as servers:
        bootstrap = bootstrap_of(servers)
        async with Admin(bootstrap) as admin, running_console(bootstrap) as client:
            new = NewTopic(name="orders", partition_count=2, replication_factor=3)
            (await admin.topics.create([new])).unwrap()

            async def in_sync() -> bool:
                outcome = (await admin.topics.describe(["orders"]))["orders"]
                if outcome.error is not None:
                    return False
                described = outcome.unwrap()
                voters = (await admin.quorum.describe()).voters
                return len(voters) == 3 and all(
                    len(one.in_sync_replica_ids) == 3 for one in described.partitions.values()
                )

            await eventually(in_sync)
            yield servers, admin, client


def test_pages_say_what_their_commands_say(tmp_path: Path) -> None:
    """CON-102: each command that is offered for copying is run and compared."""

    async def run() -> None:
        async with running_broker(tmp_path) as broker:
            bootstrap = f"127.0.0.1:{broker.port}"
            async with Admin(bootstrap) as admin, running_console(bootstrap) as client:
                new = NewTopic(
                    name="orders", partition_count=3, configs={"retention.ms": "86400000"}
                )
                (await admin.topics.create([new, NewTopic(name="a.b-c")])).unwrap()

                overview = await told(client, "/overview")
                status = await command(bootstrap, overview["command"])
                for page in (overview["brokers"], (await told(client, "/brokers"))["rows"]):
                    for row, expected in zip(page, status["brokers"], strict=True):
                        assert expected.items() <= row.items()

                topics = await told(client, "/topics")
                expected = await command(bootstrap, topics["command"])
                assert topics["total"] == len(expected) == 2
                for row, summary in zip(topics["rows"], expected, strict=True):
                    assert summary.items() <= row.items()

                for name in ("orders", "a.b-c"):
                    topic = await told(client, f"/topics/{name}")
                    (details,) = await command(bootstrap, topic["command"])
                    rows, partitions = topic.pop("partition_list"), details.pop("partition_list")
                    assert details.items() <= topic.items()
                    for row, partition in zip(rows, partitions, strict=True):
                        assert partition.items() <= row.items()

                for path in ("/topics/orders/settings", "/brokers/0/settings"):
                    page = await told(client, path)
                    settings = await command(bootstrap, page["command"])
                    assert page["total"] == len(settings)
                    for row, setting in zip(page["rows"], settings, strict=True):
                        assert setting.items() <= row.items()

    asyncio.run(run())


def test_commands_of_a_topic_whose_name_looks_like_an_option_find_it(tmp_path: Path) -> None:
    """CON-102: what begins with a dash is a name like any other."""

    async def run() -> None:
        async with running_broker(tmp_path) as broker:
            bootstrap = f"127.0.0.1:{broker.port}"
            async with Admin(bootstrap) as admin, running_console(bootstrap) as client:
                (await admin.topics.create([NewTopic(name="--all")])).unwrap()
                page = await told(client, "/topics/--all")
                (details,) = await command(bootstrap, page["command"])
                assert details["topic"] == "--all"
                page = await told(client, "/topics/--all/settings")
                assert len(await command(bootstrap, page["command"])) == page["total"]

    asyncio.run(run())


def test_partitions_of_a_broker_are_those_that_topics_tell(tmp_path: Path) -> None:
    """CON-102, CON-111: as `topic describe` has them, by pages, searched and sorted."""

    async def run() -> None:
        async with three_brokers(tmp_path) as (servers, admin, client):
            (await admin.topics.create([NewTopic(name="a.b-c", partition_count=3)])).unwrap()

            async def is_there() -> bool:
                topics = await told(client, "/topics")
                return bool(topics["total"] == 2)

            await eventually(is_there)
            described = await command(bootstrap_of(servers), "barnabas topic describe orders a.b-c")
            for node_id in range(3):
                expected = [
                    (topic["topic"], one["partition"], one["leader"], node_id in one["in_sync"])
                    for topic in sorted(described, key=lambda topic: str(topic["topic"]))
                    for one in topic["partition_list"]
                    if node_id in one["replicas"]
                ]
                page = await told(client, f"/brokers/{node_id}/partitions")
                rows = [row for row in page["rows"] if not row["topic"].startswith("__")]
                assert expected == [
                    (row["topic"], row["partition"], row["leader"], row["in_sync"]) for row in rows
                ]
                for row in rows:
                    assert row["role"] == ("leader" if row["leader"] == node_id else "follower")
                    assert row["size_bytes"] == 0
            orders = await told(client, "/brokers/1/partitions?q=ORDERS&sort=-partition")
            assert [row["partition"] for row in orders["rows"]] == [1, 0]
            by_role = await told(client, "/brokers/1/partitions?q=orders&sort=role")
            assert [row["role"] for row in by_role["rows"]] == sorted(
                (row["role"] for row in by_role["rows"]), reverse=True
            )
            (second,) = (await told(client, "/brokers/1/partitions?q=orders&offset=1&limit=1"))[
                "rows"
            ]
            assert second["partition"] == 1
            assert (await told(client, "/brokers/1/partitions?sort=size_bytes", 400))["error"]

    asyncio.run(run())


def test_a_healthy_cluster_can_spare_each_of_its_brokers(tmp_path: Path) -> None:
    """CON-110, T7: may I drain this node?"""

    async def run() -> None:
        async with three_brokers(tmp_path) as (_, _, client):
            overview = await told(client, "/overview")
            assert overview["health"]["state"] == "fine", overview
            assert "3 brokers" in overview["health"]["sentence"]
            assert [broker["safe"] for broker in overview["brokers"]] == ["yes"] * 3
            assert overview["troubles"] == []
            one = await told(client, "/brokers/1")
            assert one["directories"][0]["total_bytes"] > 0
            assert one["disk_total_bytes"] == one["directories"][0]["total_bytes"]
            assert (await told(client, "/brokers/7", 404))["error"] == "NOT_FOUND"

    asyncio.run(run())


def test_a_broker_that_went_keeps_the_others_and_is_named(tmp_path: Path) -> None:
    """CON-110, T8: what is under-replicated and why; the others must stay."""

    async def run() -> None:
        async with three_brokers(tmp_path) as (servers, _, client):
            await told(client, "/overview")
            await servers[2].stop()
            found: dict[str, Any] = {}

            async def degraded() -> bool:
                found.update(await told(client, "/overview"))
                return bool(found["troubles"]) and found["brokers"][2]["state"] != "ready"

            await eventually(degraded)
            assert found["health"]["state"] == "warning"
            assert "broker 2" in found["health"]["sentence"]
            (trouble,) = [one for one in found["troubles"] if one["kind"] == "under-replicated"]
            assert "broker 2 is" in trouble["cause"]
            assert {"topic": "orders", "partition": 0} in trouble["partitions"]

            async def must_stay() -> bool:
                found.update(await told(client, "/overview"))
                return [one["safe"] for one in found["brokers"][:2]] == ["no", "no"]

            await eventually(must_stay)
            assert "cannot spare it" in found["brokers"][0]["reason"]

    asyncio.run(run())


def test_lists_refuse_what_they_do_not_know_in_words(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            running_broker(tmp_path) as broker,
            running_console(f"127.0.0.1:{broker.port}") as client,
        ):
            for query in ("sort=secret", "offset=-1", "limit=x", f"q={'x' * 301}", "offset=1e3"):
                assert (await told(client, f"/topics?{query}", 400))["error"] == "BAD_REQUEST"
            assert (await told(client, "/topics?limit=100000"))["rows"] == []
            missing = await told(client, "/topics/nothing", 404)
            assert "No such topic 'nothing'" in missing["message"]
            assert (await told(client, "/brokers/zero", 404))["error"] == "NOT_FOUND"

    asyncio.run(run())


def test_where_no_broker_responds_the_pages_say_so() -> None:
    """CON-153: what, and what to do."""

    async def run() -> None:
        async with running_console(timeout_ms=300) as client:
            async with client.get("/api/v1/overview", headers=OWN) as response:
                assert response.status == 503
                body = await response.json()
            assert "barnabas dev" in body["hint"]

    asyncio.run(run())
