"""What a broker says where it is reached."""

import asyncio
import logging

import pytest

from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.env.clock import SystemClock
from barnabas_broker.handlers.request_gate import RequestGate
from barnabas_broker.network.listeners import Listeners
from barnabas_broker.replication.turn import Turn
from tests.support.simulated_network import SimulatedNetwork
from tests.support.virtual_loop import run_virtual


class NamedMachine(SimulatedNetwork):
    """A network on a machine whose name a test chooses; an error is raised."""

    def __init__(self, name: str | OSError) -> None:
        super().__init__()
        self.name = name
        self.asked = 0

    async def canonical_host_name(self) -> str:
        self.asked += 1
        if isinstance(self.name, OSError):
            raise self.name
        return self.name


async def advertised(network: SimulatedNetwork, **settings: str) -> list[str]:
    """The endpoints of started listeners, as text."""
    properties = {key.replace("_", "."): value for key, value in settings.items()}
    loop = asyncio.get_running_loop()
    turn = Turn(loop)
    listeners = Listeners(
        BrokerConfig.parse({"node.id": "0", **properties}),
        network,
        loop,
        turn,
        SystemClock(),
        RequestGate(),
    )
    await listeners.start()
    try:
        assert "REPLICATION" in [endpoint.name for endpoint in listeners.advertised()]
        return [str(one) for one in listeners.advertised() if one.name != "REPLICATION"]
    finally:
        await listeners.close()


def test_a_listener_on_all_interfaces_is_advertised_at_the_canonical_host_name() -> None:
    """REG-2: advertised host empty → canonical host name."""
    network = NamedMachine("broker-0.example")
    assert run_virtual(advertised(network, listeners="PLAINTEXT://:9092")) == [
        "PLAINTEXT://broker-0.example:9092"
    ]


def test_a_host_that_is_given_is_advertised_and_no_other_is_looked_up() -> None:
    """REG-2: `make run` and `barnabas dev` stay on 127.0.0.1."""
    network = NamedMachine(OSError("asked for nothing"))
    assert run_virtual(advertised(network, listeners="PLAINTEXT://127.0.0.1:9092")) == [
        "PLAINTEXT://127.0.0.1:9092"
    ]
    told = advertised(
        network, listeners="PLAINTEXT://:9092", advertised_listeners="PLAINTEXT://b.example:1"
    )
    assert run_virtual(told) == ["PLAINTEXT://b.example:1"]
    assert network.asked == 0


def test_a_machine_without_an_address_of_its_own_says_what_to_set() -> None:
    """REG-2: what clients could not reach is not advertised; Kafka does not start either."""
    network = NamedMachine(OSError(-2, "lost.example: Name or service not known"))
    with pytest.raises(ConfigError, match=r"advertised\.listeners.*lost\.example.*NAME://host"):
        run_virtual(advertised(network, listeners="PLAINTEXT://:9092"))


def test_a_machine_that_is_called_localhost_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """REG-2: other machines would look for this broker on themselves."""
    with caplog.at_level(logging.WARNING):
        told = run_virtual(advertised(NamedMachine("localhost"), listeners="PLAINTEXT://:9092"))
    assert told == ["PLAINTEXT://localhost:9092"]
    assert "reached from this machine alone" in caplog.text
