"""The whole operator, with an API server and a broker: groups seen, reset, undone, shown."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas_client import Consumer, Producer
from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_operator.kubernetes.api import InvalidError
from barnabas_operator.kubernetes.kinds import BROKER, CONSUMER_GROUP
from barnabas_operator.work.key import KeyKind
from barnabas_protocol.ids import TopicPartition
from tests.support.operator_world import (
    OperatorWorld,
    bootstrap_of,
    operator_world,
    until,
    world_with_broker,
)
from tests.support.real_api_server import RealApiServer

Server = RealApiServer | None
PLACES = [TopicPartition("orders", number) for number in range(2)]


class GroupWorld:
    """A broker with ten records in each partition of `orders`, and the group `billing` at 4."""

    def __init__(self, world: OperatorWorld, admin: Admin, bootstrap: str) -> None:
        self.world = world
        self.admin = admin
        self.bootstrap = bootstrap

    async def put(self, name: str = "billing", **spec: Any) -> None:
        await self.world.api.create(self.world.manifest(CONSUMER_GROUP, name, spec))

    async def change(self, spec: dict[str, Any]) -> None:
        patch = {"spec": spec}
        await self.world.api.patch(CONSUMER_GROUP, self.world.namespace, "billing", patch)

    async def status(self, name: str = "billing") -> dict[str, Any]:
        found = await self.world.api.get(CONSUMER_GROUP, self.world.namespace, name)
        return (found or {}).get("status") or {}

    async def until(self, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Wait until the status is as wanted; returns it."""
        status: dict[str, Any] = {}

        async def is_so() -> bool:
            nonlocal status
            status = await self.status()
            return bool(status) and bool(holds(status))

        await until(is_so, lambda: f"{status}")
        return status

    async def offsets(self) -> list[int | None]:
        (committed,) = (await self.admin.group_offsets.list(["billing"])).unwrap().values()
        found = [committed.get(topic_partition) for topic_partition in PLACES]
        return [None if one is None else one.offset for one in found]


@asynccontextmanager
async def group_world(directory: Path, server: Server) -> AsyncIterator[GroupWorld]:
    async with world_with_broker(directory, server) as (world, broker):
        bootstrap = bootstrap_of(broker)
        async with Admin(bootstrap) as admin:
            topic = NewTopic(name="orders", partition_count=2, replication_factor=1)
            (await admin.topics.create([topic])).unwrap()
            async with Producer(bootstrap) as producer:
                for topic_partition in PLACES:
                    for _ in range(10):
                        producer.send(
                            topic_partition.topic, b"order", partition=topic_partition.partition
                        )
                await producer.flush()
            committed = dict.fromkeys(PLACES, OffsetAndMetadata(4))
            (await admin.group_offsets.alter("billing", committed)).unwrap()
            yield GroupWorld(world, admin, bootstrap)


def run(directory: Path, server: Server, story: Callable[[GroupWorld], Awaitable[None]]) -> None:
    async def tell() -> None:
        async with (
            group_world(directory, server) as groups,
            groups.world.operator((KeyKind.GROUPS,)),
        ):
            await story(groups)

    asyncio.run(tell())


def passes(status: dict[str, Any], operation: str = "reset") -> str:
    return str((status.get(operation) or {}).get("phase"))


def test_a_group_is_told_and_then_left_alone(tmp_path: Path, real_or_fake: Server) -> None:
    """operator.md 8.1, 8.3, 8.14: live columns; an idle group costs no write while its lag ages."""

    async def story(groups: GroupWorld) -> None:
        await groups.put(thresholds={"lagRecords": 5, "lagSeconds": 3600})
        status = await groups.until(lambda status: "lag" in status)
        told = {name: status[name] for name in ("state", "protocol", "members", "topics", "lag")}
        assert told == {
            "state": "Empty",
            "protocol": "classic",
            "members": 0,
            "topics": 1,
            "lag": 12,
        }
        assert "oldestUnread" in status
        assert status["recommendedReplicas"] == 2
        conditions = {one["type"]: one["status"] for one in status["conditions"]}
        assert conditions == {"Ready": "True", "LagExceeded": "True"}
        groups.world.writes()
        committed = {PLACES[0]: OffsetAndMetadata(5)}
        (await groups.admin.group_offsets.alter("billing", committed)).unwrap()
        await groups.until(lambda status: status["lag"] == 11)
        # A second pass found the change; the passes between wrote nothing.
        assert len(groups.world.writes()) == 1

    run(tmp_path, real_or_fake, story)


def test_an_empty_group_is_reset_once_with_old_and_new_and_undone(
    tmp_path: Path, real_or_fake: Server
) -> None:
    """Issue 6, item 5."""

    async def story(groups: GroupWorld) -> None:
        await groups.put(reset={"id": "r1", "to": "earliest", "dryRun": True})
        preview = await groups.until(lambda status: passes(status) == "Preview")
        assert preview["reset"]["partitions"][0] == {
            "topic": "orders",
            "partition": 0,
            "old": 4,
            "new": 0,
        }
        assert await groups.offsets() == [4, 4]
        await groups.change({"reset": {"dryRun": False}})
        done = await groups.until(lambda status: passes(status) == "Done")
        assert await groups.offsets() == [0, 0]
        assert done["undoSnapshot"] == {"id": "r1", "offsets": {"orders": "0:4,1:4"}}
        await groups.until(lambda status: status.get("lag") == 20)
        committed = dict.fromkeys(PLACES, OffsetAndMetadata(7))
        (await groups.admin.group_offsets.alter("billing", committed)).unwrap()
        await groups.until(lambda status: status.get("lag") == 6)
        await groups.change({"undo": {"id": "r1"}})
        await groups.until(lambda status: passes(status, "undo") == "Done")
        assert await groups.offsets() == [4, 4]

    run(tmp_path, real_or_fake, story)


def test_a_live_group_is_refused_and_one_that_may_wait_is_reset_when_it_is_empty(
    tmp_path: Path, real_or_fake: Server
) -> None:
    """Issue 6, item 5."""

    async def story(groups: GroupWorld) -> None:
        async with Consumer(
            groups.bootstrap, group_id="billing", enable_auto_commit=False
        ) as consumer:
            consumer.subscribe(["orders"])

            async def has_joined() -> bool:
                await consumer.poll(timeout_ms=50)
                return len(consumer.assignment()) == 2

            await until(has_joined)
            await groups.put(reset={"id": "r1", "to": "latest"})
            refused = await groups.until(lambda status: passes(status) == "Refused")
            assert refused["members"] == 1
            assert {row["member"] for row in refused["partitions"]}
            assert {one["type"]: one["reason"] for one in refused["conditions"]} == {
                "Ready": "ResetRefused",
                "Stalled": "ResetRefused",
            }
            await groups.change({"reset": {"whenActive": "Wait"}})
            await groups.until(lambda status: passes(status) == "Waiting")
            assert await groups.offsets() == [4, 4]
        await groups.until(lambda status: passes(status) == "Done")
        assert await groups.offsets() == [10, 10]

    run(tmp_path, real_or_fake, story)


def test_a_group_is_deleted_once(tmp_path: Path, real_or_fake: Server) -> None:
    async def story(groups: GroupWorld) -> None:
        await groups.put(delete={"id": "d1"})
        await groups.until(lambda status: passes(status, "delete") == "Done")
        status = await groups.until(lambda status: status["state"] == "Absent")
        assert "lag" not in status
        assert await groups.offsets() == [None, None]

    run(tmp_path, real_or_fake, story)


def test_groups_that_nobody_declared_are_shown_where_the_broker_asks_for_it(
    tmp_path: Path, real_or_fake: Server
) -> None:
    async def story(groups: GroupWorld) -> None:
        world = groups.world
        annotations = {"barnabas.dev/discover-groups": "bill*"}
        patch = {"metadata": {"annotations": annotations}}
        await world.api.patch(BROKER, world.namespace, "demo", patch)
        shown: list[dict[str, Any]] = []

        async def is_shown() -> bool:
            shown[:] = await world.api.list(CONSUMER_GROUP, namespace=world.namespace)
            return [(one.get("status") or {}).get("lag") for one in shown] == [12]

        await until(is_shown, lambda: f"{shown}")
        await groups.put()

        async def has_given_way() -> bool:
            found = await world.api.list(CONSUMER_GROUP, namespace=world.namespace)
            return [one["metadata"]["name"] for one in found] == ["billing"]

        await until(has_given_way)
        await groups.until(lambda status: status.get("conditions", [{}])[0].get("status") == "True")

    run(tmp_path, real_or_fake, story)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"reset": {"id": "r", "to": "offset"}}, "offset goes with"),
        ({"reset": {"id": "r", "to": "latest", "timestamp": "2026-01-01T00:00:00Z"}}, "timestamp"),
        ({"reset": {"id": "r", "to": "latest", "shiftBy": 1}}, "shiftBy goes with"),
        ({"reset": {"id": "r", "to": "first"}}, "Unsupported value"),
    ],
)
def test_the_api_server_refuses_what_cannot_be_meant(
    tmp_path: Path, real_api_server: RealApiServer, spec: dict[str, Any], message: str
) -> None:
    """CEL on a real API server; also that a group's id cannot change."""

    async def check() -> None:
        async with operator_world(tmp_path, real_api_server) as world:
            with pytest.raises(InvalidError, match=message):
                await world.api.create(world.manifest(CONSUMER_GROUP, "billing", spec))
            good = {"groupId": "a", "reset": {"id": "r", "to": "offset", "offset": 0}}
            await world.api.create(world.manifest(CONSUMER_GROUP, "billing", good))
            other = {"spec": {"groupId": "b"}}
            with pytest.raises(InvalidError, match="groupId cannot change"):
                await world.api.patch(CONSUMER_GROUP, world.namespace, "billing", other)

    asyncio.run(check())
