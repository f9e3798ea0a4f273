"""Fetch sessions: the session id and epoch that a Fetch request carries, on both ends.

Pure. Consumers and followers keep one per broker and differ in what they send with it; brokers
check the epochs by the same rules. Not here: which partitions a session has
(`barnabas_client.consumer.fetch_session`, and in the broker `replication`).

Source: KIP-227. What id and epoch of a request mean:

    id 0, epoch 0     full, requests a new session         id n, epoch 0    the same, and ends n
    id n, epoch >= 1  only the changes against what n has  id n, epoch -1   ends n
    id 0, epoch -1    full, without a session

Invariants: epochs rise by one with each request, from 1 on, and wrap to 1.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from barnabas_protocol.errors import ErrorCode

NO_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = (1 << 31) - 1

SESSION_ERRORS: Final = frozenset(
    (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    )
)
"""Error codes of a whole response that mean no more than that a new session must begin."""


def next_epoch(epoch: int) -> int:
    """The epoch of the request that follows one of this epoch in a session."""
    return 1 if epoch >= EPOCH_MAX else epoch + 1


class FetchMetadata(NamedTuple):
    """Session id and epoch of the next request."""

    session_id: int = NO_SESSION_ID
    epoch: int = INITIAL_EPOCH

    @property
    def is_full(self) -> bool:
        """Whether the request names all partitions."""
        return self.epoch in (INITIAL_EPOCH, FINAL_EPOCH)

    def on_full_response(self, session_id: int) -> FetchMetadata:
        """The broker has created that session, or none (0)."""
        if session_id == NO_SESSION_ID:
            return FetchMetadata()
        return FetchMetadata(session_id, 1)

    def next_incremental(self) -> FetchMetadata:
        """Go on in the session."""
        return FetchMetadata(self.session_id, next_epoch(self.epoch))

    def close_existing_attempt_new(self) -> FetchMetadata:
        """Begin a new session with a request that ends this one."""
        return FetchMetadata(self.session_id, INITIAL_EPOCH)

    def on_error(self, error_code: int) -> FetchMetadata:
        """Begin a new session; one that the broker does not know needs no end.

        Its id may be another client's by now.
        """
        if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            return FetchMetadata()
        return self.close_existing_attempt_new()

    def final(self) -> FetchMetadata | None:
        """What ends the session; None if there is none."""
        if self.session_id == NO_SESSION_ID:
            return None
        return FetchMetadata(self.session_id, FINAL_EPOCH)
