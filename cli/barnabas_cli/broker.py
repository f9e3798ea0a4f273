"""`barnabas broker`: one broker process, configured by a properties file with Kafka's names."""

import logging
import sys
from pathlib import Path

import click

from barnabas_cli.failures import CommandError
from barnabas_cli.lookups import setting_values

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


@click.command("broker")
@click.option(
    "--config",
    "config_path",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A Java properties file with Kafka's names.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Set a broker property."
)
def command(config_path: Path, settings: tuple[str, ...]) -> None:
    """Run one broker with a properties file."""
    from barnabas_broker.__main__ import START_ERRORS, run_broker, serve
    from barnabas_broker.config.parse import parse_properties

    properties = parse_properties(config_path.read_text(encoding="utf-8"))
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=LOG_FORMAT)
    properties |= setting_values(settings, "--set")
    if not sys.stderr.isatty():  # a log, whose last line the operator reads where a pod ends
        sys.exit(run_broker(properties))
    try:
        sys.exit(serve(properties))
    except START_ERRORS as error:
        raise CommandError(f"the broker cannot run: {error}") from error
