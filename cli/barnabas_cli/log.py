"""`barnabas log`: partition directories on disk."""

from pathlib import Path

import click


@click.group("log")
def command() -> None:
    """Look after partition directories."""


@command.command("import")
@click.argument(
    "directories",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@click.option(
    "--data",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The log directory of a Barnabas broker that is not running.",
)
def import_directories(directories: tuple[Path, ...], data: Path) -> None:
    """Take partition directories of Apache Kafka (TOPIC-PARTITION) over into a stopped broker.

    The topic gets the id that is in the directories' partition.metadata. Give all partitions of a
    topic at once. The directories are copied; nothing in them is changed.
    """
    from barnabas_cli.log_import import import_partitions

    for line in import_partitions(
        [directory.resolve() for directory in directories], data.resolve()
    ):
        click.echo(line)
