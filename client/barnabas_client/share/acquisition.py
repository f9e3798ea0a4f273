"""What one response acquired of one partition: whose locks they are and how long they last.

Pure. Source: KIP-932; SHR-18, SHR-19, SHR-21.
Invariants: locks belong to a share session of one broker; when the session is lost, so are they.
The broker's clock for a lock begins between sending the request and receiving the response, so
there are two bounds: a record is not delivered from the earlier one on (another member may have it
already), and not acknowledged from the later one on (the lock has certainly run out).
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas_protocol.ids import TopicPartition, Uuid


class TopicIdPartition(NamedTuple):
    """One partition as requests name it."""

    topic_id: Uuid
    partition: int


class Acquisition:
    """The locks of one response on one partition; compared by identity."""

    __slots__ = (
        "_acknowledge_until_ms",
        "_deliver_until_ms",
        "node_id",
        "session_number",
        "topic_id_partition",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id_partition: TopicIdPartition,
        *,
        node_id: int,
        session_number: int,
        lock_ms: int,
        sent_at_ms: int,
        received_at_ms: int,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id_partition = topic_id_partition
        self.node_id = node_id
        self.session_number = session_number
        self._deliver_until_ms = sent_at_ms + lock_ms
        self._acknowledge_until_ms = received_at_ms + lock_ms

    def is_deliverable(self, now_ms: int) -> bool:
        """Whether the locks certainly hold."""
        return now_ms < self._deliver_until_ms

    def is_acknowledgeable(self, now_ms: int) -> bool:
        """Whether the locks may hold."""
        return now_ms < self._acknowledge_until_ms

    def renewed(self, lock_ms: int, sent_at_ms: int, received_at_ms: int) -> Acquisition:
        """The locks that began again in the meantime (KIP-1222)."""
        return Acquisition(
            self.topic_partition,
            self.topic_id_partition,
            node_id=self.node_id,
            session_number=self.session_number,
            lock_ms=lock_ms,
            sent_at_ms=sent_at_ms,
            received_at_ms=received_at_ms,
        )
