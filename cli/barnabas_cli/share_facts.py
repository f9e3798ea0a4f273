"""Data of `barnabas share describe` and `share offsets`, gathered from several requests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barnabas_cli.topic_facts import offsets
from barnabas_client.admin.values.partitions import OffsetSpec
from barnabas_protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin
    from barnabas_client.admin.share_groups import ShareOffsets
    from barnabas_client.admin.values.share_groups import ShareGroupDescription


async def share_group_details(admin: Admin, group_ids: Sequence[str]) -> list[dict[str, Any]]:
    """Members, and start and lag of each partition, of share groups.

    Raises: the client's errors.
    """
    described, started = await asyncio.gather(
        admin.share_groups.describe(group_ids), admin.share_groups.list_offsets(group_ids)
    )
    groups, starts = described.unwrap(), started.unwrap()
    places = {place for offsets_of in starts.values() for place in offsets_of}
    ends = await offsets(admin, places, OffsetSpec.LATEST)
    return [_details_of(groups[one], starts[one], ends) for one in group_ids]


def _details_of(
    group: ShareGroupDescription,
    started: ShareOffsets,
    ends: Mapping[TopicPartition, int | None],
) -> dict[str, Any]:
    rows = []
    for place, found in sorted(started.items()):
        rows.append(
            {
                "topic": place.topic,
                "partition": place.partition,
                "start_offset": None if found is None else found.start_offset,
                "end_offset": ends.get(place),
                "lag": None if found is None else found.lag,
                "clients": _clients(group, place),
            }
        )
    lags = [row["lag"] for row in rows if isinstance(row["lag"], int)]
    return {
        "group": group.group_id,
        "state": str(group.state),
        "assignor": group.assignor or None,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "coordinator": group.coordinator_id,
        "member_count": len(group.members),
        "lag": sum(lags) if len(lags) == len(rows) else None,
        "lag_known": sum(lags),
        "members": [
            {
                "member": member.member_id,
                "client": member.client_id,
                "host": member.client_host.lstrip("/"),
                "epoch": member.member_epoch,
                "topics": sorted(member.subscribed_topics),
                "partitions": [str(place) for place in sorted(member.assignment)],
            }
            for member in group.members
        ],
        "partition_list": rows,
    }


def _clients(group: ShareGroupDescription, place: TopicPartition) -> list[str]:
    """The clients that a partition is assigned to: there may be many."""
    return sorted({member.client_id for member in group.members if place in member.assignment})


def offset_rows(groups: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row for each partition of each group."""
    return [{"group": group["group"], **row} for group in groups for row in group["partition_list"]]
