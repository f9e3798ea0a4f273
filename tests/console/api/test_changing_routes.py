"""Each route that changes something, tried by whoever may not: refused, and nothing changed.

The routes are read off the application, and the kinds of plans off its own answer, so that a new
one is not forgotten here.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barnabas_broker.server import Server
from barnabas_client.admin import Admin, NewTopic
from barnabas_client.admin.values.configs import ConfigResource
from barnabas_client.admin.values.partitions import OffsetSpec
from barnabas_client.admin.values.quotas import QuotaEntity
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.producer.producer import Producer
from barnabas_console.api.route_kinds import changes
from barnabas_console.plans.change_requests import KINDS
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.ids import TopicPartition
from tests.support.console_server import OWN
from tests.support.secured_console import Client, log_in, right, secured

GROUP, TRANSACTIONAL_ID = "billing", "payments"
ENTITY = {"user": "alice"}
ACL = {
    "principal": "User:eve",
    "operation": "read",
    "resource_type": "topic",
    "resource_name": "orders",
}
#: By the kind: what would change something for somebody who may.
PLANS: dict[str, dict[str, Any]] = {
    "reset-offsets": {"group": GROUP, "to": "to_latest"},
    "delete-group": {"group": GROUP},
    "create-topic": {"topic": "new"},
    "alter-topic": {"topic": "orders", "partitions": 2, "config": {"retention.ms": "1000"}},
    "delete-topic": {"topic": "orders"},
    "delete-records": {"topic": "orders"},
    "create-acl": ACL,
    "delete-acl": {**ACL, "principal": "User:alice", "operation": "describe"},
    "change-quotas": {"entity": ENTITY, "quotas": {"producer_byte_rate": 1}},
    "fence-producer": {"transactional_id": TRANSACTIONAL_ID},
}
RECORD = {"value": "1", "value_format": "text"}
LETTER = {"records": [[0, 0]]}


@dataclass
class World:
    """A broker where everything can be changed by root, and a console with a log-in."""

    server: Server
    client: Client
    admin: Admin

    async def sent(
        self, path: str, body: dict[str, Any], headers: dict[str, str]
    ) -> tuple[int, dict[str, Any]]:
        async with self.client.post(path, json=body, headers=headers) as response:
            text = await response.text()
            is_json = response.content_type == "application/json"
            return response.status, json.loads(text) if is_json else {"events": text}

    async def user(self, name: str) -> dict[str, str]:
        return await log_in(self.client, {"username": name, "password": "secret"})

    async def everything(self) -> Any:
        """All that a change could change."""
        admin = self.admin
        topics = sorted(topic.name for topic in await admin.topics.list(include_internal=True))
        described = (await admin.topics.describe(["orders", "dead"])).unwrap()
        places = [TopicPartition(name, 0) for name in described]
        settings = (await admin.configs.describe([ConfigResource.topic("orders")])).unwrap()
        transactions = (await admin.transactions.describe([TRANSACTIONAL_ID])).unwrap()
        offsets = (await admin.group_offsets.list([GROUP])).unwrap()[GROUP]
        one = transactions[TRANSACTIONAL_ID]
        return (
            topics,
            {name: (topic.topic_id, len(topic.partitions)) for name, topic in described.items()},
            [
                (await admin.partitions.list_offsets(dict.fromkeys(places, spec))).unwrap()
                for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
            ],
            {entry.name: entry.value for one in settings.values() for entry in one.values()},
            sorted(await admin.acls.list(), key=str),
            await admin.quotas.list(),
            (one.state, one.producer_id, one.producer_epoch),
            offsets,
        )


@asynccontextmanager
async def world(path: Path) -> AsyncIterator[World]:
    """With records, a dead letter, a group, a quota and an open transaction."""
    async with secured(path) as (server, client):
        bootstrap = f"127.0.0.1:{server.port}"
        async with (
            Admin(bootstrap) as admin,
            Producer(bootstrap) as producer,
            Producer(bootstrap, transactional_id=TRANSACTIONAL_ID) as transactional,
        ):
            (await admin.topics.create([NewTopic(name="dead")])).unwrap()
            await producer.send("orders", b"1")
            await producer.send("dead", b"letter", headers=[("__connect.errors.topic", b"orders")])
            offsets = {TopicPartition("orders", 0): OffsetAndMetadata(0)}
            (await admin.group_offsets.alter(GROUP, offsets)).unwrap()
            quotas = {QuotaEntity.from_parts({"user": "alice"}): {"consumer_byte_rate": 5.0}}
            (await admin.quotas.alter(quotas)).unwrap()
            await transactional.init_transactions()
            await transactional.begin_transaction()
            await transactional.send("dead", b"of a transaction")
            yield World(server, client, admin)


async def attempts(one: World, plan: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Each changing route with bodies that would change something; `plan` is one of root's."""
    app = one.client.server.app  # type: ignore[attr-defined]
    routes = {
        route.resource.canonical
        for route in app.router.routes()
        if route.resource.canonical.startswith("/api/") and changes(route.method, route.handler)
    }
    apply = {"hash": plan["hash"], "typed": plan["typed"] or ""}
    bodies: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "/api/v1/plans": [
            ("/api/v1/plans", {"kind": kind, **body}) for kind, body in PLANS.items()
        ],
        "/api/v1/plans/{id}/apply": [(f"/api/v1/plans/{plan['id']}/apply", apply)],
        "/api/v1/topics/{topic}/records": [("/api/v1/topics/orders/records", RECORD)],
        "/api/v1/topics/{topic}/resend": [("/api/v1/topics/dead/resend", LETTER)],
    }
    assert routes == set(bodies)
    return [attempt for one_of in bodies.values() for attempt in one_of]


def test_every_kind_of_plan_is_tried() -> None:
    """CON-172: a new kind has its line in `PLANS`."""
    assert set(PLANS) == set(KINDS)


def test_changes_that_do_not_come_from_the_page_are_refused(tmp_path: Path) -> None:
    """CON-142, CON-172: without the header, from a foreign origin or by a foreign name.

    The session is that of root, who might do all of it.
    """
    foreign = (
        {"X-Barnabas-Console": ""},
        {"Origin": "http://evil.example"},
        {"Host": "evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
    )

    async def run() -> None:
        async with world(tmp_path) as one:
            root = await one.user("root")
            status, plan = await one.sent(
                "/api/v1/plans", {"kind": "delete-topic", "topic": "orders"}, root
            )
            assert (status, plan["refusal"]) == (200, None)
            before = await one.everything()
            for path, body in await attempts(one, plan):
                for headers in foreign:
                    status, told = await one.sent(path, body, root | headers)
                    assert (status, told["error"]) == (403, "FORBIDDEN"), (path, headers)
                status, told = await one.sent(path, body, OWN)
                assert (status, told["error"]) == (401, "LOGIN_REQUIRED"), path
            assert await one.everything() == before

    asyncio.run(run())


def test_changes_by_who_has_no_right_are_refused(tmp_path: Path) -> None:
    """CON-141, CON-172: bob, who may do nothing at all, changes nothing by any route."""

    async def run() -> None:
        async with world(tmp_path) as one:
            _, plan = await one.sent(
                "/api/v1/plans",
                {"kind": "delete-topic", "topic": "orders"},
                await one.user("root"),
            )
            before = await one.everything()
            bob = await one.user("bob")
            for path, body in await attempts(one, plan):
                status, told = await one.sent(path, body, bob)
                assert status in (403, 404), (path, body, told)
            assert await one.everything() == before

    asyncio.run(run())


def test_changes_by_who_may_only_look_are_refused(tmp_path: Path) -> None:
    """CON-141, CON-172: alice sees everything, and a plan of it; brokers let her change nothing.

    Each plan is refused with the missing right, or fails item by item where brokers do not tell
    beforehand who has it.
    """
    looks = [
        *(right("*", one) for one in (AclOperation.READ, AclOperation.DESCRIBE_CONFIGS)),
        right("*", AclOperation.DESCRIBE, AclResourceType.GROUP),
        right("*", AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID),
        right("kafka-cluster", AclOperation.DESCRIBE, AclResourceType.CLUSTER),
        right("kafka-cluster", AclOperation.DESCRIBE_CONFIGS, AclResourceType.CLUSTER),
    ]
    tried_by_brokers = []

    async def run() -> None:
        async with world(tmp_path) as one:
            (await one.admin.acls.create(looks)).unwrap()
            _, plan = await one.sent(
                "/api/v1/plans",
                {"kind": "delete-topic", "topic": "orders"},
                await one.user("root"),
            )
            before = await one.everything()
            alice = await one.user("alice")
            for path, body in await attempts(one, plan):
                status, told = await one.sent(path, body, alice)
                if path == "/api/v1/topics/dead/resend":
                    # Looked at with her right to read, and not written: told letter by letter.
                    assert [row["written"] for row in told["rows"]] == [None]
                    assert "may not write topic orders" in told["rows"][0]["problem"]
                elif status == 200:
                    refusal = told["refusal"]
                    assert refusal is None or refusal == told["lock"]["words"]
                    words = {"hash": told["hash"], "typed": told["typed"] or ""}
                    status, end = await one.sent(f"{path}/{told['id']}/apply", words, alice)
                    if refusal is None:
                        tried_by_brokers.append(body["kind"])
                        assert '"done":0' in end["events"], body
                    else:
                        assert status == 409, body
                else:
                    assert status in (403, 404), (path, body, told)
            assert await one.everything() == before
        assert tried_by_brokers == ["fence-producer"]

    asyncio.run(run())
