"""One member of a classic group: its protocols, its assignment and its parked request.

Not here: when a member expires (`rebalance.py`). Source: KIP-62, KIP-345.
Invariants: at most one parked join and one parked sync, each with exactly one response.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.join_group import JoinGroupResponse
from barnabas_protocol.messages.sync_group import SyncGroupResponse

PROTOCOL_BYTES: Final = 150
"""The objects of one protocol."""

JoinReply = Callable[[JoinGroupResponse], None]
SyncReply = Callable[[SyncGroupResponse], None]
# Name and metadata, the preferred protocol first.
Protocols = tuple[tuple[str, bytes], ...]


class ClassicMember:
    """A member that the group knows by its id."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "join_reply",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_reply",
    )

    def __init__(
        self,
        member_id: str,
        *,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
        is_new: bool = False,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        # Until the response to its first join: it does not know its id and cannot send heartbeats.
        self.is_new = is_new
        self.join_reply: JoinReply | None = None
        self.sync_reply: SyncReply | None = None

    @property
    def is_static(self) -> bool:
        """Whether it has an instance id, which outlives its member ids."""
        return self.group_instance_id is not None

    @property
    def is_parked(self) -> bool:
        """Whether it waits for a response, and so cannot send heartbeats (GRP-15)."""
        return self.join_reply is not None or self.sync_reply is not None

    def metadata(self, protocol_name: str) -> bytes:
        """Return its metadata for a protocol; empty if it does not support it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def vote(self, candidates: Collection[str]) -> str | None:
        """Return the first of its protocols that is a candidate."""
        return next((name for name, _ in self.protocols if name in candidates), None)

    def answer_sync(self, response: SyncGroupResponse) -> bool:
        """Answer its parked sync, if there is one."""
        reply, self.sync_reply = self.sync_reply, None
        if reply is None:
            return False
        reply(response)
        return True


def metadata_size(protocols: Protocols) -> int:
    """Return how many bytes a member says about itself."""
    return sum(len(name) + len(metadata) for name, metadata in protocols)


def remembered_size(protocols: Protocols) -> int:
    """Return how many bytes of memory that takes, about."""
    return metadata_size(protocols) + PROTOCOL_BYTES * len(protocols)


def join_error(code: ErrorCode, member_id: str) -> JoinGroupResponse:
    """Return the response to a join that did not succeed."""
    return JoinGroupResponse(error_code=code, member_id=member_id, protocol_name=None)


def sync_error(code: ErrorCode) -> SyncGroupResponse:
    """Return the response to a sync that did not succeed."""
    return SyncGroupResponse(error_code=code)
