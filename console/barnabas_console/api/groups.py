"""`GET /api/v1/groups`, `/groups/{group}` and `/topics/{topic}/groups` (CON-118, CON-119).

Rows of the list come from the last look of the sampler, so that a thousand groups cost a page
nothing; one group is asked for when its page is shown, and what the history knows is added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from aiohttp import web

from barnabas_client.admin.values.groups import GroupListing, GroupType
from barnabas_client.errors import BarnabasError, UsageError
from barnabas_client.facts.group_diagnosis import State
from barnabas_client.facts.group_facts import details_of
from barnabas_client.facts.group_observation import (
    GroupObservation,
    application_of,
    observe_groups,
    observe_share_groups,
)
from barnabas_client.facts.group_watch import UNWATCHED
from barnabas_client.facts.share_facts import share_details_of
from barnabas_console.api.list_query import ListQuery, list_query
from barnabas_console.api.responses import ApiError, json_response
from barnabas_console.api.route_kinds import needs
from barnabas_console.api.visible_names import seen_samples, visible_groups, visible_topics
from barnabas_console.context import ConsoleContext
from barnabas_console.history.group_looks import of_listing
from barnabas_console.history.group_samples import GroupSample
from barnabas_console.history.sampler import Sampler
from barnabas_console.loop_slices import LoopSlices
from barnabas_console.viewer import Viewer
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode

#: How bad a state is, to sort by: the worst first.
_SEVERITY: Final = {"critical": 0, "warning": 1, "unknown": 2, "working": 3, "fine": 4}
_FIELDS: Final = (
    *("group", "health", "state", "type", "protocol", "application", "members"),
    *("lag", "lag_seconds", "topics"),
)
_TREND_POINTS: Final = 30
# In the order of the alphabet, too.
_CRITICAL, _WARNING = State.CRITICAL, State.WARNING


def routes(context: ConsoleContext) -> list[web.RouteDef]:
    """The routes of this module."""
    sampler = context.sampler

    async def groups(request: web.Request) -> web.Response:
        total, page = await group_page(context, request)
        slices = LoopSlices(context.clock)
        for row in page:
            await slices.pause_if_due()
            # Of a group whose lag may not be seen, nor may what it was.
            row["trend"] = (
                sampler.series.trend(f"group:lag:{row['group']}", _TREND_POINTS)
                if row["lag_known"] is not None
                else None
            )
        return json_response(
            request, {"total": total, "rows": page, "as_of_ms": context.clock.wall_ms()}
        )

    @needs(AclOperation.DESCRIBE, AclResourceType.GROUP, "group")
    async def group(request: web.Request) -> web.Response:
        viewer, name = context.viewer(request), request.match_info["group"]
        listed = await visible_groups(viewer)
        if name not in listed:
            raise ApiError(404, "GROUP_ID_NOT_FOUND", f"there is no group {name!r}")
        sampler.watch("group", name)
        data = await viewer.shared(("group", name), lambda: _details(context, viewer, listed[name]))
        return json_response(request, {**data, "as_of_ms": context.clock.wall_ms()})

    async def of_topic(request: web.Request) -> web.Response:
        viewer, topic = context.viewer(request), request.match_info["topic"]
        if topic not in await visible_topics(viewer):
            raise ApiError(404, "UNKNOWN_TOPIC_OR_PARTITION", f"there is no topic {topic!r}")
        listed, samples = await visible_groups(viewer), await seen_samples(viewer, sampler)
        readers = {sample.group.group_id: sample for sample in sampler.groups.readers_of(topic)}
        seen = {name: one for name, one in listed.items() if name in readers}
        rows = group_rows(seen, samples)
        for row in rows:
            row.update(_on_topic(readers[row["group"]], topic))
        return json_response(
            request, {"total": len(rows), "rows": rows, "as_of_ms": context.clock.wall_ms()}
        )

    return [
        web.get("/api/v1/groups", groups),
        web.get("/api/v1/groups/{group}", group),
        web.get("/api/v1/topics/{topic}/groups", of_topic),
    ]


async def group_page(
    context: ConsoleContext,
    request: web.Request,
    widened: Callable[[ListQuery], ListQuery] = lambda query: query,
) -> tuple[int, list[dict[str, Any]]]:
    """How many groups fit the request, and the rows that it wants."""
    query = widened(list_query(request, _FIELDS, default="group"))
    viewer, sampler = context.viewer(request), context.sampler
    listed, samples = await visible_groups(viewer), await seen_samples(viewer, sampler)
    return _page(group_rows(listed, samples), query)


def group_rows(
    listed: Mapping[str, GroupListing], samples: Mapping[str, GroupSample]
) -> list[dict[str, Any]]:
    """A row for each group, by name; what is not told, or was not looked at yet, is None."""
    rows = []
    for name, listing in sorted(listed.items()):
        sample = samples.get(name)
        rows.append(
            {
                "group": name,
                "state": str(listing.state),
                "type": str(listing.type),
                "protocol": listing.protocol_type,
                "application": application_of(name) or None,
                "members": None if sample is None else len(sample.group.members),
                "lag": None if sample is None else sample.lag,
                "lag_known": None if sample is None else sample.lag_known,
                "lag_seconds": None if sample is None else sample.lag_seconds,
                "topics": None
                if sample is None
                else len({place.topic for place in sample.group.places}),
                "health": "unknown" if sample is None else str(sample.finding.state),
                "words": "" if sample is None else sample.finding.evidence,
            }
        )
    return rows


async def groups_in_trouble(viewer: Viewer, sampler: Sampler, limit: int) -> list[dict[str, Any]]:
    """The groups that the start page names: critical ones and warnings, those behind most first.

    Of the last look: the start page waits for no coordinator, least of all for one that is away.
    """
    samples = sampler.groups.by_id
    bad = [name for name in samples if samples[name].finding.state in (_CRITICAL, _WARNING)]
    if bad and not viewer.is_surely(sampler.principal):
        try:
            listed, seen = await visible_groups(viewer), await seen_samples(viewer, sampler)
        except BarnabasError:
            return []
        bad = [name for name in bad if name in listed and name in seen]
    bad.sort(key=lambda name: (samples[name].finding.state, -samples[name].lag_known, name))
    return [
        {
            "group": name,
            "state": str(samples[name].finding.state),
            "lag": samples[name].lag,
            "lag_seconds": samples[name].lag_seconds,
            "words": samples[name].finding.evidence,
        }
        for name in bad[:limit]
    ]


def _page(rows: list[dict[str, Any]], query: ListQuery) -> tuple[int, list[dict[str, Any]]]:
    """How many fit, and those that are wanted; what is unknown comes last."""
    text = query.text.casefold()
    fitting = [row for row in rows if text in row["group"].casefold()]
    key = _sort_key(query.sort)
    known = [row for row in fitting if row[query.sort] is not None]
    known.sort(key=key, reverse=query.is_descending)
    fitting = known + [row for row in fitting if row[query.sort] is None]
    return len(fitting), fitting[query.offset : query.offset + query.limit]


def _sort_key(field: str) -> Callable[[dict[str, Any]], Any]:
    if field == "health":
        return lambda row: _SEVERITY[row["health"]]
    return lambda row: row[field].casefold() if isinstance(row[field], str) else row[field]


def _on_topic(sample: GroupSample, topic: str) -> dict[str, Any]:
    """Lag and members of a group in one topic."""
    group = sample.group
    lags = {place: lag for place, lag in group.lags.items() if place.topic == topic}
    places = [place for place in group.places if place.topic == topic]
    behind = [ms for place, ms in sample.lag_ms.items() if place.topic == topic]
    is_read = sum(lags.values()) == 0 and len(lags) == len(places)
    return {
        "topic_lag": sum(lags.values()) if len(lags) == len(places) else None,
        "topic_lag_seconds": 0 if is_read else round(max(behind) / 1000, 1) if behind else None,
        "topic_members": sum(
            any(place.topic == topic for place in member.assignment) for member in group.members
        ),
    }


async def _details(
    context: ConsoleContext, viewer: Viewer, listing: GroupListing
) -> dict[str, Any]:
    """What `barnabas group describe -o json` writes, with the movement that the history knows."""
    sampler, wall_ms = context.sampler, context.clock.wall_ms()
    sample = (await seen_samples(viewer, sampler)).get(listing.group_id)
    movement = UNWATCHED if sample is None else sample.movement
    is_share = listing.type is GroupType.SHARE
    seen = await _observed(viewer, listing)
    lag_ms = sampler.groups.lag_ms(seen, wall_ms)
    of_kind = share_details_of if is_share else details_of
    data = await of_kind(viewer.admin, seen, wall_ms, movement, lag_ms)
    return {
        **data,
        "protocol": listing.protocol_type,
        "arriving": movement.arriving,
        "reading": movement.reading,
        "watched_ms": movement.watched_ms,
    }


async def _observed(viewer: Viewer, listing: GroupListing) -> GroupObservation:
    if listing.type is GroupType.SHARE:
        (group,) = await observe_share_groups(viewer.admin, [listing.group_id])
        return group
    try:
        (group,) = await observe_groups(viewer.admin, [listing.group_id])
    except UsageError:
        # Of Connect workers, for example: only the list tells of it.
        return of_listing(listing)
    except BarnabasError as error:
        if error.code is not ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            raise
        return of_listing(listing)
    return group
