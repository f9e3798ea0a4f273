"""Keys of the work queue: the topics, the groups or the brokers of one Broker resource."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class KeyKind(StrEnum):
    """What of a cluster is reconciled; the values appear in metrics and logs."""

    TOPICS = "topics"
    GROUPS = "groups"
    USERS = "users"
    BROKER = "broker"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Key:
    """What one pass reconciles; `namespace` and `name` are those of the Broker resource."""

    kind: KeyKind
    namespace: str
    name: str

    def __str__(self) -> str:
        """Return the key as logs show it."""
        return f"{self.kind} {self.namespace}/{self.name}"
