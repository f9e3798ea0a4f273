"""Who may ask what only brokers may ask, by the listener it came by (decision 0014)."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas_broker.handlers.broker_listener import is_of_brokers
from barnabas_broker.security.broker_identity import BrokerIdentity
from barnabas_broker.security.principal import ANONYMOUS
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages import metadata
from tests.support.in_process_broker import running_broker
from tests.support.raw_client import RawClient

OPEN = BrokerIdentity("REPLICATION")


def asked(listener_name: str, *others: str, identity: BrokerIdentity = OPEN) -> bool:
    """On broker 0, beside brokers that have registered a listener of this name each."""
    brokers = {
        node_id: SimpleNamespace(node_id=node_id, listeners={"PLAINTEXT": "", name: ""})
        for node_id, name in enumerate(("PLAINTEXT", *others))
    }
    services: Any = SimpleNamespace(
        config=SimpleNamespace(node_id=0),
        broker_identity=identity,
        image=SimpleNamespace(brokers=brokers),
    )
    session = SimpleNamespace(listener_name=listener_name)
    in_flight = SimpleNamespace(session=session, principal=ANONYMOUS)
    return is_of_brokers(services, cast(Any, in_flight))


@pytest.mark.parametrize("others", [(), ("REPLICATION",), ("PLAINTEXT", "REPLICATION")])
def test_the_listener_of_brokers_takes_their_requests(others: tuple[str, ...]) -> None:
    assert asked("REPLICATION", *others)


def test_no_other_listener_takes_them_once_every_broker_has_its_own() -> None:
    """What this broker itself had registered before its restart does not count."""
    assert not asked("PLAINTEXT")
    assert not asked("PLAINTEXT", "REPLICATION", "REPLICATION")


def test_every_listener_takes_them_while_a_broker_of_an_earlier_release_is_registered() -> None:
    """A roll from a release without such a listener: the old ones know no other address."""
    assert asked("PLAINTEXT", "REPLICATION", "PLAINTEXT")


@pytest.mark.parametrize("principals", ["", "User:ANONYMOUS", "User:broker-{id}"])
def test_with_security_metadata_opens_no_other_listener(principals: str) -> None:
    """Who is registered is what somebody has said: it makes nobody else a broker (SEC-60)."""
    identity = BrokerIdentity.of("REPLICATION", principals, is_secured=True)
    assert not asked("PLAINTEXT", "REPLICATION", "PLAINTEXT", identity=identity)
    is_anonymous = principals == "User:ANONYMOUS"
    assert asked("REPLICATION", "PLAINTEXT", identity=identity) == is_anonymous


def test_clients_leave_connections_to_brokers(tmp_path: Path) -> None:
    """A flood of clients must not keep followers and the controller's requests out."""

    async def run() -> None:
        async with running_broker(tmp_path, max_connections="2") as server:
            clients = [await RawClient.connect(server.port) for _ in range(3)]
            assert await clients[2].is_closed_by_peer()
            for port in [server.replication_port] * 3:
                async with await RawClient.connect(port) as broker:
                    request = metadata.MetadataRequest(topics=[])
                    assert (await broker.call(ApiKey.METADATA, 12, request)).error_code == 0
            for client in clients:
                await client.__aexit__()

    asyncio.run(run())


def test_brokers_are_taken_on_two_listeners_while_they_change_from_one_to_the_other() -> None:
    """SEC-89: some of them come by the new listener already, the others by the old one yet."""
    identity = BrokerIdentity.of("NEW", "", is_secured=False, others=("OLD",))
    for name in ("NEW", "OLD"):
        assert asked(name, "NEW", "NEW", identity=identity)
    assert not asked("PLAINTEXT", "NEW", "NEW", identity=identity)
    bound = BrokerIdentity.of("NEW", "User:broker-{id}", is_secured=True, others=("OLD",))
    assert not asked("OLD", "NEW", identity=bound)
