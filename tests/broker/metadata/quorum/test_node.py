"""One node of the metadata log, rule by rule (`docs/formats/arbiter.md`), and the traps of pull."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas_broker.metadata import log_ends
from barnabas_broker.metadata.log_ends import LogEnd
from barnabas_broker.metadata.quorum import (
    effects,
    leadership,
    log_copy,
    messages,
    node,
    recovery,
)
from barnabas_broker.metadata.quorum.effects import (
    Flush,
    HoldFetch,
    Lead,
    PersistPromise,
    PublishCommitted,
    ReadRecord,
    Send,
    StepDown,
    Swap,
    Truncate,
)
from barnabas_broker.metadata.quorum.leadership import MembersRefusedError
from barnabas_broker.metadata.quorum.log_copy import QuorumBrokenError
from barnabas_broker.metadata.quorum.messages import (
    ArbiterView,
    DivergenceResponse,
    FetchRefused,
    PromiseRequest,
    PromiseResponse,
    QuorumFetchRequest,
    RecordsResponse,
    SnapshotResponse,
)
from barnabas_broker.metadata.quorum.node import QuorumNode, Role
from barnabas_broker.metadata.quorum.voters import Voter
from tests.broker.metadata.quorum.quorum_scenarios import voters
from tests.broker.metadata.quorum.quorum_script import ANSWERS, Script
from tests.broker.metadata.quorum.quorum_world import FIRST, Entry, WalkLog


def settle(script: Script, leader: int, *followers: int) -> None:
    """Let followers catch up with a leader, and hear what is committed."""
    for follower in followers:
        script.read(follower)
    script.among(leader, *followers)


def ask_change(script: Script, leader: int, *members: int) -> None:
    machine = script.machines[leader]
    script.execute(machine, machine.node.change_members(voters(script, *members)))


def test_core_knows_no_clock_no_loop_and_no_chance() -> None:
    """Pure: the same events give the same effects."""
    modules = (
        leadership, log_copy, log_ends, effects, messages, node, recovery,
    )  # fmt: skip
    for module in modules:
        assert module.__file__ is not None
        tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
        imported = {
            name.split(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [])
            + [alias.name for alias in node.names]
        }
        assert not imported & {"asyncio", "time", "random", "socket", "threading"}


# ---- rule 1 -----------------------------------------------------------------------------------


def test_only_a_member_tries_to_lead() -> None:
    """Rule 1, and rule 6: the voter of another disk is another's."""
    script = Script(3, member_count=2)
    assert script.node(2).take_over() == ()
    other_disk = script.machines[0].voter._replace(directory_id=b"another")
    stranger = QuorumNode(other_disk, WalkLog(), 0)
    stranger.record_read(script.arbiter)
    assert stranger.take_over() == ()
    (swap,) = script.node(0).take_over()
    assert isinstance(swap, Swap)
    assert swap.expected_token == script.arbiter.token
    assert swap.proposal.controller_epoch == script.arbiter.controller_epoch + 1
    assert swap.proposal.members == script.arbiter.members
    assert script.node(0).take_over() == (), "one swap at a time"


def test_nothing_is_resumed_after_a_restart() -> None:
    """Rule 1: the record still names the node, but the epoch was promised before the crash."""
    script = Script(1)
    script.lead(0)
    script.restart(0)
    script.flush_all(0)
    script.read(0)
    assert script.node(0).role is Role.FOLLOWER
    script.lead(0)
    assert script.values(0) == [(2, FIRST), (3, FIRST)]


def test_won_swap_whose_reply_was_lost_leads_after_a_restart_if_nothing_was_done_in_it() -> None:
    """Rules 1 and 7: the epoch is fresh as long as this node has not promised it."""
    script = Script(1)
    machine = script.machines[0]
    script.execute(machine, machine.node.take_over())
    script.store(0)
    script.restart(0)
    script.read(0)
    assert script.node(0).role is Role.LEADING


def test_first_node_founds_a_cluster_only_where_there_is_no_record() -> None:
    """CTL-2, CTL-10: and in an epoch above all that its own log has seen."""
    log = WalkLog()
    log.append([Entry(4, 0)])
    script = Script(1)
    node = QuorumNode(script.machines[0].voter, log, 5)
    assert node.found_cluster() == (), "not before the arbiter was read"
    none = ArbiterView(token=0, controller_epoch=0, leader_id=None, members=frozenset())
    node.record_read(none)
    assert node.take_over() == (), "nobody is a member"
    only_me = frozenset((node.voter,))
    (swap,) = node.found_cluster()
    assert isinstance(swap, Swap)
    assert (swap.proposal.controller_epoch, swap.proposal.members) == (6, only_me)
    node.record_read(replace(none, token=1, controller_epoch=6, leader_id=0, members=only_me))
    assert node.role is Role.LEADING
    assert node.found_cluster() == ()


# ---- rule 2 -----------------------------------------------------------------------------------


def test_promise_is_durable_before_it_is_told_and_lower_epochs_are_refused() -> None:
    """Rule 2."""
    script = Script(3)
    effects = script.node(1).on_promise_request(PromiseRequest(controller_epoch=5, leader_id=0))
    assert [type(effect) for effect in effects][:2] == [PersistPromise, Send]
    (refusal,) = script.node(1).on_promise_request(PromiseRequest(controller_epoch=4, leader_id=2))
    assert isinstance(refusal, Send)
    assert isinstance(refusal.message, PromiseResponse)
    assert (refusal.node_id, refusal.message.promised_epoch) == (2, 5)


def test_promise_waits_until_all_is_flushed() -> None:
    """Rules 2 and 5: more than a crash leaves may not be promised, nor less than acknowledged.

    Found by the walks: a restarted member told that its log was empty, since it had not flushed yet
    what recovery had found, and the winner led without a committed record.
    """
    script = Script(3)
    script.lead(0, 1)
    settle(script, 0, 1)
    script.restart(1)
    script.packets.clear()
    script.win(2)
    script.carry(1, PromiseRequest)
    assert script.find(2, PromiseResponse) is None
    script.flush_all(1)
    packet = script.find(2, PromiseResponse)
    assert packet is not None
    assert isinstance(packet.what, PromiseResponse)
    assert packet.what.end == LogEnd(2, 1)


def test_winner_leads_with_a_majority_only_and_first_writes_a_record_of_its_epoch() -> None:
    """Rule 2."""
    script = Script(5)
    script.win(0)
    assert script.node(0).role is Role.RECOVERING
    script.promise(0, 1)
    assert script.node(0).role is Role.RECOVERING
    script.promise(0, 2)
    assert script.node(0).role is Role.LEADING
    assert script.values(0) == [(2, FIRST)]


def test_promises_of_observers_do_not_count() -> None:
    """Rule 2: a majority of the members."""
    script = Script(4, member_count=3)
    script.win(0)
    end = LogEnd(9, 9)
    observer = PromiseResponse(
        controller_epoch=2, promised_epoch=2, voter=script.machines[3].voter, end=end
    )
    assert script.node(0).on_promise_response(observer) == ()
    assert script.node(0).role is Role.RECOVERING


def test_winner_takes_over_the_best_log_before_it_leads() -> None:
    """Rule 2: by the same fetches, truncation included."""
    script = Script(3)
    script.lead(0, 1)
    script.add(0, 1)
    script.add(0, 2)  # on node 0 only
    script.lead(1, 2)
    script.add(1, 3)
    script.fetch(2, 1, count=2)
    script.lead(0, 2)
    assert script.values(0) == [(3, FIRST), (3, 3), (4, FIRST)]


def test_winner_does_without_a_source_that_cannot_be_reached() -> None:
    """Rule 2: any majority will do; the own log counts as it is by then."""
    script = Script(3)
    script.lead(0, 1)
    script.fetch(1, 0)
    script.packets.clear()
    script.win(2)
    script.promise(2, 1)
    machine = script.machines[2]
    assert script.find(1, QuorumFetchRequest) is not None
    script.execute(machine, machine.node.unreachable(1))
    assert script.node(2).role is Role.RECOVERING, "no majority without it"
    script.packets = [p for p in script.packets if isinstance(p.what, PromiseRequest)]
    script.promise(2, 0)
    script.carry(0, QuorumFetchRequest)
    script.carry(2, ANSWERS)
    script.flush_all(2)
    assert script.values(2) == [(2, FIRST), (3, FIRST)]


def test_source_that_has_less_than_it_promised_is_asked_for_a_new_promise() -> None:
    """Rule 5 broken by a disk that lies: the winner must not take half for the whole."""
    script = Script(3)
    script.lead(0, 1)
    script.add(0, 1)
    script.fetch(1, 0, count=2)
    script.win(2)
    script.promise(2, 1)
    script.machines[1].log.truncate(0)
    for _ in range(2):
        if script.find(1, QuorumFetchRequest):
            script.carry(1, QuorumFetchRequest)
            script.carry(2, ANSWERS)
            script.flush_all(2)
    assert script.node(2).role is Role.RECOVERING
    assert script.find(1, PromiseRequest) is not None


def test_of_two_candidates_the_one_with_the_older_epoch_gives_way() -> None:
    """Rule 2: whoever asks for promises of the higher epoch gets them."""
    script = Script(3)
    script.win(0)
    script.win(1)
    script.carry(0, PromiseRequest)
    assert script.node(0).role is Role.FOLLOWER
    script.carry(1, PromiseResponse)
    assert script.node(1).role is Role.LEADING
    (refusal,) = script.node(1).on_promise_request(PromiseRequest(controller_epoch=2, leader_id=0))
    assert isinstance(refusal, Send)
    assert isinstance(refusal.message, PromiseResponse)
    assert refusal.message.promised_epoch == 3


def test_an_epoch_is_promised_to_one_node_only() -> None:
    """Rule 10: an old record was put back, so that an epoch is won again while it is led."""
    script = Script(3)
    script.lead(0, 1)
    again = PromiseRequest(controller_epoch=2, leader_id=2)
    assert script.node(0).on_promise_request(again) == (), "it leads this very epoch"
    assert script.node(0).role is Role.LEADING
    assert script.node(1).on_promise_request(again) == (), "it was promised to node 0"
    script.node(0).resign()
    assert script.node(0).on_promise_request(again) == (), "it was led here"
    (granted,) = script.node(1).on_promise_request(PromiseRequest(controller_epoch=2, leader_id=0))
    assert isinstance(granted, Send), "a request may come twice"


def test_an_epoch_promised_before_a_restart_is_promised_to_nobody_again() -> None:
    """Rule 10: the disk does not say to whom it was."""
    script = Script(3)
    script.lead(0, 1)
    script.restart(1)
    script.flush_all(1)
    for leader_id in (0, 2):
        request = PromiseRequest(controller_epoch=2, leader_id=leader_id)
        assert script.node(1).on_promise_request(request) == ()
    assert script.node(1).on_promise_request(PromiseRequest(controller_epoch=3, leader_id=2)) != ()


def test_a_node_goes_on_with_whom_it_promised_the_epoch_to() -> None:
    """Rule 10: the record names another winner of the epoch, who can never lead in it."""
    script = Script(3)
    script.lead(0, 1)
    settle(script, 0, 1)
    won_again = replace(script.arbiter, token=script.arbiter.token + 1, leader_id=2)
    assert script.node(1).record_read(won_again) == ()
    assert script.node(1).leader_id == 0


# ---- rule 3 -----------------------------------------------------------------------------------


def test_record_is_committed_when_a_majority_has_asked_for_what_follows() -> None:
    """Rule 3: asking from an offset acknowledges all below it."""
    script = Script(3)
    script.lead(0, 1)
    assert script.truth == []
    script.fetch(1, 0)
    assert script.truth == [Entry(2, FIRST)]
    script.carry(1, RecordsResponse)
    assert script.machines[1].committed == 1, "the next response tells"


def test_single_member_commits_by_its_own_flush() -> None:
    """Rule 3 with one node."""
    script = Script(1)
    script.win(0)
    assert script.truth == []
    script.flush_all(0)
    assert script.truth == [Entry(2, FIRST)]


def test_leader_that_has_not_flushed_can_commit_by_others() -> None:
    """Rule 3: a majority is a majority."""
    script = Script(3)
    script.win(0)
    script.promise(0, 1)
    script.packets.clear()
    script.fetch(1, 0)
    assert script.truth == []
    script.fetch(2, 0)
    assert script.truth == [Entry(2, FIRST)]


def test_acknowledgements_of_observers_are_never_counted() -> None:
    """Rule 3: but they are remembered, for observers may become members."""
    script = Script(5, member_count=3)
    script.lead(0, 1)
    script.fetch(3, 0)
    script.fetch(4, 0)
    assert script.truth == []
    leading = script.node(0).leadership
    assert leading is not None
    assert leading.flushed_end_offset(script.machines[3].voter) == 1


# ---- rule 4 -----------------------------------------------------------------------------------


def test_members_grow_from_one_to_three_once_the_new_ones_have_caught_up() -> None:
    """Rule 4."""
    script = Script(3, member_count=1)
    script.lead(0)
    with pytest.raises(MembersRefusedError, match="up to 0 only"):
        ask_change(script, 0, 0, 1, 2)
    settle(script, 0, 1, 2)
    ask_change(script, 0, 0, 1, 2)
    script.store(0)
    script.read(0)
    script.add(0, 1)
    assert len(script.truth) == 1, "one of three is no majority"
    settle(script, 0, 1)
    assert len(script.truth) == 2
    script.lead(2, 1)
    assert script.values(2) == [(2, FIRST), (2, 1), (3, FIRST)]


def test_members_shrink_from_three_to_the_leader_alone() -> None:
    """Rule 4: both majorities until the change is known to be stored, then the new one."""
    script = Script(3)
    script.lead(0, 1)
    settle(script, 0, 1)
    ask_change(script, 0, 0)
    script.add(0, 1)
    assert len(script.truth) == 1
    script.store(0)
    script.read(0)
    assert len(script.truth) == 2


def test_dead_member_is_replaced_by_an_observer() -> None:
    """Rules 4 and 6: the metadata log lives on with the disks that are there."""
    script = Script(4, member_count=3)
    script.lead(0, 1)
    settle(script, 0, 1, 3)
    ask_change(script, 0, 0, 1, 3)
    script.store(0)
    script.read(0)
    script.add(0, 1)
    settle(script, 0, 3)
    assert len(script.truth) == 2
    script.read(2)
    assert script.node(2).take_over() == ()


def test_members_are_changed_one_swap_at_a_time_and_with_the_leader() -> None:
    """Rule 4; a sign of life is a swap as well."""
    script = Script(3)
    with pytest.raises(MembersRefusedError, match="does not lead"):
        ask_change(script, 0, 0)
    script.lead(0, 1)
    with pytest.raises(MembersRefusedError, match="own epoch"):
        ask_change(script, 0, 0)
    settle(script, 0, 1)
    with pytest.raises(MembersRefusedError, match="must stay"):
        ask_change(script, 0, 1, 2)
    ask_change(script, 0, 0, 1, 2)
    assert script.find(0, Swap) is None, "these are the members"
    ask_change(script, 0, 0, 1)
    assert script.node(0).renew() == ()
    with pytest.raises(MembersRefusedError, match="under way"):
        ask_change(script, 0, 0)
    script.store(0)
    script.read(0)
    (renewal,) = script.node(0).renew()
    assert isinstance(renewal, Swap)
    with pytest.raises(MembersRefusedError, match="swap is under way"):
        ask_change(script, 0, 0)


# ---- rule 5 -----------------------------------------------------------------------------------


def test_follower_asks_for_more_only_after_the_flush() -> None:
    """Rule 5."""
    script = Script(3)
    script.lead(0, 1)
    script.fetch(1, 0, count=0)
    script.carry(1, RecordsResponse)
    assert script.find(0, QuorumFetchRequest) is None
    script.flush_all(1)
    packet = script.find(0, QuorumFetchRequest)
    assert packet is not None
    assert isinstance(packet.what, QuorumFetchRequest)
    assert packet.what.end == LogEnd(2, 1)


def test_fetch_of_an_older_epoch_is_refused_and_teaches_the_newer_one() -> None:
    """Rule 5: what it acknowledges may have been truncated since it was sent."""
    script = Script(3)
    script.lead(0, 1)
    script.fetch(1, 0, count=0)
    old = QuorumFetchRequest(controller_epoch=2, voter=script.machines[1].voter, end=LogEnd(2, 1))
    script.restart(0)
    script.flush_all(0)
    script.lead(0, 2)
    (effect,) = script.node(0).on_fetch_request(old)
    assert isinstance(effect, Send)
    assert effect.message == FetchRefused(
        controller_epoch=3, source=script.machines[0].voter, leader_id=0
    )
    effects = script.node(1).on_fetch_response(effect.message)
    assert [type(effect) for effect in effects] == [PersistPromise, Send]
    assert script.node(1).promised_epoch == 3


def test_fetch_of_a_higher_epoch_deposes_the_leader() -> None:
    """CTL-4: before anything else."""
    script = Script(3)
    script.lead(0, 1)
    request = QuorumFetchRequest(
        controller_epoch=7, voter=script.machines[2].voter, end=LogEnd(-1, 0)
    )
    effects = script.node(0).on_fetch_request(request)
    assert isinstance(effects[0], StepDown)
    assert ReadRecord() in effects
    assert script.node(0).role is Role.FOLLOWER
    assert script.node(0).promised_epoch == 2, "promised to a leader that is known, to none else"


def test_fetches_wait_while_the_winner_recovers() -> None:
    """So that followers need not ask in vain at a failover."""
    script = Script(3)
    script.win(0)
    request = QuorumFetchRequest(
        controller_epoch=2, voter=script.machines[1].voter, end=LogEnd(-1, 0)
    )
    assert script.node(0).on_fetch_request(request) == (HoldFetch(request=request),)


def test_answers_that_come_twice_or_to_an_older_fetch_do_nothing() -> None:
    """They repeat what was asked."""
    script = Script(3)
    script.lead(0, 1)
    script.add(0, 1)
    script.fetch(1, 0, count=0)
    packet = script.carry(1, RecordsResponse)
    script.tell(packet)
    script.flush_all(1)
    script.tell(packet)
    assert script.values(1) == [(2, FIRST)]


# ---- truncation and snapshots -----------------------------------------------------------------


def follower_with_a_committed_record() -> tuple[Script, QuorumNode]:
    script = Script(3)
    script.lead(0, 1)
    settle(script, 0, 1)
    assert script.machines[1].committed == 1
    script.ask(1)
    return script, script.node(1)


def test_truncation_below_the_high_watermark_is_refused_loudly() -> None:
    """A committed record would be lost: that is for a person to decide."""
    script, node = follower_with_a_committed_record()
    response = DivergenceResponse(
        controller_epoch=2,
        source=script.machines[0].voter,
        requested=LogEnd(2, 1),
        diverging=LogEnd(-1, 0),
    )
    with pytest.raises(QuorumBrokenError, match="committed up to 1"):
        node.on_fetch_response(response)


def test_what_an_earlier_run_knew_to_be_committed_is_never_dropped() -> None:
    """The high watermark is in the checkpoint: a restart does not make a truncation harmless."""
    log = WalkLog()
    for value in range(3):
        log.append([Entry(2, value)])
    node = QuorumNode(Script(3).machines[1].voter, log, 2, 2)
    leader = Script(3).machines[0].voter
    members = frozenset((leader, node.voter))
    node.start()
    node.flushed(0, 3)
    node.record_read(ArbiterView(token=9, controller_epoch=3, leader_id=0, members=members))
    assert node.copy.high_watermark == 0, "nothing is published by it"

    def parted_at(end_offset: int) -> DivergenceResponse:
        return DivergenceResponse(
            controller_epoch=3,
            source=leader,
            requested=LogEnd(2, 3),
            diverging=LogEnd(2, end_offset),
        )

    with pytest.raises(QuorumBrokenError, match="committed up to 2"):
        node.on_fetch_response(parted_at(1))
    node.copy.forget()
    node.retry_requests()
    assert Truncate(end_offset=2) in node.on_fetch_response(parted_at(2))


def test_nobody_takes_over_by_a_record_that_is_older_than_a_promise() -> None:
    """Rule 10: its members need not have what was committed since."""
    node = QuorumNode(Script(1).machines[0].voter, WalkLog(), 7)
    only_me = frozenset((node.voter,))
    old = ArbiterView(token=1, controller_epoch=3, leader_id=None, members=only_me)
    node.record_read(old)
    assert node.is_record_old
    assert node.take_over() == ()
    node.record_read(replace(old, token=2, controller_epoch=7))
    (swap,) = node.take_over()
    assert isinstance(swap, Swap)
    assert swap.proposal.controller_epoch == 8


def test_a_promise_of_a_disk_that_lacks_what_it_had_does_not_count() -> None:
    """It was restored from a copy: what it has acknowledged since may be nowhere else."""
    script = Script(3)
    voters = [machine.voter for machine in script.machines]
    node = QuorumNode(voters[0], WalkLog(), 0)
    record = ArbiterView(
        token=3,
        controller_epoch=4,
        leader_id=0,
        members=frozenset(voters),
        ends=((voters[1], LogEnd(3, 5)),),
    )
    node.record_read(record)
    assert node.role is Role.RECOVERING

    def promised(voter: Voter, end: LogEnd) -> None:
        node.on_promise_response(
            PromiseResponse(controller_epoch=4, promised_epoch=4, voter=voter, end=end)
        )

    promised(voters[1], LogEnd(3, 4))
    assert not node.recovery.has_enough
    promised(voters[1], LogEnd(3, 5))
    assert node.recovery.has_enough


def test_no_promise_is_given_below_the_epoch_of_the_record() -> None:
    """A disk that was restored from a copy has forgotten what it has promised."""
    script = Script(3)
    node = QuorumNode(script.machines[1].voter, WalkLog(), 2)
    node.record_read(
        ArbiterView(token=3, controller_epoch=5, leader_id=None, members=frozenset((node.voter,)))
    )
    (send,) = node.on_promise_request(PromiseRequest(controller_epoch=4, leader_id=0))
    assert isinstance(send, Send)
    assert isinstance(send.message, PromiseResponse)
    assert (send.message.controller_epoch, send.message.promised_epoch) == (4, 5)
    assert node.promised_epoch == 2


def test_nobody_leads_with_a_disk_that_lacks_what_it_had() -> None:
    """Neither by taking over, nor by a swap that has succeeded."""
    node = QuorumNode(Script(1).machines[0].voter, WalkLog(), 0)
    record = ArbiterView(
        token=3,
        controller_epoch=4,
        leader_id=None,
        members=frozenset((node.voter,)),
        ends=((node.voter, LogEnd(3, 5)),),
    )
    node.record_read(record)
    assert node.take_over() == ()
    node.record_read(replace(record, token=4, controller_epoch=5, leader_id=0))
    assert node.role is Role.FOLLOWER


def test_snapshot_that_ends_below_the_high_watermark_is_refused_loudly() -> None:
    """The same, by another way."""
    script, node = follower_with_a_committed_record()
    response = SnapshotResponse(
        controller_epoch=2,
        source=script.machines[0].voter,
        requested=LogEnd(2, 1),
        snapshot=LogEnd(1, 1),
    )
    with pytest.raises(QuorumBrokenError, match="high watermark is 1"):
        node.on_fetch_response(response)


def test_follower_truncates_what_a_new_leader_does_not_have() -> None:
    """KIP-101: to where the epochs part, whatever the lengths."""
    script = Script(3)
    script.lead(0, 1)
    settle(script, 0, 1, 2)
    script.add(0, 1)
    script.add(0, 2)
    script.lead(1, 2)
    settle(script, 1, 0)
    assert script.values(0) == [(2, FIRST), (3, FIRST)]


def test_observer_that_is_far_behind_loads_the_snapshot_first() -> None:
    """CTL-12."""
    script = Script(3, member_count=1)
    script.lead(0)
    script.add(0, 1)
    script.machines[0].log.trim(2)
    script.add(0, 2)
    script.fetch(1, 0, count=0)
    script.carry(1, SnapshotResponse)
    (load,) = (packet for packet in script.packets if packet.incarnation and packet.to == 1)
    assert script.node(1).copy.is_waiting
    script.packets.remove(load)
    script.tell(load)
    script.flush_all(1)
    settle(script, 0, 1)
    assert script.values(1) == [(2, FIRST), (2, 1), (2, 2)]
    assert script.machines[1].log.log_start_offset == 2


def test_snapshot_that_cannot_be_had_is_asked_for_anew() -> None:
    """The source has a newer one by now."""
    script = Script(2, member_count=1)
    script.lead(0)
    script.machines[0].log.trim(1)
    script.fetch(1, 0, count=0)
    response = script.carry(1, SnapshotResponse).what
    assert isinstance(response, SnapshotResponse)
    assert script.node(1).retry_requests() == ()
    other = replace(response, snapshot=LogEnd(2, 5))
    assert script.node(1).snapshot_failed(other) == ()
    assert script.node(1).snapshot_fetched(other) == ()
    (again,) = script.node(1).snapshot_failed(response)
    assert isinstance(again, Send)


# ---- rule 7, and stepping down ----------------------------------------------------------------


def test_leader_steps_down_when_another_s_epoch_is_stored() -> None:
    """Rule 7."""
    script = Script(3)
    script.lead(0, 1)
    script.win(1)
    effects = script.node(0).record_read(script.arbiter)
    assert effects[0] == StepDown(controller_epoch=2)
    assert PersistPromise(controller_epoch=3) in effects
    assert script.node(0).leader_id == 1


def test_leader_steps_down_when_the_record_is_cleared_or_its_leader_is() -> None:
    """CTL-10: an operator forces an election."""
    for epoch, token in ((2, 9), (0, 0)):
        script = Script(1)
        script.lead(0)
        cleared = replace(script.arbiter, leader_id=None, controller_epoch=epoch, token=token)
        assert script.node(0).record_read(cleared) == (StepDown(controller_epoch=2),)


def test_leader_that_gives_up_tells_the_arbiter() -> None:
    """CTL-7: the epoch stays, the next one is higher."""
    script = Script(3)
    script.lead(0, 1)
    down, swap = script.node(0).resign()
    assert down == StepDown(controller_epoch=2)
    assert isinstance(swap, Swap)
    assert (swap.proposal.leader_id, swap.proposal.controller_epoch) == (None, 2)
    assert script.node(0).resign() == ()


def test_swap_is_sent_again_until_the_token_has_moved_on() -> None:
    """Rule 7: the very same one, so that at most one of the tries is stored."""
    script = Script(3)
    script.lead(0, 1)
    settle(script, 0, 1)
    ask_change(script, 0, 0, 1)
    swap = script.find(0, Swap)
    assert swap is not None
    script.read(0)
    assert swap.what in script.node(0).retry_requests()
    script.store(0)
    script.read(0)
    assert script.node(0).retry_requests() == ()


def test_refused_promise_of_a_higher_epoch_ends_the_recovery() -> None:
    """Rule 2: the winner has been surpassed."""
    script = Script(3)
    script.win(0)
    refusal = PromiseResponse(
        controller_epoch=2, promised_epoch=5, voter=script.machines[1].voter, end=LogEnd(-1, 0)
    )
    assert script.node(0).on_promise_response(refusal) == (
        StepDown(controller_epoch=2),
        ReadRecord(),
    )


def test_flushes_are_asked_for_once() -> None:
    """A flush costs; one that is under way need not be asked for again."""
    log = WalkLog()
    log.append([Entry(1, 0)])
    node = QuorumNode(Script(1).machines[0].voter, log, 0)
    assert Flush(truncation_count=0, end_offset=1) in node.start()
    assert not [effect for effect in node.retry_requests() if isinstance(effect, Flush)]


def test_high_watermark_is_published_once_and_never_lowered() -> None:
    """What is committed stays so, whoever leads."""
    script = Script(3)
    script.lead(0, 1)
    settle(script, 0, 1, 2)
    script.lead(1, 2)
    assert script.machines[1].committed == 1
    assert script.node(1).copy.raise_high_watermark(1) == ()
    assert script.node(1).copy.raise_high_watermark(2) == (PublishCommitted(high_watermark=2),)


def test_first_act_is_at_the_end_of_the_log_taken_over() -> None:
    """Rule 2."""
    script = Script(1)
    script.lead(0)
    script.restart(0)
    script.flush_all(0)
    script.win(0)
    node = QuorumNode(script.machines[0].voter, script.machines[0].log, 3)
    node.record_read(script.arbiter)
    view = replace(script.arbiter, controller_epoch=9, token=99)
    assert node.record_read(view)[-1] == Lead(controller_epoch=9, base_offset=2)
