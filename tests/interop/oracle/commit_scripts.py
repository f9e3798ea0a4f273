"""Scripts about committed offsets: simple consumers and members of classic groups."""

from barnabas_protocol.api import ApiKey
from tests.interop.oracle.group_requests import commit_fields, join_fields, new_member
from tests.interop.oracle.side import Side


async def commit_and_fetch(side: Side) -> None:
    """OFS-7, OFS-11, GRP-19: offsets of a simple consumer, in every version."""
    await side.coordinator_ready()
    topic = await side.topic("committed", 2)
    missing = side.named("nothing")
    for version in side.versions(ApiKey.OFFSET_COMMIT):
        group = side.named(f"simple-{version}")
        for label, fields in (
            ("plain", commit_fields(group, topic)),
            ("unknown topic", commit_fields(group, missing)),
            ("unknown partition", commit_fields(group, topic, 1, 9)),
            ("negative offset", commit_fields(group, topic, -1, 1)),
            ("empty group", commit_fields("", topic)),
            ("generation", commit_fields(group, topic, generation_id_or_member_epoch=3)),
            ("member", commit_fields(group, topic, member_id="nobody")),
            (
                "both",
                commit_fields(group, topic, generation_id_or_member_epoch=3, member_id="nobody"),
            ),
            (
                "other group",
                commit_fields(side.named("new"), topic, generation_id_or_member_epoch=1),
            ),
            ("nothing", {"group_id": group, "topics": []}),
        ):
            await side.call(ApiKey.OFFSET_COMMIT, version, label, **fields)
        for size in (4096, 4097):
            fields = commit_fields(group, topic, 7)
            fields["topics"][0]["partitions"][0]["committed_metadata"] = "x" * size
            await side.call(ApiKey.OFFSET_COMMIT, version, f"note of {size}", **fields)
        fields = commit_fields(group, topic, 8)
        fields["topics"][0]["partitions"][0]["committed_metadata"] = None
        await side.call(ApiKey.OFFSET_COMMIT, version, "no note", **fields)
        for fetched in side.versions(ApiKey.OFFSET_FETCH):
            await _fetch_offsets(side, fetched, group, topic, missing)


async def _fetch_offsets(side: Side, version: int, group: str, topic: str, missing: str) -> None:
    for label, name, topics in (
        ("known", group, [{"name": topic, "partition_indexes": [0, 1, 9]}]),
        ("unknown topic", group, [{"name": missing, "partition_indexes": [0]}]),
        ("unknown group", missing, [{"name": topic, "partition_indexes": [0]}]),
        ("empty group", "", [{"name": topic, "partition_indexes": [0]}]),
        ("all", group, None),
        ("all of unknown", missing, None),
        ("none", group, []),
        ("no partitions", group, [{"name": topic, "partition_indexes": []}]),
    ):
        if topics is None and version < 2:
            continue
        for stable in (False, True) if version >= 7 else (False,):
            await side.call(
                ApiKey.OFFSET_FETCH, version, f"{label} {stable}", group_id=name, topics=topics,
                groups=[{"group_id": name, "topics": topics}], require_stable=stable,
            )  # fmt: skip
    if version >= 8:
        groups = [{"group_id": each, "topics": None} for each in (group, missing, "")]
        await side.call(ApiKey.OFFSET_FETCH, version, "many", groups=groups)
        await side.call(ApiKey.OFFSET_FETCH, version, "no groups", groups=[])
        twice = [{"group_id": group, "topics": None}] * 2
        await side.call(ApiKey.OFFSET_FETCH, version, "twice", groups=twice)
    if version >= 9:
        for label, more in (
            ("member", {"member_id": "nobody", "member_epoch": 1}),
            ("epoch", {"member_epoch": 1}),
            ("member only", {"member_id": "nobody"}),
        ):
            groups = [{"group_id": group, "topics": None, **more}]
            await side.call(ApiKey.OFFSET_FETCH, version, label, groups=groups)


async def commits_of_members(side: Side) -> None:
    """GRP-19: who may commit while a group has members."""
    await side.coordinator_ready()
    topic = await side.topic("theirs")
    group = side.named("members")
    member = await new_member(side, group, "sole")
    for version in side.versions(ApiKey.OFFSET_COMMIT):
        pending = commit_fields(group, topic, member_id=member, generation_id_or_member_epoch=1)
        await side.call(ApiKey.OFFSET_COMMIT, version, "pending", **pending)
    await side.call(ApiKey.JOIN_GROUP, 9, "joined", **join_fields(group, member))
    cases = {
        "member": {"member_id": member, "generation_id_or_member_epoch": 1},
        "old generation": {"member_id": member, "generation_id_or_member_epoch": 0},
        "new generation": {"member_id": member, "generation_id_or_member_epoch": 2},
        "no generation": {"member_id": member},
        "unknown": {"member_id": "nobody", "generation_id_or_member_epoch": 1},
        "nobody": {},
        "nobody with generation": {"generation_id_or_member_epoch": 1},
    }
    for state in ("completing", "stable"):
        for version in side.versions(ApiKey.OFFSET_COMMIT):
            for label, fields in cases.items():
                request = commit_fields(group, topic, **fields)
                await side.call(ApiKey.OFFSET_COMMIT, version, f"{state}: {label}", **request)
        for label, fields in (
            ("member", {"member_id": member, "member_epoch": 1}),
            ("other", {"member_id": "nobody", "member_epoch": 1}),
            ("other epoch", {"member_id": member, "member_epoch": 5}),
        ):
            groups = [{"group_id": group, "topics": None, **fields}]
            await side.call(ApiKey.OFFSET_FETCH, 9, f"{state}: {label}", groups=groups)
        await side.call(
            ApiKey.SYNC_GROUP, 5, state, group_id=group, generation_id=1, member_id=member,
            protocol_type="consumer", protocol_name="range",
        )  # fmt: skip


SCRIPTS = (commit_and_fetch, commits_of_members)
