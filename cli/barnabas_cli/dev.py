"""`barnabas dev`: a broker for this machine, in the foreground, with data that stays.

With -f it makes the topics that manifests declare as soon as it serves. The manifests are checked
before the broker starts; a topic that cannot be made is told, and the broker stays. Not here:
several brokers (`dev_cluster.py`), what keeps them from starting (`dev_checks.py`), what --secure
makes (`dev_security.py`).
"""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from barnabas_cli.dev_checks import HOST, PORT_MAX, WantedPort, check_folder, check_ports, free_port
from barnabas_cli.dev_console import DevConsole
from barnabas_cli.dev_security import (
    BROKER_LISTENER,
    CLIENT_LISTENER,
    FOLDER,
    DevSecurity,
    check_data,
)
from barnabas_cli.failures import CommandError
from barnabas_cli.standard_input import terminate_at_its_end

if TYPE_CHECKING:
    from barnabas_broker.server import Server
    from barnabas_cli.dev_cluster import DevCluster
    from barnabas_cli.manifests import Loaded

ADMIN_PORT = 9644
KAFKA_PORT = 9092
BROKERS_MAX = 9
APPLY_TIMEOUT_MS = 60_000

GREETING = "Barnabas is ready on 127.0.0.1:{port}, its data is in {data}. Stop it with Ctrl-C."
CLUSTER_GREETING = (
    "{count} brokers of Barnabas are ready on 127.0.0.1, ports {port} to {last}, their data is in"
    " {data}. Stop them with Ctrl-C."
)
SECURE_GREETING = (
    "\nClients use TLS and log in: for a super user, {folder} has client.properties (Java,"
    " barnabas),\nlibrdkafka.conf (kcat -F) and ca.crt."
)
NEXT_STEPS = (
    ("echo hello | barnabas produce greetings{option}", "write"),
    ("barnabas consume greetings{option}", "read"),
    ("barnabas cluster status{option}", "look inside"),
    ("curl http://127.0.0.1:{admin_port}/metrics", "for Prometheus"),
)


@click.command("dev")
@click.option(
    "--brokers",
    type=click.IntRange(1, BROKERS_MAX),
    default=1,
    show_default=True,
    help="Number of brokers, each a process, on consecutive ports.",
)
@click.option(
    "--port",
    type=click.IntRange(0, PORT_MAX),
    default=KAFKA_PORT,
    show_default=True,
    help="Port of the first broker, on 127.0.0.1; 0 for any that is free.",
)
@click.option(
    "--admin-port",
    type=click.IntRange(-1, PORT_MAX),
    help="Port of the admin HTTP, -1 for none.  [default: 9644 for port 9092, and so on upwards;"
    " any that is free for port 0]",
)
@click.option(
    "--data",
    default=Path("data"),
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Data directory.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Set a broker property."
)
@click.option(
    "--secure",
    "is_secure",
    is_flag=True,
    help="Serve clients with TLS, log-in and rights only; the files for them are in DATA/secure.",
)
@click.option(
    "-f",
    "--filename",
    "manifests",
    multiple=True,
    type=click.Path(exists=True),
    help="Create the topics of a manifest, or of a folder of manifests.",
)
@click.option(
    "--console/--no-console",
    "has_console",
    default=True,
    show_default=True,
    help="Serve the web page beside the brokers, at the admin port - 4.",
)
@click.option(
    "--stop-on-eof",
    is_flag=True,
    help="Stop when the standard input ends: for programs that start brokers and may be killed.",
)
def command(
    brokers: int,
    port: int,
    admin_port: int | None,
    data: Path,
    settings: tuple[str, ...],
    is_secure: bool,
    manifests: tuple[str, ...],
    has_console: bool,
    stop_on_eof: bool,
) -> None:
    """Run a broker on this machine without configuration, or a cluster of several."""
    from barnabas_cli.dev_cluster import DISK_RESERVE_BYTES, DevCluster, brokers_in, ports_of
    from barnabas_cli.lookups import setting_values

    declared = _declared(manifests)
    if stop_on_eof:
        terminate_at_its_end()
    if admin_port is None:
        admin_port = _admin_port_beside(port, brokers)
    if max(port, admin_port) + brokers - 1 > PORT_MAX:
        raise click.UsageError(f"There are no {brokers} ports from {max(port, admin_port)} on.")
    check_folder(data)
    check_data(data, is_secure=is_secure)
    if not port and brokers > 1:  # they have to find one another
        port = free_port(partial(ports_of, count=brokers))
    servers = ",".join(f"{HOST}:{port + number}" for number in range(brokers))
    security = DevSecurity(data=data, count=brokers, bootstrap=servers) if is_secure else None
    wanted = ports_of(port, brokers) if brokers > 1 else [WantedPort(port, "--port")]
    # Before the console's port: where a broker cannot start, a page beside it is no matter.
    check_ports([*wanted, *_admin_ports(admin_port, brokers)])
    console = DevConsole.beside(admin_port, is_wanted=has_console)
    if brokers > 1:
        cluster = DevCluster(
            count=brokers,
            port=port,
            admin_port=admin_port,
            data=data,
            settings=console.settings | setting_values(settings, "--set"),
            security=security,
        )
        _run_cluster(cluster, declared, console)
    if brokers_in(data):
        raise click.UsageError(
            f"{data} holds the data of {brokers_in(data)} brokers: start them with"
            f" --brokers {brokers_in(data)}, or name another folder with --data."
        )
    protocol = "PLAINTEXT" if security is None else CLIENT_LISTENER
    properties = {
        "node.id": "0",
        # Nobody else has to find the listener for brokers, so that any port will do.
        "listeners": f"{protocol}://127.0.0.1:{port},{BROKER_LISTENER}://127.0.0.1:0",
        "advertised.listeners": f"{protocol}://127.0.0.1:{port}",
        "log.dirs": str(data.resolve()),
        "admin.http.host": "127.0.0.1",
        "admin.http.port": str(admin_port),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "barnabas.disk.reserve.bytes.max": DISK_RESERVE_BYTES,
        "group.initial.rebalance.delay.ms": "0",
        **({} if security is None else security.settings(0)),
        **console.settings,
        **setting_values(settings, "--set"),
    }
    _run_one(properties, port, admin_port, data, declared, security, console)


def _run_one(
    properties: dict[str, str],
    port: int,
    admin_port: int,
    data: Path,
    declared: Loaded | None,
    security: DevSecurity | None,
    console: DevConsole,
) -> NoReturn:
    from barnabas_broker.__main__ import START_ERRORS, serve
    from barnabas_cli.broker import LOG_FORMAT
    from barnabas_cli.held_log import HeldLog

    _write_files(security)
    held = HeldLog(LOG_FORMAT)
    logging.basicConfig(level=logging.INFO, handlers=[held])
    making: list[asyncio.Task[None]] = []

    def on_ready(server: Server) -> None:
        held.show()
        if security is not None:  # not before: of --port 0 nobody knew the number
            replace(security, bootstrap=f"{HOST}:{server.port}").write_client_files()
        click.echo(_greeting(server.port, admin_port, data, security=security))
        console.start(f"{HOST}:{server.port}", _properties_file(security))
        if declared is not None:
            # The broker's loop runs it, and cancels it where the broker stops before it is done.
            address = f"{HOST}:{server.port}"
            making.append(asyncio.ensure_future(_make_topics(address, declared, security)))

    try:
        exit_code = serve(properties, on_ready)
    except START_ERRORS as error:
        held.drop()
        raise CommandError(f"the broker cannot run: {error}") from error
    finally:
        console.stop()
    sys.exit(exit_code)


def _admin_port_beside(port: int, brokers: int) -> int:
    """The first admin port where none was said. Raises: UsageError."""
    if not port:
        return free_port(partial(_admin_ports, count=brokers))
    admin_port = port + ADMIN_PORT - KAFKA_PORT
    if admin_port + brokers - 1 > PORT_MAX:
        raise click.UsageError(f"Say which --admin-port goes with port {port}.")
    return admin_port


def _admin_ports(first: int, count: int) -> list[WantedPort]:
    return [WantedPort(first + number, "--admin-port") for number in range(count) if first > 0]


def _properties_file(security: DevSecurity | None) -> Path | None:
    return None if security is None else security.client_properties


def _run_cluster(cluster: DevCluster, declared: Loaded | None, console: DevConsole) -> NoReturn:
    from barnabas_cli.dev_cluster import run

    _write_files(cluster.security)
    if cluster.security is not None:
        cluster.security.write_client_files()
    greeting = _greeting(
        cluster.port, cluster.admin_port, cluster.data, cluster.count, security=cluster.security
    )

    async def on_ready() -> None:
        click.echo(greeting)
        console.start(cluster.bootstrap, _properties_file(cluster.security))
        if declared is not None:
            await _make_topics(cluster.bootstrap, declared, cluster.security)

    try:
        run(cluster, on_ready)
    finally:
        console.stop()


def _write_files(security: DevSecurity | None) -> None:
    """Make what brokers need for --secure. Raises: CommandError where what is there is no use."""
    if security is None:
        return
    from barnabas_cli.dev_security import now
    from barnabas_operator.certificates.pem import CertificateError

    try:
        security.write_broker_files(now())
    except CertificateError as error:
        raise CommandError(f"{security.folder} cannot be used: {error}") from error


def _greeting(
    port: int, admin_port: int, data: Path, count: int = 1, *, security: DevSecurity | None = None
) -> str:
    """Where the broker is, or where the first of several is, and what to try next."""
    # All addresses: the first broker may be the one that is gone.
    addresses = ",".join(f"{HOST}:{port + number}" for number in range(count))
    option = "" if addresses == f"{HOST}:{KAFKA_PORT}" else f" -b {addresses}"
    if security is not None:  # the file has the addresses, too
        option = f" --command-config {data / FOLDER / security.client_properties.name}"
    steps = [
        (command.format(option=option, admin_port=admin_port), words)
        for command, words in NEXT_STEPS
        if admin_port >= 0 or "{admin_port}" not in command
    ]
    width = max(len(command) for command, _ in steps)
    lines = [f"  {command.ljust(width)}   # {words}" for command, words in steps]
    form = GREETING if count == 1 else CLUSTER_GREETING
    first = form.format(port=port, data=data, count=count, last=port + count - 1)
    if security is not None:
        first += SECURE_GREETING.format(folder=data / FOLDER)
    return "\n".join([first, "", "Try next, in another terminal:", *lines, ""])


def _declared(manifests: tuple[str, ...]) -> Loaded | None:
    if not manifests:
        return None
    from barnabas_cli.apply import load

    return load(manifests)


async def _make_topics(bootstrap: str, declared: Loaded, security: DevSecurity | None) -> None:
    """Apply the manifests to the broker that has just started; tells what became of it."""
    from barnabas_cli.apply import reconcile, show_results
    from barnabas_cli.connection import connect
    from barnabas_cli.failures import describe
    from barnabas_cli.output import Output

    file = None if security is None else str(security.client_properties)
    try:
        async with connect(bootstrap, file, APPLY_TIMEOUT_MS).admin() as admin:
            plan, results = await reconcile(admin, declared.specs, Output())
        show_results(plan, results)
    except Exception as error:
        click.echo(f"Error: the manifests were not applied: {describe(error)[0]}", err=True)
