"""`barnabas transaction`: list, describe, find hanging ones, abort."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from barnabas_cli.completion import complete_topics, complete_transactional_ids
from barnabas_cli.connection import Connection, with_connection
from barnabas_cli.failures import CommandError
from barnabas_cli.groups import NearestGroup
from barnabas_cli.lookups import confirm, with_confirmation
from barnabas_cli.output import Column, Output, counted, with_output
from barnabas_client.facts.moments import moment_text
from barnabas_client.facts.transaction_facts import description_data, listing_data
from barnabas_protocol.settings.suggestions import hint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas_client.admin.admin import Admin
    from barnabas_client.admin.values.transactions import HangingTransaction

# The texts of `TransactionState`, which would cost an import before anything is asked for.
STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
)
_STATE_COLOURS = {"Ongoing": "yellow", "PrepareCommit": "yellow", "PrepareAbort": "yellow"}
_LIST_COLUMNS = (
    Column(title="TRANSACTIONAL ID", field="transactional_id"),
    Column(title="STATE", field="state", style=_STATE_COLOURS.get),
    Column(title="PRODUCER", field="producer_id", is_right=True),
)
_HANGING_COLUMNS = (
    Column(title="TOPIC", field="topic"),
    Column(title="PARTITION", field="partition", is_right=True),
    Column(title="PRODUCER", field="producer_id", is_right=True),
    Column(title="EPOCH", field="producer_epoch", is_right=True),
    Column(title="START OFFSET", field="start_offset", is_right=True),
    Column(title="LAST RECORD", field="last_record"),
)
_PARTITION_COLUMNS = (
    Column(title="TOPIC", field="topic"),
    Column(title="PARTITION", field="partition", is_right=True),
)
_OLDEST_TEXT = "15m"


@click.group("transaction", cls=NearestGroup)
def command() -> None:
    """Transactions: list, describe, find those that hang, abort."""


@command.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    help="Only those in this state.",
)
@click.option(
    "--longer-than", metavar="DURATION", help="Only those open for longer: 90s, 1h30m, P1D."
)
@click.option("--pattern", metavar="RE2", help="Only ids that the whole pattern matches.")
@with_output
@with_connection
def list_transactions(
    states: tuple[str, ...],
    longer_than: str | None,
    pattern: str | None,
    connection: Connection,
    output: Output,
) -> None:
    """List transactional ids and what they are doing."""
    longer_than_ms = None if longer_than is None else _duration_ms("--longer-than", longer_than)

    async def work(admin: Admin) -> list[dict[str, Any]]:
        from barnabas_client.admin.values.transactions import TransactionState

        listed = await admin.transactions.list(
            states=[TransactionState(state) for state in states],
            longer_than_ms=longer_than_ms,
            transactional_id_pattern=pattern,
        )
        if longer_than_ms is not None:
            # Brokers count those that have nothing open as open since ever.
            listed = tuple(one for one in listed if one.state is not TransactionState.EMPTY)
        return [listing_data(one) for one in listed]

    output.rows(connection.run_admin(work), _LIST_COLUMNS, empty="There are no transactional ids.")


@command.command("describe")
@click.argument(
    "transactional_ids", nargs=-1, required=True, shell_complete=complete_transactional_ids
)
@with_output
@with_connection
def describe(transactional_ids: tuple[str, ...], connection: Connection, output: Output) -> None:
    """Show a transactional id: its producer, how long it has been open, and its partitions."""

    async def work(admin: Admin) -> list[dict[str, Any]]:
        await _require(admin, transactional_ids)
        described = (await admin.transactions.describe(transactional_ids)).unwrap()
        return [description_data(name, described[name]) for name in transactional_ids]

    rows = connection.run_admin(work)
    if not output.is_table:
        output.data(rows)
        return
    for number, row in enumerate(rows):
        if number:
            click.echo()
        click.echo(_headline(row))
        output.rows(row["partitions"], _PARTITION_COLUMNS, empty="  no partitions")


def _headline(row: dict[str, Any]) -> str:
    from barnabas_protocol.settings.durations import duration_text

    words = [
        f"{click.style(row['transactional_id'], bold=True)}  {row['state']}",
        f"producer {row['producer_id']} in epoch {row['producer_epoch']}",
        f"timeout {duration_text(row['timeout_ms'])}",
        f"coordinator {row['coordinator']}",
    ]
    if row["started_at"]:
        words.insert(1, f"since {row['started_at']}")
    return ", ".join(words)


@command.command("hanging")
@click.argument("topics", nargs=-1, shell_complete=complete_topics)
@click.option(
    "--older-than",
    metavar="DURATION",
    default=_OLDEST_TEXT,
    show_default=True,
    help="Only those whose last record is older; the longest that a transaction may last.",
)
@with_output
@with_connection
def hanging(
    topics: tuple[str, ...], older_than: str, connection: Connection, output: Output
) -> None:
    """Find transactions that are open in a partition and that no coordinator is going to end.

    Readers of committed records do not get beyond them. All topics are searched unless some are
    named.
    """
    older_than_ms = _duration_ms("--older-than", older_than)

    async def work(admin: Admin) -> list[dict[str, Any]]:
        return [
            {
                "topic": one.partition.topic,
                "partition": one.partition.partition,
                "producer_id": one.producer_id,
                "producer_epoch": one.producer_epoch,
                "start_offset": one.start_offset,
                "last_record": moment_text(one.last_timestamp_ms),
            }
            for one in await _find_hanging(admin, topics, older_than_ms)
        ]

    output.rows(connection.run_admin(work), _HANGING_COLUMNS, empty="No transaction hangs.")


@command.command("abort")
@click.argument("transactional_ids", nargs=-1, shell_complete=complete_transactional_ids)
@click.option("--topic", shell_complete=complete_topics, help="Topic of one that hangs.")
@click.option("--partition", type=click.IntRange(min=0), help="Its partition.")
@click.option("--producer-id", type=click.IntRange(min=0), help="Its producer, as 'hanging' shows.")
@with_confirmation
@with_connection
def abort(
    transactional_ids: tuple[str, ...],
    topic: str | None,
    partition: int | None,
    producer_id: int | None,
    is_confirmed: bool,
    connection: Connection,
) -> None:
    """Abort what transactional ids have open, and fence their producers; or one that hangs.

    A producer that is fenced fails with its next request and has to begin anew.
    """
    place = (topic, partition, producer_id)
    if bool(transactional_ids) == any(one is not None for one in place):
        raise click.UsageError(
            "Name transactional ids, or what hangs by --topic, --partition and --producer-id."
        )
    if transactional_ids:
        _abort_open(transactional_ids, connection, is_confirmed=is_confirmed)
        return
    if topic is None or partition is None or producer_id is None:
        raise click.UsageError("--topic, --partition and --producer-id go together.")
    _abort_hanging(topic, partition, producer_id, connection, is_confirmed=is_confirmed)


def _abort_open(names: Sequence[str], connection: Connection, *, is_confirmed: bool) -> None:
    async def find(admin: Admin) -> None:
        await _require(admin, names)

    async def work(admin: Admin) -> None:
        (await admin.transactions.fence_producers(names)).unwrap()

    connection.run_admin(find)
    what = ", ".join(names)
    confirm(f"Abort what {what} has open, and fence its producer?", is_confirmed=is_confirmed)
    connection.run_admin(work)
    click.echo(f"aborted and fenced {what}")


def _abort_hanging(
    topic: str, partition: int, producer_id: int, connection: Connection, *, is_confirmed: bool
) -> None:
    async def find(admin: Admin) -> HangingTransaction:
        found = await _find_hanging(admin, (topic,), 0)
        for one in found:
            if (one.partition.partition, one.producer_id) == (partition, producer_id):
                return one
        raise CommandError(
            f"Producer {producer_id} has no transaction in {topic}-{partition} that hangs: its"
            " coordinator may know of it ('barnabas transaction list')."
        )

    async def work(admin: Admin) -> None:
        await admin.transactions.abort(one)

    one = connection.run_admin(find)
    confirm(
        f"Abort the transaction of producer {producer_id} in {topic}-{partition}, from offset"
        f" {one.start_offset} on? Its records are never shown to readers of committed records.",
        is_confirmed=is_confirmed,
    )
    connection.run_admin(work)
    click.echo(f"aborted the transaction of producer {producer_id} in {topic}-{partition}")


async def _find_hanging(
    admin: Admin, topics: Sequence[str], older_than_ms: int
) -> Sequence[HangingTransaction]:
    from barnabas_client.env import SystemClock
    from barnabas_client.facts.topic_facts import describe_topics
    from barnabas_protocol.ids import TopicPartition

    names = topics or [listing.name for listing in await admin.topics.list()]
    described = await describe_topics(admin, names)
    return await admin.transactions.find_hanging(
        [
            TopicPartition(name, number)
            for name, topic in described.items()
            for number in topic.partitions
        ],
        written_before_ms=SystemClock().wall_ms() - older_than_ms,
    )


async def _require(admin: Admin, names: Sequence[str]) -> None:
    """Check that the ids are known. Raises: CommandError naming the nearest of an unknown one."""
    known = {listing.transactional_id for listing in await admin.transactions.list()}
    for name in names:
        if name not in known:
            raise CommandError(
                f"No such transactional id '{name}': there are {counted(len(known), 'id')}."
                f"{hint(name, known)}"
            )


def _duration_ms(option: str, text: str) -> int:
    from barnabas_protocol.settings.durations import parse_duration_ms

    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from None
