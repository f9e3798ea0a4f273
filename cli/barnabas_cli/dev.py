"""`barnabas dev`: a broker for this machine, in the foreground, with data that stays.

With -f it makes the topics that manifests declare as soon as it serves. The manifests are checked
before the broker starts; a topic that cannot be made is told, and the broker stays. Not here:
several brokers (`dev_cluster.py`).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

if TYPE_CHECKING:
    from barnabas_cli.dev_cluster import DevCluster
    from barnabas_cli.manifests import Loaded

ADMIN_PORT = 9644
KAFKA_PORT = 9092
PORT_MAX = 65535
BROKERS_MAX = 9
APPLY_TIMEOUT_MS = 60_000

GREETING = "Barnabas is ready on 127.0.0.1:{port}, its data is in {data}. Stop it with Ctrl-C."
CLUSTER_GREETING = (
    "{count} brokers of Barnabas are ready on 127.0.0.1, ports {port} to {last}, their data is in"
    " {data}. Stop them with Ctrl-C."
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
    type=click.IntRange(1, PORT_MAX),
    default=KAFKA_PORT,
    show_default=True,
    help="Port of the first broker, on 127.0.0.1.",
)
@click.option(
    "--admin-port",
    type=click.IntRange(-1, PORT_MAX),
    help="Port of the admin HTTP.  [default: 9644 for port 9092, and so on upwards]",
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
    "-f",
    "--filename",
    "manifests",
    multiple=True,
    type=click.Path(exists=True),
    help="Create the topics of a manifest, or of a folder of manifests.",
)
def command(
    brokers: int,
    port: int,
    admin_port: int | None,
    data: Path,
    settings: tuple[str, ...],
    manifests: tuple[str, ...],
) -> None:
    """Run a broker on this machine without configuration, or a cluster of several."""
    from barnabas_cli.broker import run
    from barnabas_cli.dev_cluster import DISK_RESERVE_BYTES, DevCluster, brokers_in
    from barnabas_cli.lookups import key_values

    declared = _declared(manifests)
    if admin_port is None:
        admin_port = port + ADMIN_PORT - KAFKA_PORT
        if admin_port + brokers - 1 > PORT_MAX:
            raise click.UsageError(f"Say which --admin-port goes with port {port}.")
    if max(port, admin_port) + brokers - 1 > PORT_MAX:
        raise click.UsageError(f"There are no {brokers} ports from {max(port, admin_port)} on.")
    if brokers > 1:
        cluster = DevCluster(
            count=brokers,
            port=port,
            admin_port=admin_port,
            data=data,
            settings=key_values(settings, "--set"),
        )
        _run_cluster(cluster, declared)
    if brokers_in(data):
        raise click.UsageError(
            f"{data} holds the data of {brokers_in(data)} brokers: start them with"
            f" --brokers {brokers_in(data)}, or name another folder with --data."
        )
    properties = {
        "node.id": "0",
        # Nobody else has to find the listener for brokers, so that any port will do.
        "listeners": f"PLAINTEXT://127.0.0.1:{port},REPLICATION://127.0.0.1:0",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
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
        **key_values(settings, "--set"),
    }
    greeting = _greeting(port, admin_port, data)
    making: list[asyncio.Task[None]] = []

    def on_ready() -> None:
        click.echo(greeting)
        if declared is not None:
            # The broker's loop runs it, and cancels it where the broker stops before it is done.
            making.append(asyncio.ensure_future(_make_topics(f"127.0.0.1:{port}", declared)))

    run(properties, on_ready)


def _run_cluster(cluster: DevCluster, declared: Loaded | None) -> NoReturn:
    from barnabas_cli.dev_cluster import run

    greeting = _greeting(cluster.port, cluster.admin_port, cluster.data, cluster.count)

    async def on_ready() -> None:
        click.echo(greeting)
        if declared is not None:
            await _make_topics(cluster.bootstrap, declared)

    run(cluster, on_ready)


def _greeting(port: int, admin_port: int, data: Path, count: int = 1) -> str:
    """Where the broker is, or where the first of several is, and what to try next."""
    option = "" if port == KAFKA_PORT else f" -b 127.0.0.1:{port}"
    steps = [
        (command.format(option=option, admin_port=admin_port), words)
        for command, words in NEXT_STEPS
    ]
    width = max(len(command) for command, _ in steps)
    lines = [f"  {command.ljust(width)}   # {words}" for command, words in steps]
    form = GREETING if count == 1 else CLUSTER_GREETING
    first = form.format(port=port, data=data, count=count, last=port + count - 1)
    return "\n".join([first, "", "Try next, in another terminal:", *lines, ""])


def _declared(manifests: tuple[str, ...]) -> Loaded | None:
    if not manifests:
        return None
    from barnabas_cli.apply import load

    return load(manifests)


async def _make_topics(bootstrap: str, declared: Loaded) -> None:
    """Apply the manifests to the broker that has just started; tells what became of it."""
    from barnabas_cli.apply import reconcile, show_results
    from barnabas_cli.connection import connect
    from barnabas_cli.failures import describe
    from barnabas_cli.output import Output

    try:
        async with connect(bootstrap, None, APPLY_TIMEOUT_MS).admin() as admin:
            plan, results = await reconcile(admin, declared.specs, Output())
        show_results(plan, results)
    except Exception as error:
        click.echo(f"Error: the manifests were not applied: {describe(error)[0]}", err=True)
