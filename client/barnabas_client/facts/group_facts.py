"""Data of `barnabas group describe`, made of what was seen of groups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas_client.errors import BarnabasError
from barnabas_client.facts.group_diagnosis import diagnose
from barnabas_client.facts.group_observation import (
    OFFSETS_TIMEOUT_MS,
    GroupObservation,
    application_of,
    observe_groups,
    with_open_transactions,
)
from barnabas_client.facts.group_watch import UNWATCHED, GroupMovement
from barnabas_client.facts.group_watching import watch_groups
from barnabas_protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin
    from barnabas_client.admin.values.groups import MemberDescription
    from barnabas_client.env import Clock

# The record that a lagging group reads next is looked up in so many partitions, the worst first.
_LOOKUPS_MAX = 500
_PROTOCOLS = {True: "consumer", False: "classic"}


async def group_details(
    admin: Admin, group_ids: Iterable[str], clock: Clock, *, watch_ms: int = 0
) -> list[dict[str, Any]]:
    """Members, committed offsets, lag of each partition, and a diagnosis of groups.

    They are watched for `watch_ms`, because one look does not tell how they move.
    Raises: the client's errors.
    """
    names = list(group_ids)
    seen = await watch_groups(lambda: observe_groups(admin, names), watch_ms, clock)
    now_ms = clock.wall_ms()
    return [await details_of(admin, group, now_ms, movement) for group, movement in seen]


async def details_of(
    admin: Admin,
    group: GroupObservation,
    now_ms: int,
    movement: GroupMovement = UNWATCHED,
    lag_ms: Mapping[TopicPartition, int] | None = None,
) -> dict[str, Any]:
    """The data of a group that was seen, with what only matters where it lags.

    `lag_ms` is what is known of the lag in time; for the rest the timestamps of records are read.
    """
    group = await with_open_transactions(admin, group)
    known = dict(lag_ms or {})
    known |= await lag_by_timestamps(admin, group, now_ms, known.keys())
    return group_data(group, now_ms, movement, known)


async def lag_by_timestamps(
    admin: Admin, group: GroupObservation, now_ms: int, known: Iterable[TopicPartition] = ()
) -> dict[TopicPartition, int]:
    """How old the next record is that a lagging group reads, in milliseconds by partition.

    By the record's own timestamp; nothing where that cannot be read.
    """
    lags = {place: lag for place, lag in group.lags.items() if lag}
    for place in known:
        lags.pop(place, None)
    worst = sorted(lags, key=lambda place: (-lags[place], place))[:_LOOKUPS_MAX]
    wanted = {
        place: max(group.committed[place], group.starts.get(place, 0))
        for place in worst
        if place in group.committed
    }
    if not wanted:
        return {}
    try:
        found = await admin.partitions.record_timestamps(wanted, timeout_ms=OFFSETS_TIMEOUT_MS)
    except BarnabasError:
        return {}
    return {
        place: max(now_ms - time_ms, 0)
        for place, time_ms in found.successes.items()
        if time_ms is not None and time_ms > 0
    }


def group_data(
    group: GroupObservation,
    now_ms: int,
    movement: GroupMovement = UNWATCHED,
    lag_ms: Mapping[TopicPartition, int] | None = None,
) -> dict[str, Any]:
    """The group as data. Pure; `lag_ms` is how long ago what is read next was written."""
    behind_ms = lag_ms or {}
    owners = {place: member for member in group.members for place in member.assignment}
    lags = group.lags
    rows: list[dict[str, Any]] = []
    for place in group.places:
        member = owners.get(place)
        rows.append(
            {
                "topic": place.topic,
                "partition": place.partition,
                "committed": group.committed.get(place),
                "start_offset": group.starts.get(place),
                "end_offset": group.ends.get(place),
                "lag": lags.get(place),
                "lag_seconds": lag_seconds(lags.get(place), behind_ms.get(place)),
                "member": member.member_id if member else None,
                "client": member.client_id if member else None,
                "host": member.client_host.lstrip("/") if member else None,
            }
        )
    return {
        **common_data(group, now_ms, movement, rows),
        "application": application_of(group.group_id) or None,
        "members": [_member(member) for member in group.members],
        "partition_list": rows,
    }


def common_data(
    group: GroupObservation,
    now_ms: int,
    movement: GroupMovement,
    rows: Collection[Mapping[str, Any]],
) -> dict[str, Any]:
    """What is told alike of consumer groups and share groups; `rows` are their partitions."""
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "assignor": group.assignor or None,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "coordinator": group.coordinator_id,
        "member_count": len(group.members),
        **lag_sums(rows),
        "diagnosis": [one.as_data() for one in diagnose(group, now_ms, movement)],
    }


def lag_seconds(lag: int | None, behind_ms: int | None) -> float | None:
    """The lag in time: nothing left is no lag, and what is not known is None."""
    if lag == 0:
        return 0.0
    return None if lag is None or behind_ms is None else round(behind_ms / 1000, 1)


def lag_sums(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The lag over all partitions; `lag` is None where one is not known.

    In seconds it is that of the partition which is furthest behind, of those that are known.
    """
    partitions = list(rows)
    lags = [row["lag"] for row in partitions if row["lag"] is not None]
    seconds = [row["lag_seconds"] for row in partitions if row["lag_seconds"] is not None]
    return {
        "lag": sum(lags) if len(lags) == len(partitions) else None,
        "lag_known": sum(lags),
        "lag_max": max(lags, default=None),
        "lag_seconds": max(seconds, default=None),
    }


def _member(member: Any) -> dict[str, Any]:
    described: MemberDescription = member
    return {
        "member": described.member_id,
        "instance": described.group_instance_id,
        "client": described.client_id,
        "host": described.client_host.lstrip("/"),
        "partitions": [str(place) for place in sorted(described.assignment)],
        # Of groups whose broker assigns alone.
        "epoch": described.member_epoch,
        "protocol": None if described.is_upgraded is None else _PROTOCOLS[described.is_upgraded],
        "target": None
        if described.target_assignment is None
        else [str(place) for place in sorted(described.target_assignment)],
    }
