"""Data of `barnabas group describe`, gathered from several requests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas_cli.topic_facts import offsets
from barnabas_client.admin.values.partitions import OffsetSpec
from barnabas_client.cluster.offset_ranges import OffsetRange
from barnabas_protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin
    from barnabas_client.admin.values.groups import GroupDescription, MemberDescription


async def group_details(admin: Admin, group_ids: Iterable[str]) -> list[dict[str, Any]]:
    """Members, committed offsets and lag of each partition of groups.

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
                "lag": _lag(offset, starts.get(place), end),
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
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "coordinator": group.coordinator_id,
        "member_count": len(group.members),
        "lag": sum(lags) if len(lags) == len(rows) else None,
        "lag_known": sum(lags),
        "lag_max": max(lags, default=None),
        "members": [_member(member) for member in group.members],
        "partition_list": rows,
    }


_PROTOCOLS = {True: "consumer", False: "classic"}


def _lag(committed: int | None, start: int | None, end: int | None) -> int | None:
    """How many records are left to read; None without a committed offset or known offsets."""
    if committed is None or end is None:
        return None
    return OffsetRange(start or 0, end).lag(committed)


def _member(member: MemberDescription) -> dict[str, Any]:
    return {
        "member": member.member_id,
        "instance": member.group_instance_id,
        "client": member.client_id,
        "host": member.client_host.lstrip("/"),
        "partitions": [str(place) for place in sorted(member.assignment)],
        # Of groups whose broker assigns alone.
        "epoch": member.member_epoch,
        "protocol": None if member.is_upgraded is None else _PROTOCOLS[member.is_upgraded],
        "target": None
        if member.target_assignment is None
        else [str(place) for place in sorted(member.target_assignment)],
    }
