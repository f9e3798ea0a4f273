"""One member of a share group, immutable: what it said about itself, and what it has.

Source: KIP-932, SHR-28; record types 10 and 14. There are no owners: several members may have the
same partition, so a member gets its target at once, without letting go anything before.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas_broker.coordinator.group.consumer.assignors.group_spec import NOTHING, Assignment

# What a member epoch may say in a request.
JOIN_EPOCH = 0
LEAVE_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember:
    """A member that the group knows by its id."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    # From here on: the current assignment.
    member_epoch: int = 0
    previous_member_epoch: int = 0
    assigned: Assignment = field(default_factory=lambda: NOTHING)

    @property
    def metadata_bytes(self) -> int:
        """How much it says about itself, about."""
        return sum(map(len, self.topics))
