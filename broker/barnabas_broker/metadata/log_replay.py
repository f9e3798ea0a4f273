"""Building the metadata image from what is on disk: the newest snapshot, then the log behind it.

Not here: what of it is committed. Nothing is published.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barnabas_broker.env.disk import Buffer, Disk
from barnabas_broker.metadata import snapshot
from barnabas_broker.metadata.delta import InconsistentRecordError, MetadataDelta
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.metadata_log import MetadataLogError
from barnabas_broker.metadata.record_codec import decode, is_known
from barnabas_broker.metadata.replicated_log import ReplicatedLog
from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.batch import iterate_headers
from barnabas_protocol.records.record import decode_records

READ_BYTES: Final = 1 << 20


async def read_image(disk: Disk, log: ReplicatedLog) -> MetadataImage:
    """The image of the newest snapshot and of all records after it.

    Raises: MetadataLogError if snapshot and log do not meet, or do not make sense; OSError.
    """
    image = await disk.run(snapshot.load_newest, disk, log.directory)
    if log.log_start_offset > image.offset + 1:
        raise MetadataLogError(
            f"the metadata log begins at {log.log_start_offset}, "
            f"but the newest snapshot ends at {image.offset + 1}"
        )
    if image.offset + 1 > log.log_end_offset:
        raise MetadataLogError(
            f"the metadata log ends at {log.log_end_offset}, "
            f"before the newest snapshot, at {image.offset + 1}"
        )
    delta = MetadataDelta(image)
    next_offset = image.offset + 1
    while next_offset < log.log_end_offset:
        read = await log.read(next_offset, READ_BYTES, log.log_end_offset)
        # Records take many times longer to read than to write.
        next_offset = await disk.run(replay, read.buffers, delta, next_offset)
    return await disk.run(delta.build)


def replay(buffers: Iterable[Buffer], delta: MetadataDelta, next_offset: int) -> int:
    """Apply the records from an offset on; returns the offset after the last.

    Raises: MetadataLogError if there is none, or one that cannot be applied.
    """
    start = next_offset
    data = b"".join(buffers)
    try:
        for position, header in iterate_headers(data):
            for record in [] if header.is_control else decode_records(data, position):
                if record.offset >= next_offset:
                    delta.apply(decode(record.value))
                    if record.value is not None and not is_known(record.value):
                        delta.has_unknown = True
                    next_offset = record.offset + 1
    except (ParseError, InconsistentRecordError) as error:
        raise MetadataLogError(f"the metadata log at {next_offset}: {error}") from error
    if next_offset == start:
        raise MetadataLogError(f"nothing could be read at {start} of the metadata log")
    return next_offset
