"""Brokers log in to one another by SCRAM from a file, never by the metadata log (SEC-61)."""

import asyncio
from pathlib import Path

import pytest
import uvloop

from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.env.network import RealNetwork
from barnabas_broker.network.peers import Peers, PeerUnreachableError
from barnabas_broker.security.broker_identity import BrokerIdentity
from barnabas_broker.security.broker_users import BrokerLogin, BrokerUsers
from barnabas_broker.server import Server
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import broker_heartbeat, create_topics
from tests.support.in_process_broker import eventually
from tests.support.in_process_cluster import CLUSTER_ID, controller_of
from tests.support.raw_client import RawClient

DEADLINE_SECONDS = 60
USERS = "broker-0=secret-0\nbroker-1=secret-1\n# of the third\nbroker-2=a password=with signs,\n"
MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-512"]


def settings(directory: Path, node_id: int = 0, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
    users = directory / "users"
    users.write_text(USERS)
    return {
        "node.id": str(node_id),
        "cluster.id": CLUSTER_ID,
        "listeners": "PLAINTEXT://127.0.0.1:0,REPLICATION://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,REPLICATION:SASL_PLAINTEXT",
        "listener.name.replication.sasl.enabled.mechanisms": mechanism,
        "barnabas.broker.principals": "User:broker-{id}",
        "barnabas.broker.users.file": str(users),
        "authorizer.class.name": "StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "log.dirs": str(directory / str(node_id)),
        "arbiter.file.path": str(directory / "arbiter"),
        "admin.http.port": "-1",
    }


async def create(server: Server, name: str) -> int:
    topic = create_topics.CreatableTopic(name=name, num_partitions=2, replication_factor=2)
    async with await RawClient.connect(server.port) as client:
        request = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=20_000)
        (result,) = (await client.call(ApiKey.CREATE_TOPICS, 7, request)).topics
    return int(result.error_code)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_cluster_forms_serves_and_fails_over(tmp_path: Path, mechanism: str) -> None:
    async def run() -> None:
        servers = [Server(settings(tmp_path, node_id, mechanism)) for node_id in range(3)]
        await asyncio.gather(*(server.start() for server in servers))
        try:
            old = controller_of(servers)
            others = [server for server in servers if server is not old]
            assert await create(others[0], "first") == 0
            seen = {
                (str(session.principal)) for session in old.listeners.named("REPLICATION").sessions
            }
            # Probes, and log-ins that are under way, are nobody's.
            named = {f"User:broker-{one.logs.node_id}" for one in others}
            assert named <= seen <= {*named, "User:ANONYMOUS"}
            await old.stop()

            async def has_controller() -> bool:
                return any(one.control.controller.is_active for one in others)

            await eventually(has_controller)
            assert [await create(one, f"later-{one.logs.node_id}") for one in others] == [0, 0]
        finally:
            for server in servers:
                await server.stop()

    uvloop.run(asyncio.wait_for(run(), DEADLINE_SECONDS))


@pytest.mark.parametrize(
    ("username", "password"),
    [("broker-1", "wrong"), ("broker-9", "secret-1"), ("alice", "alices"), ("broker-1", "")],
)
def test_nobody_else_gets_in(tmp_path: Path, username: str, password: str) -> None:
    """Also not who has a credential in the metadata: it is never looked at here."""

    async def run() -> None:
        server = Server(settings(tmp_path))
        await server.start()
        try:
            told = await told_as(server, BrokerLogin("SCRAM-SHA-512", username, password), 1)
            assert told is None
        finally:
            await server.stop()

    asyncio.run(asyncio.wait_for(run(), DEADLINE_SECONDS))


def test_a_broker_speaks_for_the_one_that_it_has_logged_in_as(tmp_path: Path) -> None:
    async def run() -> None:
        server = Server(settings(tmp_path))
        await server.start()
        try:
            login = BrokerLogin("SCRAM-SHA-512", "broker-2", "a password=with signs,")
            assert await told_as(server, login, 1) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert await told_as(server, login, 2) == ErrorCode.BROKER_ID_NOT_REGISTERED
            assert await told_as(server, None, 2) is None, "who does not log in is cut off"
        finally:
            await server.stop()

    asyncio.run(asyncio.wait_for(run(), DEADLINE_SECONDS))


async def told_as(server: Server, login: BrokerLogin | None, node_id: int) -> int | None:
    """The code for a heartbeat in the name of a broker; None where the log-in fails."""
    address = "127.0.0.1", server.replication_port
    peers = Peers(RealNetwork(), resolve=lambda _: address, client_id="broker-1")
    peers.login = login
    request = broker_heartbeat.BrokerHeartbeatRequest(broker_id=node_id, broker_epoch=5)
    try:
        answer = await peers.request(0, request, 1, channel="lifecycle", timeout_ms=20_000)
    except PeerUnreachableError as error:
        assert not error.was_refused, "it fences nobody"
        assert login is None or not error.was_sent, "the request has waited for the log-in"
        return None
    finally:
        await peers.close()
    return int(answer.error_code)


def test_a_broker_is_the_user_whose_principal_is_its_own() -> None:
    users = BrokerUsers.parse(USERS.encode())
    identity = BrokerIdentity.of("REPLICATION", "User:broker-{id}", is_secured=False)
    login = users.login("SCRAM-SHA-256", identity, 2)
    assert (login.username, login.password) == ("broker-2", "a password=with signs,")
    assert "password" not in repr(login)
    with pytest.raises(ConfigError, match="0 of its users"):
        users.login("SCRAM-SHA-256", identity, 7)
    shared = BrokerIdentity.of("REPLICATION", "User:broker-1;User:broker-0", is_secured=False)
    with pytest.raises(ConfigError, match="2 of its users"):
        users.login("SCRAM-SHA-256", shared, 2)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"barnabas.broker.users.file": None}, "users.file"),
        ({"barnabas.broker.principals": None}, "principals"),
        ({"listener.name.replication.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN"}, "PLAIN"),
        ({"listener.name.replication.connections.max.reauth.ms": "60000"}, "reauth"),
        ({"listener.security.protocol.map": None}, "has no SASL"),
        ({"sasl.mechanism.inter.broker.protocol": "PLAIN"}, "REPLICATION has SCRAM-SHA-512"),
        (
            {
                "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
                "listener.security.protocol.map": None,
            },
            "brokers do not log in here",
        ),
    ],
)
def test_a_log_in_that_could_not_last_is_refused_at_the_start(
    tmp_path: Path, change: dict[str, str | None], complaint: str
) -> None:
    given = {**settings(tmp_path), "barnabas.allow.plain.without.tls": "true", **change}
    with pytest.raises(ConfigError, match=complaint):
        BrokerConfig.parse({key: value for key, value in given.items() if value is not None})


@pytest.mark.parametrize("given", [None, "GSSAPI", "SCRAM-SHA-256", "scram-sha-512"])
def test_brokers_log_in_by_the_mechanism_that_is_named(tmp_path: Path, given: str | None) -> None:
    """SEC-61: GSSAPI, Kafka's default, stands for the first of their listener."""
    more = {} if given is None else {"sasl.mechanism.inter.broker.protocol": given}
    config = BrokerConfig.parse(settings(tmp_path, mechanism="SCRAM-SHA-256,SCRAM-SHA-512") | more)
    expected = "SCRAM-SHA-512" if given == "scram-sha-512" else "SCRAM-SHA-256"
    assert config.sasl_mechanism_inter_broker_protocol == expected
