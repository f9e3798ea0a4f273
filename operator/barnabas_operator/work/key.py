"""What is reconciled as one: the topics, the groups or the brokers of one Broker resource."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Work(StrEnum):
    """Which of a cluster's resources; the values appear in metrics and logs."""

    TOPICS = "topics"
    GROUPS = "groups"
    BROKER = "broker"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Key:
    """One piece of work; `namespace` and `name` are those of the Broker resource."""

    kind: Work
    namespace: str
    name: str

    def __str__(self) -> str:
        """Return the key as logs show it."""
        return f"{self.kind} {self.namespace}/{self.name}"
