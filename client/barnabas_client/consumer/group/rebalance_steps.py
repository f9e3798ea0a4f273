"""Results of the state machines of both protocols: reactions and changes of the assignment."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from barnabas_protocol.ids import TopicPartition


class Reaction(Enum):
    """What the shell does after a response."""

    GO_ON = "go on as the state says"
    WAIT = "go on as the state says, after a pause"
    FIND_COORDINATOR = "look for the coordinator, after a pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentChange:
    """What a new assignment means for the program."""

    assigned: tuple[TopicPartition, ...]
    revoked: tuple[TopicPartition, ...]
    added: tuple[TopicPartition, ...]
