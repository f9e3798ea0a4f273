"""The shell of classic membership on virtual time, with the broker's own coordinator behind it."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from barnabas_client.cluster.metadata import ClusterMetadata
from barnabas_client.consumer.commits import OffsetCommitter
from barnabas_client.consumer.group.classic_member import ClassicMemberState
from barnabas_client.consumer.group.classic_membership import ClassicMembership
from barnabas_client.consumer.rebalance_listener import RebalanceListener
from barnabas_client.errors import AuthorizationError, DisconnectedError
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas_protocol.messages.join_group import JoinGroupRequest
from barnabas_protocol.messages.sync_group import SyncGroupRequest
from tests.client.consumer.group.classic_coordinator import Coordinator, Notes
from tests.client.consumer.group.scripted_client import (
    ScriptedClient,
    cluster,
    subscribed,
    topic,
)
from tests.support.virtual_loop import run_virtual


class Member:
    """One membership with all that it needs."""

    def __init__(self, coordinator: Coordinator, **settings: Any) -> None:
        self.client = ScriptedClient(coordinator, **settings)
        self.client.versions = {ApiKey.OFFSET_COMMIT: 9, ApiKey.OFFSET_FETCH: 9}
        self.subscription = subscribed("t")
        self.notes = Notes(coordinator.log)
        self.subscription.listener = self.notes
        client: Any = self.client
        self.committer = OffsetCommitter(client, client.settings, self.subscription)
        self.wakes = 0
        self.membership = ClassicMembership(
            client, client.settings, self.subscription, self.committer, self._wake
        )

    def _wake(self) -> None:
        self.wakes += 1

    @property
    def state(self) -> ClassicMemberState:
        return self.membership.member.state

    async def poll(self, timeout_ms: int = 1000) -> None:
        if self.membership.needs_poll():
            await self.membership.poll(self.client.environment.clock.monotonic_ms() + timeout_ms)

    async def poll_on(self) -> None:
        """Like a program: poll, and work for a while."""
        while True:
            await self.poll()
            await asyncio.sleep(0.1)

    async def close(self) -> None:
        await self.membership.close(5000)
        await self.committer.close(0)


@asynccontextmanager
async def world(*settings: dict[str, Any]) -> AsyncIterator[tuple[Coordinator, list[Member]]]:
    coordinator = Coordinator()
    ticking = asyncio.create_task(coordinator.tick())
    members = [Member(coordinator, **each) for each in settings]
    try:
        yield coordinator, members
    finally:
        for member in members:
            await member.close()
        ticking.cancel()
        with suppress(asyncio.CancelledError):
            await ticking


def shown(member: Member, offset: int = 7) -> None:
    """As if records up to the offset had been handed out."""
    for state in member.subscription.assigned.values():
        state.offset = offset


def test_partitions_are_committed_then_revoked_then_the_group_is_joined() -> None:
    """CON-8, CON-11: in this order, and assigned after sync."""

    async def run() -> None:
        async with world({}, {}) as (coordinator, (first, second)):
            await first.poll()
            assert len(first.subscription.assigned) == 4
            shown(first)
            joining = asyncio.create_task(second.poll(30_000))
            await asyncio.sleep(4)
            del coordinator.log[:]
            await first.poll()
            await joining
            log = [each for each in coordinator.log if each != "Heartbeat"]
            assert log[:3] == ["OffsetCommit", "revoked 4", "JoinGroup"]
            assert log[3:5] == ["SyncGroup", "SyncGroup"]
            assert log[5:] == ["assigned 2", "assigned 2"]
            assert coordinator.model.offsets() == {("t", at): 7 for at in range(4)}

    run_virtual(run())


def test_a_poll_ends_at_its_deadline_and_the_next_one_goes_on() -> None:
    """The JoinGroup stays parked between two polls: it is sent once."""

    async def run() -> None:
        async with world({}, {}) as (coordinator, (first, second)):
            await first.poll()
            began = asyncio.get_running_loop().time()
            await second.poll(100)
            assert asyncio.get_running_loop().time() - began == pytest.approx(0.1)
            assert second.state is ClassicMemberState.JOINING
            assert second.membership.needs_poll()
            await asyncio.sleep(4)
            both = asyncio.gather(first.poll(), second.poll())
            await both
            assert second.state is ClassicMemberState.STABLE
            # One to get an id, one to join; and both for the first member, with its rejoin.
            assert coordinator.log.count("JoinGroup") == 5

    run_virtual(run())


def test_a_cooperative_member_is_not_held_up_while_it_has_partitions() -> None:
    """KIP-429: `poll` leaves the rest to the background, `wake` says when it is to be called."""

    async def run() -> None:
        cooperative = {"partition_assignment_strategy": ["cooperative-sticky"]}
        async with world(cooperative, cooperative) as (coordinator, (first, second)):
            await first.poll()
            polls = asyncio.create_task(second.poll_on())
            await asyncio.sleep(4)
            began = asyncio.get_running_loop().time()
            await first.poll(60_000)
            assert asyncio.get_running_loop().time() == began
            assert first.state is ClassicMemberState.JOINING
            assert not first.membership.needs_poll()
            wakes = first.wakes
            await asyncio.sleep(1)
            assert first.wakes > wakes
            assert first.membership.needs_poll()
            log = coordinator.log
            while log.count("assigned 2") < 1:
                await first.poll()
                await asyncio.sleep(0.1)
            assert "revoked 2" in log
            assert "revoked 4" not in log
            polls.cancel()

    run_virtual(run())


def test_a_lost_connection_in_a_rebalance_begins_it_again() -> None:
    async def run() -> None:
        async with world({}) as (coordinator, (member,)):
            coordinator.failure = (JoinGroupRequest, DisconnectedError("gone"))
            await member.poll(5000)
            coordinator.log.clear()
            member.membership.request_rejoin("test")
            coordinator.failure = (SyncGroupRequest, DisconnectedError("gone"))
            await member.poll(5000)
            assert member.state is ClassicMemberState.STABLE
            assert member.client.forgotten == 2
            joins = [each for each in coordinator.log if each.endswith("Group")]
            assert joins == ["JoinGroup", "SyncGroup", "JoinGroup", "SyncGroup"]

    run_virtual(run())


def test_heartbeats_go_out_every_interval_and_find_a_moved_coordinator() -> None:
    """CON-10: also while the program does not poll."""

    async def run() -> None:
        async with world({"heartbeat_interval_ms": 1000}) as (coordinator, (member,)):
            await member.poll()
            coordinator.log.clear()
            await asyncio.sleep(10.5)
            assert coordinator.log == ["Heartbeat"] * 10
            coordinator.failure = (HeartbeatRequest, DisconnectedError("gone"))
            await asyncio.sleep(1)
            assert member.client.forgotten == 1
            moved = HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
            coordinator.failure = (HeartbeatRequest, moved)
            await asyncio.sleep(1)
            assert member.client.forgotten == 2
            assert member.state is ClassicMemberState.STABLE

    run_virtual(run())


def test_a_member_that_was_put_out_hands_out_nothing_more_and_reports_it_lost() -> None:
    """CON-11: the listener hears it within the next poll, not before."""

    async def run() -> None:
        async with world({"heartbeat_interval_ms": 1000}) as (coordinator, (member,)):
            await member.poll()
            (member_id,) = coordinator.model.shard.groups["g"].members
            coordinator.model.leave_many((member_id, None))
            await asyncio.sleep(1.5)
            assert all(s.is_pending_revocation for s in member.subscription.assigned.values())
            assert member.wakes
            assert "lost 4" not in coordinator.log
            await member.poll()
            assert coordinator.log.index("lost 4") < coordinator.log.index("assigned 4", 5)
            assert len(member.subscription.assigned) == 4
            assert member.membership.metadata().member_id not in ("", member_id)

    run_virtual(run())


def test_a_program_that_does_not_poll_makes_its_member_leave() -> None:
    """CON-10; one that waits within a poll does not."""

    async def run() -> None:
        async with world({"max_poll_interval_ms": 2000}, {}) as (coordinator, (first, second)):
            await first.poll()
            await asyncio.sleep(1.9)
            await first.poll()
            await asyncio.sleep(1.9)
            assert "LeaveGroup" not in coordinator.log
            await asyncio.sleep(0.3)
            assert "LeaveGroup" in coordinator.log
            assert first.membership.metadata().generation_id == -1
            coordinator.log.clear()
            await second.poll()
            await first.poll(500)
            assert coordinator.log[0] != "LeaveGroup"
            assert "lost 4" in coordinator.log
            waiting = asyncio.create_task(first.poll(60_000))
            await asyncio.sleep(5)
            assert "LeaveGroup" not in coordinator.log
            polls = asyncio.create_task(second.poll_on())
            await waiting
            assert len(first.subscription.assigned) == 2
            polls.cancel()

    run_virtual(run())


def test_a_listener_s_error_is_raised_after_the_rebalance_has_gone_on() -> None:
    async def run() -> None:
        async with world({}) as (_, (member,)):
            await member.poll()
            member.notes.error = ZeroDivisionError("in the callback")
            member.membership.request_rejoin("test")
            with pytest.raises(ZeroDivisionError, match="in the callback"):
                while True:
                    await member.poll()
            member.notes.error = None
            await member.poll()
            assert member.state is ClassicMemberState.STABLE
            assert len(member.subscription.assigned) == 4

    run_virtual(run())


def test_an_error_without_remedy_is_raised_and_joining_is_tried_again() -> None:
    async def run() -> None:
        async with world({"heartbeat_interval_ms": 1000}) as (coordinator, (member,)):
            await member.poll()
            denied = HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
            coordinator.failure = (HeartbeatRequest, denied)
            await asyncio.sleep(1.5)
            with pytest.raises(AuthorizationError):
                await member.poll()
            await member.poll()
            assert member.state in (ClassicMemberState.JOINING, ClassicMemberState.STABLE)
            # The member that the coordinator still remembers is waited for as long as it may last.
            while member.state is not ClassicMemberState.STABLE:
                await member.poll(10_000)
            assert "lost 4" in coordinator.log

    run_virtual(run())


@pytest.mark.parametrize(
    ("instance", "leave_group", "leaves"),
    [(None, None, True), (None, False, False), ("i", None, False), ("i", True, True)],
)
def test_who_leaves_at_the_end(
    instance: str | None, leave_group: bool | None, leaves: bool
) -> None:
    """CON-11, KIP-345, KIP-1092; partitions are committed and revoked in any case."""

    async def run() -> None:
        async with world({"group_instance_id": instance}) as (coordinator, (member,)):
            await member.poll()
            shown(member)
            coordinator.log.clear()
            await member.membership.close(5000, leave_group=leave_group)
            assert coordinator.log[:2] == ["OffsetCommit", "revoked 4"]
            assert ("LeaveGroup" in coordinator.log) == leaves
            assert not member.membership.needs_poll() or member.state is ClassicMemberState.UNJOINED

    run_virtual(run())


def test_the_leader_and_a_changed_subscription_make_the_group_meet_again() -> None:
    """CON-2: partitions that are new, topics that another member brings in."""

    async def run() -> None:
        async with world({}, {}) as (_, (first, second)):

            def show(picture: ClusterMetadata) -> None:
                first.client.show(picture)
                second.client.show(picture)

            polls = [asyncio.create_task(each.poll_on()) for each in (first, second)]
            await asyncio.sleep(10)
            assert [len(each.subscription.assigned) for each in (first, second)] == [2, 2]
            show(cluster(topic("t", 6), version=2))
            await asyncio.sleep(10)
            assert [len(each.subscription.assigned) for each in (first, second)] == [3, 3]
            show(cluster(topic("t", 6), topic("u", 2), version=3))
            second.subscription.subscribe_names(["t", "u"], second.notes)
            await asyncio.sleep(10)
            assert [len(each.subscription.assigned) for each in (first, second)] == [3, 5]
            assert {"t", "u"} in ({*first.client.wanted}, {*second.client.wanted})
            for task in polls:
                task.cancel()

    run_virtual(run())


def test_a_callback_whose_poll_was_cancelled_is_called_again_before_anything_else() -> None:
    """A program that seeks in `on_assigned` must not be handed out records from elsewhere."""

    async def run() -> None:
        async with world({}) as (_, (member,)):
            calls: list[str] = []

            class Slow(RebalanceListener):
                async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
                    calls.append("begun")
                    if len(calls) == 1:
                        await asyncio.Event().wait()
                    calls.append(f"ended for {len(partitions)}")

            member.subscription.listener = Slow()
            polling = asyncio.create_task(member.poll(30_000))
            async with asyncio.timeout(10):
                while not calls:
                    await asyncio.sleep(0.01)
            polling.cancel()
            with suppress(asyncio.CancelledError):
                await polling
            assert member.membership.needs_poll()
            await member.poll()
            assert calls == ["begun", "begun", "ended for 4"]
            assert not member.membership.needs_poll()

    run_virtual(run())


def test_leave_that_is_cancelled_leaves_all_the_same() -> None:
    """Neither partitions that nobody reads, nor a member that the group believes to be there."""

    async def run() -> None:
        async with world({}) as (coordinator, (member,)):
            await member.poll()
            assert len(member.subscription.assigned) == 4
            shown(member)
            hold = coordinator.hold_commits = asyncio.Event()
            leaving = asyncio.create_task(member.membership.leave(5000))
            async with asyncio.timeout(10):
                while "OffsetCommit" not in coordinator.log:
                    await asyncio.sleep(0.01)
            leaving.cancel()
            with suppress(asyncio.CancelledError):
                await leaving
            hold.set()
            assert not member.subscription.assigned
            async with asyncio.timeout(10):
                while "LeaveGroup" not in coordinator.log:
                    await asyncio.sleep(0.01)
            await member.poll()
            assert len(member.subscription.assigned) == 4, "it may join again"

    run_virtual(run())


def test_a_rebalance_cancelled_before_its_first_step_can_begin_again() -> None:
    """The task never ran, so that its own clean-up never would."""

    async def run() -> None:
        async with world({}) as (_, (member,)):
            rebalance = member.membership.rebalance
            rebalance.start()
            await rebalance.cancel()
            assert not rebalance.is_running
            await member.poll()
            assert len(member.subscription.assigned) == 4

    run_virtual(run())
