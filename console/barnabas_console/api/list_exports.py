"""`GET exports/topics`, `exports/groups ?format&q&sort`: whole lists as lines (CON-124).

JSON lines or CSV. The rows are those of the pages of these lists, of all that fit the search, in
the order of the sort. Invariants: a list is in memory until the browser has it, so that as many
are made at once as there are seats of exports; a file that ends early fails as a download.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from aiohttp import web

from barnabas_console.api.groups import group_page
from barnabas_console.api.list_query import ListQuery
from barnabas_console.api.long_response import export_response
from barnabas_console.api.responses import ApiError
from barnabas_console.api.route_kinds import download
from barnabas_console.api.topics import topic_page
from barnabas_console.context import ConsoleContext
from barnabas_console.loop_slices import LoopSlices
from barnabas_console.records.export_lines import CONTENT_TYPES, csv_line
from barnabas_console.records.reading_budget import NoSeatError

#: More topics or groups than that a cluster has not.
ROWS_MAX: Final = 1_000_000
_ROWS_PER_PART: Final = 100

Rows = Sequence[Mapping[str, Any]]


def routes(context: ConsoleContext) -> list[web.RouteDef]:
    """The routes of this module."""

    @download
    async def topics(request: web.Request) -> web.StreamResponse:
        how = _format(request)
        with _seat(context, request):
            _, rows, _ = await topic_page(context, request, everything)
            return await _sent(request, how, "topics", rows, LoopSlices(context.clock))

    @download
    async def groups(request: web.Request) -> web.StreamResponse:
        how = _format(request)
        with _seat(context, request):
            _, rows = await group_page(context, request, everything)
            return await _sent(request, how, "groups", rows, LoopSlices(context.clock))

    return [
        web.get("/api/v1/exports/topics", topics),
        web.get("/api/v1/exports/groups", groups),
    ]


def everything(query: ListQuery) -> ListQuery:
    """The same list, whole."""
    return ListQuery(
        text=query.text,
        sort=query.sort,
        is_descending=query.is_descending,
        offset=0,
        limit=ROWS_MAX,
    )


def lines(how: str, rows: Rows) -> Iterator[bytes]:
    """The file by parts of several lines; in CSV the first line names the fields."""
    names = list(rows[0]) if rows else []
    if how == "csv" and rows:
        yield csv_line(names)
    for start in range(0, len(rows), _ROWS_PER_PART):
        some = rows[start : start + _ROWS_PER_PART]
        if how == "csv":
            yield b"".join(csv_line(row[name] for name in names) for row in some)
        else:
            yield b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in some)


@contextmanager
def _seat(context: ConsoleContext, request: web.Request) -> Iterator[None]:
    """Hold a seat of an export: all rows are in memory until the browser has read them."""
    try:
        with context.records.budget.scan(context.holder(request)):
            yield
    except NoSeatError as error:
        raise ApiError(429, "TOO_MANY_REQUESTS", str(error)) from None


def _format(request: web.Request) -> str:
    how = request.query.get("format", "jsonl")
    if how not in CONTENT_TYPES:
        raise ApiError(400, "BAD_REQUEST", "format is jsonl or csv")
    return how


async def _sent(
    request: web.Request, how: str, name: str, rows: Rows, slices: LoopSlices
) -> web.StreamResponse:
    export = export_response(request, how, name)
    await export.begin()
    try:
        for part in lines(how, rows):
            await slices.pause_if_due()  # to send waits for nobody while the browser reads
            await export.write(part)
        await export.end()
    except (TimeoutError, ConnectionResetError):
        export.let_go()  # nobody reads
    return export.response
