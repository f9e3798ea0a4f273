"""`GET /api/v1/topics`, `/topics/{topic}` and `/topics/{topic}/settings` (CON-112, CON-117)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

from barnabas_client.admin.values.configs import ConfigResource
from barnabas_client.facts.command_lines import command_line
from barnabas_client.facts.topic_facts import describe_topics, details
from barnabas_console.api.list_query import ListQuery, list_query
from barnabas_console.api.resource_settings import settings_response
from barnabas_console.api.responses import json_response
from barnabas_console.api.route_kinds import needs
from barnabas_console.cluster.topic_columns import ROW_FIELDS, TopicList
from barnabas_console.context import ConsoleContext
from barnabas_console.loop_slices import LoopSlices
from barnabas_console.viewer import Viewer
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.ids import TopicPartition

# Offsets of a partition without a leader do not come; the rest of the page is not to wait for them.
_OFFSETS_TIMEOUT_MS = 2_000


def routes(context: ConsoleContext) -> list[web.RouteDef]:
    """The routes of this module."""

    async def topics(request: web.Request) -> web.Response:
        total, rows, as_of_ms = await topic_page(context, request)
        return json_response(
            request,
            {
                "total": total,
                "rows": rows,
                "command": "barnabas topic list",
                "as_of_ms": as_of_ms,
            },
        )

    @needs(AclOperation.DESCRIBE, AclResourceType.TOPIC, "topic")
    async def topic(request: web.Request) -> web.Response:
        viewer, name = context.viewer(request), request.match_info["topic"]
        found = await viewer.shared(("topic", name), lambda: _topic(viewer, name))
        return json_response(
            request,
            {
                **found,
                "command": command_line("topic describe", name),
                "as_of_ms": context.clock.wall_ms(),
            },
        )

    @needs(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, "topic")
    async def settings(request: web.Request) -> web.Response:
        return await settings_response(
            request, context, ConfigResource.topic(request.match_info["topic"])
        )

    return [
        web.get("/api/v1/topics", topics),
        web.get("/api/v1/topics/{topic}", topic),
        web.get("/api/v1/topics/{topic}/settings", settings),
    ]


async def topic_page(
    context: ConsoleContext,
    request: web.Request,
    widened: Callable[[ListQuery], ListQuery] = lambda query: query,
) -> tuple[int, list[dict[str, Any]], int]:
    """How many topics fit the request, the rows that it wants, and of when they are."""
    viewer = context.viewer(request)
    beside = _beside(context, viewer)
    query = widened(list_query(request, (*ROW_FIELDS, *beside), default="topic"))
    facts = await viewer.cluster.facts()
    total, rows = await facts.reading.topics.page(
        TopicList(
            text=query.text,
            sort=query.sort,
            is_descending=query.is_descending,
            with_internal=request.query.get("internal") == "true",
            offset=query.offset,
            limit=query.limit,
        ),
        LoopSlices(context.clock),
        beside,
    )
    return total, rows, facts.read_ms


def _beside(context: ConsoleContext, viewer: Viewer) -> dict[str, Callable[[str], float | None]]:
    """What the history tells of topics: how much comes, and how many groups read.

    Only for the sampler's own user: others might not see all of these groups.
    """
    sampler = context.sampler
    is_told = sampler.looked_at_ms is not None and viewer.is_surely(sampler.principal)
    counts = sampler.groups.reader_counts() if is_told else {}
    return {
        "records_per_second": sampler.traffic.rate,
        "groups": lambda name: counts.get(name, 0) if is_told else None,
    }


async def _topic(viewer: Viewer, name: str) -> dict[str, Any]:
    """As `barnabas topic describe -o json` has it, and which replicas come and go.

    `records` counts offsets, which is exact only where there are none: markers of transactions and
    records that compaction took have offsets, too.
    """
    described = await describe_topics(viewer.admin, [name])
    found = (await details(viewer.admin, described, offsets_timeout_ms=_OFFSETS_TIMEOUT_MS))[0]
    places = [TopicPartition(name, number) for number in described[name].partitions]
    moves = await viewer.admin.partitions.list_reassignments(places)
    for row in found["partition_list"]:
        move = moves.get(TopicPartition(name, row["partition"]))
        row["adding"] = [] if move is None else list(move.adding_replica_ids)
        row["removing"] = [] if move is None else list(move.removing_replica_ids)
        row["records_exact"] = row["records"] == 0
    return found
