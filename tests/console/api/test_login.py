"""Log-ins by brokers' own users and tokens, and never with more rights (CON-140, CON-141)."""

import asyncio
import json
import re
from pathlib import Path
from time import time

import pytest
from aiohttp import ClientError

from barnabas_client.admin import Admin, NewTopic
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.producer.producer import Producer
from barnabas_console.api.token_subject import subject_of
from barnabas_console.history.changes import setting_changes
from barnabas_console.history.sampler import Sampler
from barnabas_console.history.timeline import ClusterChange
from barnabas_console.server import SAMPLER
from barnabas_console.settings import ConsoleSettingsError
from barnabas_console.viewer import Viewer
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.ids import TopicPartition
from tests.support.console_server import OWN, running_console
from tests.support.in_process_broker import DEADLINE_SECONDS, eventually, running_broker
from tests.support.sasl_brokers import LISTENERS, port_of
from tests.support.secured_console import SECURED, log_in, right, secured, seen
from tests.support.token_issuer import AUDIENCE, ISSUER, TokenIssuer, key_set


def test_without_a_log_in_no_route_tells_anything(tmp_path: Path) -> None:
    """CON-140, CON-172: read off the application."""

    async def run() -> None:
        async with secured(tmp_path) as (_, client):
            session = await seen(client, OWN, "/session")
            assert (session["principal"], session["login"]) == (None, "sasl")
            app = client.server.app  # type: ignore[attr-defined]
            open_paths = {"/api/v1/session", "/api/v1/login", "/api/v1/logout"}
            for route in app.router.routes():
                path = re.sub(r"\{[^}]*\}", "0", route.resource.canonical)
                if path.startswith("/api/") and path not in open_paths:
                    for cookie in ({}, {"Cookie": "barnabas_console=guessed"}):
                        async with client.request(
                            route.method, path, headers={**OWN, **cookie}, json={"path": "/api/v1/"}
                        ) as response:
                            assert response.status == 401, path

    asyncio.run(run())


def test_each_sees_what_brokers_let_them_see(tmp_path: Path) -> None:
    """CON-141: ACLs rule; caches are nobody else's; what may be hidden is never safe."""

    async def run() -> None:
        async with secured(tmp_path) as (_, client):
            tabs = {
                user: await log_in(client, {"username": user, "password": "secret"})
                for user in ("root", "alice", "bob")
            }
            names = {
                user: [row["topic"] for row in (await seen(client, tab, "/topics"))["rows"]]
                for user, tab in tabs.items()
            }
            assert names == {"root": ["orders", "salaries"], "alice": ["orders"], "bob": []}
            assert (await seen(client, tabs["root"], "/topics/salaries"))["topic"] == "salaries"
            for hidden in ("salaries", "none"):  # what is hidden and what is not there look alike
                await seen(client, tabs["alice"], f"/topics/{hidden}", 403)
            for user, safe in (("root", "yes"), ("alice", "unknown")):
                (broker,) = (await seen(client, tabs[user], "/overview"))["brokers"]
                assert broker["safe"] == safe, broker
            denied = await seen(client, tabs["alice"], "/topics/orders/settings", 403)
            assert "acl explain" in denied["hint"]
            assert (await seen(client, tabs["bob"], "/session"))["principal"] == "User:bob"

    asyncio.run(run())


def test_brokers_decide_who_logs_in_and_who_logs_out_is_out(tmp_path: Path) -> None:
    """CON-140."""

    async def run() -> None:
        async with secured(tmp_path) as (_, client):
            await log_in(client, {"username": "alice", "password": "wrong"}, 401)
            await log_in(client, {"username": "nobody", "password": "secret"}, 401)
            await log_in(client, {"username": "", "password": "secret"}, 400)
            await log_in(client, {"username": "alice"}, 400)
            await log_in(client, {"username": "alice", "password": "x" * 20_000}, 400)
            alice = await log_in(client, {"username": "alice", "password": "secret"})
            again = await log_in(client, {"username": "alice", "password": "secret"})
            assert alice["Cookie"] != again["Cookie"]
            async with client.post("/api/v1/logout", headers=alice) as response:
                assert response.status == 204
            await seen(client, alice, "/topics", 401)
            assert (await seen(client, again, "/topics"))["total"] == 1

    asyncio.run(run())


def test_who_logs_in_while_their_last_session_ends_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CON-141: equal credentials share a viewer, which must not be closed under the new session."""
    close = Viewer.close

    async def run() -> None:
        async with secured(tmp_path) as (_, client):
            credentials = {"username": "alice", "password": "secret"}
            sessions = [await log_in(client, credentials)]

            async def close_after_log_out(viewer: Viewer) -> None:
                while sessions:
                    async with client.post("/api/v1/logout", headers=sessions.pop()) as response:
                        assert response.status == 204
                await close(viewer)

            monkeypatch.setattr(Viewer, "close", close_after_log_out)
            again = await log_in(client, credentials)
            assert not sessions
            assert (await seen(client, again, "/topics"))["total"] == 1

    asyncio.run(run())


def test_a_holder_of_a_token_is_let_in_by_brokers(tmp_path: Path) -> None:
    """CON-140: `kubernetes`, by OAUTHBEARER; the page shows whom brokers take the holder for."""
    issuer = TokenIssuer()
    file = tmp_path / "keys.json"
    file.write_bytes(key_set(issuer))
    settings = LISTENERS | {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.jwks.endpoint.url": f"file:{file}",
    }

    async def run() -> None:
        async with (
            running_broker(tmp_path / "data", **settings) as server,
            running_console(
                f"localhost:{port_of(server)}",
                client_settings={"security_protocol": "SASL_PLAINTEXT"},
                login="kubernetes",
            ) as client,
        ):
            await log_in(client, {"token": TokenIssuer().token(time())}, 401)
            await log_in(client, {"token": "none"}, 401)
            await log_in(client, {"token": ""}, 400)
            headers = await log_in(client, {"token": issuer.token(time())})
            assert (await seen(client, headers, "/session"))["principal"] == "User:alice"
            assert (await seen(client, headers, "/topics"))["total"] == 0

    asyncio.run(run())


def test_two_whose_tokens_say_the_same_name_share_nothing(tmp_path: Path) -> None:
    """CON-141, CON-172: what a token says of itself is shown; brokers may read another claim.

    Whoever may not read a topic would follow it by the consumer of one who may.
    """
    issuer = TokenIssuer()
    file = tmp_path / "keys.json"
    file.write_bytes(key_set(issuer))
    settings = SECURED | {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.sub.claim.name": "login",
        "sasl.oauthbearer.jwks.endpoint.url": f"file:{file}",
    }

    async def run() -> None:
        async with (
            running_broker(tmp_path / "data", **settings) as server,
            running_console(
                f"localhost:{port_of(server)}",
                client_settings={"security_protocol": "SASL_PLAINTEXT"},
                login="kubernetes",
            ) as client,
        ):
            async with Admin(f"127.0.0.1:{server.port}") as admin:
                (await admin.topics.create([NewTopic(name="orders")])).unwrap()
                reads = [
                    right("orders", operation)
                    for operation in (AclOperation.DESCRIBE, AclOperation.READ)
                ]
                (await admin.acls.create(reads)).unwrap()
            alice, eve = [
                await log_in(client, {"token": issuer.token(time(), sub="same", login=user)})
                for user in ("alice", "eve")
            ]
            tail = "/api/v1/topics/orders/tail"
            async with client.get(tail, headers=alice) as response:
                assert response.status == 200
                await response.content.readuntil(b"\n\n")
                async with (
                    asyncio.timeout(DEADLINE_SECONDS),
                    client.get(tail, headers=eve) as response,
                ):
                    assert response.status == 403
            path = "/api/v1/session"
            async with client.post("/api/v1/tickets", headers=alice, json={"path": path}) as found:
                url = (await found.json())["url"]
            async with client.get(url, headers={"Cookie": eve["Cookie"]}) as response:
                assert response.status == 403

    asyncio.run(run())


def test_of_a_group_nothing_is_told_that_tells_of_hidden_topics(tmp_path: Path) -> None:
    """CON-141, CON-172: the sampler sees what alice, who may see the groups, may not."""

    async def run() -> None:
        async with secured(tmp_path) as (server, client):
            app = client.server.app  # type: ignore[attr-defined]
            sampler: Sampler = app[SAMPLER]
            async with (
                Admin(f"127.0.0.1:{server.port}") as admin,
                Producer(f"127.0.0.1:{server.port}") as producer,
            ):
                for group, topic in (("open", "orders"), ("hidden", "salaries")):
                    for _ in range(5):
                        await producer.send(topic, b"1")
                    offsets = {TopicPartition(topic, 0): OffsetAndMetadata(2)}
                    (await admin.group_offsets.alter(group, offsets)).unwrap()
                    seen_group = right(group, AclOperation.DESCRIBE, AclResourceType.GROUP)
                    (await admin.acls.create([seen_group])).unwrap()

            async def both_are_known() -> bool:
                await sampler.look()
                samples = sampler.groups.by_id.values()
                return len(samples) == 2 and all(one.lag is not None for one in samples)

            await eventually(both_are_known)
            alice = await log_in(client, {"username": "alice", "password": "secret"})
            rows = {row["group"]: row for row in (await seen(client, alice, "/groups"))["rows"]}
            assert rows["open"]["lag"] == 3
            hidden = rows["hidden"]
            untold = ("lag", "lag_known", "lag_seconds", "topics", "members", "trend")
            assert [hidden[name] for name in untold] == [None] * len(untold)
            assert (hidden["health"], hidden["words"]) == ("unknown", "")
            assert (await seen(client, alice, "/topics/orders/groups"))["total"] == 1
            await seen(client, alice, "/topics/salaries/groups", 404)
            path = "/series?names=group:lag:open&names=group:lag:hidden"
            columns = (await seen(client, alice, path))["columns"]
            assert columns[0] is not None and columns[1] is None
            told = await seen(client, alice, "/overview")
            assert "salaries" not in json.dumps([rows, told])

            now_ms = 1
            sampler.timeline.add(
                [
                    *setting_changes({"broker 0": {"a": "1"}}, {"broker 0": {"a": "2"}}),
                    ClusterChange(
                        kind="group",
                        subject="hidden",
                        words="No members: 3 records wait in salaries-0.",
                        group="hidden",
                        told_topics=("salaries",),
                    ),
                    ClusterChange(kind="broker", subject="1", words="gone"),
                ],
                now_ms,
            )
            changes = (await seen(client, alice, "/timeline"))["rows"]
            assert "gone" in [change["words"] for change in changes]
            assert "setting" not in {change["kind"] for change in changes}
            assert "salaries" not in json.dumps(changes)

    asyncio.run(run())


def test_a_stream_ends_with_its_session(tmp_path: Path) -> None:
    """CON-140, CON-172: who logs out sees no more records, in no other tab either."""
    lines: list[str] = []

    async def run() -> None:
        async with secured(tmp_path, write_audit_line=lines.append) as (server, client):
            async with Admin(f"127.0.0.1:{server.port}") as admin:
                (await admin.acls.create([right("orders", AclOperation.READ)])).unwrap()
            users = {"username": "alice", "password": "secret"}
            leaves, stays = [await log_in(client, users) for _ in range(2)]
            tail = "/api/v1/topics/orders/tail"
            async with (
                client.get(tail, headers=leaves) as ended,
                client.get(tail, headers=stays) as goes_on,
            ):
                for response in (ended, goes_on):
                    await response.content.readuntil(b"\n\n")
                async with client.post("/api/v1/logout", headers=leaves) as response:
                    assert response.status == 204
                async with asyncio.timeout(DEADLINE_SECONDS):
                    with pytest.raises(ClientError):
                        await ended.read()
                    await goes_on.content.readuntil(b"\n\n")
            acts = [json.loads(line)["act"] for line in lines]
            assert acts.count("tail ended") >= 1

    asyncio.run(run())


def test_a_login_needs_brokers_that_have_one() -> None:
    async def run() -> None:
        with pytest.raises(ConsoleSettingsError, match=r"security\.protocol"):
            async with running_console(login="sasl"):
                pass

    asyncio.run(run())


@pytest.mark.parametrize(
    "token", ["", "a.b", "a.b.c", "x.W10.y", "x.eyJzdWIiOjF9.y", "..", "é.é.é"]
)
def test_a_token_that_names_nobody_shows_nobody(token: str) -> None:
    assert subject_of(token) is None
