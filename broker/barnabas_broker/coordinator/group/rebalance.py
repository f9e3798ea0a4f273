"""How a rebalance of a classic group starts, waits and ends, and how members drop out.

Not here: what a single request does (`join.py`, `sync.py`). Source: GRP-6, GRP-7, GRP-9,
GRP-12, GRP-13, GRP-15, GRP-16.

Timers of a group, by key: a session per member id (pending ones included); one join timer while
PreparingRebalance; one sync timer after a join phase ended.

Invariants: a group in PreparingRebalance always has a join timer, so that it gets out of it; the
timer of a parked member may fire without effect, because answering the request starts it again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import assert_never

from barnabas_broker.coordinator.group.classic import ClassicGroup, GroupState
from barnabas_broker.coordinator.group.members import ClassicMember, join_error, sync_error
from barnabas_broker.coordinator.group.metrics import GroupMetrics
from barnabas_broker.coordinator.group.records import group_record
from barnabas_broker.coordinator.group.settings import GroupSettings
from barnabas_broker.coordinator.runtime.shard import Instant, Result, TimerAction, no_change
from barnabas_broker.coordinator.runtime.timers import ShardTimers
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.join_group import JoinGroupResponse

# When the log has refused to take that a group is Empty.
EMPTY_RETRY_MS = 5_000
# When all members are static and away: their rebalance timeout may be nothing.
ABSENT_RETRY_MS = 1_000


class Rebalancer:
    """The steps that joins, syncs, leaves and timers of all groups of a shard have in common."""

    def __init__(
        self,
        settings: GroupSettings,
        timers: ShardTimers[TimerAction],
        metrics: GroupMetrics,
        groups: dict[str, ClassicGroup],
    ) -> None:
        self.settings = settings
        self.metrics = metrics
        self._timers = timers
        self._groups = groups
        # Asked when there is no room for another group.
        self.expire_idle: Callable[[Instant], None] | None = None

    def make_room(self, now: Instant) -> None:
        """Have groups that are Empty and without offsets go before their time."""
        if self.expire_idle is not None:
            self.expire_idle(now)

    # ---- sessions ------------------------------------------------------------------------------

    def start_session(
        self, group: ClassicGroup, member_id: str, timeout_ms: int, now: Instant
    ) -> None:
        """Expire the (possibly pending) member unless it sends a heartbeat."""
        group_id = group.group_id
        self._timers.schedule(
            _session_key(group_id, member_id),
            now.monotonic_ms + timeout_ms,
            lambda fired: self._expire_session(group_id, member_id, fired),
        )

    def touch(self, group: ClassicGroup, member: ClassicMember, now: Instant) -> None:
        """Count a request of the member as a heartbeat (GRP-15)."""
        if member.is_new:
            return
        key = _session_key(group.group_id, member.member_id)
        if key in self._timers:
            self._timers.postpone(key, now.monotonic_ms + member.session_timeout_ms)
        else:
            self.start_session(group, member.member_id, member.session_timeout_ms, now)

    def stop_session(self, group: ClassicGroup, member_id: str) -> None:
        """Forget the timer of a member or pending member."""
        self._timers.cancel(_session_key(group.group_id, member_id))

    def forget_expired(self, group: ClassicGroup) -> None:
        """Forget given-out ids whose time ran out while the group was taken for deleted."""
        for member_id in list(group.pending_member_ids):
            if _session_key(group.group_id, member_id) not in self._timers:
                group.forget_pending(member_id)

    def resume(self, group: ClassicGroup, now: Instant) -> None:
        """Go on with a group that was away: its timers may have fired meanwhile."""
        for member in group.members.values():
            self.start_session(group, member.member_id, member.session_timeout_ms, now)
        match group.state:
            case GroupState.PREPARING_REBALANCE:
                group.is_in_initial_delay = False
                self._schedule_join(group, now)
            case GroupState.COMPLETING_REBALANCE:
                self.prepare(group, now)
            case GroupState.EMPTY | GroupState.STABLE | GroupState.DEAD:
                pass
            case _:
                assert_never(group.state)

    def cancel_timers(self, group: ClassicGroup) -> None:
        """Forget all timers of a group that is going away."""
        for member_id in (*group.members, *group.pending_member_ids):
            self.stop_session(group, member_id)
        self._timers.cancel(_join_key(group.group_id))
        self._timers.cancel(_sync_key(group.group_id))

    def _expire_session(self, group_id: str, member_id: str, now: Instant) -> Result[None]:
        group = self._groups.get(group_id)
        if group is None:
            return no_change()
        if member_id in group.pending_member_ids:
            return self.remove_pending(group, member_id, now)
        member = group.members.get(member_id)
        if member is None or (member.is_parked and not member.is_new):
            return no_change()
        self.metrics.expired_member_count += 1
        return self.remove_member(group, member, now)

    # ---- leaving -------------------------------------------------------------------------------

    def remove_pending(self, group: ClassicGroup, member_id: str, now: Instant) -> Result[None]:
        """Stop waiting for the join of a given-out id."""
        self.stop_session(group, member_id)
        group.forget_pending(member_id)
        return self.complete_join_if_all_joined(group, now)

    def remove_member(
        self, group: ClassicGroup, member: ClassicMember, now: Instant
    ) -> Result[None]:
        """Take one member out, with the consequences of GRP-16."""
        self.detach(group, member)
        return self.after_removal(group, now)

    def detach(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Take one member out and respond to what it has parked; the group's state stays."""
        code = ErrorCode.UNKNOWN_MEMBER_ID
        group.answer_join(member, join_error(code, ""))
        member.answer_sync(sync_error(code))
        self.stop_session(group, member.member_id)
        group.remove(member)

    def after_removal(self, group: ClassicGroup, now: Instant) -> Result[None]:
        """Do what members that are gone mean to the group."""
        match group.state:
            case GroupState.STABLE | GroupState.COMPLETING_REBALANCE:
                return self.prepare(group, now)
            case GroupState.PREPARING_REBALANCE:
                return self.complete_join_if_all_joined(group, now)
            case GroupState.EMPTY | GroupState.DEAD:
                return no_change()
            case _:
                assert_never(group.state)

    # ---- PreparingRebalance ----------------------------------------------------------------------

    def prepare_if_possible(self, group: ClassicGroup, now: Instant) -> Result[None]:
        """Start a rebalance, or see whether the one under way is complete."""
        if group.can_rebalance:
            return self.prepare(group, now)
        return self.complete_join_if_all_joined(group, now)

    def prepare(self, group: ClassicGroup, now: Instant) -> Result[None]:
        """Start a rebalance."""
        self.metrics.started_rebalance_count += 1
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.fail_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, now)
        self._timers.cancel(_sync_key(group.group_id))
        delay_ms = self.settings.initial_rebalance_delay_ms
        group.is_in_initial_delay = group.is_empty and delay_ms > 0
        group.transition(GroupState.PREPARING_REBALANCE, now.wall_ms)
        if group.is_in_initial_delay:
            group.member_added_in_delay = False
            remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._schedule_initial(group.group_id, delay_ms, remaining_ms, now)
            return no_change()
        if group.has_all_joined:
            return self.complete_join(group, now)
        self._schedule_join(group, now)
        return no_change()

    def complete_join_if_all_joined(self, group: ClassicGroup, now: Instant) -> Result[None]:
        """End the join phase if nobody is missing and no initial delay runs."""
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and not group.is_in_initial_delay
            and group.has_all_joined
        ):
            return self.complete_join(group, now)
        return no_change()

    def _schedule_join(self, group: ClassicGroup, now: Instant, delay_ms_min: int = 0) -> None:
        group_id = group.group_id
        self._timers.schedule(
            _join_key(group_id),
            now.monotonic_ms + max(group.rebalance_timeout_ms, delay_ms_min),
            lambda fired: self._join_timed_out(group_id, fired),
        )

    def _schedule_initial(
        self, group_id: str, delay_ms: int, remaining_ms: int, now: Instant
    ) -> None:
        self._timers.schedule(
            _join_key(group_id),
            now.monotonic_ms + delay_ms,
            lambda fired: self._initial_delay_over(group_id, delay_ms, remaining_ms, fired),
        )

    def _initial_delay_over(
        self, group_id: str, delay_ms: int, remaining_ms: int, now: Instant
    ) -> Result[None]:
        """Wait again if members came meanwhile, until the rebalance timeout is used up (GRP-6)."""
        group = self._groups.get(group_id)
        if group is None or not group.is_in_initial_delay:
            return no_change()
        if group.member_added_in_delay and remaining_ms > 0:
            group.member_added_in_delay = False
            next_delay_ms = min(self.settings.initial_rebalance_delay_ms, remaining_ms)
            self._schedule_initial(
                group_id, next_delay_ms, max(remaining_ms - next_delay_ms, 0), now
            )
            return no_change()
        return self.complete_join(group, now)

    def _join_timed_out(self, group_id: str, now: Instant) -> Result[None]:
        group = self._groups.get(group_id)
        if group is None or group.state is not GroupState.PREPARING_REBALANCE:
            return no_change()
        return self.complete_join(group, now)

    def complete_join(self, group: ClassicGroup, now: Instant) -> Result[None]:
        """End the join phase with those who rejoined (GRP-7)."""
        self._timers.cancel(_join_key(group.group_id))
        for member in list(group.members.values()):
            if member.join_reply is None and not member.is_static:
                self.detach(group, member)
        if group.members and not group.elect_joined_leader():
            # Only static members are left and none rejoined: their sessions will end or they come.
            group.is_in_initial_delay = False
            self._schedule_join(group, now, ABSENT_RETRY_MS)
            return no_change()
        group.next_generation(now.wall_ms)
        self.metrics.completed_rebalance_count += 1
        if group.is_empty:
            return self._write_empty(group)
        self._answer_joins(group, now)
        return no_change()

    def _answer_joins(self, group: ClassicGroup, now: Instant) -> None:
        assert group.leader_id is not None
        for member in list(group.members.values()):
            if member.join_reply is None:
                # A static member that is away: its session goes on, nobody waits for its sync.
                continue
            is_leader = member.member_id == group.leader_id
            member.is_new = False
            group.pending_sync_ids.add(member.member_id)
            self.start_session(group, member.member_id, member.session_timeout_ms, now)
            group.answer_join(member, self.joined(group, member, with_members=is_leader))
        group_id, generation_id = group.group_id, group.generation_id
        self._timers.schedule(
            _sync_key(group_id),
            now.monotonic_ms + group.rebalance_timeout_ms,
            lambda fired: self._sync_timed_out(group_id, generation_id, fired),
        )

    def joined(
        self, group: ClassicGroup, member: ClassicMember, *, with_members: bool
    ) -> JoinGroupResponse:
        """Return the response to a join that succeeded, with the current generation."""
        return JoinGroupResponse(
            generation_id=group.generation_id,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader_id or "",
            member_id=member.member_id,
            members=group.joined_members() if with_members else [],
        )

    def _write_empty(self, group: ClassicGroup) -> Result[None]:
        """Have the log know that the group is Empty; if it refuses, again after a while."""
        group_id, generation_id = group.group_id, group.generation_id

        def again_later(now: Instant) -> None:
            # A group whose deletion is under way may come back.
            if group.is_empty and group.generation_id == generation_id:
                self._timers.schedule(
                    _empty_key(group_id), now.monotonic_ms + EMPTY_RETRY_MS, again
                )

        def again(now: Instant) -> Result[None]:
            if self._groups.get(group_id) is not group:
                again_later(now)
            elif group.is_empty and group.generation_id == generation_id:
                return self._write_empty(group)
            return no_change()

        def on_append(error: KafkaError | None, now: Instant) -> Result[None]:
            if error is not None:
                self.metrics.append_failure_count += 1
                again_later(now)
            return no_change()

        return Result(reply=None, records=[group_record(group)], on_append=on_append)

    # ---- CompletingRebalance ---------------------------------------------------------------------

    def synced(self, group: ClassicGroup, member: ClassicMember) -> None:
        """The member's sync has come; the last one ends the wait."""
        group.pending_sync_ids.discard(member.member_id)
        if not group.pending_sync_ids:
            self._timers.cancel(_sync_key(group.group_id))

    def fail_syncs(self, group: ClassicGroup, code: ErrorCode, now: Instant) -> None:
        """Answer all parked syncs with an error and forget assignments (GRP-11, GRP-13)."""
        group.clear_assignments()
        for member in list(group.members.values()):
            if member.answer_sync(sync_error(code)):
                self.touch(group, member, now)

    def _sync_timed_out(self, group_id: str, generation_id: int, now: Instant) -> Result[None]:
        """Remove the members that took their join but never synced (GRP-12)."""
        group = self._groups.get(group_id)
        if (
            group is None
            or group.generation_id != generation_id
            or group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
        ):
            return no_change()
        for member_id in sorted(group.pending_sync_ids):
            self.metrics.expired_member_count += 1
            self.detach(group, group.members[member_id])
        return self.after_removal(group, now)


def _session_key(group_id: str, member_id: str) -> Hashable:
    return ("session", group_id, member_id)


def _empty_key(group_id: str) -> Hashable:
    return ("empty", group_id)


def _join_key(group_id: str) -> Hashable:
    return ("join", group_id)


def _sync_key(group_id: str) -> Hashable:
    return ("sync", group_id)
