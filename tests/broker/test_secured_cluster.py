"""A cluster whose brokers log in by certificates, with an authorizer (SEC-60, SEC-61, SEC-62)."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from barnabas_broker.env.network import RealNetwork
from barnabas_broker.network.peers import Peers, PeerUnreachableError
from barnabas_broker.server import Server
from barnabas_client import AcknowledgeType, Consumer, Producer, ShareConsumer
from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.configs import ConfigChange, ConfigResource
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.consumer import ConsumerRecord
from barnabas_client.share import ShareRecord
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import (
    broker_heartbeat,
    broker_registration,
    create_topics,
    envelope,
    fetch,
    metadata_fetch,
    metadata_promise,
)
from tests.simulation import requests
from tests.support.in_process_broker import eventually
from tests.support.in_process_cluster import CLUSTER_ID, controller_of
from tests.support.raw_client import RawClient
from tests.support.tls_files import TlsFiles

HOST = "localhost"
ADMIN = "admin"
NODES = 3
DEADLINE_SECONDS = 60
REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class Certificates:
    """Those of a cluster and its clients, and of some who would like to be brokers."""

    def __init__(self, directory: Path) -> None:
        self.files = TlsFiles(directory).create(HOST)
        self.of_node = [self.files.issue(f"broker-{number}", HOST) for number in range(NODES)]
        self.admin = self.files.issue(ADMIN)
        self.client = self.files.issue("alice")
        # A client's certificate with the name of a broker's host.
        self.with_a_broker_s_host = self.files.issue("mallory", "broker-2", "CN=broker-2", HOST)
        self.of_another_authority = self.files.issue(
            "broker-1", HOST, by=self.files.other_authority
        )

    def broker(self, directory: Path, node_id: int, **properties: str) -> Server:
        """A broker that is not started."""
        certificate, key = self.of_node[node_id]
        return Server(
            {
                "node.id": str(node_id),
                "cluster.id": CLUSTER_ID,
                "listeners": f"CLIENTS://{HOST}:0,REPLICATION://{HOST}:0",
                "listener.security.protocol.map": "CLIENTS:SSL,REPLICATION:SSL",
                "listener.name.clients.ssl.client.auth": "requested",
                "listener.name.replication.ssl.client.auth": "required",
                "barnabas.ssl.certificate.file": str(certificate),
                "barnabas.ssl.key.file": str(key),
                "ssl.truststore.location": str(self.files.authority),
                "barnabas.broker.principals": "User:CN=broker-{id}",
                "authorizer.class.name": "StandardAuthorizer",
                "super.users": f"User:CN={ADMIN}",
                "log.dirs": str(directory / str(node_id)),
                "arbiter.file.path": str(directory / "arbiter"),
                "default.replication.factor": "3",
                "min.insync.replicas": "2",
                "num.partitions": "3",
                "offsets.topic.replication.factor": "2",
                "admin.http.port": "-1",
                **properties,
            }
        )

    def context(self, certificate: tuple[Path, Path] | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.files.authority))
        if certificate is not None:
            context.load_cert_chain(*map(str, certificate))
        return context

    def client_settings(self, server: Server, certificate: tuple[Path, Path]) -> dict[str, str]:
        return {
            "bootstrap_servers": f"{HOST}:{server.port}",
            "security_protocol": "SSL",
            "ssl_cafile": str(self.files.authority),
            "ssl_certfile": str(certificate[0]),
            "ssl_keyfile": str(certificate[1]),
        }

    async def connect(self, port: int, certificate: tuple[Path, Path] | None) -> RawClient:
        return await RawClient.connect(port, HOST, tls=self.context(certificate))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


@asynccontextmanager
async def secured_cluster(
    certificates: Certificates, directory: Path, **properties: str
) -> AsyncIterator[list[Server]]:
    servers = [certificates.broker(directory, node_id, **properties) for node_id in range(NODES)]
    await asyncio.gather(*(server.start() for server in servers))
    try:
        yield servers
    finally:
        for server in servers:
            await server.stop()


async def create(client: RawClient, name: str, factor: int = 3) -> int:
    topic = create_topics.CreatableTopic(name=name, num_partitions=-1, replication_factor=factor)
    request = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=20_000)
    (result,) = (await client.call(ApiKey.CREATE_TOPICS, 7, request)).topics
    return int(result.error_code)


def test_it_elects_serves_and_fails_over(certificates: Certificates, tmp_path: Path) -> None:
    """Envelopes, coordinators' topics, followers and ISR changes all pass by certificates."""

    async def run() -> None:
        async with secured_cluster(certificates, tmp_path) as servers:
            old = controller_of(servers)
            others = [server for server in servers if server is not old]
            async with (
                await certificates.connect(others[0].port, certificates.admin) as admin,
                await certificates.connect(others[0].port, certificates.client) as alice,
            ):
                assert await create(admin, "orders") == 0
                assert await create(alice, "mine") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            settings = certificates.client_settings(others[0], certificates.admin)
            async with Producer(acks="all", **settings) as producer:
                for number in range(30):
                    await producer.send("orders", b"%d" % number)
                await producer.flush()
            await old.stop()

            async def has_controller() -> bool:
                return any(one.control.controller.is_active for one in others)

            await eventually(has_controller)
            follower = next(one for one in others if not one.control.controller.is_active)
            async with await certificates.connect(follower.port, certificates.admin) as admin:
                assert await create(admin, "later", factor=2) == 0
            read = []
            group = {"group_id": "readers", "auto_offset_reset": "earliest"}
            async with Consumer(**settings, **group) as consumer:
                consumer.subscribe(["orders"])
                while len(read) < 30:
                    read += [record.value for record in await consumer.poll()]
            assert sorted(read) == sorted(b"%d" % number for number in range(30))
            again = certificates.broker(tmp_path, old.logs.node_id)
            await again.start()
            servers[servers.index(old)] = again
            assert again.is_ready

    uvloop.run(asyncio.wait_for(run(), DEADLINE_SECONDS))


def test_brokers_write_dead_letters_where_a_topic_permits_them(
    certificates: Certificates, tmp_path: Path
) -> None:
    """SHR-35: no right of any client's is needed, and brokers get none on other topics."""

    async def run() -> None:
        async with secured_cluster(certificates, tmp_path) as servers:
            settings = certificates.client_settings(servers[0], certificates.admin)
            permitted = {"errors.deadletterqueue.group.enable": "true"}
            async with Admin(**settings) as admin:
                # Led by different brokers.
                orders = NewTopic(name="orders", replica_assignment={0: [0, 1, 2]})
                letters = NewTopic(
                    name="dlq.orders", replica_assignment={0: [1, 2, 0]}, configs=permitted
                )
                (await admin.topics.create([orders, letters])).unwrap()
                changes = [
                    ConfigChange.set("share.auto.offset.reset", "earliest"),
                    ConfigChange.set("errors.deadletterqueue.topic.name", "dlq.orders"),
                ]
                (await admin.configs.alter({ConfigResource.group("packers"): changes})).unwrap()
            async with Producer(acks="all", **settings) as producer:
                await producer.send("orders", b"bad")
            group: dict[str, Any] = {
                "group_id": "packers",
                "share_acknowledgement_mode": "explicit",
            }
            async with ShareConsumer(**settings, **group) as packer:
                packer.subscribe(["orders"])
                records: list[ShareRecord] = []
                while not records:
                    records = await packer.poll(timeout_ms=500)
                packer.acknowledge(records[0], AcknowledgeType.REJECT)
                assert not any((await packer.commit()).values())
                read: list[ConsumerRecord] = []
                async with Consumer(**settings, auto_offset_reset="earliest") as consumer:
                    consumer.assign([("dlq.orders", 0)])
                    while not read:
                        read += await consumer.poll(timeout_ms=500)
            assert dict(read[0].headers)["__dlq.errors.topic"] == b"orders"
            broker = certificates.of_node[2]
            async with await certificates.connect(servers[0].replication_port, broker) as peer:
                answer = await requests.append(
                    peer, requests.append_request("orders", 0, [b"forged"])
                )
            assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    uvloop.run(asyncio.wait_for(run(), DEADLINE_SECONDS))


def test_a_stolen_certificate_of_one_broker_is_not_that_of_another(
    certificates: Certificates, tmp_path: Path
) -> None:
    """Nor are those of clients, with whatever host names, those of brokers."""

    async def run() -> None:
        async with secured_cluster(certificates, tmp_path) as servers:
            controller = controller_of(servers)
            node_id = controller.logs.node_id
            me, other = (one for one in range(NODES) if one != node_id)
            port = controller.replication_port
            async with await certificates.connect(port, certificates.of_node[me]) as broker:
                assert await told_in_the_name_of(broker, other) == {REFUSED}
                assert await told_in_the_name_of(broker, node_id) == {REFUSED}
                assert REFUSED not in await told_in_the_name_of(broker, me)
            for certificate in (
                certificates.client,
                certificates.admin,
                certificates.with_a_broker_s_host,
            ):
                async with await certificates.connect(port, certificate) as client:
                    for claimed in range(NODES):
                        told = await told_in_the_name_of(client, claimed)
                        assert told <= {REFUSED, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
                    sent = envelope.EnvelopeRequest(request_data=b"", client_host_address=b"")
                    answer = await client.call(ApiKey.ENVELOPE, 0, sent)
                    assert answer.error_code == REFUSED
            assert all(not broker.fenced for broker in controller.image.brokers.values())

    uvloop.run(asyncio.wait_for(run(), DEADLINE_SECONDS))


async def told_in_the_name_of(client: RawClient, node_id: int) -> set[int]:
    requests: list[tuple[ApiKey, int, Any]] = [
        (
            ApiKey.BROKER_REGISTRATION,
            4,
            broker_registration.BrokerRegistrationRequest(
                broker_id=node_id, cluster_id="another", incarnation_id=bytes(16)
            ),
        ),
        (
            ApiKey.BROKER_HEARTBEAT,
            1,
            broker_heartbeat.BrokerHeartbeatRequest(broker_id=node_id, broker_epoch=-7),
        ),
        (
            ApiKey.METADATA_PROMISE,
            0,
            metadata_promise.MetadataPromiseRequest(
                leader_id=node_id, controller_epoch=2**31 - 1, receiver_id=99
            ),
        ),
        (
            ApiKey.METADATA_FETCH,
            0,
            metadata_fetch.MetadataFetchRequest(node_id=node_id, receiver_id=99),
        ),
        (
            ApiKey.FETCH,
            17,
            fetch.FetchRequest(
                replica_state=fetch.ReplicaState(replica_id=node_id, replica_epoch=10**12),
                topics=[
                    fetch.FetchTopic(
                        topic_id=b"\7" * 16, partitions=[fetch.FetchPartition(partition=0)]
                    )
                ],
            ),
        ),
    ]
    codes = set()
    for request in requests:
        response = await client.call(*request)
        code = response.error_code
        if request[0] is ApiKey.FETCH and code == 0:
            (topic,) = response.responses
            (partition,) = topic.partitions
            code = partition.error_code
        codes.add(code)
    return codes


@pytest.mark.parametrize("who", ["nobody", "of_another_authority"])
def test_who_shows_no_certificate_of_the_authority_is_not_connected(
    certificates: Certificates, tmp_path: Path, who: str
) -> None:
    async def work(server: Server) -> None:
        certificate = None if who == "nobody" else certificates.of_another_authority
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            async with await certificates.connect(server.replication_port, certificate) as client:
                await told_in_the_name_of(client, 1)

    with_lone_broker(certificates, tmp_path, work)


def test_a_handshake_that_fails_is_no_refused_connection(
    certificates: Certificates, tmp_path: Path
) -> None:
    """SEC-60, decision 0008: a broker with a certificate that others refuse still runs, and one
    that refuses others' is not gone: by that nobody is fenced."""

    async def work(server: Server) -> None:
        address = HOST, server.replication_port
        for certificate in (None, certificates.of_another_authority):
            context = certificates.context(certificate)
            peers = Peers(
                RealNetwork(),
                resolve=lambda _: address,
                client_id="broker-1",
                context=lambda context=context: context,  # type: ignore[misc]
            )
            request = broker_heartbeat.BrokerHeartbeatRequest(broker_id=1)
            with pytest.raises(PeerUnreachableError) as failed:
                await peers.request(0, request, 1, channel="lifecycle", timeout_ms=20_000)
            assert not failed.value.was_refused
            await peers.close()

    with_lone_broker(certificates, tmp_path, work)


def with_lone_broker(
    certificates: Certificates, directory: Path, work: Callable[[Server], Awaitable[None]]
) -> None:
    async def run() -> None:
        server = certificates.broker(directory, 0)
        await server.start()
        try:
            await work(server)
        finally:
            await server.stop()

    uvloop.run(asyncio.wait_for(run(), DEADLINE_SECONDS))
