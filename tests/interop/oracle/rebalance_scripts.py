"""Scripts about rebalances: who is answered what while members come, change and go."""

from typing import Any

from barnabas_protocol.api import ApiKey
from tests.interop.oracle.group_requests import (
    OTHER_SUBSCRIPTION,
    PROTOCOLS,
    commit_fields,
    join_fields,
)
from tests.interop.oracle.group_scripts import rebalancing
from tests.interop.oracle.side import Side

_CHANGED = [{"name": "range", "metadata": OTHER_SUBSCRIPTION}]


def _sync(group: str, generation: int, member: str, *shares: tuple[str, bytes]) -> dict[str, Any]:
    return {
        "group_id": group,
        "generation_id": generation,
        "member_id": member,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": each, "assignment": share} for each, share in shares],
    }


async def _new(side: Side, group: str, symbol: str, **more: Any) -> str:
    """A member id that has not joined yet."""
    answer = await side.call(
        ApiKey.JOIN_GROUP, 9, silent=True, on=symbol, **join_fields(group, **more)
    )
    side.symbols.learn(answer.member_id, symbol)
    member: str = answer.member_id
    return member


async def _pair(side: Side, group: str) -> tuple[str, str]:
    """A stable group of two in generation 2; the first leads."""
    one = await _new(side, group, "one")
    await side.call(ApiKey.JOIN_GROUP, 9, silent=True, on="one", **join_fields(group, one))
    two = await _new(side, group, "two")
    await side.start(ApiKey.JOIN_GROUP, 9, on="two", **join_fields(group, two))
    await rebalancing(side, group, one)
    await side.call(ApiKey.JOIN_GROUP, 9, "both", on="one", **join_fields(group, one))
    await side.finish("both", on="two")
    await side.start(ApiKey.SYNC_GROUP, 5, on="two", **_sync(group, 2, two))
    shares = ((one, b"1"), (two, b"2"))
    await side.call(ApiKey.SYNC_GROUP, 5, "both", on="one", **_sync(group, 2, one, *shares))
    await side.finish("both", on="two")
    return one, two


async def changed_members(side: Side) -> None:
    """GRP-5, GRP-13: rejoining unchanged, changed, as leader, and with an old generation."""
    await side.coordinator_ready()
    group = side.named("changed")
    topic = await side.topic("topic")
    one, two = await _pair(side, group)
    await side.call(ApiKey.SYNC_GROUP, 5, "again", on="two", **_sync(group, 2, two))
    changed = join_fields(group, two, protocols=_CHANGED)
    await side.start(ApiKey.JOIN_GROUP, 9, on="two", **changed)
    await rebalancing(side, group, one, 2)
    for generation in (1, 2, 3):
        for member, symbol in ((one, "one"), (two, "two"), ("nobody", "nobody")):
            beat = {"group_id": group, "generation_id": generation, "member_id": member}
            await side.call(ApiKey.HEARTBEAT, None, f"{symbol} {generation}", **beat)
            commit = commit_fields(
                group, topic, member_id=member, generation_id_or_member_epoch=generation
            )
            await side.call(ApiKey.OFFSET_COMMIT, None, f"{symbol} {generation}", **commit)
            await side.call(
                ApiKey.SYNC_GROUP, 5, f"{symbol} {generation}", **_sync(group, generation, member)
            )
    await side.call(ApiKey.DESCRIBE_GROUPS, None, "preparing", groups=[group])
    await side.call(ApiKey.DELETE_GROUPS, None, "preparing", groups_names=[group])
    await side.call(ApiKey.JOIN_GROUP, 9, "leader", on="one", **join_fields(group, one))
    await side.finish("changed", on="two")
    await side.call(ApiKey.JOIN_GROUP, 9, "same in completing", on="two", **changed)
    await side.call(ApiKey.JOIN_GROUP, 9, "leader", on="one", **join_fields(group, one))
    await side.start(ApiKey.SYNC_GROUP, 5, on="two", **_sync(group, 3, two))
    other = join_fields(group, one, protocols=_CHANGED)
    await side.start(ApiKey.JOIN_GROUP, 9, on="one", **other)
    await side.finish("sync cut short", on="two")
    await side.call(ApiKey.JOIN_GROUP, 9, "changed leader", on="two", **changed)
    await side.finish("changed leader", on="one")


async def leaving_members(side: Side) -> None:
    """GRP-4, GRP-17: members leave while others wait, pending ones too."""
    await side.coordinator_ready()
    group = side.named("leaving")
    one, two = await _pair(side, group)
    three = await _new(side, group, "three")
    pending = [{"member_id": three}]
    await side.call(ApiKey.LEAVE_GROUP, None, "pending", group_id=group, members=pending)
    await side.call(ApiKey.JOIN_GROUP, 9, "pending", on="three", **join_fields(group, three))
    three = await _new(side, group, "three")
    await side.start(ApiKey.JOIN_GROUP, 9, on="three", **join_fields(group, three))
    await rebalancing(side, group, one, 2)
    both = [{"member_id": three}, {"member_id": two}]
    await side.call(ApiKey.LEAVE_GROUP, None, "parked", group_id=group, members=both)
    await side.finish("parked", on="three")
    await side.call(ApiKey.JOIN_GROUP, 9, "alone", on="one", **join_fields(group, one))
    await side.call(ApiKey.DESCRIBE_GROUPS, None, "alone", groups=[group])
    await side.call(ApiKey.LEAVE_GROUP, 2, "last", group_id=group, member_id=one)
    await side.call(ApiKey.DESCRIBE_GROUPS, None, "empty", groups=[group])
    old = {"protocols": PROTOCOLS, "protocol_type": "consumer"}
    answer = await side.call(ApiKey.JOIN_GROUP, 0, silent=True, **join_fields(group, **old))
    side.note("next generation", answer.generation_id)


async def static_pairs(side: Side) -> None:
    """GRP-18: static members that come back while a rebalance waits, and as leaders."""
    await side.coordinator_ready()
    group = side.named("statics")
    first = join_fields(group, group_instance_id="a")
    answer = await side.call(ApiKey.JOIN_GROUP, 9, silent=True, **first)
    side.symbols.learn(answer.member_id, "a1")
    second = join_fields(group, group_instance_id="b")
    await side.start(ApiKey.JOIN_GROUP, 9, on="b", **second)
    await rebalancing(side, group, answer.member_id, group_instance_id="a")
    answer = await side.call(ApiKey.JOIN_GROUP, 9, "back while preparing", silent=True, **first)
    side.symbols.learn(answer.member_id, "a2")
    side.note("back while preparing", side.symbols.plain(answer)["leader"])
    follower = await side.finish(silent=True, on="b")
    side.symbols.learn(follower.member_id, "b1")
    side.note("follower", side.symbols.plain(follower))
    shares = ((answer.member_id, b"A"), (follower.member_id, b"B"))
    sync = _sync(group, 2, answer.member_id, *shares)
    await side.call(ApiKey.SYNC_GROUP, 5, "leader", **sync, group_instance_id="a")
    sync = _sync(group, 2, follower.member_id)
    await side.call(ApiKey.SYNC_GROUP, 5, "follower", **sync, group_instance_id="b")
    for version in (5, 8, 9):
        for instance in ("a", "b"):
            fields = join_fields(group, group_instance_id=instance)
            answer = await side.call(ApiKey.JOIN_GROUP, version, silent=True, **fields)
            side.symbols.learn(answer.member_id, f"{instance} {version}")
            shown = side.symbols.plain(answer)
            members = sorted(each["member_id"] for each in shown.pop("members"))
            side.note(f"{instance} back {version}", {**shown, "members": members})
            sync = _sync(group, 2, answer.member_id)
            await side.call(
                ApiKey.SYNC_GROUP, 5, f"{instance} {version}", **sync, group_instance_id=instance
            )
    await side.call(ApiKey.DESCRIBE_GROUPS, None, "statics", groups=[group])


SCRIPTS = (changed_members, leaving_members, static_pairs)
