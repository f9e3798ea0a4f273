"""Scripts about groups of the consumer protocol (KIP-848)."""

from typing import Any

from barnabas_protocol.api import ApiKey
from tests.interop.oracle.group_requests import commit_fields, join_fields
from tests.interop.oracle.side import Side

BEAT, DESCRIBE = ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE


def _join(group: str, member: str, topic: str, **more: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "member_id": member,
        "member_epoch": 0,
        "rebalance_timeout_ms": 30_000,
        "subscribed_topic_names": [topic],
        "topic_partitions": [],
        **more,
    }


async def _known_topic(side: Side, name: str, partitions: int) -> str:
    """A topic that the coordinator knows of, too."""
    topic = await side.topic(name, partitions)
    await side.until(
        lambda answer: answer.assignment is not None and answer.assignment.topic_partitions,
        BEAT,
        1,
        **_join(side.named(f"warm-{name}"), "w", topic),
    )
    return topic


async def consumer_heartbeat_errors(side: Side) -> None:
    """CG-1, CG-3, CG-8: what a heartbeat may not be, with Kafka's texts."""
    await side.coordinator_ready()
    topic = await _known_topic(side, "work", 2)
    group = side.named("errors")
    owned = [{"topic_id": side.topic_ids[topic], "partitions": [0]}]
    for version in side.versions(BEAT):
        for label, fields in (
            ("no group", _join("", "m", topic)),
            ("no member at 1", {**_join(group, "", topic), "member_epoch": 1}),
            ("no timeout", _join(group, "m", topic, rebalance_timeout_ms=-1)),
            ("owned", _join(group, "m", topic, topic_partitions=owned)),
            ("owned null", _join(group, "m", topic, topic_partitions=None)),
            ("no subscription", _join(group, "m", topic, subscribed_topic_names=None)),
            ("no instance", _join(group, "m", topic, instance_id="")),
            ("no rack", _join(group, "m", topic, rack_id="")),
            ("other assignor", _join(group, "m", topic, server_assignor="best")),
            ("epoch -3", {**_join(group, "m", topic), "member_epoch": -3}),
            ("static leave without instance", {**_join(group, "m", topic), "member_epoch": -2}),
            ("unknown group", {**_join(group, "m", topic), "member_epoch": 3}),
            ("leave unknown group", {**_join(group, "m", topic), "member_epoch": -1}),
        ):
            await side.call(BEAT, version, label, **fields)
    await side.call(BEAT, 1, "no member id", **_join(group, "", topic))
    bad = _join(group, "m", topic, subscribed_topic_regex="(")
    answer = await side.call(BEAT, 1, silent=True, **bad)
    side.note("bad pattern", answer.error_code)
    await side.call(DESCRIBE, None, "nothing is there", group_ids=[group])


async def consumer_group_life(side: Side) -> None:
    """CG-4, CG-6, CG-13: two members come and go; commits; descriptions."""
    await side.coordinator_ready()
    topic = await _known_topic(side, "shared", 4)
    group = side.named("life")

    async def beat(label: str, member: str, epoch: int, owned: Any = None, **more: Any) -> Any:
        if owned is not None:
            more["topic_partitions"] = [
                {"topic_id": side.topic_ids[topic], "partitions": each} for each in [owned] if each
            ]
        return await side.call(
            BEAT, 1, label, group_id=group, member_id=member, member_epoch=epoch, **more
        )

    async def described(label: str) -> None:
        for version in side.versions(DESCRIBE):
            await side.call(
                DESCRIBE, version, label, group_ids=[group], include_authorized_operations=True
            )

    await side.call(BEAT, 1, "first", **_join(group, "m1", topic))
    await beat("nothing new", "m1", 1)
    await beat("ahead", "m1", 7)
    await beat("unknown member", "m9", 1)
    await described("one member")
    await side.call(BEAT, 1, "second", **_join(group, "m2", topic))
    await beat("is to revoke", "m1", 1)
    await beat("says nothing", "m1", 1)
    await described("revoking")
    for version in (8, 9):
        for member, epoch in (("m1", 1), ("m1", 5), ("m2", 1), ("m9", 1), ("", -1)):
            fields = commit_fields(
                group, topic, member_id=member, generation_id_or_member_epoch=epoch
            )
            await side.call(ApiKey.OFFSET_COMMIT, version, f"{member!r} {epoch}", **fields)
    for member, epoch in ((None, -1), ("m1", 1), ("m1", 4), ("m9", 1)):
        asked = {
            "group_id": group, "member_id": member, "member_epoch": epoch,
            "topics": [{"name": topic, "partition_indexes": [0]}],
        }  # fmt: skip
        await side.call(ApiKey.OFFSET_FETCH, 9, f"{member} {epoch}", groups=[asked])
    assigned = await beat("m2 waits", "m2", 2)
    kept = assigned and [0, 1]
    for partitions in ([0, 1, 2, 3], kept):
        await beat(f"m1 has {partitions}", "m1", 1, partitions)
    await beat("lost response", "m1", 1, [])
    await beat("m2 takes", "m2", 2)
    await described("shared")
    await side.call(ApiKey.DELETE_GROUPS, None, "with members", groups_names=[group])
    await side.call(ApiKey.DESCRIBE_GROUPS, None, "no classic group", groups=[group])
    for types in ([], ["consumer"], ["classic"]):
        await side.call(ApiKey.LIST_GROUPS, None, f"{types}", own=True, types_filter=types)
    join = join_fields(group, protocols=[{"name": "range", "metadata": b"\0"}])
    answer = await side.call(ApiKey.JOIN_GROUP, 9, silent=True, **join)
    side.note("a classic member", answer.error_code)
    await beat("m1 leaves", "m1", -1)
    await beat("m1 leaves again", "m1", -1)
    await described("one left")
    await beat("m2 goes on", "m2", 2)
    await beat("m2 leaves", "m2", -1)
    await described("empty")
    await side.call(ApiKey.DELETE_GROUPS, None, "without members", groups_names=[group])
    await described("deleted")


async def consumer_static_members(side: Side) -> None:
    """CG-9: an instance id is in use, away, taken over, unknown."""
    await side.coordinator_ready()
    topic = await _known_topic(side, "static", 2)
    group = side.named("static")

    async def beat(label: str, member: str, epoch: int, instance: str) -> None:
        await side.call(
            BEAT, 1, label, group_id=group, member_id=member, member_epoch=epoch,
            instance_id=instance,
        )  # fmt: skip

    await side.call(BEAT, 1, "join", **_join(group, "a", topic, instance_id="i"))
    await side.call(BEAT, 1, "in use", **_join(group, "b", topic, instance_id="i"))
    await beat("of another", "b", 1, "i")
    await beat("unknown", "a", 1, "x")
    await beat("unknown leaves", "a", -1, "x")
    await beat("away", "a", -2, "i")
    await side.call(DESCRIBE, 1, "away", group_ids=[group])
    await side.call(BEAT, 1, "takes over", **_join(group, "b", topic, instance_id="i"))
    await beat("fenced", "a", 1, "i")
    await side.call(DESCRIBE, 1, "taken over", group_ids=[group])
    await beat("leaves", "b", -1, "i")


SCRIPTS = (consumer_heartbeat_errors, consumer_group_life, consumer_static_members)
