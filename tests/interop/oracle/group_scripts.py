"""Scripts about classic groups: membership, administration."""

from typing import Any

from barnabas_protocol.api import ApiKey
from barnabas_protocol.consumer_protocol import Subscription, encode_subscription
from tests.interop.oracle.group_requests import (
    OTHER_SUBSCRIPTION,
    SUBSCRIPTION,
    commit_fields,
    join_fields,
    new_member,
    sole_member,
)
from tests.interop.oracle.side import Side


async def join_errors(side: Side) -> None:
    """GRP-1 to GRP-4: what a join may not be."""
    await side.coordinator_ready()
    for version in side.versions(ApiKey.JOIN_GROUP):
        group = side.named(f"errors-{version}")
        for label, fields in (
            ("empty group", join_fields("")),
            ("session too short", join_fields(group, session_timeout_ms=5)),
            ("session too long", join_fields(group, session_timeout_ms=10**9)),
            ("unknown member", join_fields(group, "nobody")),
            ("no protocols", join_fields(group, protocols=[])),
            ("no protocol type", join_fields(group, protocol_type="")),
            ("unknown static member", join_fields(group, "nobody", group_instance_id="one")),
        ):
            await side.call(ApiKey.JOIN_GROUP, version, label, **fields)


async def one_member(side: Side) -> None:
    """GRP-4, GRP-10, GRP-14, GRP-17: the life of a group of one, in every version of each call."""
    await side.coordinator_ready()
    for version in side.versions(ApiKey.JOIN_GROUP):
        group = side.named(f"one-{version}")
        answer = await side.call(ApiKey.JOIN_GROUP, version, "first", **join_fields(group))
        member = answer.member_id
        side.symbols.learn(member, f"member {version}")
        if answer.error_code == 79:
            await side.call(ApiKey.JOIN_GROUP, version, "with id", **join_fields(group, member))
        for sync in side.versions(ApiKey.SYNC_GROUP):
            await _sync_errors(side, sync, group, member)
        for beat in side.versions(ApiKey.HEARTBEAT):
            await _heartbeats(side, beat, group, member, "before sync")
        assigned = [{"member_id": member, "assignment": b"work"}]
        for sync in side.versions(ApiKey.SYNC_GROUP):
            await side.call(
                ApiKey.SYNC_GROUP, sync, "sync", group_id=group, generation_id=1,
                member_id=member, protocol_type="consumer", protocol_name="range",
                assignments=assigned,
            )  # fmt: skip
        for beat in side.versions(ApiKey.HEARTBEAT):
            await _heartbeats(side, beat, group, member, "stable")
        for described in side.versions(ApiKey.DESCRIBE_GROUPS):
            await side.call(
                ApiKey.DESCRIBE_GROUPS, described, "stable", groups=[group],
                include_authorized_operations=True,
            )  # fmt: skip
        await side.call(ApiKey.JOIN_GROUP, version, "again", **join_fields(group, member))
        leave = min(version, side.latest(ApiKey.LEAVE_GROUP))
        identity = {"member_id": member}
        for label, name in (("leave", group), ("leave again", group), ("leave none", "none")):
            await side.call(
                ApiKey.LEAVE_GROUP, leave, label, group_id=name, member_id=member,
                members=[identity],
            )  # fmt: skip
        await side.call(ApiKey.DESCRIBE_GROUPS, None, "empty", groups=[group])
        await _heartbeats(side, 3, group, member, "left")
        await side.call(ApiKey.JOIN_GROUP, version, "after leaving", **join_fields(group, member))


async def _sync_errors(side: Side, version: int, group: str, member: str) -> None:
    for label, fields in (
        ("other generation", {"generation_id": 9}),
        ("unknown member", {"member_id": "nobody"}),
        ("empty member", {"member_id": ""}),
        ("unknown group", {"group_id": side.named("nothing")}),
        ("empty group", {"group_id": ""}),
        ("static", {"group_instance_id": "one"}),
        ("other type", {"protocol_type": "connect", "protocol_name": "range"}),
        ("other name", {"protocol_type": "consumer", "protocol_name": "sticky"}),
        ("no type", {"protocol_name": "range"}),
    ):
        if version < 5 and label in ("other type", "other name", "no type"):
            continue
        if version < 3 and label == "static":
            continue
        request = {"group_id": group, "generation_id": 1, "member_id": member, **fields}
        if version >= 5 and label not in ("other type", "other name", "no type"):
            request.update(protocol_type="consumer", protocol_name="range")
        await side.call(ApiKey.SYNC_GROUP, version, label, **request)


async def _heartbeats(side: Side, version: int, group: str, member: str, state: str) -> None:
    for label, fields in (
        ("right", {}),
        ("other generation", {"generation_id": 7}),
        ("unknown member", {"member_id": "nobody"}),
        ("empty member", {"member_id": ""}),
        ("unknown group", {"group_id": side.named("nothing")}),
        ("empty group", {"group_id": ""}),
        ("static", {"group_instance_id": "one"}),
    ):
        if label == "static" and version < 3:
            continue
        request = {"group_id": group, "generation_id": 1, "member_id": member, **fields}
        await side.call(ApiKey.HEARTBEAT, version, f"{state}: {label}", **request)


async def two_members(side: Side) -> None:
    """GRP-5, GRP-7, GRP-8, GRP-11, GRP-13: a second member joins, and rebalances follow."""
    await side.coordinator_ready()
    group = side.named("two")
    many = [{"name": name, "metadata": SUBSCRIPTION} for name in ("sticky", "range")]
    one = await new_member(side, group, "one")
    await side.call(ApiKey.JOIN_GROUP, 9, "one", **join_fields(group, one, protocols=many))
    two = await new_member(side, group, "two", on="two")
    sticky = many  # a tie between two votes is decided by the order of a Java hash map
    await side.start(ApiKey.JOIN_GROUP, 9, on="two", **join_fields(group, two, protocols=sticky))
    await rebalancing(side, group, one)
    await side.call(ApiKey.DESCRIBE_GROUPS, None, "preparing", groups=[group])
    sync: dict[str, Any] = {"group_id": group, "protocol_type": "consumer"}
    sync["protocol_name"] = "sticky"
    await side.call(ApiKey.SYNC_GROUP, 5, "during", generation_id=1, member_id=one, **sync)
    await side.call(ApiKey.JOIN_GROUP, 9, "one again", **join_fields(group, one, protocols=many))
    await side.finish("two", on="two")
    await side.call(ApiKey.DESCRIBE_GROUPS, None, "completing", groups=[group])
    await side.start(ApiKey.SYNC_GROUP, 5, on="two", generation_id=2, member_id=two, **sync)
    assigned = [{"member_id": one, "assignment": b"1"}, {"member_id": "x", "assignment": b"2"}]
    await side.call(
        ApiKey.SYNC_GROUP, 5, "leader", generation_id=2, member_id=one, assignments=assigned, **sync
    )
    await side.finish("follower", on="two")
    await side.call(ApiKey.DESCRIBE_GROUPS, None, "stable", groups=[group])
    await side.call(
        ApiKey.JOIN_GROUP,
        9,
        "follower, same",
        on="two",
        **join_fields(group, two, protocols=sticky),
    )
    for label, fields in (
        ("other type", {"protocol_type": "connect"}),
        ("no common protocol", {"protocols": [{"name": "other", "metadata": b""}]}),
        ("other type, known", {"member_id": two, "protocol_type": "connect"}),
    ):
        for version in (3, 9):
            request = {**join_fields(group, protocols=many), **fields}
            await side.call(ApiKey.JOIN_GROUP, version, label, on="third", **request)
    await side.call(
        ApiKey.LEAVE_GROUP, None, "leader and unknown", group_id=group,
        members=[{"member_id": one, "reason": "done"}, {"member_id": "nobody"}],
    )  # fmt: skip
    await rebalancing(side, group, two, 2)
    await side.call(
        ApiKey.JOIN_GROUP, 9, "alone", on="two", **join_fields(group, two, protocols=sticky)
    )
    await side.call(ApiKey.DESCRIBE_GROUPS, None, "alone", groups=[group])


async def rebalancing(
    side: Side, group: str, member: str, generation: int = 1, **more: Any
) -> None:
    """Wait until the member is told to join again."""
    await side.until(
        lambda answer: answer.error_code == 27, ApiKey.HEARTBEAT, 3, group_id=group,
        generation_id=generation, member_id=member, **more,
    )  # fmt: skip


async def static_members(side: Side) -> None:
    """GRP-18: static members come back, are fenced, and are removed by instance id."""
    await side.coordinator_ready()
    for version in side.versions(ApiKey.JOIN_GROUP, 5):
        group = side.named(f"static-{version}")
        static = {"group_instance_id": "one"}
        answer = await side.call(
            ApiKey.JOIN_GROUP, version, "first", **join_fields(group, **static)
        )
        old = answer.member_id
        side.symbols.learn(old, f"old {version}")
        sync: dict[str, Any] = {
            "group_id": group, "generation_id": 1, "protocol_type": "consumer",
            "protocol_name": "range", **static,
        }  # fmt: skip
        assigned = [{"member_id": old, "assignment": b"work"}]
        await side.call(
            ApiKey.SYNC_GROUP, None, "first", member_id=old, assignments=assigned, **sync
        )
        answer = await side.call(ApiKey.JOIN_GROUP, version, "back", **join_fields(group, **static))
        new = answer.member_id
        side.symbols.learn(new, f"new {version}")
        await side.call(ApiKey.SYNC_GROUP, None, "back", member_id=new, **sync)
        for label, member in (("old", old), ("new", new), ("unknown", "nobody")):
            await side.call(
                ApiKey.HEARTBEAT, None, label, group_id=group, generation_id=1, member_id=member,
                **static,
            )  # fmt: skip
            await side.call(
                ApiKey.OFFSET_COMMIT, 7, label, group_id=group, generation_id_or_member_epoch=1,
                member_id=member, topics=[], **static,
            )  # fmt: skip
        await side.call(ApiKey.SYNC_GROUP, None, "old", member_id=old, **sync)
        await side.call(ApiKey.JOIN_GROUP, version, "old", **join_fields(group, old, **static))
        changed = join_fields(
            group, **static, protocols=[{"name": "range", "metadata": OTHER_SUBSCRIPTION}]
        )
        answer = await side.call(ApiKey.JOIN_GROUP, version, "changed", **changed)
        side.symbols.learn(answer.member_id, f"newest {version}")
        await side.call(ApiKey.DESCRIBE_GROUPS, None, "described", groups=[group])
        for label, identity in (
            ("fenced", {"member_id": old, "group_instance_id": "one"}),
            ("other instance", {"member_id": "", "group_instance_id": "two"}),
            ("by instance", {"member_id": "", "group_instance_id": "one"}),
            ("by instance again", {"member_id": "", "group_instance_id": "one"}),
            ("neither", {"member_id": ""}),
        ):
            await side.call(ApiKey.LEAVE_GROUP, None, label, group_id=group, members=[identity])
        await side.call(
            ApiKey.HEARTBEAT, None, "gone", group_id=group, generation_id=2, member_id=new, **static
        )


async def administration(side: Side) -> None:
    """GRP-21, OFS-10: describe, list, delete groups and offsets."""
    await side.coordinator_ready()
    topic, other = await side.topic("used"), await side.topic("unused")
    subscription = encode_subscription(Subscription(topics=(topic,)))
    protocols = [{"name": "range", "metadata": subscription}]
    live, idle, nothing = side.named("live"), side.named("idle"), side.named("nothing")
    member = await sole_member(side, live, protocols=protocols)
    for name in (topic, other):
        await side.call(ApiKey.OFFSET_COMMIT, 7, silent=True, **commit_fields(idle, name))
        request = commit_fields(live, name, member_id=member, generation_id_or_member_epoch=1)
        await side.call(ApiKey.OFFSET_COMMIT, 7, silent=True, **request)
    for version in side.versions(ApiKey.DESCRIBE_GROUPS):
        for operations in (False, True):
            await side.call(
                ApiKey.DESCRIBE_GROUPS, version, f"all {operations}",
                groups=[live, idle, nothing, ""], include_authorized_operations=operations,
            )  # fmt: skip
        await side.call(ApiKey.DESCRIBE_GROUPS, version, "none", groups=[])
        await side.call(ApiKey.DESCRIBE_GROUPS, version, "twice", groups=[idle, idle])
    for version in side.versions(ApiKey.LIST_GROUPS):
        for states, types in (
            ([], []), (["Stable"], []), (["stable"], []), (["Empty", "Stable"], []),
            (["Nonsense"], []), ([""], []), ([], ["classic"]), ([], ["Classic"]),
            ([], ["consumer"]), ([], ["nonsense"]), (["Stable"], ["share"]), (["Dead"], []),
        ):  # fmt: skip
            await side.call(
                ApiKey.LIST_GROUPS, version, f"{states} {types}", own=True,
                states_filter=states, types_filter=types,
            )  # fmt: skip
    asked = [
        {"name": name, "partitions": [{"partition_index": 0}, {"partition_index": 4}]}
        for name in (topic, other, side.named("missing"))
    ]
    for label, group in (("live", live), ("nothing", nothing), ("empty", ""), ("idle", idle)):
        await side.call(ApiKey.OFFSET_DELETE, 0, label, group_id=group, topics=asked)
        await side.call(ApiKey.OFFSET_FETCH, 7, f"after {label}", group_id=group, topics=None)
    for version in side.versions(ApiKey.DELETE_GROUPS):
        for label, groups in (
            ("several", [live, nothing, ""]),
            ("none", []),
            ("idle", [idle]),
            ("twice", [nothing, nothing]),
        ):
            await side.call(ApiKey.DELETE_GROUPS, version, label, groups_names=groups)
    await side.call(
        ApiKey.LEAVE_GROUP, None, "leave", group_id=live, members=[{"member_id": member}]
    )
    await side.call(ApiKey.DELETE_GROUPS, None, "left", groups_names=[live])
    await side.call(ApiKey.DESCRIBE_GROUPS, None, "deleted", groups=[live])


async def other_protocol_types(side: Side) -> None:
    """Groups of Connect and others: their metadata is opaque and they own offsets as well."""
    await side.coordinator_ready()
    topic = await side.topic("sink")
    group = side.named("connect")
    connect = {"protocol_type": "connect", "protocols": [{"name": "v2", "metadata": b"\xff\0"}]}
    member = (
        await side.call(ApiKey.JOIN_GROUP, 3, silent=True, **join_fields(group, **connect))
    ).member_id
    side.symbols.learn(member, "worker")
    await side.call(
        ApiKey.SYNC_GROUP, 3, "sync", group_id=group, generation_id=1, member_id=member,
        assignments=[{"member_id": member, "assignment": b"task"}],
    )  # fmt: skip
    await side.call(
        ApiKey.OFFSET_COMMIT, 7, "commit",
        **commit_fields(group, topic, member_id=member, generation_id_or_member_epoch=1),
    )  # fmt: skip
    await side.call(ApiKey.DESCRIBE_GROUPS, None, "described", groups=[group])
    asked = [{"name": topic, "partitions": [{"partition_index": 0}]}]
    await side.call(ApiKey.OFFSET_DELETE, 0, "not for consumers", group_id=group, topics=asked)
    await side.call(ApiKey.JOIN_GROUP, 9, "a consumer", on="x", **join_fields(group))
    await side.call(ApiKey.LEAVE_GROUP, 2, "leave", group_id=group, member_id=member)
    await side.call(ApiKey.JOIN_GROUP, 3, "a consumer now", on="x", **join_fields(group))


SCRIPTS = (
    join_errors,
    one_member,
    two_members,
    static_members,
    administration,
    other_protocol_types,
)
