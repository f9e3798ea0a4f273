"""`plans`: what is shown is what is done, once, and only while the cluster is so (CON-120)."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.producer.producer import Producer
from barnabas_console.api import long_response
from barnabas_console.plans.change import ItemResult
from barnabas_console.plans.group_changes import ResetOffsets
from barnabas_console.security.gate import STREAMS_OF_BROWSER_MAX
from barnabas_protocol.ids import TopicPartition
from tests.support.console_server import OWN, running_console, told
from tests.support.in_process_broker import eventually, running_broker

PLACE = TopicPartition("orders", 0)


@dataclass
class World:
    """A broker with a topic of ten records and a group that stands at four, and a console."""

    console: TestClient[Any, Any]
    admin: Admin
    bootstrap: str

    async def ask(self, body: dict[str, Any], status: int = 200) -> dict[str, Any]:
        async with self.console.post("/api/v1/plans", json=body, headers=OWN) as response:
            found: dict[str, Any] = await response.json()
            assert response.status == status, found
            return found

    async def apply(
        self, plan: dict[str, Any], *, status: int = 200, **words: Any
    ) -> list[tuple[str, dict[str, Any]]]:
        path = f"/api/v1/plans/{plan['id']}/apply"
        body = {"hash": plan["hash"], **words}
        async with self.console.post(path, json=body, headers=OWN) as response:
            text = await response.text()
            assert response.status == status, text
            if status != 200:
                return [("error", json.loads(text))]
            return [event_of(part) for part in text.split("\n\n") if part]

    async def committed(self) -> int | None:
        offsets = (await self.admin.group_offsets.list(["billing"])).unwrap()["billing"]
        found = offsets.get(PLACE)
        return None if found is None else found.offset

    async def produce(self, count: int) -> None:
        async with Producer(self.bootstrap) as producer:
            for number in range(count):
                await producer.send("orders", b"%d" % number, partition=0)


def event_of(text: str) -> tuple[str, dict[str, Any]]:
    name, data = text.split("\n")
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


@asynccontextmanager
async def world(tmp_path: Path, **settings: Any) -> AsyncIterator[World]:
    async with running_broker(tmp_path) as broker:
        bootstrap = f"127.0.0.1:{broker.port}"
        async with (
            running_console(bootstrap, **settings) as console,
            Admin(bootstrap) as admin,
        ):
            topic = NewTopic(name="orders", partition_count=1, replication_factor=1)
            (await admin.topics.create([topic])).unwrap()
            found = World(console, admin, bootstrap)
            await found.produce(10)
            offsets = {PLACE: OffsetAndMetadata(4)}
            (await admin.group_offsets.alter("billing", offsets)).unwrap()
            yield found


RESET = {"kind": "reset-offsets", "group": "billing", "to": "to_latest"}


def test_a_reset_shows_what_it_does_and_brings_it_back(tmp_path: Path) -> None:
    """T6: preview, then commit, then undo by the file that is offered."""

    async def run() -> None:
        async with world(tmp_path) as one:
            plan = await one.ask(RESET)
            assert plan["rows"] == [{"item": "orders-0", "old": 4, "new": 10, "note": ""}]
            assert plan["commands"] == [
                f"barnabas group reset billing --to-latest --execute -b {one.bootstrap}"
            ]
            assert await one.committed() == 4
            *items, (end, told_at_end) = await one.apply(plan)
            assert items == [("item", {"item": "orders-0", "error": ""})]
            assert (end, told_at_end["done"], told_at_end["failed"]) == ("end", 1, 0)
            assert await one.committed() == 10
            [kept] = (await told(one.console, "/undo-files"))["rows"]
            path = f"/api/v1/undo-files/{kept['id']}"
            async with one.console.get(path, headers=OWN) as response:
                text = await response.text()
            assert text == "orders,0,4\n"
            back = await one.ask({"kind": "undo", "id": kept["id"]})
            await one.apply(back)
            assert await one.committed() == 4
            # CON-123: what the console itself has done is told where it shows.
            acts = (await told(one.console, "/timeline?group=billing&kind=act"))["rows"]
            assert [row["subject"] for row in acts] == ["Reset the offsets of billing"] * 2
            assert {row["words"] for row in acts} == {"by User:ANONYMOUS: 1 done"}

    asyncio.run(run())


def test_a_plan_is_for_the_cluster_that_it_was_drawn_up_for(tmp_path: Path) -> None:
    """Of a cluster that was made anew behind the address, nothing that was shown need be so."""
    quotas = {"producer_byte_rate": 1000}
    wanted = {"kind": "change-quotas", "entity": {"user": "alice"}, "quotas": quotas}
    for name in ("old", "new"):
        (tmp_path / name).mkdir()

    async def run() -> None:
        async with AsyncExitStack() as consoles:
            async with running_broker(tmp_path / "old") as broker:
                bootstrap = f"127.0.0.1:{broker.port}"
                console = await consoles.enter_async_context(running_console(bootstrap))
                async with console.post("/api/v1/plans", json=wanted, headers=OWN) as response:
                    plan = await response.json()
            listeners = f"PLAINTEXT://{bootstrap}"
            async with running_broker(tmp_path / "new", listeners=listeners):
                path, body = f"/api/v1/plans/{plan['id']}/apply", {"hash": plan["hash"]}
                async with console.post(path, json=body, headers=OWN) as response:
                    told_error = await response.json()
                    assert (response.status, told_error["error"]) == (409, "MOVED"), told_error
                async with Admin(bootstrap) as admin:
                    assert await admin.quotas.list() == {}

    asyncio.run(run())


def test_a_change_is_in_the_audit_log_with_what_became_of_it(tmp_path: Path) -> None:
    """CON-145: who, what from and to, and how much of it was done."""
    lines: list[str] = []

    async def run() -> None:
        async with world(tmp_path, write_audit_line=lines.append) as one:
            plan = await one.ask(RESET)
            assert lines == []  # nothing has changed yet
            await one.apply(plan)
        begun, ended = map(json.loads, lines)
        assert (begun["act"], begun["principal"]) == ("change", "User:ANONYMOUS")
        assert begun["title"] == "Reset the offsets of billing"
        assert begun["rows"] == ["orders-0: 4 → 10"]
        assert (ended["act"], ended["plan"]) == ("change ended", begun["plan"])
        assert (ended["done"], ended["failed"]) == (1, 0)

    asyncio.run(run())


def test_a_change_that_a_bug_ends_is_not_told_as_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was done until then is told, and that the rest is not."""
    lines: list[str] = []

    async def carry_out(*_: Any) -> AsyncIterator[ItemResult]:
        yield ItemResult(item="orders-0")
        raise RuntimeError("a bug")

    async def run() -> None:
        async with world(tmp_path, write_audit_line=lines.append) as one:
            plan = await one.ask(RESET)
            monkeypatch.setattr(ResetOffsets, "carry_out", carry_out)
            done, failed, (name, end) = await one.apply(plan)
        assert done == ("item", {"item": "orders-0", "error": ""})
        assert "see its log" in failed[1]["error"]
        assert (name, end["done"], end["failed"]) == ("end", 1, 1)
        ended = json.loads(lines[-1])
        assert (ended["done"], ended["failed"]) == (1, 1)

    asyncio.run(run())


def test_what_was_shown_is_set_although_records_have_come(tmp_path: Path) -> None:
    """The end that was shown, not a later one that nobody has seen."""

    async def run() -> None:
        async with world(tmp_path) as one:
            plan = await one.ask(RESET)
            await one.produce(5)
            await one.apply(plan)
            assert await one.committed() == 10

    asyncio.run(run())


def test_a_group_that_has_moved_is_not_set(tmp_path: Path) -> None:
    """CON-120, CON-173: the group changed after the preview."""

    async def run() -> None:
        async with world(tmp_path) as one:
            plan = await one.ask(RESET)
            moved = {PLACE: OffsetAndMetadata(6)}
            (await one.admin.group_offsets.alter("billing", moved)).unwrap()
            [(_, error)] = await one.apply(plan, status=409)
            assert error["error"] == "MOVED"
            assert await one.committed() == 6

    asyncio.run(run())


def test_records_that_went_meanwhile_stop_a_reset(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path) as one:
            plan = await one.ask({**RESET, "to": "to_offset", "value": "2"})
            (await one.admin.partitions.delete_records({PLACE: 5})).unwrap()
            [(_, error)] = await one.apply(plan, status=409)
            assert "removed" in error["message"]
            assert await one.committed() == 4

    asyncio.run(run())


def test_a_plan_is_carried_out_once(tmp_path: Path) -> None:
    """Two windows press the same button: one of them does it."""

    async def run() -> None:
        async with world(tmp_path) as one:
            plan = await one.ask(RESET)

            async def apply() -> int:
                path = f"/api/v1/plans/{plan['id']}/apply"
                body = {"hash": plan["hash"]}
                async with one.console.post(path, json=body, headers=OWN) as response:
                    await response.read()
                    return response.status

            assert sorted(await asyncio.gather(*(apply() for _ in range(5)))) == [200, *[404] * 4]

    asyncio.run(run())


def test_a_browser_that_does_not_read_what_is_done_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CON-160: its streams were never free again, and those of all browsers are a hundred."""

    async def much(*_: object) -> AsyncIterator[ItemResult]:
        for _number in range(2_000):
            yield ItemResult(item="x" * 10_000)

    monkeypatch.setattr(ResetOffsets, "carry_out", much)
    monkeypatch.setattr(long_response, "SEND_SECONDS_MAX", 0.2)
    headers = {**OWN, "X-Barnabas-Browser": "one"}

    async def run() -> None:
        async with world(tmp_path) as one:

            async def apply(plan_id: str, told_hash: str = "") -> ClientResponse:
                path = f"/api/v1/plans/{plan_id}/apply"
                return await one.console.post(path, json={"hash": told_hash}, headers=headers)

            for _number in range(STREAMS_OF_BROWSER_MAX):
                plan = await one.ask(RESET)
                assert (await apply(plan["id"], plan["hash"])).status == 200

            async def is_free() -> bool:
                return (await apply("none")).status == 404

            await eventually(is_free)

    asyncio.run(run())


def test_a_plan_wants_its_hash_and_the_name_typed(tmp_path: Path) -> None:
    """Deleting wants the name typed; a wrong word leaves the plan."""

    async def run() -> None:
        async with world(tmp_path) as one:
            plan = await one.ask({"kind": "delete-topic", "topic": "orders"})
            assert plan["typed"] == "orders"
            await one.apply({**plan, "hash": "0"}, status=400, typed="orders")
            await one.apply(plan, status=400)
            await one.apply(plan, status=400, typed="order")
            assert "orders" in [topic.name for topic in await one.admin.topics.list()]
            await one.apply(plan, typed="orders")
            assert "orders" not in [topic.name for topic in await one.admin.topics.list()]

    asyncio.run(run())


def test_another_topic_of_the_name_is_not_deleted(tmp_path: Path) -> None:
    """The one that was looked at is gone; its successor stays."""

    async def run() -> None:
        async with world(tmp_path) as one:
            plan = await one.ask({"kind": "delete-topic", "topic": "orders"})
            (await one.admin.topics.delete(["orders"])).unwrap()
            again = NewTopic(name="orders", partition_count=1, replication_factor=1)
            (await one.admin.topics.create([again])).unwrap()
            await one.apply(plan, status=409, typed="orders")
            assert "orders" in [topic.name for topic in await one.admin.topics.list()]

    asyncio.run(run())


def test_a_topic_is_altered_by_the_planner_of_the_operator(tmp_path: Path) -> None:
    """Old and new of each setting; those that are not named stay."""

    async def run() -> None:
        async with world(tmp_path) as one:
            first = {"kind": "alter-topic", "topic": "orders"}
            config = {"retention.ms": "7d", "segment.bytes": "16MiB"}
            plan = await one.ask({**first, "config": config, "partitions": 3})
            assert [(row["item"], row["old"], row["new"]) for row in plan["rows"]] == [
                ("partitions", 1, 3),
                ("retention.ms", "by default", "604800000"),
                ("segment.bytes", "by default", "16777216"),
            ]
            assert len(plan["warnings"]) == 1
            *_, (_, end) = await one.apply(plan)
            assert end["failed"] == 0
            back = await one.ask({**first, "config": {"retention.ms": None}})
            assert [(row["item"], row["old"], row["new"]) for row in back["rows"]] == [
                ("retention.ms", "604800000", "by default")
            ]
            await one.apply(back)
            again = await one.ask({**first, "config": {"segment.bytes": "16777216"}})
            assert again["rows"] == []

    asyncio.run(run())


def test_fewer_partitions_are_refused_in_words(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path) as one:
            await one.apply(
                await one.ask({"kind": "alter-topic", "topic": "orders", "partitions": 2})
            )
            plan = await one.ask({"kind": "alter-topic", "topic": "orders", "partitions": 1})
            assert "cannot lose partitions" in plan["refusal"]
            await one.apply(plan, status=409)

    asyncio.run(run())


def test_a_topic_is_made_and_a_second_one_of_its_name_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path) as one:
            body = {"kind": "create-topic", "topic": "refunds", "partitions": 2, "replicas": 1}
            await one.apply(await one.ask(body))
            described = (await one.admin.topics.describe(["refunds"])).unwrap()["refunds"]
            assert described.partition_count == 2
            error = await one.ask(body, status=400)
            assert "exists already" in error["message"]
            too_many = await one.ask({**body, "topic": "more", "replicas": 9})
            assert "9 replicas need 9 brokers" in too_many["refusal"]

    asyncio.run(run())


def test_records_are_removed_up_to_what_was_shown(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path) as one:
            plan = await one.ask({"kind": "delete-records", "topic": "orders"})
            assert plan["rows"][0] == {"item": "orders-0", "old": 0, "new": 10, "note": ""}
            await one.produce(3)
            await one.apply(plan, typed="orders")
            starts = (await one.ask({"kind": "delete-records", "topic": "orders"}))["rows"][0]
            assert (starts["old"], starts["new"]) == (10, 13)

    asyncio.run(run())


def test_a_group_is_deleted_with_a_way_back(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path) as one:
            plan = await one.ask({"kind": "delete-group", "group": "billing"})
            *_, (_, end) = await one.apply(plan, typed="billing")
            assert end["undo"]["file_name"] == "undo-billing-deleted.csv"
            assert "billing" not in {group.group_id for group in await one.admin.groups.list()}
            back = {**RESET, "to": "from_file", "value": "orders,0,4\n"}
            await one.apply(await one.ask(back))
            assert await one.committed() == 4

    asyncio.run(run())


def test_requests_that_make_no_sense_are_refused_in_words(tmp_path: Path) -> None:
    """CON-161: whatever a body holds."""
    wrong: list[dict[str, Any]] = [
        {},
        {"kind": 3},
        {"kind": "reset-offsets"},
        {"kind": "reset-offsets", "group": "billing", "to": "nowhere"},
        {"kind": "reset-offsets", "group": "billing", "to": "to_offset", "value": "-1"},
        {"kind": "reset-offsets", "group": "billing", "to": "to_offset", "value": "9" * 5000},
        {"kind": "reset-offsets", "group": "billing", "to": "to_latest", "scopes": "orders"},
        {"kind": "reset-offsets", "group": "billing", "to": "from_file", "value": "a,b"},
        {"kind": "alter-topic", "topic": "orders", "partitions": True},
        {"kind": "alter-topic", "topic": "orders", "config": {"retention.ms": 5}},
        {"kind": "alter-topic", "topic": "orders", "config": {"retention.ms": "5 lightyears"}},
        {"kind": "create-acl", "principal": "alice", "operation": "fly"},
        {"kind": "change-quotas", "entity": {"planet": "x"}, "quotas": {"producer_byte_rate": 1}},
        {"kind": "delete-records", "topic": "orders", "before": {"0": -4}},
        {"kind": "delete-records", "topic": "orders", "before": {"77": 4}},
    ]

    async def run() -> None:
        async with world(tmp_path) as one:
            for body in wrong:
                error = await one.ask(body, status=400)
                assert error["message"], body

    asyncio.run(run())


def test_quotas_are_shown_old_and_new(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path) as one:
            body = {
                "kind": "change-quotas",
                "entity": {"client-id": "web"},
                "quotas": {"producer_byte_rate": 1000},
            }
            plan = await one.ask(body)
            assert [(row["old"], row["new"]) for row in plan["rows"]] == [(None, 1000)]
            await one.apply(plan)
            plan = await one.ask({**body, "quotas": {"producer_byte_rate": None}})
            assert [(row["old"], row["new"]) for row in plan["rows"]] == [(1000, None)]

    asyncio.run(run())


def test_a_declared_topic_is_changed_by_its_resource(tmp_path: Path) -> None:
    """CON-120: the page names the resource and its drift policy, and gives the patch."""

    async def topics(request: web.Request) -> web.Response:
        resource = {
            "metadata": {"name": "the-orders", "namespace": "shop"},
            "spec": {"topicName": "orders", "driftPolicy": "Revert"},
        }
        return web.json_response({"items": [resource]})

    async def run() -> None:
        app = web.Application()
        app.router.add_get("/apis/barnabas.dev/v1alpha1/namespaces/shop/topics", topics)
        async with TestServer(app) as server:
            kubernetes = {"kubernetes": str(server.make_url("/")), "kubernetes_namespace": "shop"}
            async with world(tmp_path, **kubernetes) as one:
                body = {"kind": "alter-topic", "topic": "orders", "config": {"retention.ms": "1h"}}
                plan = await one.ask(body)
                assert "shop/the-orders (driftPolicy Revert)" in plan["refusal"]
                assert plan["commands"] == [
                    "kubectl -n shop patch topics.barnabas.dev the-orders --type merge -p"
                    """ '{"spec":{"config":{"retention.ms":"3600000"}}}'"""
                ]
                await one.apply(plan, status=409)
                gone = await one.ask({"kind": "delete-topic", "topic": "orders"})
                assert gone["commands"] == ["kubectl -n shop delete topics.barnabas.dev the-orders"]
                other = await one.ask({"kind": "create-topic", "topic": "other"})
                assert other["refusal"] is None

    asyncio.run(run())
