"""`barnabas dev`: a broker for this machine, in the foreground, with data that stays."""

from pathlib import Path

import click

ADMIN_PORT = 9644
KAFKA_PORT = 9092

NEXT_STEPS = """\
Barnabas is ready on 127.0.0.1:{port}, its data is in {data}. Stop it with Ctrl-C.

Try next, in another terminal:
  echo 'hello' | kcat -P -b 127.0.0.1:{port} -t greetings      # write
  kcat -C -b 127.0.0.1:{port} -t greetings -o beginning -e      # read
  curl http://127.0.0.1:{admin_port}/status                          # look inside
"""


@click.command("dev")
@click.option("--brokers", default=1, show_default=True, help="How many brokers to run.")
@click.option(
    "--port", default=KAFKA_PORT, show_default=True, help="Port of the first broker, on 127.0.0.1."
)
@click.option(
    "--admin-port",
    default=None,
    type=int,
    help="Port of the admin HTTP.  [default: 9644 for port 9092, and so on upwards]",
)
@click.option(
    "--data",
    default=Path("data"),
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the data is kept.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Set a broker property."
)
def command(
    brokers: int, port: int, admin_port: int | None, data: Path, settings: tuple[str, ...]
) -> None:
    """Run a broker on this machine, with nothing to configure."""
    if brokers != 1:
        raise click.UsageError(
            "--brokers above 1 needs the cluster, which this version does not have: leave it out."
        )
    from barnabas_cli.broker import parse_settings, run

    if admin_port is None:
        admin_port = port + ADMIN_PORT - KAFKA_PORT
    properties = {
        "node.id": "0",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(data.resolve()),
        "admin.http.host": "127.0.0.1",
        "admin.http.port": str(admin_port),
        "offsets.topic.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
        **parse_settings(settings),
    }
    run(properties, NEXT_STEPS.format(port=port, data=data, admin_port=admin_port))
