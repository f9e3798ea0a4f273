"""The page of the cluster (CON-121): metadata log, moves of replicas, transactions, rights.

Each part is a request of its own, so that what a cluster does not serve is told for that part
alone; the brokers are asked only for what somebody looks at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

from aiohttp import web

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.partitions import Reassignment
from barnabas_client.facts.access_facts import acl_data, quota_rows, user_rows
from barnabas_client.facts.cluster_facts import feature_rows
from barnabas_client.facts.topic_facts import replica_sizes_by_broker
from barnabas_client.facts.transaction_facts import description_data, listing_data
from barnabas_console.api.responses import json_response
from barnabas_console.api.route_kinds import needs
from barnabas_console.cluster import overview as words
from barnabas_console.cluster_moves import MoveProgress, Progress, drain_rows
from barnabas_console.context import ConsoleContext
from barnabas_console.viewer import Viewer
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.ids import TopicPartition

# Rows of each part: what is beyond is counted, not shown.
_ROWS_MAX: Final = 1_000
_DESCRIBED_MAX: Final = 200

Rows = list[dict[str, Any]]


def routes(context: ConsoleContext) -> list[web.RouteDef]:
    """The routes of this module."""
    moves: WeakKeyDictionary[Viewer, MoveProgress] = WeakKeyDictionary()
    leaving: WeakKeyDictionary[Viewer, MoveProgress] = WeakKeyDictionary()

    def listed(
        path: str,
        read: Callable[[Viewer], Awaitable[Rows]],
        needed: AclOperation = AclOperation.DESCRIBE,
    ) -> web.RouteDef:
        @needs(needed, AclResourceType.CLUSTER)
        async def answer(request: web.Request) -> web.Response:
            viewer = context.viewer(request)

            async def ask() -> tuple[int, Rows]:
                rows = await read(viewer)
                return context.clock.wall_ms(), rows

            as_of_ms, rows = await viewer.shared(path, ask)
            data = {"total": len(rows), "rows": rows[:_ROWS_MAX], "as_of_ms": as_of_ms}
            return json_response(request, data)

        return web.get(f"/api/v1/{path}", answer)

    async def reassignments(viewer: Viewer) -> Rows:
        progress = moves.setdefault(viewer, MoveProgress())
        return await _reassignments(viewer.admin, progress, context.clock.monotonic_ms())

    async def drains(viewer: Viewer) -> Rows:
        progress = leaving.setdefault(viewer, MoveProgress())
        brokers = words.brokers(await viewer.cluster.facts())
        return drain_rows(brokers, progress, context.clock.monotonic_ms())

    @needs(AclOperation.DESCRIBE, AclResourceType.CLUSTER)
    async def quorum(request: web.Request) -> web.Response:
        viewer = context.viewer(request)
        return json_response(request, await viewer.shared("quorum", lambda: _quorum(viewer.admin)))

    return [
        web.get("/api/v1/quorum", quorum),
        listed("reassignments", reassignments),
        listed("drains", drains),
        listed("transactions", lambda viewer: _transactions(viewer.admin)),
        listed("features", lambda viewer: feature_rows(viewer.admin)),
        listed("quotas", lambda viewer: quota_rows(viewer.admin), AclOperation.DESCRIBE_CONFIGS),
        listed("users", lambda viewer: user_rows(viewer.admin)),
        listed("acls", lambda viewer: _acls(viewer.admin)),
    ]


async def _quorum(admin: Admin) -> dict[str, Any]:
    """Who leads the metadata log, and how far each replica of it has come."""
    found = await admin.quorum.describe()
    return {
        "leader": found.leader_id,
        "epoch": found.leader_epoch,
        "high_watermark": found.high_watermark,
        "replicas": [
            {
                "broker": one.replica_id,
                "role": role,
                "is_leader": one.replica_id == found.leader_id,
                "log_end_offset": one.log_end_offset,
                "lag": max(0, found.high_watermark - one.log_end_offset),
                "last_fetch_ms": one.last_fetch_timestamp_ms,
                "last_caught_up_ms": one.last_caught_up_timestamp_ms,
            }
            for role, replicas in (("member", found.voters), ("observer", found.observers))
            for one in replicas
        ],
    }


async def _transactions(admin: Admin) -> Rows:
    """All transactional ids; those with something open come first, with all about them."""
    listings = await admin.transactions.list()
    opened = [one for one in listings if str(one.state) not in ("Empty", "Dead")][:_DESCRIBED_MAX]
    names = [one.transactional_id for one in opened]
    described = (await admin.transactions.describe(names)).successes if names else {}
    rows = [description_data(name, described[name]) for name in sorted(described)]
    return rows + [
        listing_data(one)
        for one in sorted(listings, key=lambda one: one.transactional_id)
        if one.transactional_id not in described
    ]


async def _acls(admin: Admin) -> Rows:
    rows = [acl_data(one) for one in await admin.acls.list()]
    return sorted(
        rows, key=lambda row: (row["principal"], row["resource_type"], row["resource_name"])
    )


async def _reassignments(admin: Admin, progress: MoveProgress, now_ms: int) -> Rows:
    """Partitions on the move: what has been copied, and how long the rest takes."""
    found = await admin.partitions.list_reassignments()
    topics, sizes = await asyncio.gather(
        admin.topics.describe(sorted({place.topic for place in found})) if found else _nothing(),
        replica_sizes_by_broker(admin, list(found)),
    )
    leaders = {
        TopicPartition(topic.name, number): partition.leader_id
        for topic in (topics.successes.values() if topics is not None else ())
        for number, partition in topic.partitions.items()
    }
    copied = {str(place): _copied(place, move, leaders, sizes) for place, move in found.items()}
    known = {name: one for name, one in copied.items() if one is not None}
    left = progress.seconds_left(known, now_ms)
    rows = []
    for place, move in sorted(found.items()):
        one = copied[str(place)]
        rows.append(
            {
                "partition": str(place),
                "replicas": list(move.replica_ids),
                "adding": list(move.adding_replica_ids),
                "removing": list(move.removing_replica_ids),
                "copied_bytes": None if one is None else one.done,
                "total_bytes": None if one is None else one.total,
                "seconds_left": left.get(str(place)),
            }
        )
    return rows


async def _nothing() -> None:
    return None


def _copied(
    place: TopicPartition,
    move: Reassignment,
    leaders: Mapping[TopicPartition, int | None],
    sizes: Mapping[TopicPartition, Mapping[int, int]],
) -> Progress | None:
    """None where the leader, or its size, is not known."""
    by_broker = sizes.get(place, {})
    leader = leaders.get(place)
    whole = None if leader is None else by_broker.get(leader)
    if whole is None:
        return None
    new = move.adding_replica_ids
    return Progress(sum(min(whole, by_broker.get(one, 0)) for one in new), whole * len(new))
