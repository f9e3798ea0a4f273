"""The transaction coordinator: producer ids, epochs, and transactions of version 1 and 2."""

from collections.abc import Callable
from dataclasses import dataclass, field

from barnabas_protocol.errors import ErrorCode
from tests.simulation.client.log import Log
from tests.simulation.client.world import World


@dataclass
class Transaction:
    """What the coordinator knows of one transactional id."""

    producer_id: int
    epoch: int
    timeout_seconds: float
    state: str = "Empty"
    logs: dict[int, Log] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)
    number: int = 0


class Coordinator:
    """All transactional ids; a transaction ends in one step."""

    def __init__(
        self, world: World, end_offsets: Callable[[str, int, bool], None], *, is_version_2: bool
    ) -> None:
        self.is_version_2 = is_version_2
        self.transactions: dict[str, Transaction] = {}
        self._world = world
        self._end_offsets = end_offsets
        self._next_id = 1000

    def new_id(self) -> int:
        """A producer id that nobody has."""
        self._next_id += 1
        return self._next_id

    def initialize(
        self, name: str, timeout_ms: int, producer_id: int, epoch: int
    ) -> tuple[ErrorCode, int, int]:
        """A producer begins, or begins anew after an error (KIP-360)."""
        found = self.transactions.get(name)
        if found is None:
            found = self.transactions[name] = Transaction(self.new_id(), 0, timeout_ms / 1000)
            return ErrorCode.NONE, found.producer_id, 0
        if producer_id >= 0 and (producer_id, epoch) != (found.producer_id, found.epoch):
            # The answer to the same request may have been lost.
            if (producer_id, epoch + 1) != (found.producer_id, found.epoch):
                return ErrorCode.PRODUCER_FENCED, -1, -1
            if found.state == "Ongoing":
                return ErrorCode.PRODUCER_FENCED, -1, -1
            return ErrorCode.NONE, found.producer_id, found.epoch
        found.epoch += 1
        if found.state == "Ongoing":
            self._finish(found, is_committed=False)
        found.state = "Empty"
        return ErrorCode.NONE, found.producer_id, found.epoch

    def check(self, name: str, producer_id: int, epoch: int) -> ErrorCode:
        """Whether a request comes from the producer that is."""
        found = self.transactions.get(name)
        if found is None or found.producer_id != producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if found.epoch != epoch:
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.NONE

    def add(self, name: str, log: Log) -> None:
        """A partition takes part."""
        found = self.transactions[name]
        self._begin(name, found)
        found.logs[id(log)] = log

    def add_group(self, name: str, group_id: str) -> None:
        """A group's offsets take part."""
        found = self.transactions[name]
        self._begin(name, found)
        found.groups.add(group_id)

    def has(self, name: str, log: Log) -> bool:
        """Whether a partition takes part."""
        found = self.transactions.get(name)
        return found is not None and found.state == "Ongoing" and id(log) in found.logs

    def _begin(self, name: str, found: Transaction) -> None:
        if found.state != "Ongoing":
            found.state = "Ongoing"
            found.number += 1
            self._world.later(found.timeout_seconds, self._time_out, name, found.number)

    def _time_out(self, name: str, number: int) -> None:
        found = self.transactions[name]
        if found.state == "Ongoing" and found.number == number:
            self._world.tell("transaction", name, "times out")
            found.epoch += 1
            self._finish(found, is_committed=False)

    def end(
        self, name: str, producer_id: int, epoch: int, version: int, *, is_committed: bool
    ) -> tuple[ErrorCode, int, int]:
        """EndTxn: the code, and the producer id and epoch to go on with."""
        found = self.transactions.get(name)
        if found is None or found.producer_id != producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING, -1, -1
        done = "Committed" if is_committed else "Aborted"
        is_second = version >= 5
        if is_second and epoch == found.epoch - 1 and found.state == done:
            return ErrorCode.NONE, found.producer_id, found.epoch
        if epoch != found.epoch:
            return ErrorCode.PRODUCER_FENCED, -1, -1
        if found.state == "Ongoing":
            if is_second:
                found.epoch += 1
            self._finish(found, is_committed=is_committed)
        elif is_second and not is_committed and found.state in ("Empty", "Committed", "Aborted"):
            found.epoch += 1
            found.state = "Aborted"
        elif is_second or found.state != done:
            return ErrorCode.INVALID_TXN_STATE, -1, -1
        return ErrorCode.NONE, found.producer_id, found.epoch

    def _finish(self, found: Transaction, *, is_committed: bool) -> None:
        for log in found.logs.values():
            log.end_transaction(
                found.producer_id,
                found.epoch,
                self._world.clock.wall_ms(),
                is_committed=is_committed,
            )
        for group_id in found.groups:
            self._end_offsets(group_id, found.producer_id, is_committed)
        found.logs.clear()
        found.groups.clear()
        found.state = "Committed" if is_committed else "Aborted"
