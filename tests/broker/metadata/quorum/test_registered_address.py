"""Where a node is reached by what it registered, also where that is out of date."""

import pytest

from barnabas_broker.arbiter.arbiter import Leader
from barnabas_broker.metadata.image import BrokerImage
from barnabas_broker.metadata.quorum.registered_address import OwnListeners, registered_address
from barnabas_broker.metadata.records import ListenerAddress

OWN = OwnListeners({"PLAINTEXT", "REPLICATION"}, "REPLICATION", Leader(0, "host-0", 9091))
SECURE = {"CLIENTS": 9093, "REPLICATION_SSL": 9090}


def registered(node_id: int, host: str, listeners: dict[str, int]) -> BrokerImage:
    """A broker with listeners at a host, by their ports."""
    found = {
        name: ListenerAddress(name=name, host=host, port=port, security_protocol="PLAINTEXT")
        for name, port in listeners.items()
    }
    return BrokerImage(node_id, 1, bytes(16), found, None, (), fenced=True)


@pytest.mark.parametrize(
    ("listeners", "address"),
    [
        ({"PLAINTEXT": 9092, "REPLICATION": 9191}, ("host-1", 9191)),
        # Of an earlier release: one listener for all, or one for clients outside besides.
        ({"PLAINTEXT": 9092}, ("host-1", 9092)),
        (SECURE, ("host-1", 9091)),
        ({"PLAINTEXT": 9092, **SECURE}, ("host-1", 9091)),
        ({}, None),
    ],
)
def test_the_address_of_a_node_is_by_the_listener_that_it_has_now(
    listeners: dict[str, int], address: tuple[str, int] | None
) -> None:
    """SEC-89."""
    broker = registered(1, "host-1", listeners)
    before = registered(0, "host-0", SECURE)
    assert registered_address(broker, [before, broker], OWN) == address


@pytest.mark.parametrize("host", ["host-0", "host-2"])
def test_nobody_else_gets_what_is_meant_for_a_node(host: str) -> None:
    """One host may have several nodes, whose ports differ: nothing is guessed there."""
    broker = registered(1, host, SECURE)
    others = [registered(2, "host-2", SECURE), registered(3, "host-3", SECURE)]
    assert registered_address(broker, [broker, *others], OWN) == (host, 9093)
