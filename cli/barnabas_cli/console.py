"""`barnabas console`: serves the web page about a cluster, in the foreground.

Not here: what the page shows and who may ask for it (`barnabas_console`).
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from barnabas_cli.connection import Connection, with_connection
from barnabas_cli.console_login import oidc_settings, with_provider
from barnabas_cli.failures import CommandError
from barnabas_cli.standard_input import terminate_at_its_end

if TYPE_CHECKING:
    from barnabas_console.settings import ConsoleSettings

PORT_MAX = 65535


@click.command("console")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, PORT_MAX),
    default=9640,
    show_default=True,
    help="Port to listen on; 0 for any that is free.",
)
@click.option("--read-only", "is_read_only", is_flag=True, help="Change nothing, for anybody.")
@click.option("--name", default="local", show_default=True, help="What the page calls the cluster.")
@click.option(
    "--path-prefix", default="", metavar="/PATH", help="Where a proxy has it, as in '/console'."
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A name that browsers may call it by, besides localhost and --host.",
)
@click.option(
    "--login",
    type=click.Choice(["none", "sasl", "oidc", "kubernetes"]),
    default="none",
    show_default=True,
    help="Who may look: everybody on this machine, who has a user of the cluster, whom an OpenID"
    " provider knows, or who has a token.",
)
@with_provider
@click.option(
    "--probe-port",
    type=click.IntRange(1, PORT_MAX),
    help="A port for /live, /ready and /metrics, on all addresses.",
)
@click.option("--nice", "niceness", type=click.IntRange(0, 19), default=0, hidden=True)
@click.option(
    "--decoding",
    "decoding_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Rules which formats and schemas topics have.",
)
@click.option(
    "--masks",
    "masks_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Rules which fields of records nobody sees.",
)
@click.option(
    "--audit-log",
    "audit_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file for who changed what and who read which records; a JSON line each.",
)
@click.option(
    "--kubernetes",
    default="",
    metavar="URL",
    help="An API server whose resources are shown: that of 'kubectl proxy', or 'in-cluster'.",
)
@click.option(
    "--namespace",
    "kubernetes_namespace",
    default="",
    metavar="NAME",
    help="The namespace of those resources.  [default: the pod's own, or all]",
)
@click.option(
    "--stop-on-eof",
    is_flag=True,
    help="Stop when the standard input ends: for programs that start it and may be killed.",
)
@with_connection
def command(
    host: str,
    port: int,
    is_read_only: bool,
    name: str,
    path_prefix: str,
    allowed_hosts: tuple[str, ...],
    login: str,
    probe_port: int | None,
    niceness: int,
    decoding_path: Path | None,
    masks_path: Path | None,
    audit_path: Path | None,
    kubernetes: str,
    kubernetes_namespace: str,
    stop_on_eof: bool,
    provider: dict[str, Any],
    connection: Connection,
) -> None:
    """Serve a web page about the cluster: brokers, topics, records, groups."""
    from barnabas_console.garbage_collection import paused

    with paused():
        from barnabas_console.oidc.oidc_settings import OidcSettingsError
        from barnabas_console.records.decoding import DecodingRules, RulesError, read_decoding_rules
        from barnabas_console.records.masking import MaskRules, read_mask_rules
        from barnabas_console.settings import ConsoleSettings, ConsoleSettingsError

    if niceness:
        os.nice(niceness)
    try:
        settings = ConsoleSettings(
            host=host,
            port=port,
            path_prefix=path_prefix,
            allowed_hosts=allowed_hosts,
            cluster_name=name,
            is_read_only=is_read_only,
            probe_port=probe_port,
            decoding=read_decoding_rules(decoding_path) if decoding_path else DecodingRules(),
            masks=read_mask_rules(masks_path) if masks_path else MaskRules(),
            write_audit_line=_line_writer(audit_path) if audit_path else None,
            kubernetes=kubernetes,
            kubernetes_namespace=kubernetes_namespace,
            login=login,
            oidc=oidc_settings(provider),
        )
    except (ConsoleSettingsError, OidcSettingsError, RulesError, OSError) as error:
        raise click.UsageError(f"{error}.") from None
    asyncio.run(_serve(settings, connection, stop_on_eof=stop_on_eof))


def _line_writer(path: Path) -> Callable[[str], None]:
    """What appends a line to the file, which stays open. Raises: OSError."""
    file = path.open("a", encoding="utf-8", buffering=1)

    def write(line: str) -> None:
        file.write(f"{line}\n")

    return write


async def _serve(settings: ConsoleSettings, connection: Connection, *, stop_on_eof: bool) -> None:
    from barnabas_console.garbage_collection import paused

    with paused():
        from barnabas_cli.whoami import principal_of
        from barnabas_console.cluster_connection import ClusterConnection
        from barnabas_console.server import serve
        from barnabas_console.settings import NO_LOGIN, ConsoleSettingsError

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    if stop_on_eof:
        terminate_at_its_end()
    way = ClusterConnection(
        bootstrap_servers=connection.bootstrap_servers,
        principal=""
        if settings.login != NO_LOGIN
        else principal_of(connection.admin_settings())[0],
        timeout_ms=connection.timeout_ms,
        settings=connection.settings,
    )
    try:
        await serve(
            settings,
            way,
            stop,
            lambda address: click.echo(
                f"The console is at {address}{'' if stop_on_eof else '  Stop it with Ctrl-C.'}"
            ),
        )
    except ConsoleSettingsError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(
            f"the console cannot listen on {settings.host}:{settings.port}:"
            f" {error.strerror or error}; choose another with --port"
        ) from error
