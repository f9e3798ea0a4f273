"""`barnabas produce`: write lines as records to a topic.

Not here: how a line is cut (`record_lines.py`).

Invariant: the exit code is 0 only if every line was acknowledged as --acks asks for.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from barnabas_cli.completion import complete_topics
from barnabas_cli.connection import Connection, with_connection
from barnabas_cli.failures import CommandError
from barnabas_cli.lookups import question_in_loop
from barnabas_cli.output import counted, is_terminal_error_stream
from barnabas_cli.record_lines import LineError, LineFormat, parse_headers
from barnabas_cli.standard_input import lines_of
from barnabas_protocol.settings.suggestions import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas_client.producer.producer import Producer

# How many lines are taken before others get a turn: sending is a plain call.
_LINES_PER_TURN = 500
_BYTES_PER_TURN = 1024 * 1024
# So long a pipe is written without a word.
_QUIET_SECONDS = 1.0
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@click.command("produce")
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "-f",
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read lines from a file instead of the standard input.",
)
@click.option("-k", "--key", help="The key of all records.")
@click.option("-K", "--key-separator", help="Each line is a key, this separator, and a value.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="For all.")
@click.option(
    "--with-headers", is_flag=True, help="Each line begins with NAME=VALUE,... and a tab."
)
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Write to this partition.")
@click.option("--null", "null_marker", help="A key or value that is exactly this text is null.")
@click.option("-z", "--compression", type=click.Choice(_CODECS), default="none", show_default=True)
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True)
@click.option("--linger-ms", type=click.IntRange(min=0), default=5, show_default=True)
@click.option("-y", "--yes", is_flag=True, help="Create a new topic with a name near another's.")
@with_connection
def command(
    topic: str,
    path: Path | None,
    key: str | None,
    key_separator: str | None,
    headers: tuple[str, ...],
    with_headers: bool,
    partition: int | None,
    null_marker: str | None,
    compression: str,
    acks: str,
    linger_ms: int,
    yes: bool,
    connection: Connection,
) -> None:
    """Write lines as records: from the standard input, or from a file with --file.

    A topic that is not there is created by the broker, where its settings allow that.
    """
    try:
        line_format = LineFormat(
            key_separator=key_separator.encode().decode("unicode_escape").encode("latin-1")
            if key_separator
            else None,
            has_headers=with_headers,
            null_marker=None if null_marker is None else null_marker.encode(),
            key=None if key is None else key.encode(),
            headers=tuple(pair for text in headers for pair in parse_headers(text.encode())),
        )
    except (LineError, UnicodeError) as error:
        raise click.UsageError(str(error)) from None
    settings: dict[str, Any] = {
        "acks": acks if acks == "all" else int(acks),
        "enable_idempotence": acks == "all",
        "compression_type": compression,
        "linger_ms": linger_ms,
        "max_block_ms": connection.timeout_ms,
    }

    async def work() -> tuple[int, str | None]:
        novelty = await _novelty(connection, topic, yes=yes)
        async with connection.producer(**settings) as producer:
            with _source(path) as (lines, advance):
                count = await _send_lines(producer, topic, partition, line_format, lines, advance)
                return count, novelty

    count, novelty = connection.run(work)
    if novelty is not None:
        click.echo(novelty, err=True)
    click.echo(f"{counted(count, 'record')} written to {topic}", err=True)


async def _novelty(connection: Connection, topic: str, *, yes: bool) -> str | None:
    """What is to be told of a topic that there is not yet; None of one that is there.

    On a terminal a name near another's is asked about. Raises: click.Abort where the answer is no.
    """
    from barnabas_client.errors import AuthorizationError, NotFoundError

    novelty = f"Topic {topic} is new: created with the broker's defaults"
    async with connection.admin() as admin:
        described = await admin.topics.describe([topic])
        if not isinstance(described.errors.get(topic), NotFoundError):
            return None
        if yes:
            return novelty
        try:
            near = nearest(topic, [listing.name for listing in await admin.topics.list()])
        except AuthorizationError:
            return novelty
    if near is None:
        return novelty
    if sys.stdin.isatty():
        question = f"There is no topic '{topic}', but '{near}'. Create '{topic}'?"
        with question_in_loop():
            click.confirm(question, abort=True, err=True)
        return novelty
    return f"{novelty}. Did you mean '{near}'?"


class _Acknowledgements:
    """Counts what was acknowledged, and keeps the first failure."""

    def __init__(self) -> None:
        self.count = 0
        self.failed_count = 0
        self.error: BaseException | None = None

    def watch(self, delivery: Any) -> None:
        """Count a record when it is delivered or has failed."""
        delivery.add_done_callback(self._done)

    def _done(self, delivery: Any) -> None:
        error = delivery.exception()
        if error is None:
            self.count += 1
        else:
            self.failed_count += 1
            self.error = self.error or error


async def _send_lines(
    producer: Producer,
    topic: str,
    partition: int | None,
    line_format: LineFormat,
    lines: AsyncIterator[bytes],
    advance: Callable[[int], None],
) -> int:
    """Send all lines; returns how many were acknowledged. Raises: CommandError."""
    acknowledgements = _Acknowledgements()
    number = waiting_bytes = 0
    problem = ""
    async for line in lines:
        number += 1
        try:
            key, value, headers = line_format.parse(line.rstrip(b"\r\n"))
        except LineError as error:
            problem = f"line {number}: {error}"
            break
        acknowledgements.watch(
            producer.send(topic, value, key=key, partition=partition, headers=headers)
        )
        advance(len(line))
        waiting_bytes += len(line)
        if number % _LINES_PER_TURN == 0 or waiting_bytes > _BYTES_PER_TURN:
            waiting_bytes = 0
            await producer.drain()
        if acknowledgements.error is not None:
            break
    await producer.flush()
    if acknowledgements.error is not None:
        raise CommandError(
            f"{acknowledgements.error} ({counted(acknowledgements.count, 'record')} written,"
            f" {acknowledgements.failed_count} not)"
        ) from acknowledgements.error
    if problem:
        raise CommandError(
            f"{problem} ({counted(acknowledgements.count, 'record')} written before)"
        )
    return acknowledgements.count


@contextmanager
def _source(path: Path | None) -> Iterator[tuple[AsyncIterator[bytes], Callable[[int], None]]]:
    """Lines, and what to tell of the bytes that are sent: on a terminal it shows progress."""
    if path is None:
        if sys.stdin.isatty():
            click.echo("One record a line; Ctrl-D ends.", err=True)
            yield lines_of(sys.stdin.fileno()), _ignore
            return
        with _late_progress() as advance:
            yield lines_of(sys.stdin.fileno()), advance
        return
    with path.open("rb") as file:
        if not is_terminal_error_stream():
            yield _lines_of_file(file), _ignore
            return
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

        with Progress(
            "{task.description}",
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        ) as progress:
            task = progress.add_task(path.name, total=path.stat().st_size)
            yield _lines_of_file(file), lambda size: progress.advance(task, size)


@contextmanager
def _late_progress() -> Iterator[Callable[[int], None]]:
    """What is told of bytes of unknown number; a line shows it once that takes a while.

    Most input is short, and loading what draws the line takes longer than writing it.
    """
    if not is_terminal_error_stream():
        yield _ignore
        return
    with ExitStack() as shown:
        clock = asyncio.get_running_loop().time
        begun = clock()
        sent_bytes = 0
        show: Callable[[int], None] | None = None

        def advance(size: int) -> None:
            nonlocal sent_bytes, show
            sent_bytes += size
            if show is None and clock() - begun > _QUIET_SECONDS:
                show = shown.enter_context(_size_line())
            if show is not None:
                show(sent_bytes)

        yield advance


@contextmanager
def _size_line() -> Iterator[Callable[[int], None]]:
    """A line that is drawn anew ten times a second and goes in the end; it is told the bytes."""
    from rich.console import Console
    from rich.progress import FileSizeColumn, Progress, SpinnerColumn, TransferSpeedColumn

    with Progress(
        SpinnerColumn(),
        "{task.description}",
        FileSizeColumn(),
        TransferSpeedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        task = progress.add_task("sent", total=None)
        yield lambda sent_bytes: progress.update(task, completed=sent_bytes)


def _ignore(_: int) -> None:
    """Do nothing."""


async def _lines_of_file(file: IO[bytes]) -> AsyncIterator[bytes]:
    for line in file:
        yield line
