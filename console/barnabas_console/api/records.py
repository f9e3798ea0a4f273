"""Records of a topic: `topics/{t}/records` by pages, `scan`, `tail`, `export`, one alone, `resend`.

What is asked for stands in the query or the body by the same names: `at` (`newest`, `oldest`,
`offset:N`, `time:WHEN`, or a place that a response gave), `partition` (`0,3`), `direction`,
`committed`, `key_format`, `value_format`, `filter`, `limit`.

Not here: reading (`barnabas_console.records`).

Source: CON-113 to CON-116, CON-124, CON-136, CON-145. Invariants: each reading is a line in the
audit log before its first record leaves, and streams are another one at their end; a stream that
has begun ends by itself, by an event `error`, or with its connection.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any, Final

from aiohttp import web

from barnabas_client.errors import BarnabasError
from barnabas_console.api.event_stream import EventStream
from barnabas_console.api.long_response import export_response
from barnabas_console.api.request_body import json_object
from barnabas_console.api.responses import ApiError, json_response, of_client
from barnabas_console.api.route_kinds import download, needs, reads, stream
from barnabas_console.context import ConsoleContext
from barnabas_console.loop_slices import LoopSlices
from barnabas_console.records.decoding import CHOICES
from barnabas_console.records.exact_reading import PLACES_MAX, read_exactly
from barnabas_console.records.export_lines import CONTENT_TYPES, line_writer
from barnabas_console.records.filters import RecordFilter
from barnabas_console.records.new_record import read_form
from barnabas_console.records.reading_budget import NoSeatError
from barnabas_console.records.record_page import PAGE_RECORDS_MAX, read_page
from barnabas_console.records.record_scan import (
    SCAN_MATCHES_MAX,
    ScanEnd,
    ScanLimits,
    ScanProgress,
    scan,
)
from barnabas_console.records.record_view import HEADERS_WHOLE_MAX, RecordView, worked_on
from barnabas_console.records.record_writing import DeadLetterDesk, Letter, write_record
from barnabas_console.records.topic_reading import ReadingChoices
from barnabas_console.records.topic_tails import TailPart
from barnabas_console.rights.held import first_lock
from barnabas_console.rights.needed import needed_to_write
from barnabas_console.viewer import Viewer
from barnabas_protocol.acl import AclOperation, AclResourceType

logger = logging.getLogger(__name__)

_PAGE_RECORDS: Final = 50
_ONE_CHARACTERS_MAX: Final = 4 * 1024 * 1024
EXPORT_RECORDS_MAX: Final = 10_000_000
_EXPORT_LIMITS: Final = {"records": 1 << 40, "size_bytes": 1 << 50, "time_ms": 24 * 3_600_000}
_PROGRESS_MS: Final = 500
_LIMIT_DIGITS_MAX: Final = 9
_reads_topic = needs(AclOperation.READ, AclResourceType.TOPIC, "topic")


def routes(context: ConsoleContext) -> list[web.RouteDef]:
    """The routes of this module."""
    api = _RecordsApi(context)
    topic = "/api/v1/topics/{topic}"
    return [
        web.get(f"{topic}/records", api.page),
        web.get(f"{topic}/records/{{partition:[0-9]{{1,9}}}}/{{offset:[0-9]{{1,18}}}}", api.one),
        web.post(f"{topic}/scan", api.scan),
        web.get(f"{topic}/tail", api.tail),
        web.get(f"{topic}/export", api.export),
        web.post(f"{topic}/records", api.produce),
        web.post(f"{topic}/resend", api.resend),
    ]


class _RecordsApi:
    """The handlers; what they share is the desk."""

    def __init__(self, context: ConsoleContext) -> None:
        self._context = context
        self._desk = context.records

    @_reads_topic
    async def page(self, request: web.Request) -> web.Response:
        """A page of records."""
        wanted = request.query
        with _refusals():
            choices = self._desk.choices(_topic(request), wanted)
            limit = _limit(wanted, _PAGE_RECORDS, PAGE_RECORDS_MAX)
            page = await read_page(
                self._context.viewer(request), choices, limit, self._desk.budget, self._desk.clock
            )
            ranges = [[one["partition"], one["read_from"], one["read_to"]] for one in page.ranges]
            self._audit(request, "read records", choices, count=len(page.rows), ranges=ranges)
        return json_response(
            request,
            {
                "rows": page.rows,
                "older": page.older,
                "newer": page.newer,
                "direction": page.direction.value,
                "is_end": page.is_end,
                "ranges": page.ranges,
                "problems": _problems(page.problems),
                "damaged": page.damaged,
                "bytes_read": page.bytes_read,
                "record_count": page.record_count,
                "formats": list(CHOICES),
                "is_masked": bool(choices.mask),
                "as_of_ms": self._desk.clock.wall_ms(),
            },
        )

    @_reads_topic
    async def one(self, request: web.Request) -> web.Response:
        """One record, whole; `raw=key|value` are its bytes."""
        place = int(request.match_info["partition"]), int(request.match_info["offset"])
        raw = request.query.get("raw")
        with _refusals():
            wanted = {**request.query, "partition": str(place[0]), "at": "newest"}
            choices = self._desk.choices(_topic(request), wanted)
            if raw is not None and choices.mask:
                raise ApiError(403, "MASKED", "fields of this topic are masked: no bytes of it")
            self._audit(request, "read record", choices, place=list(place), raw=raw)
            found = await read_exactly(
                self._context.viewer(request),
                choices,
                [place],
                self._desk.budget,
                self._desk.clock,
            )
        view = found.get(place)
        if view is None:
            raise ApiError(404, "NOT_FOUND", f"there is no record at {place[0]}:{place[1]}")
        if raw is None:
            return json_response(request, await worked_on(view, _whole))
        return _raw(view, raw)

    @reads
    @stream
    @_reads_topic
    async def scan(self, request: web.Request) -> web.StreamResponse:
        """Records that pass a filter, as events."""
        wanted = await json_object(request)
        with _refusals():
            choices = self._desk.choices(_topic(request), wanted)
            record_filter = self._desk.filter(wanted)
            limits = ScanLimits(matches=_limit(wanted, 100, SCAN_MATCHES_MAX))
            with self._desk.budget.scan(self._context.holder(request)):
                self._audit(request, "scan records", choices, filter=str(record_filter))
                rounds = scan(
                    self._context.viewer(request),
                    choices,
                    record_filter,
                    self._desk.budget,
                    self._desk.clock,
                    limits,
                )
                async with aclosing(rounds):
                    first = await anext(rounds)
                    events = EventStream(request)

                    def ended(count: int) -> None:
                        self._audit(request, "scan ended", choices, count=count)

                    async with _streaming(events):
                        await self._send_scan(events, first, rounds, ended)
                return await _ended(events)

    async def _send_scan(
        self,
        events: EventStream,
        progress: ScanProgress,
        rounds: AsyncIterator[ScanProgress],
        ended: Callable[[int], None],
    ) -> None:
        """Send all there is; however it ends, `ended` gets how many records passed."""
        told_ms = 0
        slices = LoopSlices(self._desk.clock)
        try:
            while True:
                for view in progress.found:
                    await events.send("record", await worked_on(view, RecordView.row))
                    await slices.pause_if_due()
                now_ms = self._desk.clock.monotonic_ms()
                if progress.end is not None:
                    await events.send("end", _scan_end(progress))
                    return
                if now_ms - told_ms >= _PROGRESS_MS:
                    told_ms = now_ms
                    await events.send("progress", _scan_progress(progress))
                progress = await anext(rounds)
        finally:
            ended(progress.found_count)

    @stream
    @_reads_topic
    async def tail(self, request: web.Request) -> web.StreamResponse:
        """Records as they come."""
        wanted = request.query
        viewer = self._context.viewer(request)
        with _refusals():
            choices = self._desk.choices(_topic(request), wanted)
            record_filter = self._desk.filter(wanted)
            self._audit(request, "tail records", choices, filter=str(record_filter))
            async with self._desk.tails.follow(
                viewer,
                viewer.identity,
                choices.topic,
                is_committed_only=choices.is_committed_only,
                decoding=choices.decoding,
                mask=choices.mask,
                record_filter=record_filter,
                partitions=choices.partitions,
            ) as follower:
                events = EventStream(request)
                count = 0
                slices = LoopSlices(self._desk.clock)
                try:
                    async with _streaming(events), aclosing(follower.parts()) as parts:
                        await events.send("progress", _tail_progress(TailPart()))
                        async for part in parts:
                            count += len(part.rows)
                            await _send_part(events, part, slices)
                finally:
                    self._audit(request, "tail ended", choices, count=count)
                return await _ended(events)

    @download
    @_reads_topic
    async def export(self, request: web.Request) -> web.StreamResponse:
        """A download: JSONL or CSV, from the oldest on unless told otherwise."""
        wanted = request.query
        how = wanted.get("format", "jsonl")
        with _refusals():
            if how not in CONTENT_TYPES:
                raise ApiError(400, "BAD_REQUEST", "format is jsonl or csv")
            choices = self._desk.choices(_topic(request), wanted, at="oldest")
            record_filter = self._desk.filter(wanted)
            limit = _limit(wanted, EXPORT_RECORDS_MAX, EXPORT_RECORDS_MAX)
            with self._desk.budget.scan(self._context.holder(request)):
                self._audit(
                    request, "export records", choices, filter=str(record_filter), limit=limit
                )
                return await self._export(request, choices, record_filter, how, limit)

    async def _export(
        self,
        request: web.Request,
        choices: ReadingChoices,
        record_filter: RecordFilter,
        how: str,
        limit: int,
    ) -> web.StreamResponse:
        head, line = line_writer(how)
        rounds = scan(
            self._context.viewer(request),
            choices,
            record_filter,
            self._desk.budget,
            self._desk.clock,
            ScanLimits(matches=limit, **_EXPORT_LIMITS),
        )
        async with aclosing(rounds):
            progress = await anext(rounds)
            export = export_response(request, how, choices.topic)
            await export.begin()
            slices = LoopSlices(self._desk.clock)
            is_whole = False
            try:
                await export.write(head)
                while True:
                    for view in progress.found:
                        await export.write(await worked_on(view, line))
                        await slices.pause_if_due()
                    if progress.end is not None:
                        break
                    progress = await anext(rounds)
                if progress.end in (ScanEnd.ALL_READ, ScanEnd.MATCHES):
                    await export.end()
                    is_whole = True
            except (BarnabasError, TimeoutError, ConnectionResetError) as error:
                logger.warning("an export of %s ended early: %r", choices.topic, error)
            finally:
                self._audit(request, "export ended", choices, count=progress.found_count)
        if not is_whole:
            export.let_go()
        return export.response

    @needs(AclOperation.WRITE, AclResourceType.TOPIC, "topic")
    async def produce(self, request: web.Request) -> web.Response:
        """Write one record."""
        topic = _topic(request)
        form = await json_object(request)
        viewer = self._context.viewer(request)
        with _refusals():
            record = read_form(form)
            described = (await viewer.admin.topics.describe([topic])).unwrap()[topic]
            if record.partition is not None and record.partition not in described.partitions:
                count = len(described.partitions)
                raise ApiError(400, "BAD_REQUEST", f"{topic} has {count} partitions")
            lock = await first_lock(viewer, [needed_to_write(topic)])
            if lock is not None:
                raise ApiError(403, "TOPIC_AUTHORIZATION_FAILED", lock["words"], lock=lock)
            self._context.audit(request, "produce record", topic=topic, partition=record.partition)
            try:
                written = await write_record(viewer, topic, record)
            except TimeoutError:
                raise ApiError(
                    504,
                    "TIMEOUT",
                    "not acknowledged in time: the record may be written",
                    hint="Look at the end of the topic before you produce it again.",
                ) from None
        viewer.changed()
        return json_response(request, written, status=201)

    @_reads_topic
    async def resend(self, request: web.Request) -> web.Response:
        """Send dead letters to where they came from; a `preview` says what would be sent."""
        topic = _topic(request)
        wanted = await json_object(request)
        viewer = self._context.viewer(request)
        desk = DeadLetterDesk(
            viewer, self._desk.decoding, self._desk.masks, self._desk.budget, self._desk.clock
        )
        with _refusals():
            places = _places(wanted.get("records"))
            to_topic = wanted.get("to_topic") or None
            if to_topic is not None and not isinstance(to_topic, str):
                raise ApiError(400, "BAD_REQUEST", "'to_topic' must be text")
            letters = await _with_locks(viewer, await desk.prepare(topic, places, to_topic))
            if wanted.get("preview") is True:
                self._context.audit(request, "read dead letters", topic=topic, count=len(letters))
                return json_response(request, {"rows": [one.row() for one in letters]})
            self._context.audit(
                request,
                "resend records",
                topic=topic,
                to_topics=sorted({one.to_topic for one in letters if one.to_topic}),
                count=len(letters),
            )
            rows = await desk.send(letters)
        viewer.changed()
        return json_response(request, {"rows": rows})

    def _audit(self, request: web.Request, act: str, choices: ReadingChoices, **facts: Any) -> None:
        partitions = None if choices.partitions is None else sorted(choices.partitions)
        self._context.audit(
            request,
            act,
            topic=choices.topic,
            partitions=partitions,
            at=choices.place.kind.value,
            number=choices.place.number,
            **facts,
        )


@contextmanager
def _refusals() -> Any:
    """Make what cannot be asked for an answer in words."""
    try:
        yield
    except NoSeatError as error:
        raise ApiError(429, "TOO_MANY_REQUESTS", str(error)) from None
    except ValueError as error:
        raise ApiError(400, "BAD_REQUEST", str(error)) from None
    except TimeoutError:
        raise ApiError(504, "TIMEOUT", "the brokers did not answer in time") from None


@asynccontextmanager
async def _streaming(events: EventStream) -> AsyncIterator[None]:
    """Begin a stream; what fails from then on is an event of it, or its end."""
    await events.begin()
    try:
        yield
    except BarnabasError as error:
        told = of_client(error)
        data = {"error": told.error, "message": told.message, "hint": told.hint}
        await events.send("error", data)
    except (TimeoutError, ConnectionResetError):
        # Nobody reads: there is nothing to be said to them.
        events.let_go()


async def _ended(events: EventStream) -> web.StreamResponse:
    try:
        await events.end()
    except (TimeoutError, ConnectionResetError):
        events.let_go()
    return events.response


async def _send_part(events: EventStream, part: TailPart, slices: LoopSlices) -> None:
    for view in part.rows:
        await events.send("record", await worked_on(view, RecordView.row))
        await slices.pause_if_due()  # to send waits for nobody while the browser reads
    await events.send("progress", _tail_progress(part))
    if part.problem is not None:
        await events.send("end", {"message": part.problem})


async def _with_locks(viewer: Viewer, letters: list[Letter]) -> list[Letter]:
    """Letters to topics that the viewer may not write to are not sent, and say why."""
    topics = {one.to_topic for one in letters if one.to_topic and one.record is not None}
    locks = {topic: await first_lock(viewer, [needed_to_write(topic)]) for topic in topics}
    return [
        one
        if one.to_topic is None or (lock := locks.get(one.to_topic)) is None
        else replace(one, record=None, problem=lock["words"])
        for one in letters
    ]


def _topic(request: web.Request) -> str:
    return request.match_info["topic"]


def _limit(wanted: Mapping[str, Any], usual: int, maximum: int) -> int:
    text = str(wanted.get("limit") or usual)
    is_number = text.isascii() and text.isdigit() and len(text) <= _LIMIT_DIGITS_MAX
    if not is_number or not 1 <= int(text) <= maximum:
        raise ValueError(f"limit is a whole number from 1 to {maximum}")
    return int(text)


def _places(written: Any) -> list[tuple[int, int]]:
    if not isinstance(written, list) or not 0 < len(written) <= PLACES_MAX:
        raise ValueError(f"'records' are 1 to {PLACES_MAX} of [partition, offset]")
    places = []
    for one in written:
        match one:
            case [int(partition), int(offset)] if partition >= 0 and offset >= 0:
                places.append((partition, offset))
            case _:
                raise ValueError("'records' are [partition, offset]")
    return places


def _problems(problems: Mapping[int, str]) -> list[dict[str, Any]]:
    return [{"partition": number, "message": text} for number, text in sorted(problems.items())]


def _scan_progress(progress: ScanProgress) -> dict[str, Any]:
    return {
        "found": progress.found_count,
        "record_count": progress.record_count,
        "bytes_read": progress.bytes_read,
        "reached_ms": progress.reached_ms,
        "too_large": progress.too_large_count,
    }


def _scan_end(progress: ScanProgress) -> dict[str, Any]:
    assert progress.end is not None
    return {
        **_scan_progress(progress),
        "reason": progress.end.value,
        "go_on": progress.go_on,
        "ranges": progress.ranges,
        "problems": _problems(progress.problems or {}),
        "damaged": progress.damaged,
    }


def _tail_progress(part: TailPart) -> dict[str, Any]:
    return {
        "came": part.came_count,
        "shown": len(part.rows),
        "skipped": part.skipped_count,
        "filtered": part.filtered_count,
        "missed": part.missed_count,
    }


def _whole(view: RecordView) -> dict[str, Any]:
    row = view.row(characters_max=_ONE_CHARACTERS_MAX, headers_max=HEADERS_WHOLE_MAX)
    return {**row, "headers_hex": view.headers_hex()}


def _raw(view: RecordView, side: str) -> web.Response:
    if side not in ("key", "value"):
        raise ApiError(400, "BAD_REQUEST", "raw is key or value")
    source = view.source
    data = source.key if side == "key" else source.value
    if data is None:
        raise ApiError(404, "NOT_FOUND", f"the {side} is null")
    name = f"{source.topic}-{source.partition}-{source.offset}.{side}"
    return web.Response(
        body=data,
        content_type="application/octet-stream",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )
