"""Share sessions: which partitions a member fetches, and that its requests come in order.

Pure. Source: KIP-932; SHR-20, SHR-21. Invariants: there are never more sessions than slots, and
none gives way to another; a session's epoch counts up from 1 and wraps to 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.fetch_metadata import next_epoch
from barnabas_protocol.ids import Uuid

SESSION_PARTITIONS_MAX: Final = 2_000
"""Partitions in one session: a request may name all of them."""
FETCHED_MAX: Final = 500
"""Partitions that one fetch looks at; of a session that has more, the next fetch takes the next."""
PARTITIONS_MAX: Final = 200_000
"""Partitions in all sessions together. They need not exist: a session is a client's to fill."""


class MemberKey(NamedTuple):
    """A member of a share group."""

    group_id: str
    member_id: str


class SessionPartition(NamedTuple):
    """A partition as members name it."""

    topic_id: Uuid
    partition: int


def check_partition_count(count: int) -> None:
    """Raises: KafkaError INVALID_REQUEST for more partitions than a session may have."""
    if count > SESSION_PARTITIONS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"a share session of more than {SESSION_PARTITIONS_MAX} partitions",
        )


class ShareSession:
    """The partitions that one member fetches from this broker."""

    __slots__ = ("epoch", "key", "partitions")

    def __init__(self, key: MemberKey) -> None:
        self.key = key
        self.epoch = 1  # of the next request
        # A dictionary as an ordered set.
        self.partitions: dict[SessionPartition, None] = {}

    def in_turn(self, session_epoch: int) -> list[SessionPartition]:
        """Return the partitions that a request looks at, in its order.

        It begins with another one for each epoch, so that a limit starves nobody (SHR-8).
        """
        partitions = list(self.partitions)
        if len(partitions) > FETCHED_MAX:
            first = session_epoch * FETCHED_MAX % len(partitions)
        else:
            first = session_epoch % max(len(partitions), 1)
        return (partitions[first:] + partitions[:first])[:FETCHED_MAX]


class ShareSessionCache:
    """The share sessions of a broker."""

    __slots__ = ("_group_sizes", "_sessions", "partition_count", "refused_count", "slots")

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._sessions: dict[MemberKey, ShareSession] = {}
        self._group_sizes: Counter[str] = Counter()
        self.partition_count = 0
        self.refused_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def group_size(self, group_id: str) -> int:
        """How many sessions a group has here."""
        return self._group_sizes[group_id]

    def open(self, key: MemberKey, partitions: Iterable[SessionPartition]) -> ShareSession | None:
        """Begin a session, instead of the one that the member has; None where there is no room.

        Raises: KafkaError INVALID_REQUEST for too many partitions.
        """
        named = dict.fromkeys(partitions)
        self.close(key)
        if len(self._sessions) >= self.slots or self.partition_count + len(named) > PARTITIONS_MAX:
            self.refused_count += 1
            return None
        session = ShareSession(key)
        self._sessions[key] = session
        self._group_sizes[key.group_id] += 1
        try:
            self._add(session, named)
        except KafkaError:
            self.close(key)
            raise
        return session

    def resume(
        self,
        key: MemberKey,
        session_epoch: int,
        partitions: Iterable[SessionPartition] = (),
        forgotten: Iterable[SessionPartition] = (),
    ) -> ShareSession:
        """Go on in the session of a member with what a request adds and forgets.

        Raises: KafkaError SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH; INVALID_REQUEST for
        too many partitions.
        """
        session = self.get(key)
        if session.epoch != session_epoch:
            raise KafkaError(
                ErrorCode.INVALID_SHARE_SESSION_EPOCH,
                f"share session epoch {session_epoch} where {session.epoch} was due",
            )
        session.epoch = next_epoch(session_epoch)
        for partition in forgotten:
            if session.partitions.pop(partition, self) is None:
                self.partition_count -= 1
        self._add(session, dict.fromkeys(partitions))
        return session

    def find(self, key: MemberKey) -> ShareSession | None:
        """Return the session of a member; None if it has none."""
        return self._sessions.get(key)

    def get(self, key: MemberKey) -> ShareSession:
        """Return the session of a member. Raises: KafkaError SHARE_SESSION_NOT_FOUND."""
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def close(self, key: MemberKey) -> ShareSession | None:
        """End the session of a member, if it has one; returns that."""
        session = self._sessions.pop(key, None)
        if session is not None:
            self.partition_count -= len(session.partitions)
            self._group_sizes[key.group_id] -= 1
            if not self._group_sizes[key.group_id]:
                del self._group_sizes[key.group_id]
        return session

    def _add(self, session: ShareSession, partitions: dict[SessionPartition, None]) -> None:
        added = [one for one in partitions if one not in session.partitions]
        check_partition_count(len(session.partitions) + len(added))
        if self.partition_count + len(added) > PARTITIONS_MAX:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session.partitions.update(dict.fromkeys(added))
        self.partition_count += len(added)
