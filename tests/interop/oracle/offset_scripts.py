"""Scripts about positions in logs: ListOffsets and DeleteRecords."""

from typing import Any

from barnabas_protocol.api import ApiKey
from tests.interop.oracle.batches import FIRST_TIMESTAMP, batch, produce_fields
from tests.interop.oracle.fetch_scripts import fill
from tests.interop.oracle.side import Side


def _asked(topic: str, timestamp: int, partition: int = 0, epoch: int = -1) -> list[dict[str, Any]]:
    asked = {
        "partition_index": partition,
        "timestamp": timestamp,
        "current_leader_epoch": epoch,
    }
    return [{"name": topic, "partitions": [asked]}]


async def list_offsets(side: Side) -> None:
    """REQ-11, SEG-7: every special timestamp, real ones, errors, in every version."""
    topic = await side.topic("listed", 2, retention_ms="-1")
    for turn in range(3):
        data = batch(2, at=FIRST_TIMESTAMP + 1000 * turn)
        fields = produce_fields(side, 12, topic, data)
        await side.call(ApiKey.PRODUCE, 12, silent=True, **fields)
    packed = await side.topic("packed", retention_ms="-1")
    for turn in range(2):
        data = batch(5, at=FIRST_TIMESTAMP + 1000 * turn, compression=1)
        await side.call(ApiKey.PRODUCE, 12, silent=True, **produce_fields(side, 12, packed, data))
    api = ApiKey.LIST_OFFSETS
    for version in side.versions(api):
        for timestamp in (
            -1, -2, -3, -4, -5, -6, -7, -99, 0, 1, FIRST_TIMESTAMP - 1, FIRST_TIMESTAMP,
            FIRST_TIMESTAMP + 1, FIRST_TIMESTAMP + 2, FIRST_TIMESTAMP + 1001,
            FIRST_TIMESTAMP + 2001, FIRST_TIMESTAMP + 2002, 2**62,
        ):  # fmt: skip
            shown = timestamp - FIRST_TIMESTAMP if timestamp > 10 else timestamp
            for isolation in (0, 1):
                await side.call(
                    api, version, f"{shown} isolation {isolation}", replica_id=-1,
                    isolation_level=isolation, topics=_asked(topic, timestamp),
                )  # fmt: skip
            await side.call(
                api, version, f"{shown} of none", replica_id=-1, topics=_asked(topic, timestamp, 1)
            )
            await side.call(
                api, version, f"{shown} of packed", replica_id=-1, topics=_asked(packed, timestamp)
            )
        for label, topics in (
            ("unknown partition", _asked(topic, -1, 8)),
            ("unknown topic", _asked(side.named("nothing"), -1)),
            ("epoch 0", _asked(topic, -1, 0, 0)),
            ("epoch 3", _asked(topic, -1, 0, 3)),
            ("epoch 3, earliest", _asked(topic, -2, 0, 3)),
            ("twice", _asked(topic, -1) + _asked(topic, -2)),
            (
                "twice in one",
                [{"name": topic, "partitions": [
                    {"partition_index": 0, "timestamp": -1}, {"partition_index": 0, "timestamp": -2}
                ]}],
            ),
            ("nothing", []),
        ):  # fmt: skip
            await side.call(api, version, label, replica_id=-1, topics=topics)
        for replica in (-2, -3, 1, 9):
            await side.call(
                api, version, f"replica {replica}", replica_id=replica, topics=_asked(topic, -1)
            )


async def delete_records(side: Side) -> None:
    """SEG-13: positions, errors, and what is left."""
    api = ApiKey.DELETE_RECORDS
    for version in side.versions(api):
        topic = await side.topic(f"deleted-{version}", 2)
        compacted = await side.topic(f"compacted-{version}", 1, cleanup_policy="compact")
        both = await side.topic(f"both-{version}", 1, cleanup_policy="compact,delete")
        for name in (topic, compacted, both):
            await fill(side, name)
        for label, name, index, offset in (
            ("beyond", topic, 0, 7),
            ("negative", topic, 0, -2),
            ("inside a batch", topic, 0, 3),
            ("lower", topic, 0, 1),
            ("same", topic, 0, 3),
            ("all", topic, 0, -1),
            ("all again", topic, 0, -1),
            ("empty", topic, 1, -1),
            ("empty, zero", topic, 1, 0),
            ("unknown partition", topic, 7, 0),
            ("negative partition", topic, -1, 0),
            ("unknown topic", side.named("nothing"), 0, 0),
            ("compacted", compacted, 0, 2),
            ("compact and delete", both, 0, 2),
            ("internal", "__consumer_offsets", 0, 0),
            ("bad name", "a b", 0, 0),
        ):
            asked = [{"name": name, "partitions": [{"partition_index": index, "offset": offset}]}]
            await side.call(api, version, label, topics=asked, timeout_ms=3000)
            await side.call(
                ApiKey.LIST_OFFSETS, 5, f"start after {label}", replica_id=-1,
                topics=_asked(topic, -2),
            )  # fmt: skip
        for offset in (0, 3, 5, 6):
            asked = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 9999}
            await side.call(
                ApiKey.FETCH, 11, f"fetch {offset} {version}", max_wait_ms=0,
                topics=[{"topic": topic, "partitions": [asked]}],
            )  # fmt: skip
        await side.call(api, version, "nothing", topics=[], timeout_ms=1000)


SCRIPTS = (list_offsets, delete_records)
