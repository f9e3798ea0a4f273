"""`GET /api/v1/brokers`, `/brokers/{id}`, its `/settings` and `/partitions` (CON-111)."""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from barnabas_client.admin.values.configs import ConfigResource
from barnabas_client.admin.values.log_dirs import LogDirDescription
from barnabas_client.errors import BarnabasError
from barnabas_console.api.broker_rows import broker_rows
from barnabas_console.api.list_query import ListQuery, list_query
from barnabas_console.api.resource_settings import settings_response
from barnabas_console.api.responses import ApiError, json_response
from barnabas_console.api.route_kinds import needs
from barnabas_console.cluster.placements import Held
from barnabas_console.context import ConsoleContext
from barnabas_console.viewer import Viewer
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.ids import TopicPartition

_DIGITS_MAX: Final = 9
_PARTITION_FIELDS: Final = ("partition", "role", "in_sync")
# What a page of partitions takes on the disk is asked for with each page, and kept for a while.
_SIZES_MS: Final = 10_000


def routes(context: ConsoleContext) -> list[web.RouteDef]:
    """The routes of this module."""

    async def brokers(request: web.Request) -> web.Response:
        facts, rows = await broker_rows(context, context.viewer(request))
        return json_response(
            request,
            {
                "total": len(rows),
                "rows": rows,
                "command": "barnabas cluster status",
                "as_of_ms": facts.read_ms,
            },
        )

    async def broker(request: web.Request) -> web.Response:
        viewer, node_id = context.viewer(request), _node_id(request)
        facts, rows = await broker_rows(context, viewer)
        row = next((row for row in rows if row["id"] == node_id), None)
        if row is None:
            raise ApiError(404, "NOT_FOUND", f"there is no broker {node_id}")
        directories = await viewer.shared(
            ("directories", node_id), lambda: _directories(viewer, node_id)
        )
        return json_response(
            request, {**row, "directories": directories, "as_of_ms": facts.read_ms}
        )

    async def partitions(request: web.Request) -> web.Response:
        viewer, node_id = context.viewer(request), _node_id(request)
        query = list_query(request, _PARTITION_FIELDS, default="partition")
        facts = await viewer.cluster.facts()
        held = _sorted(facts.reading.placements.held_by(node_id, query.text), node_id, query)
        page = held[query.offset : query.offset + query.limit]
        places = [TopicPartition(topic, number) for topic, number, _ in page]
        sizes = await viewer.shared(
            ("sizes on broker", node_id, tuple(places)),
            lambda: _sizes(viewer, node_id, places),
            ttl_ms=_SIZES_MS,
        )
        return json_response(
            request,
            {
                "total": len(held),
                "rows": [
                    {
                        "topic": place.topic,
                        "partition": place.partition,
                        "role": "leader" if placement.leader == node_id else "follower",
                        "leader": placement.leader,
                        "in_sync": node_id in placement.in_sync,
                        "size_bytes": sizes.get(place),
                    }
                    for (_, _, placement), place in zip(page, places, strict=True)
                ],
                "as_of_ms": facts.read_ms,
            },
        )

    @needs(AclOperation.DESCRIBE_CONFIGS, AclResourceType.CLUSTER)
    async def settings(request: web.Request) -> web.Response:
        return await settings_response(request, context, ConfigResource.broker(_node_id(request)))

    return [
        web.get("/api/v1/brokers", brokers),
        web.get("/api/v1/brokers/{id}", broker),
        web.get("/api/v1/brokers/{id}/partitions", partitions),
        web.get("/api/v1/brokers/{id}/settings", settings),
    ]


def _node_id(request: web.Request) -> int:
    text = request.match_info["id"]
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        raise ApiError(404, "NOT_FOUND", f"there is no broker {text!r}")
    return int(text)


def _sorted(held: list[Held], node_id: int, query: ListQuery) -> list[Held]:
    """In order of names, or leaders first, or those out of sync first; or the other way round."""
    match query.sort:
        case "role":
            parts = (
                [one for one in held if one[2].leader == node_id],
                [one for one in held if one[2].leader != node_id],
            )
        case "in_sync":
            parts = (
                [one for one in held if node_id not in one[2].in_sync],
                [one for one in held if node_id in one[2].in_sync],
            )
        case _:
            return held[::-1] if query.is_descending else held
    first, last = parts[::-1] if query.is_descending else parts
    return first + last


async def _sizes(
    viewer: Viewer, node_id: int, places: list[TopicPartition]
) -> dict[TopicPartition, int]:
    """Bytes of the broker's own replicas; none where the broker does not tell."""
    if not places:
        return {}
    try:
        found = await viewer.admin.log_dirs.describe([node_id], partitions=places)
        directories = found[node_id].unwrap()
    except BarnabasError:
        return {}
    return {
        place: replica.size_bytes
        for directory in directories.values()
        for place, replica in directory.replicas.items()
        if not replica.is_future
    }


async def _directories(viewer: Viewer, node_id: int) -> list[dict[str, Any]] | None:
    """The log directories without their replicas; None where the broker does not tell."""
    try:
        found = (await viewer.admin.log_dirs.describe([node_id], partitions=()))[node_id].unwrap()
    except BarnabasError:
        return None
    return [_directory(one) for one in sorted(found.values(), key=lambda one: one.path)]


def _directory(one: LogDirDescription) -> dict[str, Any]:
    return {
        "path": one.path,
        "error": None if one.error is None else str(one.error),
        "total_bytes": one.total_bytes,
        "usable_bytes": one.usable_bytes,
        "is_cordoned": one.is_cordoned,
    }
