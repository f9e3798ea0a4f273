"""What a viewer may not do is told with the missing right, as `barnabas acl explain` has it."""

import asyncio
from pathlib import Path
from typing import Any

from barnabas_client.admin import Admin
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.producer.producer import Producer
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.ids import TopicPartition
from tests.support.console_commands import command, output_of
from tests.support.in_process_broker import eventually
from tests.support.secured_console import Client, log_in, right, secured, seen

GROUP = "billing"
USER = {"username": "alice", "password": "secret"}
OF_TOPIC = {"produce", "alter-partitions", "alter-settings", "delete-records", "delete-topic"}
OF_GROUP = {"reset-offsets", "delete-group"}
OF_CLUSTER = {"change-acls", "change-quotas"}


async def locked(client: Client, headers: dict[str, str]) -> dict[str, Any]:
    found = await seen(client, headers, f"/rights?topic=orders&group={GROUP}")
    locks: dict[str, Any] = found["locks"]
    return locks


def test_what_alice_may_not_do_is_locked_until_she_gets_the_right(tmp_path: Path) -> None:
    """CON-141: the words, the rule that decides, and the command that gives the right."""

    async def run() -> None:
        async with secured(tmp_path) as (server, client):
            bootstrap = f"127.0.0.1:{server.port}"
            async with Admin(bootstrap) as admin:
                offsets = {TopicPartition("orders", 0): OffsetAndMetadata(0)}
                (await admin.group_offsets.alter(GROUP, offsets)).unwrap()
                shown = right(GROUP, AclOperation.DESCRIBE, AclResourceType.GROUP)
                (await admin.acls.create([shown])).unwrap()
            root = await log_in(client, {"username": "root", "password": "secret"})
            assert await locked(client, root) == {}
            alice = await log_in(client, USER)
            locks = await locked(client, alice)
            # What brokers tell of the cluster only to who may see it is not called missing.
            assert set(locks) == OF_TOPIC | OF_GROUP | OF_CLUSTER - {"change-quotas"}
            lock = locks["delete-topic"]
            assert lock["words"].startswith("User:alice may not delete topic orders")
            assert lock["missing"] == {
                "principal": "User:alice",
                "operation": "delete",
                "resource_type": "topic",
                "resource_name": "orders",
            }
            for one in locks.values():
                explained = await command(bootstrap, one["explain_command"])
                assert explained["allowed"] is False, one
            for one in locks.values():
                await output_of(bootstrap, one["command"])

            # Who may alter the cluster sees it: now brokers tell that this is missing.
            async def only_quotas() -> bool:
                return set(await locked(client, alice)) == {"change-quotas"}

            await eventually(only_quotas)

    asyncio.run(run())


def test_a_right_to_the_cluster_opens_what_it_is_enough_for(tmp_path: Path) -> None:
    """CON-141: who may delete from the cluster may delete every topic."""

    async def run() -> None:
        async with secured(tmp_path) as (server, client):
            given = right("kafka-cluster", AclOperation.DELETE, AclResourceType.CLUSTER)
            async with Admin(f"127.0.0.1:{server.port}") as admin:
                (await admin.acls.create([given])).unwrap()
            alice = await log_in(client, USER)
            locks = await locked(client, alice)
            assert "delete-topic" not in locks
            assert {"delete-records", "change-quotas"} <= set(locks)
            body = {"kind": "delete-topic", "topic": "orders"}
            async with client.post("/api/v1/plans", json=body, headers=alice) as response:
                assert (await response.json())["refusal"] is None

    asyncio.run(run())


def test_reading_that_is_denied_names_the_right(tmp_path: Path) -> None:
    """CON-141: a page that brokers refuse says which right it takes."""
    wanted = {
        "/topics/orders/settings": ("describe-configs", "orders"),
        "/topics/orders/records": ("read", "orders"),
        "/topics/salaries": ("describe", "salaries"),
        "/brokers/0/settings": ("describe-configs", "kafka-cluster"),
        "/quorum": ("describe", "kafka-cluster"),
        "/acls": ("describe", "kafka-cluster"),
        "/users": ("describe", "kafka-cluster"),
        "/quotas": ("describe-configs", "kafka-cluster"),
        "/reassignments": ("describe", "kafka-cluster"),
    }

    async def run() -> None:
        async with secured(tmp_path) as (server, client):
            async with Producer(f"127.0.0.1:{server.port}") as producer:
                await producer.send("orders", b"1")
            alice = await log_in(client, USER)
            for path, (operation, name) in wanted.items():
                error = await seen(client, alice, path, 403)
                missing = error["lock"]["missing"]
                assert (missing["operation"], missing["resource_name"]) == (operation, name), path
                assert error["lock"]["explain_command"] in error["hint"]

    asyncio.run(run())
