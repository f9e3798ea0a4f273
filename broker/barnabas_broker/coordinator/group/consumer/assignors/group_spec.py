"""What an assignor is given: the members of a group, and how many partitions its topics have.

Not here: where it comes from (`target.py`). Source: KIP-848, "Assignor".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

# Topic id -> partitions. Never changed once it is made.
Assignment = Mapping[bytes, frozenset[int]]

NOTHING: Assignment = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpec:
    """One member: the ids of the topics that it subscribes to, and its target so far."""

    topic_ids: frozenset[bytes]
    assigned: Assignment = field(default_factory=lambda: NOTHING)
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """All members by id; every topic that one of them subscribes to has a partition count."""

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics."""
        first: frozenset[bytes] | None = None
        for member in self.members.values():
            if first is None:
                first = member.topic_ids
            elif member.topic_ids is not first and member.topic_ids != first:
                return False
        return True


Assignor = Callable[[GroupSpec], dict[str, Assignment]]
