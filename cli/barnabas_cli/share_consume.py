"""`barnabas share consume`: process records as a member of a share group, by writing them.

Not here: how a record is written (`record_format.py`).

Invariants: a record is acknowledged only when it was written and flushed; what a closed output did
not take is released.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from barnabas_client.consumer.records import ConsumerRecord
from barnabas_client.facts.record_format import as_data, renderer
from barnabas_client.share.records import AcknowledgeType, ShareRecord

if TYPE_CHECKING:
    from barnabas_client.share.share_consumer import ShareConsumer

_POLL_MS = 500
_POLL_RECORDS = 500
# Without --follow it ends when nothing was available for so long.
IDLE_MS = 2000
_FIELD_COUNT = len(ConsumerRecord._fields)

Write = Callable[[ShareRecord], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Processing:
    """How records are processed, and when to stop."""

    kind: AcknowledgeType
    render: Write
    follow: bool
    max_records: int | None
    timeout_ms: int | None

    @property
    def idle_ms(self) -> int | None:
        """How long to wait for a record; None for ever."""
        if self.timeout_ms is not None:
            return self.timeout_ms
        return None if self.follow else IDLE_MS


def share_renderer(
    style: str, *, with_keys: bool, with_headers: bool, with_position: bool
) -> Write:
    """A function from a record to its bytes; json has the delivery count as well.

    Raises: ValueError for a format that is not known.
    """
    render = renderer(
        style, with_keys=with_keys, with_headers=with_headers, with_position=with_position
    )
    if style == "json":
        return lambda record: json.dumps(
            {**as_data(_plain(record)), "delivery_count": record.delivery_count},
            ensure_ascii=False,
        ).encode()
    return lambda record: render(_plain(record))


def _plain(record: ShareRecord) -> ConsumerRecord:
    return ConsumerRecord._make(record[:_FIELD_COUNT])


async def process(consumer: ShareConsumer, processing: Processing) -> int:
    """Write and acknowledge records until there is a reason to stop; how many there were.

    Raises: the client's errors; BrokenPipeError when nobody takes the output any more.
    """
    count, waited_ms = 0, 0
    released: set[tuple[str, int, int]] = set()
    clock = asyncio.get_running_loop()
    while processing.max_records is None or count < processing.max_records:
        idle_ms = processing.idle_ms
        if idle_ms is not None and waited_ms >= idle_ms:
            break
        began = clock.time()
        left = _POLL_RECORDS if processing.max_records is None else processing.max_records - count
        records = await consumer.poll(
            timeout_ms=_POLL_MS if idle_ms is None else max(1, min(_POLL_MS, idle_ms - waited_ms)),
            max_records=min(left, _POLL_RECORDS),
        )
        if processing.kind is AcknowledgeType.RELEASE:
            places = [(one.topic, one.partition, one.offset) for one in records]
            if released.intersection(places):
                # All has been shown; closing releases these. The next time counts as a delivery.
                break
            released.update(places)
        for record in records:
            sys.stdout.buffer.write(processing.render(record) + b"\n")
        sys.stdout.flush()
        for record in records:
            consumer.acknowledge(record, processing.kind)
        count += len(records)
        if records:
            waited_ms = 0
        elif consumer.assignment():
            # A group takes a moment to give a new member partitions: that is not idleness.
            waited_ms += round((clock.time() - began) * 1000)
        elif processing.timeout_ms is not None:
            waited_ms += round((clock.time() - began) * 1000)
    for partition, error in (await consumer.commit()).items():
        if error is not None:
            click.echo(f"{partition}: {error}: records may be delivered again", err=True)
    return count
