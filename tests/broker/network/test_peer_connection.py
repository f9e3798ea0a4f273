"""The end of a connection to another node, on real sockets with both loops."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from barnabas_broker.env.network import RealNetwork
from barnabas_broker.network.peers import Peers, PeerUnreachableError
from barnabas_protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tests.support.peer_nodes import PeerNode


class ClosingNetwork(RealNetwork):
    """A network whose connections are closed here as soon as they are made."""

    async def connect(self, protocol_factory: Callable[[], Any], host: str, port: int) -> Any:
        def make() -> Any:
            protocol = protocol_factory()
            connection_made = protocol.connection_made

            def made(transport: asyncio.BaseTransport) -> None:
                connection_made(transport)
                protocol.close()

            protocol.connection_made = made
            return protocol

        return await super().connect(make, host, port)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_connection_that_is_closed_as_it_is_made_holds_up_no_end(run: Callable[..., Any]) -> None:
    """Of such a one uvloop never says that it was lost. Brokers that had given up registering,
    because nobody answered them for a minute, waited for it for ever: nobody started them again."""

    async def work() -> None:
        node = PeerNode(RealNetwork())
        await node.start()
        peers = Peers(ClosingNetwork(), resolve={1: node.address}.get, client_id="broker-7")
        try:
            async with asyncio.timeout(10):
                with pytest.raises(PeerUnreachableError, match="closed here"):
                    await peers.request(
                        1, BrokerHeartbeatRequest(broker_id=1), 1, channel="a", timeout_ms=5000
                    )
                await peers.close()
        finally:
            await node.stop()

    run(work())
