"""`barnabas consume`: read records from topics.

Not here: how a record is written (`record_format.py`).

Without --follow it reads what is there and ends; the ends are those at the start, so that it ends
although others go on writing.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from barnabas_cli.completion import complete_groups, complete_topics
from barnabas_cli.connection import Connection, with_connection
from barnabas_cli.lookups import given_options
from barnabas_cli.output import counted
from barnabas_cli.shown_offsets import ShownOffsets
from barnabas_client.cluster.offset_ranges import OffsetRange
from barnabas_client.errors import BarnabasError
from barnabas_client.facts.moments import parse_moment_ms
from barnabas_client.facts.record_format import NAMES, Render, renderer

if TYPE_CHECKING:
    from barnabas_client.consumer.consumer import Consumer
    from barnabas_client.consumer.records import ConsumerRecord
    from barnabas_console.records.decoding import TopicDecoding
    from barnabas_protocol.ids import TopicPartition

_POLL_MS = 500
# A member that has got nothing for so long is told why.
_HINT_MS = 5_000
_POLL_RECORDS = 500
# What is there already is not worth waiting for.
_QUICK_FETCH_MS = 50
# --tail holds records in memory until it knows which are the last.
TAIL_MAX = 100_000
_STARTS = ("from_beginning", "offset", "from_timestamp", "tail")


@dataclass(slots=True, kw_only=True)
class Reading:
    """What to read and when to stop; counts what was read."""

    topics: tuple[str, ...]
    partitions: frozenset[int]
    from_beginning: bool
    offset: int | None
    moment_ms: int | None
    tail: int | None
    follow: bool
    max_records: int | None
    timeout_ms: int | None
    render: Render
    passes: Callable[[ConsumerRecord], bool] | None = None
    shown: ShownOffsets | None = None
    count: int = 0
    ends: dict[TopicPartition, int] = field(default_factory=dict)

    def is_full(self) -> bool:
        """Whether as many records were written as were asked for."""
        return self.max_records is not None and self.count >= self.max_records

    def write(self, record: ConsumerRecord) -> None:
        """Write a record to the standard output."""
        sys.stdout.buffer.write(self.render(record) + b"\n")
        self.count += 1
        if self.shown is not None:
            self.shown.written(record)

    def flush(self) -> None:
        """Let what was written leave."""
        sys.stdout.flush()
        if self.shown is not None:
            self.shown.flushed()


@click.command("consume")
@click.argument("topics", nargs=-1, required=True, shell_complete=complete_topics)
@click.option("--from-beginning", is_flag=True, help="From the first record, also with --follow.")
@click.option("--offset", type=int, help="From this offset; counted from the end if negative.")
@click.option("--from-timestamp", metavar="WHEN", help="From 2026-11-21T10:30, 1h (ago), Unix ms.")
@click.option("--tail", type=click.IntRange(min=1, max=TAIL_MAX), help="Only the last N records.")
@click.option(
    "-p",
    "--partition",
    "partitions",
    multiple=True,
    type=click.IntRange(min=0),
    help="Only this partition; may be repeated.",
)
@click.option(
    "-g",
    "--group",
    shell_complete=complete_groups,
    help="Join this group; commits offsets.",
)
@click.option(
    "-w",
    "--where",
    metavar="FILTER",
    help="Only such: 'key=alice value~late header.trace=x json.items.0.price>100 time>2h'.",
)
@click.option("-f", "--follow", is_flag=True, help="Keep reading new records.")
@click.option("-n", "--max-records", type=click.IntRange(min=1), help="Stop after so many records.")
@click.option(
    "--timeout", type=click.FloatRange(min=0), help="Stop after S seconds without a record."
)
@click.option(
    "-F",
    "--format",
    "style",
    default="value",
    show_default=True,
    help=f"{', '.join(NAMES)}, or a template: '{{partition}}:{{offset}} {{key}} {{value}}'.",
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), hidden=True)
@click.option("-k", "--keys", "with_keys", is_flag=True, help="Show the key before the value.")
@click.option("-H", "--headers", "with_headers", is_flag=True, help="Show headers as name=value.")
@click.option("--position", "with_position", is_flag=True, help="Show offsets and timestamps.")
@click.option(
    "--separator", default="\\t", show_default=True, help="Separator of the parts of a line."
)
@click.option("--null", default="null", show_default=True, help="Text for a null key or value.")
@click.option(
    "--isolation",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
    help="Whether records of open and aborted transactions are shown.",
)
@with_connection
def command(
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    group: str | None,
    style: str,
    output: str | None,
    isolation: str,
    connection: Connection,
    **options: Any,
) -> None:
    """Read records from topics: those that exist, and with --follow new ones, too.

    Without --from-beginning, --offset, --from-timestamp or --tail it begins with the first record;
    with --follow at the end, with --group where the group is.
    """
    reading = _reading(topics, partitions, "json" if output == "json" else style, options)
    settings: dict[str, Any] = {
        "isolation_level": isolation,
        "allow_auto_create_topics": False,
        "auto_offset_reset": "earliest" if reading.from_beginning else "latest",
        "fetch_max_wait_ms": _POLL_MS if reading.follow else _QUICK_FETCH_MS,
    }
    if group is not None:
        starts = given_options({name: options[name] for name in _STARTS})
        if partitions or starts.keys() - {"from_beginning"}:
            raise click.UsageError(
                "--group goes with --from-beginning only: the group decides where it reads."
            )
        reading.shown = ShownOffsets()
        settings |= {"group_id": group, "enable_auto_commit": False}

    async def work() -> None:
        positions = await _positions(
            connection, reading, is_member=group is not None, isolation=isolation
        )
        async with connection.consumer(**settings) as consumer:
            if reading.shown is not None:
                reading.shown.consumer = consumer
                consumer.subscribe(topics, listener=reading.shown)
            else:
                consumer.assign(positions)
                for place, offset in positions.items():
                    consumer.seek(place, offset)
            await _read_and_commit(consumer, reading)

    try:
        connection.run(work)
    finally:
        sys.stdout.flush()
    if sys.stderr.isatty():
        click.echo(counted(reading.count, "record"), err=True)


def _reading(
    topics: tuple[str, ...], partitions: tuple[int, ...], style: str, options: dict[str, Any]
) -> Reading:
    """The options as one value. Raises: click.UsageError for those that exclude each other."""
    from barnabas_client.env import SystemClock

    given = given_options({name: options[name] for name in _STARTS})
    if len(given) > 1:
        words = " and ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(f"{words} exclude each other.")
    try:
        moment = options["from_timestamp"]
        return Reading(
            topics=topics,
            partitions=frozenset(partitions),
            from_beginning=options["from_beginning"] or not (given or options["follow"]),
            offset=options["offset"],
            moment_ms=parse_moment_ms(moment, SystemClock().wall_ms()) if moment else None,
            tail=options["tail"],
            follow=options["follow"],
            max_records=options["max_records"],
            timeout_ms=None if options["timeout"] is None else round(options["timeout"] * 1000),
            passes=_passes(options["where"]) if options["where"] else None,
            render=renderer(
                style,
                with_keys=options["with_keys"],
                with_headers=options["with_headers"],
                with_position=options["with_position"],
                separator=options["separator"],
                null=options["null"],
            ),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _passes(where: str) -> Callable[[ConsumerRecord], bool]:
    """Whether a record passes the filter. Raises: ValueError for what is no filter."""
    from barnabas_client.env import SystemClock
    from barnabas_console.records.decoding import DecodingRules
    from barnabas_console.records.filters import parse_filter
    from barnabas_console.records.record_view import RecordView

    record_filter = parse_filter(where, SystemClock().wall_ms())
    rules = DecodingRules()
    decodings: dict[str, TopicDecoding] = {}

    def passes(record: ConsumerRecord) -> bool:
        decoding = decodings.get(record.topic)
        if decoding is None:
            decoding = decodings[record.topic] = rules.for_topic(record.topic)
        return record_filter.matches(RecordView(record, None, decoding))

    return passes


async def _positions(
    connection: Connection, reading: Reading, *, is_member: bool, isolation: str
) -> dict[TopicPartition, int]:
    """Where to begin in each partition; notes the ends. A member's group knows both by itself.

    Asked before the consumer fetches anything, for answers on a connection come in order and a
    fetch may wait. Raises: NotFoundError for topics and partitions that do not exist.
    """
    from barnabas_client.admin.values.partitions import OffsetSpec
    from barnabas_client.facts.topic_facts import check_partitions, describe_topics
    from barnabas_protocol.ids import TopicPartition

    async with connection.admin() as admin:
        described = await describe_topics(admin, reading.topics)
        if is_member:
            return {}
        for topic in described.values():
            check_partitions(topic, reading.partitions)
        places = [
            TopicPartition(topic.name, number)
            for topic in described.values()
            for number in topic.partitions
            if not reading.partitions or number in reading.partitions
        ]

        async def offsets(wanted: OffsetSpec | int) -> dict[TopicPartition, int | None]:
            found = await admin.partitions.list_offsets(
                dict.fromkeys(places, wanted), read_committed=isolation == "read_committed"
            )
            return {place: answer.offset for place, answer in found.unwrap().items()}

        starts, ends, times = await asyncio.gather(
            offsets(OffsetSpec.EARLIEST),
            offsets(OffsetSpec.LATEST),
            offsets(OffsetSpec.LATEST if reading.moment_ms is None else reading.moment_ms),
        )
    reading.ends = {place: end or 0 for place, end in ends.items()}
    return {
        place: _start(reading, starts[place] or 0, reading.ends[place], times[place])
        for place in places
    }


def _start(reading: Reading, start: int, end: int, at_moment: int | None) -> int:
    """Where a partition is read from; never outside of what it holds."""
    if reading.tail is not None:
        # Nobody knows how far back the last ones are that pass a filter.
        wanted = start if reading.passes is not None else end - reading.tail
    elif reading.offset is not None:
        wanted = reading.offset if reading.offset >= 0 else end + reading.offset
    elif reading.moment_ms is not None:
        wanted = end if at_moment is None else at_moment
    else:
        wanted = start if reading.from_beginning else end
    return OffsetRange(start, end).clamped(wanted)


async def _read_and_commit(consumer: Consumer, reading: Reading) -> None:
    """Read; with a group, commit at the end what was written and flushed."""
    try:
        await _read(consumer, reading)
    except BrokenPipeError:
        # Nobody knows how much of what a pipe took last was read: it is shown again.
        raise
    except BaseException:
        if reading.shown is not None:
            with contextlib.suppress(BarnabasError):
                await reading.shown.commit_all()
        raise
    if reading.shown is not None:
        await reading.shown.commit_all()


async def _read(consumer: Consumer, reading: Reading) -> None:
    """Write records until there is a reason to stop."""
    if reading.tail is not None:
        await _write_tail(consumer, reading)
        if not reading.follow:
            return
    waited_ms = hinted_ms = 0
    clock = asyncio.get_running_loop()
    while not reading.is_full():
        if not reading.follow and await _is_at_end(consumer, reading):
            return
        began = clock.time()
        poll_ms = _POLL_MS if reading.timeout_ms is None else reading.timeout_ms - waited_ms
        left = None if reading.max_records is None else reading.max_records - reading.count
        records = await consumer.poll(
            timeout_ms=max(1, min(poll_ms, _POLL_MS)),
            max_records=min(left or _POLL_RECORDS, _POLL_RECORDS),
        )
        if reading.shown is not None:
            reading.shown.returned(records)
        for record in records:
            if _is_wanted(record, reading):
                reading.write(record)
                if reading.is_full():
                    break
        if records:
            waited_ms = 0
            reading.flush()
        else:
            waited_ms += round((clock.time() - began) * 1000)
            if waited_ms - hinted_ms >= _HINT_MS and not consumer.assignment():
                hinted_ms = waited_ms
                _tell_of_other_members(consumer.settings.group_id)
            if reading.timeout_ms is not None and waited_ms >= reading.timeout_ms:
                return
        if reading.shown is not None:
            await reading.shown.commit_if_due(clock.time())


def _tell_of_other_members(group: str | None) -> None:
    """Explain on the standard error why no record comes: the topic may look empty."""
    from barnabas_client.facts.command_lines import command_line

    click.echo(
        f"Waiting for a partition: other members of group '{group}' may hold them all. "
        f"Who does: {command_line('group describe', group or '', options=['--members'])}",
        err=True,
    )


async def _write_tail(consumer: Consumer, reading: Reading) -> None:
    """Read the last records of every partition, and write the newest of all in order of time."""
    assert reading.tail is not None
    newest: list[tuple[int, str, int, int, ConsumerRecord]] = []
    while not await _is_at_end(consumer, reading):
        for record in await consumer.poll(timeout_ms=_POLL_MS):
            if not _is_wanted(record, reading):
                continue
            entry = (record.timestamp_ms, record.topic, record.partition, record.offset, record)
            if len(newest) < reading.tail:
                heapq.heappush(newest, entry)
            else:
                heapq.heappushpop(newest, entry)
    for *_, record in sorted(newest, key=lambda entry: entry[:-1]):
        reading.write(record)
    reading.flush()


def _is_wanted(record: ConsumerRecord, reading: Reading) -> bool:
    """Whether it passes the filter; what came after the start is left out, unless followed."""
    from barnabas_protocol.ids import TopicPartition

    if reading.passes is not None and not reading.passes(record):
        return False
    end = reading.ends.get(TopicPartition(record.topic, record.partition))
    return reading.follow or end is None or record.offset < end


async def _is_at_end(consumer: Consumer, reading: Reading) -> bool:
    """Whether all that was there at the start is read; a group's ends are known with its shares."""
    places = consumer.assignment()
    if not places:
        return False
    unknown = [place for place in places if place not in reading.ends]
    if unknown:
        reading.ends.update(await consumer.end_offsets(unknown))
    for place in places:
        if await consumer.position(place) < reading.ends[place]:
            return False
    return True
