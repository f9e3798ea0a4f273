"""`barnabas log`: partition directories on disk."""

from pathlib import Path

import click

from barnabas_cli.groups import NearestGroup
from barnabas_cli.output import Output, with_output


@click.group("log", cls=NearestGroup)
def command() -> None:
    """Partition directories: inspect, import, strays."""


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
@click.option(
    "--config",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the topics; without retention.ms they keep all records.",
)
def import_directories(
    directories: tuple[Path, ...], data: Path, settings: tuple[str, ...]
) -> None:
    """Import partition directories of Apache Kafka (TOPIC-PARTITION) into a stopped broker.

    The topic gets the id that is in the directories' partition.metadata. Give all partitions of a
    topic at once. The directories are copied; nothing in them is changed.
    """
    from barnabas_cli.data_owner import given_to_owner
    from barnabas_cli.log_import import import_partitions

    pairs = dict(setting.partition("=")[::2] for setting in settings)
    sources = [directory.resolve() for directory in directories]
    with given_to_owner([data]):
        for line in import_partitions(sources, data.resolve(), pairs):
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
    """Show what is in segment files, partition directories or whole log directories.

    Checks every checksum and every index entry. The first position that is damaged is named, and
    the exit code is 1 then. Nothing is changed; the broker may be running.
    """
    from barnabas_cli.log_inspect import inspect_paths

    context.exit(inspect_paths(paths, output, with_batches=with_batches, with_records=with_records))


@command.group("strays", cls=NearestGroup)
def strays() -> None:
    """Partition directories that a broker has put aside, and keeps."""


_DATA = click.option(
    "--data",
    "data",
    required=True,
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A log directory of the broker; name each of them.",
)
_NAMES = click.argument("names", nargs=-1)


@strays.command("list")
@_DATA
@with_output
def list_strays(data: tuple[Path, ...], output: Output) -> None:
    """List the partitions that were put aside, and why. The broker may be running."""
    from barnabas_cli.log_strays import list_all

    list_all([directory.resolve() for directory in data], output)


@strays.command("restore")
@_NAMES
@_DATA
@with_output
def restore_strays(names: tuple[str, ...], data: tuple[Path, ...], output: Output) -> None:
    """Put strays back where they were, into a stopped broker; without names all of them.

    The metadata must say that the partition is this broker's, or not know the topic at all: then a
    broker that is alone makes it. A partition that the broker has again is refused.
    """
    from barnabas_cli.log_strays import restore_some

    restore_some([directory.resolve() for directory in data], names, output)


@strays.command("delete")
@click.argument("names", nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="Delete all strays.")
@click.option("--yes", "is_confirmed", is_flag=True, help="Do not ask for confirmation.")
@_DATA
@with_output
def delete_strays(
    names: tuple[str, ...],
    *,
    is_all: bool,
    is_confirmed: bool,
    data: tuple[Path, ...],
    output: Output,
) -> None:
    """Delete strays of a stopped broker for good."""
    from barnabas_cli.log_strays import delete_some

    if bool(names) == is_all:
        raise click.UsageError("name the strays to be deleted, or give --all")
    paths = [directory.resolve() for directory in data]
    delete_some(paths, names, output, is_confirmed=is_confirmed)
