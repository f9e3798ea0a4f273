"""What `barnabas group` tells of a group, gathered from several requests, as plain data."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas_cli.topic_facts import offsets
from barnabas_client.admin.values.partitions import OffsetSpec
from barnabas_protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin
    from barnabas_client.admin.values.groups import GroupDescription, GroupMember


async def group_details(admin: Admin, group_ids: Iterable[str]) -> list[dict[str, Any]]:
    """All about groups: members, committed offsets and lag of each partition.

    Raises: the client's errors.
    """
    described = (await admin.groups.describe(group_ids)).unwrap()
    committed = (await admin.group_offsets.list(list(described))).unwrap()
    places = {place for offsets_of in committed.values() for place in offsets_of}
    for group in described.values():
        for member in group.members:
            places.update(member.assignment)
    starts, ends = await asyncio.gather(
        offsets(admin, places, OffsetSpec.EARLIEST), offsets(admin, places, OffsetSpec.LATEST)
    )
    answer = []
    for group_id, group in described.items():
        own = {
            place: found.offset for place, found in committed[group_id].items() if found is not None
        }
        answer.append(_details_of(group, own, starts, ends))
    return answer


def _details_of(
    group: GroupDescription,
    committed: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int | None],
    ends: Mapping[TopicPartition, int | None],
) -> dict[str, Any]:
    owners = {place: member for member in group.members for place in member.assignment}
    rows: list[dict[str, Any]] = []
    for place in sorted({*committed, *owners}):
        member = owners.get(place)
        offset, end = committed.get(place), ends.get(place)
        rows.append(
            {
                "topic": place.topic,
                "partition": place.partition,
                "committed": offset,
                "end_offset": end,
                "lag": lag(offset, starts.get(place), end),
                "member": member.member_id if member else None,
                "client": member.client_id if member else None,
                "host": member.client_host.lstrip("/") if member else None,
            }
        )
    lags = [row["lag"] for row in rows if row["lag"] is not None]
    return {
        "group": group.group_id,
        "state": str(group.state),
        "type": str(group.type),
        "assignor": group.assignor or None,
        "coordinator": group.coordinator_id,
        "member_count": len(group.members),
        "lag": sum(lags) if len(lags) == len(rows) else None,
        "lag_known": sum(lags),
        "lag_max": max(lags, default=None),
        "members": [_member(member) for member in group.members],
        "partition_list": rows,
    }


def lag(committed: int | None, start: int | None, end: int | None) -> int | None:
    """How many records are still to be read; what was deleted before it was read counts no more.

    None where nothing is committed or the partition's offsets are not known.
    """
    if committed is None or end is None:
        return None
    return max(0, end - max(committed, start or 0))


def _member(member: GroupMember) -> dict[str, Any]:
    return {
        "member": member.member_id,
        "instance": member.group_instance_id,
        "client": member.client_id,
        "host": member.client_host.lstrip("/"),
        "partitions": [str(place) for place in sorted(member.assignment)],
    }
