"""`barnabas drain` and `barnabas undrain`: move leaderships away from this machine's broker.

For preStop hooks and people: it asks the admin HTTP over the loopback address, where alone such
requests are taken, or by its Unix socket, where the port wants certificates or tokens.
"""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any

import click

from barnabas_cli.output import counted

ADMIN_PORT = 9644
DRAIN_SECONDS = 60
_MARGIN_SECONDS = 10

_PORT_OPTION = click.option(
    "--admin-port",
    type=click.IntRange(1, 65535),
    default=ADMIN_PORT,
    show_default=True,
    help="Port of the broker's admin HTTP, on 127.0.0.1.",
)


_SOCKET_OPTION = click.option(
    "--admin-socket",
    type=click.Path(),
    default=None,
    help="Unix socket of the broker's admin HTTP (admin.http.socket), instead of the port.",
)


@click.command("drain")
@_PORT_OPTION
@_SOCKET_OPTION
@click.option(
    "--timeout",
    "seconds",
    type=click.IntRange(0, 86_400),
    default=DRAIN_SECONDS,
    show_default=True,
    help="Seconds to wait until the broker leads nothing.",
)
def drain(admin_port: int, admin_socket: str | None, seconds: int) -> None:
    """Move leaderships away from this machine's broker, which keeps serving."""
    at = admin_socket or admin_port
    told = _post(at, f"/drain?timeout={seconds}", seconds + _MARGIN_SECONDS)
    click.echo(f"{told['phase']}, leading {counted(told['leaders'], 'partition')}")


@click.command("undrain")
@_PORT_OPTION
@_SOCKET_OPTION
def undrain(admin_port: int, admin_socket: str | None) -> None:
    """Undo a drain: this machine's broker takes leaderships again."""
    click.echo(_post(admin_socket or admin_port, "/undrain", _MARGIN_SECONDS)["state"])


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, seconds: int) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _post(at: int | str, path: str, seconds: int) -> Any:
    """The answer's document, of the port or the socket. Raises: click.ClickException."""
    connection = (
        _UnixConnection(at, seconds)
        if isinstance(at, str)
        else http.client.HTTPConnection("127.0.0.1", at, timeout=seconds)
    )
    try:
        connection.request("POST", path)
        answer = connection.getresponse()
        body = answer.read().decode()
        if answer.status != http.client.OK:
            raise click.ClickException(f"the broker refused: {answer.status} {body.strip()}")
        return json.loads(body)
    except (OSError, http.client.HTTPException, ValueError) as error:
        where = at if isinstance(at, str) else f"127.0.0.1:{at}"
        raise click.ClickException(f"{where} does not respond: {error}") from error
    finally:
        connection.close()
