"""Known bugs, planted one at a time, to see that the stories find them.

Each replaces one decision of the real code while it is planted; nothing of it is in the broker.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from barnabas_broker.coordinator.group.commits import OffsetCommands
from barnabas_broker.log.log_writer import LogWriter
from barnabas_broker.log.producer_state import ProducerState
from barnabas_broker.replication.fetch_plan import Followed
from barnabas_broker.replication.follower_append import FollowerAppend, Step
from barnabas_broker.replication.follower_states import FollowerStates
from barnabas_broker.replication.partition import Partition
from barnabas_protocol.records.batch import BatchHeader

_start = FollowerAppend.start
_propose = Partition._propose
_apply = LogWriter._apply


class Bug(NamedTuple):
    """What is wrong, and what is replaced: owner, name and the wrong thing."""

    what: str
    replacements: tuple[tuple[Any, str, Any], ...]


def _start_at_the_high_watermark(self: FollowerAppend, followed: Followed) -> Step:
    partition = self._replica(followed)
    if partition is not None and partition.log.log_end_offset > partition.log.high_watermark:
        partition.log.truncate_to(partition.log.high_watermark)
    return _start(self, followed)


def _own_end(self: FollowerStates, leader_end_offset: int, *_: object) -> int:
    return leader_end_offset


def _propose_and_believe(self: Partition, isr: tuple[int, ...]) -> None:
    _propose(self, isr)
    if self.proposed_isr is not None:
        self.maximal_isr = frozenset(self.proposed_isr)


def _note_nothing(self: FollowerAppend, partition: Partition) -> None:
    """As if the page cache were the disk."""


def _apply_as_leader_only(
    self: LogWriter, header: BatchHeader, batch: memoryview, *, is_leader: bool
) -> None:
    with ExitStack() as patches:
        if not is_leader:
            patches.enter_context(patch.object(ProducerState, "append", _forget_producer))
        _apply(self, header, batch, is_leader=is_leader)


def _forget_producer(
    self: ProducerState, header: BatchHeader, base_offset: int | None = None
) -> None:
    """As if no producer could ever repeat itself."""


def _admit_all(self: OffsetCommands, *_: object) -> None:
    """As if no member were ever replaced."""


BUGS: dict[str, Bug] = {
    "truncate_to_high_watermark": Bug(
        "a follower cuts its log to its high watermark, which may be stale (KIP-101)",
        ((FollowerAppend, "start", _start_at_the_high_watermark),),
    ),
    "leader_commits_alone": Bug(
        "the high watermark does not wait for the followers in the ISR",
        ((FollowerStates, "lowest_end_offset", _own_end),),
    ),
    "isr_before_it_is_committed": Bug(
        "a leader counts the ISR that it has asked for, not the maximal one (KIP-497)",
        ((Partition, "_propose", _propose_and_believe),),
    ),
    "acknowledge_before_fsync": Bug(
        "a follower fetches on, and so acknowledges, before its disk has what it must have",
        ((FollowerAppend, "_note_unsynced", _note_nothing),),
    ),
    "producers_of_the_leader_only": Bug(
        "a follower does not note the sequences of what it appends (IDEM-5)",
        ((LogWriter, "_apply", _apply_as_leader_only),),
    ),
    "commits_of_any_generation": Bug(
        "a coordinator takes commits of members that have been replaced (GRP-19)",
        ((OffsetCommands, "_admit", _admit_all),),
    ),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The code with one rule broken."""
    with ExitStack() as patches:
        for owner, attribute, replacement in BUGS[name].replacements:
            patches.enter_context(patch.object(owner, attribute, replacement))
        yield
