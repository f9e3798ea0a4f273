"""Data of `barnabas share describe` and `share offsets`, made of what was seen of groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas_client.facts.group_facts import common_data, lag_by_timestamps, lag_seconds
from barnabas_client.facts.group_observation import GroupObservation, observe_share_groups
from barnabas_client.facts.group_watch import UNWATCHED, GroupMovement
from barnabas_client.facts.group_watching import watch_groups
from barnabas_protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin
    from barnabas_client.env import Clock


async def share_group_details(
    admin: Admin, group_ids: Iterable[str], clock: Clock, *, watch_ms: int = 0
) -> list[dict[str, Any]]:
    """Members, start and lag of each partition, and a diagnosis of share groups.

    They are watched for `watch_ms`, because one look does not tell how they move.
    Raises: the client's errors.
    """
    names = list(group_ids)
    seen = await watch_groups(lambda: observe_share_groups(admin, names), watch_ms, clock)
    now_ms = clock.wall_ms()
    return [await share_details_of(admin, group, now_ms, movement) for group, movement in seen]


async def share_details_of(
    admin: Admin,
    group: GroupObservation,
    now_ms: int,
    movement: GroupMovement = UNWATCHED,
    lag_ms: Mapping[TopicPartition, int] | None = None,
) -> dict[str, Any]:
    """The data of a share group that was seen; `lag_ms` is what is known of its lag in time."""
    known = dict(lag_ms or {})
    known |= await lag_by_timestamps(admin, group, now_ms, known.keys())
    return share_group_data(group, now_ms, movement, known)


def share_group_data(
    group: GroupObservation,
    now_ms: int,
    movement: GroupMovement = UNWATCHED,
    lag_ms: Mapping[TopicPartition, int] | None = None,
) -> dict[str, Any]:
    """The share group as data. Pure; `lag_ms` is how long ago what is read next was written."""
    behind_ms = lag_ms or {}
    lags = group.lags
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "start_offset": group.committed.get(place),
            "end_offset": group.ends.get(place),
            "lag": lags.get(place),
            "lag_seconds": lag_seconds(lags.get(place), behind_ms.get(place)),
            "clients": _clients(group, place),
        }
        for place in group.places
    ]
    return {
        **common_data(group, now_ms, movement, rows),
        "members": [_member(member) for member in group.members],
        "partition_list": rows,
    }


def _member(member: Any) -> dict[str, Any]:
    return {
        "member": member.member_id,
        "client": member.client_id,
        "host": member.client_host.lstrip("/"),
        "epoch": member.member_epoch,
        "topics": sorted(member.subscribed_topics),
        "partitions": [str(place) for place in sorted(member.assignment)],
    }


def _clients(group: GroupObservation, place: TopicPartition) -> list[str]:
    """The clients that a partition is assigned to: there may be many."""
    return sorted({member.client_id for member in group.members if place in member.assignment})


def offset_rows(groups: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row for each partition of each group."""
    return [{"group": group["group"], **row} for group in groups for row in group["partition_list"]]
