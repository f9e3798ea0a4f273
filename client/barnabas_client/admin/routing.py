"""How an administrative request finds its node, and what is repeated."""

from __future__ import annotations

from barnabas_client.network.client import Client


class AdminRouting:
    """Sends requests to controllers, leaders, coordinators and brokers."""

    def __init__(self, client: Client) -> None:
        self._client = client
