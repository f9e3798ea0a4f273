"""`barnabas drain` and `barnabas undrain`: move leaderships away from this machine's broker.

For preStop hooks and people: it asks the admin HTTP over the loopback address, where alone such
requests are taken.
"""

from __future__ import annotations

import http.client
import json
from typing import Any

import click

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


@click.command("drain")
@_PORT_OPTION
@click.option(
    "--timeout",
    "seconds",
    type=click.IntRange(0, 86_400),
    default=DRAIN_SECONDS,
    show_default=True,
    help="Seconds to wait until the broker leads nothing.",
)
def drain(admin_port: int, seconds: int) -> None:
    """Move leaderships away from this machine's broker, which keeps serving."""
    told = _post(admin_port, f"/drain?timeout={seconds}", seconds + _MARGIN_SECONDS)
    click.echo(f"{told['phase']}, leading {told['leaders']} partitions")


@click.command("undrain")
@_PORT_OPTION
def undrain(admin_port: int) -> None:
    """Undo a drain: this machine's broker takes leaderships again."""
    click.echo(_post(admin_port, "/undrain", _MARGIN_SECONDS)["state"])


def _post(port: int, path: str, seconds: int) -> Any:
    """The answer's document. Raises: click.ClickException."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        connection.request("POST", path)
        answer = connection.getresponse()
        body = answer.read().decode()
        if answer.status != http.client.OK:
            raise click.ClickException(f"the broker refused: {answer.status} {body.strip()}")
        return json.loads(body)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise click.ClickException(f"127.0.0.1:{port} does not respond: {error}") from error
    finally:
        connection.close()
