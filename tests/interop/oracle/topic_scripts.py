"""Scripts about topics: creation, deletion, more partitions, and every way to get them wrong."""

from typing import Any

from barnabas_protocol.api import ApiKey
from tests.interop.oracle.side import Side

# The topics of each CreateTopics request, by a label.
Cases = dict[str, list[dict[str, Any]]]

_UNKNOWN_ID = bytes(range(16))


def _topic(name: str, partitions: int = 1, factor: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": factor, **more}


def _assigned(*replicas: list[int], first: int = 0) -> list[dict[str, Any]]:
    return [{"partition_index": first + i, "broker_ids": r} for i, r in enumerate(replicas)]


def _config(name: str, value: str | None) -> list[dict[str, Any]]:
    return [{"name": name, "value": value}]


async def create_topics(side: Side) -> None:
    """TOP-1 to TOP-5: good and bad requests, checked only and for real, in every version."""
    for version in side.versions(ApiKey.CREATE_TOPICS):

        def named(name: str, version: int = version) -> str:
            return side.named(f"{name}-{version}")

        cases: Cases = {
            "plain": [_topic(named("plain"), 2)],
            "defaults": [_topic(named("defaults"), -1, -1)],
            "assigned": [_topic(named("assigned"), -1, -1, assignments=_assigned([1], [1]))],
            "with config": [_topic(named("config"), configs=_config("retention.ms", "1000"))],
            "two": [_topic(named("two-a")), _topic(named("two-b"), 0)],
        }
        for label, topics in cases.items():
            for only in (True, False):
                await side.call(
                    ApiKey.CREATE_TOPICS,
                    version,
                    f"{label} only={only}",
                    topics=topics,
                    validate_only=only,
                )
        await side.ready(named("plain"), 2)
        for only in (True, False):
            await side.call(
                ApiKey.CREATE_TOPICS,
                version,
                f"again only={only}",
                topics=[_topic(named("plain"))],
                validate_only=only,
            )


async def create_topics_errors(side: Side) -> None:
    """TOP-1 to TOP-5: the errors and their texts."""
    bad = side.named("bad")
    there = await side.topic("there.x")
    cases: Cases = {
        "no topics": [],
        "duplicates": [_topic(bad), _topic(bad)],
        "duplicates and another": [_topic(bad), _topic(bad, 2), _topic(side.named("fine"))],
        "exists": [_topic(there)],
        "collides": [_topic(there.replace("there.x", "there_x"))],
        "no partitions": [_topic(bad, 0)],
        "negative partitions": [_topic(bad, -2)],
        "no replicas": [_topic(bad, 1, 0)],
        "negative replicas": [_topic(bad, 1, -2)],
        "too many replicas": [_topic(bad, 1, 3)],
        "too many partitions": [_topic(bad, 2_000_000)],
        "internal": [_topic("__cluster_metadata")],
        **_bad_assignments(bad),
        **_bad_configs(bad),
        "config twice": [
            _topic(
                side.named("config-twice"),
                configs=_config("retention.ms", "1") + _config("retention.ms", "2"),
            )
        ],
        "spaces": [_topic(side.named("spaces"), configs=_config("retention.ms", " 5000 "))],
    }
    names = ("", ".", "..", "a b", "x" * 249, "x" * 250, "sl/ash", "Ünï", "a:b", "with\nline")
    for name in names:
        cases[f"name {name[:20]!r} {len(name)}"] = [_topic(name)]
    for label, topics in cases.items():
        is_checked_only = len(topics) == 1 and topics[0]["name"] == "x" * 249
        await side.call(
            ApiKey.CREATE_TOPICS, None, label, topics=topics, validate_only=is_checked_only
        )


def _bad_assignments(bad: str) -> Cases:
    return {
        "assignment and partitions": [_topic(bad, 1, -1, assignments=_assigned([1]))],
        "assignment and factor": [_topic(bad, -1, 1, assignments=_assigned([1]))],
        "assignment and both": [_topic(bad, 1, 1, assignments=_assigned([1]))],
        "assignment to nobody": [_topic(bad, -1, -1, assignments=_assigned([]))],
        "assignment to unknown": [_topic(bad, -1, -1, assignments=_assigned([7]))],
        "assignment twice": [_topic(bad, -1, -1, assignments=_assigned([1, 1]))],
        "assignment from 1": [_topic(bad, -1, -1, assignments=_assigned([1], first=1))],
        "assignment from -1": [_topic(bad, -1, -1, assignments=_assigned([1], first=-1))],
        "assignment with a gap": [
            _topic(bad, -1, -1, assignments=_assigned([1]) + _assigned([1], first=2))
        ],
        "assignment repeated": [_topic(bad, -1, -1, assignments=_assigned([1]) + _assigned([1]))],
        "assignment of uneven factor": [_topic(bad, -1, -1, assignments=_assigned([1], [1, 2]))],
        "negative broker": [_topic(bad, -1, -1, assignments=_assigned([-1]))],
    }


def _bad_configs(bad: str) -> Cases:
    return {
        "unknown config": [_topic(bad, configs=_config("no.such.thing", "1"))],
        "bad number": [_topic(bad, configs=_config("retention.ms", "soon"))],
        "empty number": [_topic(bad, configs=_config("retention.ms", ""))],
        "out of range": [_topic(bad, configs=_config("segment.bytes", "1"))],
        "negative": [_topic(bad, configs=_config("max.message.bytes", "-1"))],
        "bad ratio": [_topic(bad, configs=_config("min.cleanable.dirty.ratio", "1.5"))],
        "bad choice": [_topic(bad, configs=_config("cleanup.policy", "burn"))],
        "bad list": [_topic(bad, configs=_config("cleanup.policy", "delete,burn"))],
        "empty list": [_topic(bad, configs=_config("cleanup.policy", ""))],
        "bad codec": [_topic(bad, configs=_config("compression.type", "rar"))],
        "bad level": [_topic(bad, configs=_config("compression.gzip.level", "42"))],
        "bad flag": [_topic(bad, configs=_config("preallocate", "maybe"))],
        "bad timestamp type": [_topic(bad, configs=_config("message.timestamp.type", "Now"))],
        "null value": [_topic(bad, configs=_config("retention.ms", None))],
        "two null values": [
            _topic(bad, configs=_config("retention.ms", None) + _config("segment.bytes", None))
        ],
        "bad throttle": [
            _topic(bad, configs=_config("leader.replication.throttled.replicas", "x:y"))
        ],
        "compact after": [
            _topic(
                bad,
                configs=_config("min.compaction.lag.ms", "5")
                + _config("max.compaction.lag.ms", "4"),
            )
        ],
        "remote": [_topic(bad, configs=_config("remote.storage.enable", "true"))],
        "local above total": [
            _topic(
                bad,
                configs=_config("retention.ms", "10") + _config("local.retention.ms", "20"),
            )
        ],
    }


async def delete_topics(side: Side) -> None:
    """TOP-14: by name and by id, unknown, repeated, mixed."""
    api = ApiKey.DELETE_TOPICS
    for version in side.versions(api, 1, 5):
        topic = await side.topic(f"gone-{version}")
        for label, names in (
            ("unknown", [side.named("nothing")]),
            ("none", []),
            ("one and unknown", [topic, side.named("nothing")]),
        ):
            await side.call(api, version, label, topic_names=names, timeout_ms=5000)
        await side.gone(topic)
        await side.call(api, version, "again", topic_names=[topic], timeout_ms=5000)
        other = await side.topic(f"twice-{version}")
        await side.call(api, version, "twice", topic_names=[other, other], timeout_ms=5000)
        await side.call(api, version, "bad name", topic_names=["a b"], timeout_ms=5000)
    first, second = await side.topic("first"), await side.topic("second")
    first_id, second_id = side.topic_ids[first], side.topic_ids[second]
    for label, topics in (
        ("name and id", [{"name": first, "topic_id": first_id}]),
        ("id twice", [{"topic_id": first_id}, {"topic_id": first_id}]),
        ("id and its name", [{"topic_id": first_id}, {"name": first}]),
        ("neither", [{"name": None}]),
        ("neither, twice", [{"name": None}, {"name": None}]),
        ("unknown id", [{"topic_id": _UNKNOWN_ID}]),
        ("unknown name", [{"name": side.named("nothing")}]),
        ("name twice", [{"name": first}, {"name": first}]),
        ("both", [{"topic_id": second_id}, {"name": first}]),
    ):
        await side.call(api, 6, label, topics=topics, timeout_ms=5000)


async def create_partitions(side: Side) -> None:
    """TOP-13: counts, assignments and their errors, checked only and for real."""
    api = ApiKey.CREATE_PARTITIONS
    topic = await side.topic("more", 2)
    missing = side.named("nothing")
    cases: Cases = {
        "same count": [{"name": topic, "count": 2, "assignments": None}],
        "fewer": [{"name": topic, "count": 1, "assignments": None}],
        "zero": [{"name": topic, "count": 0, "assignments": None}],
        "negative": [{"name": topic, "count": -1, "assignments": None}],
        "unknown": [{"name": missing, "count": 3, "assignments": None}],
        "twice": [{"name": topic, "count": n, "assignments": None} for n in (3, 4)],
        "bad name": [{"name": "a b", "count": 3, "assignments": None}],
        "too few assignments": [{"name": topic, "count": 4, "assignments": [{"broker_ids": [1]}]}],
        "empty assignments": [{"name": topic, "count": 4, "assignments": []}],
        "too many assignments": [
            {"name": topic, "count": 3, "assignments": [{"broker_ids": [1]}, {"broker_ids": [1]}]}
        ],
        "unknown broker": [{"name": topic, "count": 3, "assignments": [{"broker_ids": [9]}]}],
        "broker twice": [{"name": topic, "count": 3, "assignments": [{"broker_ids": [1, 1]}]}],
        "no broker": [{"name": topic, "count": 3, "assignments": [{"broker_ids": []}]}],
        "other factor": [{"name": topic, "count": 3, "assignments": [{"broker_ids": [1, 2]}]}],
        "nothing": [],
    }
    for version in side.versions(api):
        for label, topics in cases.items():
            for only in (True, False):
                await side.call(
                    api,
                    version,
                    f"{label} only={only}",
                    topics=topics,
                    timeout_ms=5000,
                    validate_only=only,
                )
    good = [{"name": topic, "count": 3, "assignments": [{"broker_ids": [1]}]}]
    await side.call(api, None, "good only", topics=good, timeout_ms=5000, validate_only=True)
    await side.call(api, None, "good", topics=good, timeout_ms=5000)
    await side.ready(topic, 3)
    more = [{"name": topic, "count": 5, "assignments": None}]
    await side.call(api, None, "more", topics=more, timeout_ms=5000)
    await side.ready(topic, 5)
    await side.call(ApiKey.METADATA, 12, "after", topics=[{"name": topic}])


SCRIPTS = (create_topics, create_topics_errors, delete_topics, create_partitions)
