"""What clients in a simulation take from it in place of the machine: sockets, clock, randomness."""

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

from barnabas_client.env import Environment
from barnabas_client.network import client as client_module
from barnabas_client.network import connection as connection_module
from barnabas_client.network import node_connections as node_connections_module


async def _nobody_speaks_tls(host: str, port: int) -> bool:
    """The answer to a client that looks whether a broker without a word speaks TLS."""
    return False


@contextlib.contextmanager
def client_seams(
    connect: Callable[..., Any], start: Callable[..., Any], environment: Callable[[], Environment]
) -> Iterator[None]:
    """Replace them for as long as this lasts; what clients warn of is not shown."""
    logger = logging.getLogger("barnabas_client")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with (
            patch.object(connection_module, "connect_socket", connect),
            patch.object(connection_module, "start_transport", start),
            patch.object(node_connections_module, "speaks_tls", _nobody_speaks_tls),
            patch.object(client_module, "Environment", environment),
        ):
            yield
    finally:
        logger.setLevel(level)
