"""How this broker reaches the others: connections to peers, who refuses them, the controller.

Built before the metadata log is recovered, because its quorum needs it; addresses are known only
afterwards, from the quorum's record and image. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.network import Network
from barnabas_broker.network.peers import Peers
from barnabas_broker.network.reachability import Reachability
from barnabas_broker.network.tls_transport import EncryptionTurns

if TYPE_CHECKING:
    from barnabas_broker.security.tls.listener_tls import ListenerTls

Address = tuple[str, int]


class BrokerConnections:
    """The connections of one broker to its peers."""

    def __init__(
        self,
        config: BrokerConfig,
        network: Network,
        clock: Clock,
        node_id: int,
        tls: ListenerTls | None = None,
        encryption_turns: EncryptionTurns | None = None,
    ) -> None:
        """Make one that knows no addresses yet; `tls` is that of the brokers' listener."""
        self.address_of: Callable[[int], Address | None] = lambda _: None
        self._node_id = node_id
        self.peers = Peers(
            network,
            resolve=self._resolve,
            client_id=f"broker-{node_id}",
            request_bytes_max=config.socket_request_max_bytes,
            context=None if tls is None else lambda: tls.client,
            encryption_turns=encryption_turns,
        )
        self.reachability = Reachability(network, clock, resolve=self._resolve)
        self.peers.on_lost.append(self.reachability.suspect)

    def _resolve(self, node_id: int) -> Address | None:
        return None if node_id == self._node_id else self.address_of(node_id)

    async def close(self) -> None:
        """Close all connections and stop to probe."""
        await self.reachability.close()
        await self.peers.close()
