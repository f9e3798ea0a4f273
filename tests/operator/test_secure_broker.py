"""A broker with the very settings and certificates of the operator, and clients with its Secrets.

Only what a pod would give is put in place of it: folders, ports, and a file for the arbiter.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvloop

from barnabas_broker.config.parse import parse_properties
from barnabas_broker.server import Server
from barnabas_client import Consumer, Producer
from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.config.properties_file import client_settings_in
from barnabas_client.env import SystemClock
from barnabas_client.errors import AuthenticationError, AuthorizationError
from barnabas_operator.certificates.pem import bundle_digest
from barnabas_operator.gateway.broker_admin import BrokerAdmin
from barnabas_operator.gateway.client_access import read_access
from barnabas_operator.kubernetes.kinds import CONFIG_MAP, SECRET, STATEFUL_SET, USER
from barnabas_operator.reconcile.user.user_reconciler import UserReconciler
from barnabas_operator.settings import OperatorSettings
from barnabas_operator.work.key import Key, KeyKind
from barnabas_operator.work.watch_cache import WatchCache
from tests.monitoring.secure_metrics import SECURE_METRICS
from tests.operator.reconcile.broker.broker_world import NAME, NAMESPACE, BrokerWorld
from tests.operator.reconcile.broker.secure_brokers import settings_of
from tests.operator.user_manifests import user
from tests.support.in_process_broker import eventually
from tests.support.processes import free_port

HOST = "localhost"
KEY = Key(kind=KeyKind.USERS, namespace=NAMESPACE, name=NAME)
ORDERS = {
    "acls": [
        {
            "resource": {"type": "topic", "name": "orders.", "patternType": "prefix"},
            "operations": ["Read", "Write", "Describe"],
        },
        {"resource": {"type": "group", "name": "g"}, "operations": ["Read", "Describe"]},
    ]
}


class OneAdmin:
    """`AdminPool` with the one client of this test."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    def learn(self, broker: Mapping[str, Any]) -> None:
        """It knows the address."""

    def unreachable_seconds(self, namespace: str, name: str) -> float:
        return 0.0

    @asynccontextmanager
    async def using(self, namespace: str, name: str) -> AsyncIterator[Admin]:
        yield self._admin


def secure_world() -> BrokerWorld:
    """Its certificates are two months old, so that a renewed one is valid now as well."""
    world = BrokerWorld(1, security={"enabled": True})
    world.clock.now_ms = SystemClock().wall_ms() - 70 * 24 * 60 * 60 * 1000
    asyncio.run(world.settle())
    return world


def secret_files(world: BrokerWorld, name: str) -> dict[str, str]:
    data = world.store.get(SECRET, NAMESPACE, name)["data"]
    return {key: base64.b64decode(text).decode() for key, text in data.items()}


def put_files(folder: Path, files: Mapping[str, str]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def broker_of(world: BrokerWorld, folder: Path) -> Server:
    """Broker 0 as its pod would start it."""
    template = world.store.get(STATEFUL_SET, NAMESPACE, NAME)["spec"]["template"]
    texts = world.store.get(CONFIG_MAP, NAMESPACE, f"{NAME}-config")["data"]
    properties = parse_properties(texts["broker.properties"])
    properties |= settings_of(template)
    tls = put_files(folder / "tls", secret_files(world, f"{NAME}-broker-certificates"))
    names = [one.partition(":")[0] for one in properties["listeners"].split(",")]
    properties = {
        key: value.replace("$(NODE_ID)", "0").replace("/etc/barnabas-tls", str(tls))
        for key, value in properties.items()
        if not key.startswith("arbiter.") and key != "advertised.listeners"
    }
    return Server(
        {
            **properties,
            "listeners": ",".join(f"{name}://{HOST}:0" for name in names),
            "log.dirs": str(folder / "data"),
            "admin.http.port": str(free_port()),
            "admin.http.socket": str(folder / "admin.sock"),
            "group.initial.rebalance.delay.ms": "0",
            # Where the keys of ServiceAccounts would be; nobody here logs in by a token.
            "arbiter.kubernetes.server": "https://127.0.0.1:9",
        }
    )


def port_of(server: Server, listener: str) -> int:
    return server.listeners.named(listener).port


def operators_client(world: BrokerWorld, server: Server) -> Admin:
    files = secret_files(world, f"{NAME}-operator-certificate")
    return Admin(
        f"{HOST}:{port_of(server, 'REPLICATION_SSL')}",
        security_protocol="SSL",
        ssl_ca_pem=files["ca.crt"],
        ssl_certificate_pem=files["tls.crt"],
        ssl_key_pem=files["tls.key"],
    )


def settings_for(world: BrokerWorld, folder: Path, name: str, port: int) -> dict[str, Any]:
    """What a client makes of the Secret that it has mounted."""
    files = secret_files(world, name)
    home = put_files(folder / name, files)
    text = files["client.properties"].replace("/etc/barnabas/user", str(home))
    settings = client_settings_in(parse_properties(text))
    return {**settings, "bootstrap_servers": f"{HOST}:{port}"}


async def reconcile(world: BrokerWorld, admin: Admin) -> None:
    pool: Any = OneAdmin(admin)
    cache = WatchCache(world.api, lambda: world.clock.monotonic_ms() / 1000, list_seconds=0)
    reconciler = UserReconciler(world.api, pool, OperatorSettings(), world.clock, cache)
    for _ in range(2):
        await reconciler.reconcile(KEY)
        world.clock.now_ms += 61_000


def ready(world: BrokerWorld, name: str) -> str:
    conditions = world.store.get(USER, NAMESPACE, name)["status"]["conditions"]
    (found,) = (one for one in conditions if one["type"] == "Ready")
    return f"{found['status']} {found['reason']} {found['message']}"


async def exchange(settings: dict[str, Any], topic: str, value: bytes) -> None:
    """Write a record and read it back in a group."""
    async with Producer(**settings) as producer:
        await producer.send(topic, value)
        await producer.flush()
    async with Consumer(**settings, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        read: list[Any] = []
        while not read:
            read = list(await consumer.poll())
        assert read[0].value == value


@pytest.mark.parametrize("auth", ["scram-sha-512", "tls"])
def test_a_declared_user_works_with_the_files_of_its_secret(tmp_path: Path, auth: str) -> None:
    """SEC-80, SEC-84, SEC-85: from the resource to a record, refused where it has no right."""
    world = secure_world()
    listener = "CERTIFICATES" if auth == "tls" else "CLIENTS"

    async def run() -> None:
        server = broker_of(world, tmp_path)
        await server.start()
        try:
            async with operators_client(world, server) as admin:
                await admin.topics.create(
                    [NewTopic(name=name, partition_count=1) for name in ("orders.a", "secret")]
                )
                world.store.create(USER, NAMESPACE, user("alice", auth=auth, authorization=ORDERS))
                await reconcile(world, admin)
                assert ready(world, "alice") == "True Applied "
                settings = settings_for(world, tmp_path, "alice", port_of(server, listener))
                await exchange(settings, "orders.a", b"hello")
                with pytest.raises(AuthorizationError):
                    async with Producer(**settings) as producer:
                        await producer.send("secret", b"no")
                        await producer.flush()
                world.store.delete(USER, NAMESPACE, "alice")
                await reconcile(world, admin)
                assert await admin.acls.list() == ()
                if auth != "tls":
                    with pytest.raises(AuthenticationError):
                        async with Producer(**settings) as producer:
                            await producer.send("orders.a", b"no")
                            await producer.flush()
                    exposed = {one.name: set(one.labels) for one in server.collector.snapshot()}
                    for name, labels in SECURE_METRICS.items():
                        assert exposed[name] == labels, name
        finally:
            await server.stop()

    uvloop.run(run())


def test_both_passwords_log_in_while_a_rotation_overlaps(tmp_path: Path) -> None:
    """SEC-27, SEC-84: clients with the former Secret go on, and those with the new one, too."""
    world = secure_world()

    async def run() -> None:
        server = broker_of(world, tmp_path)
        await server.start()
        try:
            async with operators_client(world, server) as admin:
                await admin.topics.create([NewTopic(name="orders.a", partition_count=1)])
                rotation = {"type": "scram-sha-512", "rotation": {"every": "2d", "overlap": "24h"}}
                world.store.create(
                    USER, NAMESPACE, user("alice", auth=rotation, authorization=ORDERS)
                )
                await reconcile(world, admin)
                port = port_of(server, "CLIENTS")
                former = settings_for(world, tmp_path, "alice", port)
                world.clock.now_ms += 2 * 24 * 60 * 60 * 1000
                await reconcile(world, admin)
                new = settings_for(world, tmp_path, "alice", port)
                assert former["sasl_password"] != new["sasl_password"]
                await exchange(former, "orders.a", b"former")
                await exchange(new, "orders.a", b"new")
                world.clock.now_ms += 24 * 60 * 60 * 1000
                await reconcile(world, admin)
                await exchange(new, "orders.a", b"new")
                with pytest.raises(AuthenticationError):
                    await exchange(former, "orders.a", b"former")
        finally:
            await server.stop()

    uvloop.run(run())


def test_the_admin_port_answers_operator_and_prometheus_and_nobody_else(tmp_path: Path) -> None:
    """SEC-63, SEC-88: by certificate, by token; probes are open and tell one word."""
    world = secure_world()

    async def run() -> None:
        server = broker_of(world, tmp_path)
        await server.start()
        port = server.config.admin_http_port
        try:
            access = await read_access(world.api, NAMESPACE, NAME)
            admin, there = BrokerAdmin(port), {0: "127.0.0.1"}

            async def is_told() -> bool:
                return bool(await admin.statuses(there, access))

            await eventually(is_told)
            told = (await admin.statuses(there, access))[0]
            bundle = secret_files(world, f"{NAME}-broker-certificates")["clients-ca.crt"]
            assert told.tls["CERTIFICATES"].trust == bundle_digest(bundle)
            assert await admin.statuses(there) == {}
            token = secret_files(world, f"{NAME}-metrics")["token"]
            url = f"https://127.0.0.1:{port}"
            async with aiohttp.ClientSession() as session:
                for path, headers, expected in (
                    ("/metrics", {"Authorization": f"Bearer {token}"}, 200),
                    ("/metrics", {"Authorization": "Bearer guessed"}, 401),
                    ("/metrics", {}, 401),
                    ("/live", {}, 200),
                ):
                    async with session.get(url + path, headers=headers, ssl=False) as answer:
                        assert answer.status == expected, (path, headers)
        finally:
            await server.stop()

    uvloop.run(run())


def test_a_renewal_is_loaded_and_brokers_tell_the_digest_that_the_operator_waits_for(
    tmp_path: Path,
) -> None:
    """SEC-5, SEC-81, SEC-83: another leaf and another bundle in the same files; no restart."""
    world = secure_world()
    name = f"{NAME}-broker-certificates"

    async def run() -> None:
        server = broker_of(world, tmp_path)
        await server.start()
        try:
            assert server.tls is not None
            before = server.tls.status()["REPLICATION_SSL"]
            files = secret_files(world, name)
            assert before["trust_sha256"] == bundle_digest(files["cluster-ca.crt"])
            world.change({"spec": {"security": {"certificates": {"renew": "today"}}}})
            world.clock.now_ms += 61 * 24 * 60 * 60 * 1000
            await world.reconcile()
            put_files(tmp_path / "tls", secret_files(world, name))
            await server.tls.poll(asyncio.to_thread)
            after = server.tls.status()["REPLICATION_SSL"]
            files = secret_files(world, name)
            assert after["trust_sha256"] == bundle_digest(files["cluster-ca.crt"])
            assert after["trust_sha256"] != before["trust_sha256"]
            assert after["certificate_sha256"] != before["certificate_sha256"]
        finally:
            await server.stop()

    uvloop.run(run())
