"""Scripts about the cluster: versions, brokers, metadata, coordinators, broken requests."""

import struct

from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey
from tests.interop.oracle.plain import build
from tests.interop.oracle.side import Side

_UNKNOWN_ID = bytes(range(16))


async def api_versions(side: Side) -> None:
    """The rules of KIP-511: names, versions too high, answers to them."""
    for name, version in (
        ("client", "1.0"),
        ("", "1.0"),
        ("client", ""),
        ("-client", "1.0"),
        ("client.", "1"),
        ("cl ient", "1"),
        ("a.b-c", "1-2.3"),
        ("x", "y"),
    ):
        for v in side.versions(ApiKey.API_VERSIONS, 3):
            names = {"client_software_name": name, "client_software_version": version}
            answer = await side.call(ApiKey.API_VERSIONS, v, silent=True, **names)
            shown = answer and (answer.error_code, bool(answer.api_keys))
            side.note(f"{name!r} {version!r} v{v}", shown)
    # No version that both serve: the answer is one of version 0 that names the range.
    await side.start(ApiKey.API_VERSIONS, 5, client_software_name="c", client_software_version="1")
    await side.finish("too new", answered_as=0)


async def metadata_of_brokers(side: Side) -> None:
    """Brokers, controller and authorized operations in every version."""
    operations = {
        "include_cluster_authorized_operations": True,
        "include_topic_authorized_operations": True,
    }
    for version in side.versions(ApiKey.METADATA, 1):
        await side.call(ApiKey.METADATA, version, "no topics", topics=[])
        await side.call(ApiKey.METADATA, version, "operations", topics=[], **operations)
    topic = await side.topic("meta", 3)
    for version in side.versions(ApiKey.METADATA):
        both = [{"name": topic}, {"name": side.named("none")}]
        without = {"allow_auto_topic_creation": False}
        if version >= 4:
            await side.call(ApiKey.METADATA, version, "two", topics=both, **without)
        await side.call(ApiKey.METADATA, version, "one", topics=[{"name": topic}], **operations)
        everything = None if version else []
        await side.call(ApiKey.METADATA, version, "all", topics=everything, own=True, **without)
        twice = [{"name": topic}, {"name": topic}]
        await side.call(ApiKey.METADATA, version, "twice", topics=twice, **without)


async def metadata_by_id(side: Side) -> None:
    """Look-ups by id, known and unknown, and names and ids mixed."""
    topic = await side.topic("known")
    own_id = side.topic_ids[topic]
    for version in side.versions(ApiKey.METADATA, 10):
        for label, topics in (
            ("id", [{"name": None, "topic_id": own_id}]),
            ("unknown id", [{"name": None, "topic_id": _UNKNOWN_ID}]),
            (
                "both ids",
                [{"name": None, "topic_id": own_id}, {"name": None, "topic_id": _UNKNOWN_ID}],
            ),
            ("id and name", [{"name": topic, "topic_id": own_id}]),
            ("id of another name", [{"name": side.named("x"), "topic_id": own_id}]),
            ("name, id", [{"name": topic}, {"name": None, "topic_id": own_id}]),
        ):
            await side.call(
                ApiKey.METADATA, version, label, topics=topics, allow_auto_topic_creation=False
            )


async def metadata_creates(side: Side) -> None:
    """TOP-6: missing and badly named topics, with creation and without."""
    for version in side.versions(ApiKey.METADATA, 4):
        for name in ("", ".", "..", "a b", "x" * 250, "sl/ash", "Ünï"):
            for allowed in (True, False):
                await side.call(
                    ApiKey.METADATA,
                    version,
                    f"{name[:20]!r} {allowed}",
                    topics=[{"name": name}],
                    allow_auto_topic_creation=allowed,
                )
        name = side.named(f"new-{version}")
        await side.call(ApiKey.METADATA, version, "new", topics=[{"name": name}])
        await side.ready(name, 2)
        await side.call(ApiKey.METADATA, version, "created", topics=[{"name": name}])
    colliding = side.named("new_4").replace(".", "_")
    await side.call(ApiKey.METADATA, 9, "colliding", topics=[{"name": colliding}])


async def describe_cluster(side: Side) -> None:
    """Brokers and controllers, with every endpoint type."""
    for version in side.versions(ApiKey.DESCRIBE_CLUSTER):
        for endpoint in (0, 1, 2, 3):
            for flag in (False, True):
                await side.call(
                    ApiKey.DESCRIBE_CLUSTER,
                    version,
                    f"endpoint {endpoint} {flag}",
                    endpoint_type=endpoint,
                    include_cluster_authorized_operations=flag,
                    include_fenced_brokers=flag,
                )


async def find_coordinator(side: Side) -> None:
    """Every version, key type and odd key."""
    await side.coordinator_ready()
    for version in side.versions(ApiKey.FIND_COORDINATOR):
        for key_type in (0, 2, 3, -1) if version else (0,):
            for key in ("group", ""):
                await side.call(
                    ApiKey.FIND_COORDINATOR,
                    version,
                    f"type {key_type} key {key!r}",
                    key=key,
                    key_type=key_type,
                    coordinator_keys=[key],
                )
    for version in side.versions(ApiKey.FIND_COORDINATOR, 4):
        for keys in ([], ["a", "b", "a"], ["a", ""]):
            await side.call(ApiKey.FIND_COORDINATOR, version, f"keys {keys}", coordinator_keys=keys)


async def describe_log_dirs(side: Side) -> None:
    """Chosen topics, unknown ones, partitions out of range."""
    topic = await side.topic("dirs", 2)
    for version in side.versions(ApiKey.DESCRIBE_LOG_DIRS, 1):
        for label, topics in (
            ("none", []),
            ("one", [{"topic": topic, "partitions": [0]}]),
            ("unknown partition", [{"topic": topic, "partitions": [1, 7]}]),
            ("unknown topic", [{"topic": side.named("nothing"), "partitions": [0]}]),
        ):
            await side.call(ApiKey.DESCRIBE_LOG_DIRS, version, label, topics=topics)


async def describe_topic_partitions(side: Side) -> None:
    """Order, limits and cursors."""
    api = ApiKey.DESCRIBE_TOPIC_PARTITIONS
    names = [await side.topic(name, count) for name, count in (("b", 3), ("a", 2), ("c", 1))]
    missing = side.named("bb")
    listed = [{"name": name} for name in [*names, missing]]
    for limit in (0, -1, 1, 2, 3, 4, 5, 2000, 5000):
        await side.call(
            api, 0, f"limit {limit}", topics=listed, response_partition_limit=limit, ordered=True
        )
    for topic, partition in (
        ("a", 1),
        ("b", 0),
        ("b", 2),
        ("b", 9),
        ("bb", 0),
        ("aa", 1),
        ("zz", 0),
        ("c", -1),
    ):
        await side.call(
            api,
            0,
            f"cursor {topic} {partition}",
            topics=listed,
            response_partition_limit=2,
            cursor={"topic_name": side.named(topic), "partition_index": partition},
            ordered=True,
        )
    for label, topics in (
        ("twice", [{"name": names[0]}, {"name": names[0]}]),
        ("bad name", [{"name": "a b"}]),
    ):
        await side.call(api, 0, label, topics=topics, ordered=True)


def _frame(api: int, version: int, body: bytes, flexible: bool = False) -> bytes:
    header = struct.pack(">hhih", api, version, 7, 1) + b"c" + (b"\0" if flexible else b"")
    return header + body


async def broken_requests(side: Side) -> None:
    """NET-6, NET-10: what cannot be read closes the connection."""
    whole = codec.encode_request(
        build(codec.request_class(ApiKey.METADATA), {"topics": [{"name": "abc"}]}),
        ApiKey.METADATA,
        9,
        1,
        "c",
    )
    cases = {
        "unknown key": _frame(999, 0, b""),
        "negative key": _frame(-1, 0, b""),
        "unserved version": _frame(3, 99, b""),
        "negative version": _frame(3, -1, b""),
        "produce 0": _frame(0, 0, b"\0\0\0\0\0\0\0\0\0\0"),
        "fetch 3": _frame(1, 3, b"\0" * 20),
        "fetch 18 as a client": _frame(1, 99, b""),
        "cut body": whole[:-3],
        "cut header": b"\0\3\0\0\0\0",
        "no body": _frame(3, 1, b""),
        "huge array": _frame(3, 1, struct.pack(">i", 2**31 - 1)),
        "array of -2": _frame(3, 1, struct.pack(">i", -2)),
        "string beyond the end": _frame(3, 1, struct.pack(">ih", 1, 500) + b"ab"),
        "string of -2": _frame(3, 1, struct.pack(">ih", 1, -2)),
        "null where none may be": _frame(3, 1, struct.pack(">ih", 1, -1)),
        "bad utf-8": _frame(3, 1, struct.pack(">ih", 1, 2) + b"\xff\xfe"),
        "bytes after the end": whole + b"\0\0\0",
        "overlong varint": _frame(3, 9, b"\xff" * 12, flexible=True),
        "empty": b"",
    }
    for label, frame in cases.items():
        await side.closes(label, frame)
    await side.closes("negative size", b"", size=-5)
    await side.closes("huge size", b"", size=2**31 - 1)
    await side.closes("client id of -2", struct.pack(">hhih", 3, 1, 7, -2))
    await side.closes("null client id", struct.pack(">hhihi", 3, 1, 7, -1, 0))


SCRIPTS = (
    api_versions,
    metadata_of_brokers,
    metadata_by_id,
    metadata_creates,
    describe_cluster,
    find_coordinator,
    describe_log_dirs,
    describe_topic_partitions,
    broken_requests,
)
