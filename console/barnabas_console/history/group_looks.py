"""Looks at all groups of a cluster at once: a few requests for each coordinator, of any kind.

Not here: the ends of the partitions (`sampler.py` reads them at its own pace), what looks mean
(`barnabas_client.facts`).

Invariant: a group that cannot be described, or is of no consumers, is there with its state alone;
it is not called empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.groups import GroupListing, GroupType
from barnabas_client.facts.group_observation import (
    GroupObservation,
    consumer_group_observation,
    share_group_observation,
)

#: Groups in a request of each coordinator: answers with all their members stay small.
_GROUPS_PER_CALL: Final = 200


async def look_at_groups(
    admin: Admin, listings: Sequence[GroupListing]
) -> dict[str, GroupObservation]:
    """The groups without anything about the ends of their partitions. Raises: client's errors."""
    found: dict[str, GroupObservation] = {}
    for start in range(0, len(listings), _GROUPS_PER_CALL):
        some = listings[start : start + _GROUPS_PER_CALL]
        shares = [one.group_id for one in some if one.type is GroupType.SHARE]
        others = [one.group_id for one in some if one.type is not GroupType.SHARE]
        found.update(await _consumer_groups(admin, others))
        found.update(await _share_groups(admin, shares))
        for listing in some:
            found.setdefault(listing.group_id, of_listing(listing))
    return found


def of_listing(listing: GroupListing) -> GroupObservation:
    """What a list alone tells of a group."""
    return GroupObservation(
        group_id=listing.group_id, type=str(listing.type), state=str(listing.state)
    )


async def _consumer_groups(admin: Admin, group_ids: Iterable[str]) -> dict[str, GroupObservation]:
    described = (await admin.groups.describe(group_ids)).successes
    if not described:
        return {}
    committed = (await admin.group_offsets.list(list(described))).successes
    return {
        group_id: consumer_group_observation(
            group,
            {
                place: one.offset
                for place, one in committed.get(group_id, {}).items()
                if one is not None
            },
        )
        for group_id, group in described.items()
    }


async def _share_groups(admin: Admin, group_ids: list[str]) -> dict[str, GroupObservation]:
    if not group_ids:
        return {}
    described = (await admin.share_groups.describe(group_ids)).successes
    if not described:
        return {}
    offsets = (await admin.share_groups.list_offsets(list(described))).successes
    found = {}
    for group_id, group in described.items():
        told = offsets.get(group_id, {})
        begun = {place: one for place, one in told.items() if one is not None}
        found[group_id] = share_group_observation(
            group,
            {place: one.start_offset for place, one in begun.items()},
            {place: one.lag for place, one in begun.items() if one.lag is not None},
            frozenset(told.keys() - begun.keys()),
        )
    return found
