"""`GET /api/v1/series`, `/timeline` and `/topics/{topic}/traffic` (CON-123, CON-137).

Invariant: of topics and groups only those are told that the viewer's own lists contain.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from aiohttp import web

from barnabas_console.api.list_query import LIMIT_MAX, number_of
from barnabas_console.api.responses import ApiError, json_response
from barnabas_console.api.visible_names import (
    seen_samples,
    visible_changes,
    visible_groups,
    visible_topics,
)
from barnabas_console.context import ConsoleContext
from barnabas_console.history.timeline import CHANGES_MAX

#: Lines of all charts of a page.
_NAMES_MAX: Final = 64
_MOMENT_DIGITS_MAX: Final = 15


def routes(context: ConsoleContext) -> list[web.RouteDef]:
    """The routes of this module."""
    sampler = context.sampler

    async def series(request: web.Request) -> web.Response:
        viewer = context.viewer(request)
        names = request.query.getall("names", [])
        if len(names) > _NAMES_MAX:
            raise ApiError(400, "BAD_REQUEST", f"at most {_NAMES_MAX} series at once")
        since_ms = _moment_of(request, "since")
        kinds = {name.partition(":")[0] for name in names}
        groups: Collection[str] = ()
        if "group" in kinds:
            told = await seen_samples(viewer, sampler)
            hidden = sampler.groups.by_id.keys() - told.keys()
            groups = (await visible_groups(viewer)).keys() - hidden
        topics = await visible_topics(viewer) if "topic" in kinds else frozenset[str]()
        columns: list[list[float | None] | None] = []
        for name in names:
            kind, _, rest = name.partition(":")
            thing = rest.partition(":")[2]
            is_visible = {"group": thing in groups, "topic": thing in topics}.get(kind, True)
            if kind in ("group", "topic") and is_visible:
                sampler.watch(kind, thing)
            columns.append(sampler.series.column(name, since_ms) if is_visible else None)
        return json_response(
            request,
            {
                "names": names,
                "t": sampler.series.times(since_ms),
                "columns": columns,
                "as_of_ms": context.clock.wall_ms(),
            },
        )

    async def timeline(request: web.Request) -> web.Response:
        is_visible = await visible_changes(context.viewer(request), sampler.principal)
        rows = sampler.timeline.rows(
            after=number_of(request, "after", default=0),
            kinds=request.query.getall("kind", []),
            topic=request.query.get("topic"),
            group=request.query.get("group"),
            is_visible=is_visible,
            limit=min(number_of(request, "limit", default=LIMIT_MAX), CHANGES_MAX),
        )
        return json_response(
            request, {"total": len(rows), "rows": rows, "as_of_ms": context.clock.wall_ms()}
        )

    async def traffic(request: web.Request) -> web.Response:
        topic = request.match_info["topic"]
        if topic not in await visible_topics(context.viewer(request)):
            raise ApiError(404, "UNKNOWN_TOPIC_OR_PARTITION", f"there is no topic {topic!r}")
        sampler.watch("topic", topic)
        return json_response(
            request,
            {
                "topic": topic,
                "arriving": sampler.traffic.rate(topic),
                "partition_list": _partitions(context, topic),
                "as_of_ms": context.clock.wall_ms(),
            },
        )

    return [
        web.get("/api/v1/series", series),
        web.get("/api/v1/timeline", timeline),
        web.get("/api/v1/topics/{topic}/traffic", traffic),
    ]


def _partitions(context: ConsoleContext, topic: str) -> list[dict[str, Any]]:
    traffic = context.sampler.traffic
    known = traffic.leadership.get(topic)
    rates = traffic.partition_rates(topic)
    if known is None:
        return []
    return [
        {"partition": number, "leader": leader if leader >= 0 else None, "arriving": rate}
        for number, (leader, rate) in enumerate(zip(known.leaders, rates, strict=True))
    ]


def _moment_of(request: web.Request, name: str) -> int:
    """Milliseconds since 1970; 0 where none are given. Raises: ApiError."""
    text = request.query.get(name) or "0"
    if not (text.isascii() and text.isdigit() and len(text) <= _MOMENT_DIGITS_MAX):
        raise ApiError(400, "BAD_REQUEST", f"'{name}' must be a number of milliseconds")
    return int(text)
