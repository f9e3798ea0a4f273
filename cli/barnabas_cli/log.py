"""`barnabas log`: partition directories on disk."""

from pathlib import Path

import click

from barnabas_cli.groups import NearestGroup
from barnabas_cli.output import Output, with_output


@click.group("log", cls=NearestGroup)
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


@command.command("inspect")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--batches", "with_batches", is_flag=True, help="Show every batch.")
@click.option(
    "--records",
    "with_records",
    is_flag=True,
    help="Show every record; those of offsets and transactions decoded.",
)
@with_output
@click.pass_context
def inspect(
    context: click.Context,
    paths: tuple[Path, ...],
    with_batches: bool,
    with_records: bool,
    output: Output,
) -> None:
    """Tell what is in segment files, partition directories or whole log directories.

    Checks every checksum and every index entry. The first position that is damaged is named, and
    the exit code is 1 then. Nothing is changed; the broker may be running.
    """
    from barnabas_cli.log_inspect import inspect_paths

    context.exit(inspect_paths(paths, output, with_batches=with_batches, with_records=with_records))
