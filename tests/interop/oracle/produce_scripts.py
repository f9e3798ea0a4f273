"""Scripts about Produce and InitProducerId."""

import time
from typing import Any

from barnabas_protocol.api import ApiKey
from barnabas_protocol.records.compression import Compression
from tests.interop.oracle.batches import FIRST_TIMESTAMP, batch, changed, produce_fields
from tests.interop.oracle.side import Side

_MAX_INT = 2**31 - 1


async def _produce(
    side: Side, label: str, topic: str, data: bytes | None, version: int | None = None, **more: Any
) -> Any:
    version = side.latest(ApiKey.PRODUCE) if version is None else version
    fields = produce_fields(side, version, topic, data, **more)
    return await side.call(ApiKey.PRODUCE, version, label, **fields)


async def produce_versions(side: Side) -> None:
    """REQ-1: good and bad partitions, every version and every acks."""
    topic = await side.topic("versions", 2)
    missing = side.named("missing")
    for version in side.versions(ApiKey.PRODUCE, 3):
        for acks in (-1, 1):
            await _produce(side, f"acks {acks}", topic, batch(3), version, acks=acks)
        await _produce(side, "unknown partition", topic, batch(), version, partition=9)
        await _produce(side, "negative partition", topic, batch(), version, partition=-1)
        await _produce(side, "unknown topic", missing, batch(), version)
        for acks in (2, -2, 32767):
            await _produce(side, f"acks {acks}", topic, batch(), version, acks=acks)
        await side.call(ApiKey.PRODUCE, version, "no topics", acks=-1, timeout_ms=1000)
        fields = produce_fields(side, version, topic, batch())
        fields["topic_data"][0]["partition_data"] = [
            {"index": index, "records": data}
            for index, data in ((0, batch()), (1, changed(batch(), crc=1)), (7, batch()))
        ]
        await side.call(ApiKey.PRODUCE, version, "three partitions", **fields)
        if version >= 13:
            fields = produce_fields(side, version, topic, batch())
            fields["topic_data"][0]["topic_id"] = bytes(16)
            await side.call(ApiKey.PRODUCE, version, "zero id", **fields)
    for version in side.versions(ApiKey.PRODUCE, 3, 12):
        for name in ("", "a b", "__consumer_offsets", "__transaction_state"):
            await _produce(side, f"to {name!r}", name, batch(), version)


async def produce_broken(side: Side) -> None:
    """LOG-4, LOG-5: batches with one thing wrong, with the texts and record errors."""
    topic = await side.topic("broken", 1, max_message_bytes="2000", retention_ms="-1")
    good = batch(3)
    cases: dict[str, bytes | None] = {
        "empty": b"",
        "seven bytes": b"\0" * 7,
        "cut header": good[:40],
        "cut body": good[:-2],
        "cut second batch": good + good[:30],
        "bytes after": good + b"\0\0\0",
        "two batches": good + good,
        "bad crc": changed(good, crc=12345),
        "bad crc in the second": good + changed(good, crc=12345),
        "too large": batch(1, size=3000),
        "too large, bad crc": changed(batch(1, size=3000), crc=1),
        "magic 0": changed(good, magic=0, keeps_crc=True),
        "magic 1": changed(good, magic=1, keeps_crc=True),
        "magic 3": changed(good, magic=3, keeps_crc=True),
        "magic -1": changed(good, magic=-1, keeps_crc=True),
        "base offset 5": changed(good, base_offset=5),
        "negative base offset": changed(good, base_offset=-1),
        "leader epoch": changed(good, leader_epoch=77),
        "short length": changed(good, batch_length=10, keeps_crc=True),
        "negative length": changed(good, batch_length=-1, keeps_crc=True),
        "long length": changed(good, batch_length=5000, keeps_crc=True),
        "no records": changed(batch(1), record_count=0),
        "more records than there are": changed(good, record_count=4),
        "fewer records than there are": changed(good, record_count=2),
        "negative record count": changed(good, record_count=-1),
        "last delta too high": changed(good, last_offset_delta=5),
        "last delta too low": changed(good, last_offset_delta=1),
        "negative last delta": changed(good, last_offset_delta=-1),
        "control": changed(good, attributes=0x20),
        "transactional without producer": changed(good, attributes=0x10),
        "unknown attribute": changed(good, attributes=0x100),
        "delete horizon": changed(good, attributes=0x40),
        "max timestamp too low": changed(good, max_timestamp=5),
        "max timestamp -1": changed(good, max_timestamp=-1),
        "max timestamp too high": changed(good, max_timestamp=FIRST_TIMESTAMP + 50_000),
        "negative base timestamp": changed(good, base_timestamp=-5),
        "good": good,
    }
    for label, data in cases.items():
        for version in (3, 7, 8, 9, side.latest(ApiKey.PRODUCE)):
            await _produce(side, label, topic, data, version)


async def produce_compacted(side: Side) -> None:
    """LOG-5: a compacted topic needs keys."""
    topic = await side.topic("compacted", 1, cleanup_policy="compact")
    for codec in (0, 1, 2, 3, 4):
        for label, data in (
            ("keys", batch(2, compression=codec)),
            ("no keys", batch(2, key=None, compression=codec)),
            ("empty keys", batch(2, key=b"", compression=codec)),
        ):
            await _produce(side, f"{label} {Compression(codec).name}", topic, data)
    mixed = batch(1)
    from_records = [batch(1, key=None), mixed]
    for data in from_records:
        await _produce(side, "version 7", topic, data, 7)
    both = await side.topic("both", 1, cleanup_policy="compact,delete")
    await _produce(side, "compact and delete", both, batch(12, key=None))


async def produce_codecs(side: Side) -> None:
    """LOG-12: every codec, damaged compressed data, topics with a codec of their own."""
    plain = await side.topic("codecs")
    for codec in (1, 2, 3, 4):
        name = Compression(codec).name
        data = batch(5, size=200, compression=codec)
        await _produce(side, name, plain, data)
        await _produce(side, f"{name} miscounted", plain, changed(data, record_count=9))
        for version in (3, 6, 7):
            await _produce(side, name, plain, data, version)
    own = await side.topic("own", 1, compression_type="uncompressed")
    for codec in (0, 1, 4):
        await _produce(side, f"{codec} to uncompressed", own, batch(4, compression=codec))


async def produce_unread(side: Side) -> None:
    """What Apache Kafka finds only because it unpacks every batch, and a flag that it clears."""
    for codec in (1, 2, 3, 4):
        topic = await side.topic(f"unread-{codec}")
        damaged = bytearray(batch(5, size=200, compression=codec))
        damaged[-8:] = b"\xff" * 8
        await _produce(side, f"damaged {codec}", topic, changed(bytes(damaged)))
    for codec in (5, 7):
        topic = await side.topic(f"unread-{codec}")
        await _produce(side, f"codec {codec}", topic, changed(batch(3), attributes=codec))
    topic = await side.topic("flagged")
    await _produce(side, "flagged", topic, changed(batch(3), attributes=0x08))


async def produce_timestamps(side: Side) -> None:
    """LOG-6: too late, too early, none, and the broker's own clock."""
    now = int(time.time() * 1000)
    day = 86_400_000
    created = await side.topic("created", 1, message_timestamp_before_max_ms=str(day))
    appended = await side.topic("appended", 1, message_timestamp_type="LogAppendTime")
    for version in (3, 8, side.latest(ApiKey.PRODUCE)):
        for label, at in (
            ("now", now),
            ("two hours ahead", now + 7_200_000),
            ("two days ago", now - 2 * day),
            ("none", -1),
            ("minus five", -5),
            ("zero", 0),
        ):
            data = batch(2, at=at) if at != -1 else changed(batch(1, at=-1), max_timestamp=-1)
            await _produce(side, label, created, data, version)
            await _produce(side, f"{label} append time", appended, data, version)
        flagged = changed(batch(2, at=now), attributes=0x08)
        await _produce(side, "flagged append time", appended, flagged, version)
        packed = batch(2, at=now + 7_200_000, compression=1)
        await _produce(side, "packed ahead", created, packed, version)
        await _produce(side, "packed append time", appended, packed, version)


async def produce_sequences(side: Side) -> None:
    """LOG-8, TXL-1 to TXL-3: duplicates, gaps, epochs and the wrap."""
    topic = await side.topic("sequences", 3)

    async def send(
        label: str,
        sequence: int,
        *,
        count: int = 2,
        epoch: int = 5,
        pid: int = 4000,
        to: int = 0,
        **more: Any,
    ) -> None:
        data = batch(count, producer_id=pid, producer_epoch=epoch, base_sequence=sequence, **more)
        await _produce(side, label, topic, data, partition=to)

    await send("first may be any", 7)
    await send("next", 9)
    await send("duplicate", 9)
    await send("older duplicate", 7)
    await send("gap", 20)
    await send("below", 3)
    await send("overlap", 10)
    await send("same first, longer", 9, count=3)
    for sequence in range(11, 25, 2):
        await send(f"sequence {sequence}", sequence)
    await send("duplicate within five", 15)
    await send("duplicate too old", 9)
    await send("old epoch", 25, epoch=4)
    await send("new epoch, wrong sequence", 25, epoch=6)
    await send("new epoch", 0, epoch=6)
    await send("old epoch again", 25, epoch=5)
    await send("wrap: before", _MAX_INT - 2, to=1)
    await send("wrap: over", _MAX_INT, to=1)
    await send("wrap: after", 1, to=1)
    await send("wrap: duplicate", _MAX_INT, to=1)
    await send("negative sequence", -1, to=2)
    await send("negative epoch", 0, epoch=-1, to=2)
    await send("negative epoch and sequence", -1, epoch=-1, to=2)
    await send("sequence without producer", 0, pid=-1, epoch=-1, to=2)
    await send("transactional", 0, pid=4100, to=2, is_transactional=True)
    await send("control with producer", 0, pid=4200, to=2, is_control=True)
    two = b"".join(
        batch(1, producer_id=4300, producer_epoch=0, base_sequence=sequence) for sequence in (0, 1)
    )
    await _produce(side, "two idempotent batches", topic, two, partition=2)


async def produce_without_answer(side: Side) -> None:
    """REQ-2: acks=0 is never answered; an error closes the connection."""
    topic = await side.topic("silent")
    version = side.latest(ApiKey.PRODUCE)
    cases = {"good": batch(), "bad crc": changed(batch(), crc=1), "good after": batch()}
    for label, data in cases.items():
        fields = produce_fields(side, version, topic, data, acks=0)
        await side.start(ApiKey.PRODUCE, version, on=label, **fields)
        await side.call(ApiKey.METADATA, 1, f"after {label}", on=label, topics=[])
    await side.call(
        ApiKey.LIST_OFFSETS,
        2,
        "end",
        replica_id=-1,
        topics=[{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}],
    )


async def init_producer_id(side: Side) -> None:
    """TXN-2 as far as it goes without transactions."""
    await side.until(
        lambda answer: answer.error_code != 14,
        ApiKey.INIT_PRODUCER_ID,
        transactional_id=None,
        transaction_timeout_ms=1000,
    )
    for version in side.versions(ApiKey.INIT_PRODUCER_ID):
        api = ApiKey.INIT_PRODUCER_ID
        for label, fields in (
            ("plain", {}),
            ("given id", {"producer_id": 1, "producer_epoch": 0}),
            ("given epoch only", {"producer_epoch": 3}),
            ("given id only", {"producer_id": 7}),
            ("negative timeout", {"transaction_timeout_ms": -1}),
        ):
            request = {"transactional_id": None, "transaction_timeout_ms": 1000, **fields}
            await side.call(api, version, label, **request)


SCRIPTS = (
    produce_versions,
    produce_broken,
    produce_compacted,
    produce_codecs,
    produce_unread,
    produce_timestamps,
    produce_sequences,
    produce_without_answer,
    init_producer_id,
)
