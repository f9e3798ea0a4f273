"""Records on their way through an `async for`: which of them the program has seen.

Pure. Source: CON-8 of behaviour.md. With `poll` everything that was returned counts as handed out.
In an iteration a record is handed out when it is yielded, and processed when the next one is asked
for. A program that leaves the loop, and then the consumer's `async with` block in order, has
processed the record in its hands; one that leaves the block by an exception has not.

Invariants: while a `HandOut` is being read, the partition's position is behind the last record that
was yielded as soon as somebody has called `settle`.
"""

from __future__ import annotations

from barnabas_client.consumer.record_queue import Portion
from barnabas_client.consumer.records import ConsumerRecord


class HandOut:
    """A portion that is yielded record by record.

    The loop sets `current` before each yield and stops if `is_stale` is set after it.
    """

    __slots__ = ("current", "is_stale", "portion", "reader")

    def __init__(self, portion: Portion, reader: object = None) -> None:
        self.portion = portion
        # The task that iterates: only it can say that it is done with a record.
        self.reader: object = reader
        self.current: ConsumerRecord | None = None
        self.is_stale = False

    def finish(self) -> None:
        """All records were yielded, and the last one is processed."""
        self.is_stale = True
        self.portion.hand_out()

    def settle(self) -> None:
        """Bring the position to behind the record that was yielded last."""
        record = self.current
        if record is not None and not self.is_stale:
            if record is self.portion.records[-1]:
                self.portion.hand_out()
            else:
                self.portion.state.advance(record.offset + 1, record.leader_epoch)

    def settle_unprocessed(self) -> None:
        """End with the position at the record that was yielded last: it was not processed."""
        record = self.current
        if record is not None and not self.is_stale:
            self.portion.state.advance(record.offset, self.portion.state.leader_epoch)
        self.is_stale = True

    def stop(self) -> Portion | None:
        """End this hand-out; what was not yielded, to be handed out next."""
        if self.is_stale:
            return None
        self.settle()
        self.is_stale = True
        if self.current is None:
            return self.portion
        # Looked for only when a loop is left before its portion ends.
        index = next(i for i, one in enumerate(self.portion.records) if one is self.current)
        return self.portion.after(index + 1)
