"""An `async for` over one portion of records, and the position that follows from it.

Pure. Source: CON-8. With `poll` all returned records count as processed. In an iteration a record
is processed when the next one is requested. A program that leaves the loop, and then the consumer's
`async with` block without an exception, has processed its last record; one that leaves the block by
an exception has not.

Invariants: after `update_position`, the partition's position is behind the last record that was
yielded.
"""

from __future__ import annotations

from barnabas_client.consumer.fetch_buffer import Portion
from barnabas_client.consumer.records import ConsumerRecord


class PortionIteration:
    """A portion that is yielded record by record.

    The loop sets `current` before each yield and stops if `is_stale` is set after it.
    """

    __slots__ = ("current", "is_stale", "portion", "reader")

    def __init__(self, portion: Portion, reader: object = None) -> None:
        self.portion = portion
        # The task that iterates: only it knows whether it has processed a record.
        self.reader: object = reader
        self.current: ConsumerRecord | None = None
        self.is_stale = False

    def finish(self) -> None:
        """All records are processed."""
        self.is_stale = True
        self.portion.advance_position()

    def update_position(self) -> None:
        """Move the position behind the record that was yielded last."""
        record = self.current
        if record is not None and not self.is_stale:
            if record is self.portion.records[-1]:
                self.portion.advance_position()
            else:
                self.portion.state.advance(record.offset + 1, record.leader_epoch)

    def stop_before_current(self) -> None:
        """End with the position at the record that was yielded last, which is not processed."""
        record = self.current
        if record is not None and not self.is_stale:
            self.portion.state.advance(record.offset, self.portion.state.leader_epoch)
        self.is_stale = True

    def stop(self) -> Portion | None:
        """End the iteration; return the records that were not yielded."""
        if self.is_stale:
            return None
        self.update_position()
        self.is_stale = True
        if self.current is None:
            return self.portion
        # Looked for only when a loop is left before its portion ends.
        index = next(i for i, one in enumerate(self.portion.records) if one is self.current)
        return self.portion.after(index + 1)
