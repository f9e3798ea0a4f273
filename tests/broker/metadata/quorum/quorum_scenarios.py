"""Stories for broken rules that random walks find seldom; each ends well with the real rules."""

from collections.abc import Callable

from barnabas_broker.metadata.quorum.effects import Swap
from barnabas_broker.metadata.quorum.messages import (
    PromiseRequest,
    PromiseResponse,
    QuorumFetchRequest,
)
from barnabas_broker.metadata.quorum.voters import Voter
from tests.broker.metadata.quorum.quorum_script import ANSWERS, Script


def voters(script: Script, *node_ids: int) -> frozenset[Voter]:
    return frozenset(script.machines[node_id].voter for node_id in node_ids)


def change(script: Script, leader: int, *members: int) -> None:
    """Ask for members, if that is allowed."""
    script.change_members(script.machines[leader], voters(script, *members))


def old_epoch_on_a_majority() -> None:
    """Rule 3: a record of an old epoch is not safe though a majority has it."""
    script = Script(5)
    script.lead(0, 1, 2)
    script.fetch(1, 0)  # its first record is on nodes 0 and 1 only
    script.lead(4, 2, 3)  # the next epoch starts without it and has its own at the same offset
    script.lead(0, 1, 2)
    script.fetch(1, 0, count=0)  # the old record, but not the new epoch's first, on a majority
    script.fetch(2, 0)
    script.lead(4, 2, 3)  # prefers node 4's log: its last epoch is higher than node 2's


def longer_log_of_an_older_epoch() -> None:
    """Rule 2: the last epoch counts before the length."""
    script = Script(3)
    script.lead(0, 1)
    script.add(0, 1)
    script.add(0, 2)
    script.lead(1, 2)
    script.fetch(2, 1)
    script.lead(0, 2)


def promised_and_goes_on() -> None:
    """Rule 2: who has promised an epoch takes nothing more from the leader of a lower one."""
    script = Script(3)
    script.lead(0, 1)
    script.fetch(1, 0)
    script.fetch(2, 0)
    script.win(2)
    script.carry(1, PromiseRequest)
    script.add(0, 1)
    script.among(0, 1)
    script.carry(2, PromiseResponse)


def promised_and_forgets() -> None:
    """Rule 2: a promise is durable. The restarted node is told of the older epoch first."""
    script = Script(3)
    script.lead(0, 1)
    script.fetch(1, 0)
    script.fetch(2, 0)
    older = script.arbiter
    script.win(2)
    script.carry(1, PromiseRequest)
    machine = script.machines[1]
    script.crash(machine)
    script.execute(machine, machine.node.record_read(older))
    script.add(0, 1)
    script.among(0, 1)
    script.carry(2, PromiseResponse)


def smaller_change_that_is_not_stored() -> None:
    """Rule 4: the old members count until the change is known to be stored."""
    script = Script(3)
    script.lead(0, 1)
    script.fetch(1, 0)
    change(script, 0, 0)
    script.add(0, 1)
    script.lead(1, 2)


def greater_change_that_is_stored_unheard() -> None:
    """Rule 4: the new members count from the moment that the swap is sent."""
    script = Script(3, member_count=1)
    script.lead(0)
    script.fetch(1, 0)
    script.fetch(2, 0)
    change(script, 0, 0, 1, 2)
    script.store(0)
    script.add(0, 1)
    script.lead(1, 2)


def new_members_that_lack_what_is_committed() -> None:
    """Rule 4: a majority of the new members must have all that is committed."""
    script = Script(3, member_count=1)
    script.lead(0)
    change(script, 0, 0, 1, 2)
    if script.find(0, Swap):
        script.store(0)
        script.lead(1, 2)


def change_before_it_is_known_what_is_committed() -> None:
    """Rule 4: only a record of its own epoch tells a leader what is committed."""
    script = Script(5, member_count=3)
    script.lead(0, 1)
    script.fetch(1, 0)
    script.lead(1, 2)
    change(script, 1, 1, 3, 4)
    if script.find(1, Swap):
        script.store(1)
        script.lead(3, 4)


def fetch_of_another_history() -> None:
    """The last fetched epoch tells that what is below the offset is not the leader's."""
    script = Script(5)
    script.lead(0, 1, 2)
    script.add(0, 1)
    script.fetch(1, 0, count=2)
    script.lead(4, 2, 3)
    script.add(4, 2)
    script.fetch(3, 4, count=2)
    script.fetch(1, 4, count=0)
    script.lead(1, 0, 2)


def acknowledged_before_the_flush() -> None:
    """Rule 5: a crash takes what is not flushed."""
    script = Script(3)
    script.lead(0, 1)
    script.fetch(1, 0, count=0)
    script.carry(1, ANSWERS)
    script.ask(1)
    if script.find(0, QuorumFetchRequest):
        script.carry(0, QuorumFetchRequest)
    machine = script.machines[1]
    machine.log.crash(0)
    machine.boot()
    script.execute(machine, machine.node.start())
    script.lead(1, 2)


def flush_that_is_told_after_a_truncation() -> None:
    """Rule 5: it was a flush of other records."""
    script = Script(5)
    script.lead(0, 1, 2)
    machine = script.machines[0]
    script.write(machine, 1)
    (late,) = machine.flushes
    machine.flushes.clear()
    script.add(0, 2)
    script.lead(4, 2, 3)
    script.fetch(2, 4)
    script.fetch(0, 4, count=1)  # truncates
    script.carry(0, ANSWERS)  # epoch 3's first record, not flushed
    script.execute(machine, machine.node.flushed(0, late[1].end_offset))
    if script.find(4, QuorumFetchRequest):
        script.carry(4, QuorumFetchRequest)
    machine.log.crash(0)
    machine.boot()
    script.execute(machine, machine.node.start())
    script.lead(0, 1, 3)


def read_that_comes_late() -> None:
    """Rule 7: of two reads the older one is of no interest."""
    script = Script(3, member_count=1)
    script.lead(0)
    script.fetch(1, 0)
    script.fetch(2, 0)
    older = script.arbiter
    change(script, 0, 0, 1, 2)
    script.store(0)
    script.read(0)
    machine = script.machines[0]
    script.execute(machine, machine.node.record_read(older))
    script.add(0, 1)
    script.lead(1, 2)


def swap_that_comes_late() -> None:
    """Rule 7: while the token has not moved on, a swap that was sent may still be stored."""
    script = Script(3, member_count=1)
    script.lead(0)
    script.fetch(1, 0)
    script.fetch(2, 0)
    change(script, 0, 0, 1, 2)
    script.read(0)
    script.add(0, 1)
    script.store(0)
    script.lead(1, 2)


SCENARIOS: dict[str, Callable[[], None]] = {
    "longest_log": longer_log_of_an_older_epoch,
    "count_old_epoch": old_epoch_on_a_majority,
    "old_leader_ok": promised_and_goes_on,
    "forget_promise": promised_and_forgets,
    "new_only": smaller_change_that_is_not_stored,
    "old_only": greater_change_that_is_stored_unheard,
    "change_behind": new_members_that_lack_what_is_committed,
    "change_before_own_commit": change_before_it_is_known_what_is_committed,
    "unseen_end": fetch_of_another_history,
    "unflushed": acknowledged_before_the_flush,
    "old_flush": flush_that_is_told_after_a_truncation,
    "old_read": read_that_comes_late,
    "swap_given_up": swap_that_comes_late,
}
