"""Scripts about Fetch: positions, limits, sessions, isolation, epochs."""

from typing import Any

from barnabas_protocol.api import ApiKey
from tests.interop.oracle.batches import batch, produce_fields, topic_field
from tests.interop.oracle.side import Side

_UNKNOWN_ID = bytes(range(16))


async def fill(
    side: Side, topic: str, *, partition: int = 0, batches: int = 3, **more: Any
) -> None:
    """Batches of two records."""
    for _ in range(batches):
        fields = produce_fields(side, 12, topic, batch(2, **more), partition=partition)
        await side.call(ApiKey.PRODUCE, 12, silent=True, **fields)


def _partition(offset: int = 0, index: int = 0, size: int = 1 << 20, **more: Any) -> dict[str, Any]:
    return {"partition": index, "fetch_offset": offset, "partition_max_bytes": size, **more}


def _fields(
    side: Side, version: int, topic: str, *partitions: dict[str, Any], **more: Any
) -> dict[str, Any]:
    asked = [{"topic": topic, **topic_field(side, topic, version), "partitions": list(partitions)}]
    return {"max_wait_ms": 0, "min_bytes": 0, "topics": asked, **more}


async def fetch_positions(side: Side) -> None:
    """REQ-5, SEG-5, REP-17: every version, from every kind of position."""
    topic = await side.topic("positions", 2)
    await fill(side, topic)
    for version in side.versions(ApiKey.FETCH):
        for label, partition in (
            ("start", _partition()),
            ("inside a batch", _partition(3)),
            ("end", _partition(6)),
            ("beyond", _partition(7)),
            ("negative", _partition(-1)),
            ("empty partition", _partition(0, 1)),
            ("unknown partition", _partition(0, 9)),
            ("small", _partition(0, size=1)),
            ("no bytes", _partition(0, size=0)),
            ("log start", _partition(0, log_start_offset=3)),
            ("right epoch", _partition(0, current_leader_epoch=0)),
            ("newer epoch", _partition(0, current_leader_epoch=3)),
            ("negative epoch", _partition(0, current_leader_epoch=-5)),
            ("last epoch", _partition(2, last_fetched_epoch=0)),
            ("newer last epoch", _partition(2, last_fetched_epoch=4)),
            ("last epoch beyond", _partition(9, last_fetched_epoch=0)),
        ):
            await side.call(
                ApiKey.FETCH, version, label, **_fields(side, version, topic, partition)
            )
        unknown = side.named("nothing")
        await side.call(
            ApiKey.FETCH, version, "unknown topic", **_fields(side, version, unknown, _partition())
        )
        await side.call(ApiKey.FETCH, version, "nothing", max_wait_ms=0)


async def fetch_limits(side: Side) -> None:
    """SEG-6, KIP-74: limits in all and per partition; isolation; waiting."""
    topic = await side.topic("limits", 3)
    for index in range(3):
        await fill(side, topic, partition=index, size=500)
    both = [_partition(index=index) for index in (0, 1, 2)]
    for version in (4, 11, 12, 16):
        for maximum in (0, 1, 100, 1500, 4000, 1 << 20):
            for isolation in (0, 1):
                fields = _fields(side, version, topic, *both, max_bytes=maximum)
                await side.call(
                    ApiKey.FETCH,
                    version,
                    f"at most {maximum} isolation {isolation}",
                    **fields,
                    isolation_level=isolation,
                )
        waiting = _fields(side, version, topic, _partition(6), max_wait_ms=60, min_bytes=1)
        await side.call(ApiKey.FETCH, version, "waits", **waiting)
        much = {**waiting, "topics": _fields(side, version, topic, _partition(0))["topics"]}
        await side.call(ApiKey.FETCH, version, "wants more", **{**much, "min_bytes": 1 << 20})
        huge = {**_fields(side, version, topic, _partition(9)), "max_wait_ms": 5000, "min_bytes": 9}
        await side.call(ApiKey.FETCH, version, "an error does not wait", **huge)
    for turn, version in enumerate((4, 12, 17)):
        end = _partition(6 + 2 * turn)
        waiting = _fields(side, version, topic, end, max_wait_ms=5000, min_bytes=1)
        await side.start(ApiKey.FETCH, version, on="waiting", **waiting)
        await fill(side, topic, batches=1)
        await side.finish(f"woken in version {version}", on="waiting")
        asked = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 6}]}]
        await side.call(ApiKey.DELETE_RECORDS, 1, topics=asked, timeout_ms=3000)
    for replica in (5, 1, -3):
        for version in (11, 14):
            fields = _fields(side, version, topic, both[0], replica_id=replica)
            await side.call(ApiKey.FETCH, version, f"replica {replica}", **fields)


async def fetch_by_id(side: Side) -> None:
    """Unknown, zero and repeated topic ids."""
    topic = await side.topic("by-id")
    await fill(side, topic)
    own = side.topic_ids[topic]
    for version in side.versions(ApiKey.FETCH, 13):
        for label, ids in (
            ("unknown", [_UNKNOWN_ID]),
            ("zero", [bytes(16)]),
            ("known and unknown", [own, _UNKNOWN_ID]),
        ):
            topics = [{"topic_id": each, "partitions": [_partition()]} for each in ids]
            await side.call(ApiKey.FETCH, version, label, max_wait_ms=0, topics=topics)


async def fetch_sessions(side: Side) -> None:
    """REQ-9, REQ-10: sessions and their errors 70, 71 and 106."""
    topic = await side.topic("sessions", 3)
    other = await side.topic("other")
    await fill(side, topic)
    for version in (7, 11, 12, 13, 16, 17):
        if version not in list(side.versions(ApiKey.FETCH)):
            continue
        await _one_session(side, version, topic, other)


async def _one_session(side: Side, version: int, topic: str, other: str) -> None:
    async def ask(label: str, session: int, epoch: int, fields: dict[str, Any], **more: Any) -> Any:
        return await side.call(
            ApiKey.FETCH, version, label, session_id=session, session_epoch=epoch,
            **{"max_wait_ms": 0, "min_bytes": 0, **fields, **more},
        )  # fmt: skip

    first = _fields(side, version, topic, _partition(0), _partition(0, 1))
    answer = await ask("full", 0, 0, first)
    session = answer.session_id
    await ask("nothing new", session, 1, {})
    await ask("moved", session, 2, _fields(side, version, topic, _partition(6)))
    await ask("nothing at the end", session, 3, {})
    await ask("wrong epoch", session, 9, {})
    await ask("epoch again", session, 4, {})
    await ask("added", session, 5, _fields(side, version, other, _partition(0)))
    await ask("out of range", session, 6, _fields(side, version, other, _partition(50)))
    await ask("still out of range", session, 7, {})
    gone = [{"topic": other, **topic_field(side, other, version), "partitions": [0]}]
    await ask("forgotten", session, 8, {}, forgotten_topics_data=gone)
    await ask("forgotten again", session, 9, {}, forgotten_topics_data=gone)
    await ask("back to the start", session, 10, _fields(side, version, topic, _partition(0)))
    unknown = _fields(side, version, side.named("nothing"), _partition(0))
    await ask("unknown topic", session, 11, unknown)
    await ask("unknown topic still", session, 12, {})
    if version == 12 and 13 in side.versions(ApiKey.FETCH):
        await side.call(
            ApiKey.FETCH, 13, "ids in a session of names", session_id=session, session_epoch=13,
            **_fields(side, 13, topic, _partition(0)),
        )  # fmt: skip
    if version == 13:
        await side.call(
            ApiKey.FETCH, 12, "names in a session of ids", session_id=session, session_epoch=13,
            **_fields(side, 12, topic, _partition(0)),
        )  # fmt: skip
    await ask("closed", session, -1, first)
    await ask("after closing", session, 13, {})
    await ask("unknown session", 123456, 1, {})
    await ask("unknown session closed", 123456, -1, first)
    await ask("unknown session, epoch 0", 123456, 0, first)
    await ask("no session, epoch 5", 0, 5, first)
    await ask("no session", 0, -1, first)
    await ask("empty full", 0, 0, {})


async def offset_for_leader_epoch(side: Side) -> None:
    """REP-15, REP-17: one epoch, and what lies around it."""
    topic = await side.topic("epochs", 2)
    await fill(side, topic)
    for version in side.versions(ApiKey.OFFSET_FOR_LEADER_EPOCH):
        for index in (0, 1, 7):
            for current in (-1, 0, 1):
                for epoch in (-1, 0, 1, 100):
                    asked = {
                        "partition": index, "current_leader_epoch": current, "leader_epoch": epoch
                    }  # fmt: skip
                    await side.call(
                        ApiKey.OFFSET_FOR_LEADER_EPOCH,
                        version,
                        f"partition {index} current {current} epoch {epoch}",
                        replica_id=-1,
                        topics=[{"topic": topic, "partitions": [asked]}],
                    )
        missing = [{"topic": side.named("nothing"), "partitions": [{"partition": 0}]}]
        await side.call(
            ApiKey.OFFSET_FOR_LEADER_EPOCH, version, "unknown", replica_id=-1, topics=missing
        )


SCRIPTS = (fetch_positions, fetch_limits, fetch_by_id, fetch_sessions, offset_for_leader_epoch)
