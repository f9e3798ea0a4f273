"""When a node of the metadata log reads the record, takes over, renews, resigns and sends again.

Pure: the situation and the time in, what is due out. All of it is for liveness only; the rules keep
the log safe whenever these acts are done (`node`).

Source: rule 8 of the control plane (`docs/formats/arbiter.md`), CTL-3, CTL-14.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.metadata.quorum.messages import ArbiterView
from barnabas_broker.metadata.quorum.node import Role
from barnabas_broker.metadata.quorum.voters import Voter

# Nobody leads, as far as is known: the record is looked at as often as a swap takes, and less often
# the longer that lasts.
LEADERLESS_POLL_MS_MIN: Final = 25
LEADERLESS_POLL_MS_MAX: Final = 250
_POLLS_AT_LEAST: Final = 8
RETRY_MS: Final = 200
MEMBERS_MS: Final = 500
# One candidate after the other: a swap and its reading take less than this.
CANDIDATE_STEP_MS: Final = 60
# A candidate whose log may lack what others have lets them go first.
BEHIND_DELAY_MS: Final = 150
# Who has given up, because it heard nobody, lets others try.
RESIGNED_DELAY_MS: Final = 1000
_TICK_MS: Final = 100
_QUICK_TICK_MS: Final = 25


class Act(Enum):
    """Something that is due."""

    READ = "read the arbiter's record"
    FOUND = "make the first record"
    TAKE_OVER = "try to lead"
    RENEW = "renew the record"
    RESIGN = "stop leading"
    RETRY_REQUESTS = "send again"
    MEMBERS = "see whether the members are as they should be"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSettings:
    """The settings of the control plane that the quorum obeys; times in milliseconds."""

    poll_interval_ms: int = 1000
    time_to_live_ms: int = 6000
    fence_on_refused_ms: int = 500
    quorum_lost_ms: int = 4000
    members_max: int = 3
    members_min: int = 2
    member_lost_ms: int = 60_000
    snapshot_interval_bytes: int = 20 << 20

    @staticmethod
    def of(config: BrokerConfig) -> QuorumSettings:
        """What a broker's settings say."""
        return QuorumSettings(
            poll_interval_ms=config.arbiter_poll_interval_ms,
            time_to_live_ms=config.arbiter_time_to_live_ms,
            fence_on_refused_ms=config.broker_fence_on_refused_ms,
            quorum_lost_ms=config.controller_quorum_lost_ms,
            members_max=config.metadata_members,
            members_min=config.metadata_min_members,
            member_lost_ms=config.metadata_member_lost_ms,
            snapshot_interval_bytes=config.metadata_log_max_record_bytes_between_snapshots,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What the node knows at a moment; times are of the monotonic clock."""

    now_ms: int
    voter: Voter
    role: Role
    record: ArbiterView
    is_expired: bool = False  # nobody has renewed the record for its time to live
    refused_since_ms: int | None = None  # since when the recorded leader refuses connections
    is_doubted: bool = False  # the leader did not answer the last request
    is_behind: bool = False  # the leader is known to have had more than this node
    may_found: bool = False
    majority_heard_ms: int = 0  # of members; while leading or recovering
    role_since_ms: int = 0
    is_waiting: bool = False  # a response is expected


class QuorumTiming:
    """What was done when."""

    __slots__ = (
        "_asked_ms",
        "_doubted_since_ms",
        "_free_from_ms",
        "_leaderless_since_ms",
        "_planned_ms",
        "_read_ms",
        "_renewed_ms",
        "_settings",
    )

    def __init__(self, settings: QuorumSettings, now_ms: int) -> None:
        self._settings = settings
        self._read_ms = self._renewed_ms = self._asked_ms = self._planned_ms = now_ms
        self._leaderless_since_ms: int | None = None
        self._doubted_since_ms: int | None = None
        self._free_from_ms = now_ms  # not a candidate before

    def due(self, now: Situation) -> list[Act]:
        """What is to be done now, in order; counts as done."""
        acts: list[Act] = []
        if now.role is Role.FOLLOWER:
            acts += self._due_to_follower(now)
        else:
            self._leaderless_since_ms = None
            acts += self._due_to_leader(now)
        if now.now_ms - self._read_ms >= self._poll_interval_ms(now):
            self._read_ms = now.now_ms
            acts.append(Act.READ)
        if not now.is_waiting and now.now_ms - self._asked_ms >= RETRY_MS:
            self._asked_ms = now.now_ms
            acts.append(Act.RETRY_REQUESTS)
        return acts

    def handed_over(self, now_ms: int) -> None:
        """Let others try first: this node has stopped leading in their favour."""
        self._free_from_ms = now_ms + RESIGNED_DELAY_MS

    def next_look_ms(self, now: Situation) -> int:
        """How long until `due` is to be asked again."""
        is_calm = now.role is Role.LEADING or not (self._is_leaderless(now) or now.is_doubted)
        return _TICK_MS if is_calm else _QUICK_TICK_MS

    def _poll_interval_ms(self, now: Situation) -> int:
        if now.role is not Role.FOLLOWER or not (now.is_doubted or self._is_leaderless(now)):
            self._doubted_since_ms = None
            return self._settings.poll_interval_ms
        if self._doubted_since_ms is None:
            self._doubted_since_ms = now.now_ms
        interval_ms = (now.now_ms - self._doubted_since_ms) // _POLLS_AT_LEAST
        interval_ms = min(max(interval_ms, LEADERLESS_POLL_MS_MIN), LEADERLESS_POLL_MS_MAX)
        return min(interval_ms, self._settings.poll_interval_ms)

    def _due_to_follower(self, now: Situation) -> list[Act]:
        if not self._is_leaderless(now):
            self._leaderless_since_ms = None
            return []
        if self._leaderless_since_ms is None:
            self._leaderless_since_ms = now.now_ms
        if now.now_ms < self._free_from_ms:
            return []
        if now.record.controller_epoch == 0:
            return [Act.FOUND] if now.record.token >= 0 and now.may_found else []
        if now.voter not in now.record.members:
            return []
        if now.now_ms - self._leaderless_since_ms < self._candidate_delay_ms(now):
            return []
        # The outcome shows in the record; if nothing comes of it, once more after some steps.
        self._free_from_ms = now.now_ms + RETRY_MS
        return [Act.TAKE_OVER]

    def _is_leaderless(self, now: Situation) -> bool:
        leader_id = now.record.leader_id
        if leader_id is None or leader_id == now.voter.node_id or now.is_expired:
            return True
        since_ms = now.refused_since_ms
        return since_ms is not None and now.now_ms - since_ms >= self._settings.fence_on_refused_ms

    def _candidate_delay_ms(self, now: Situation) -> int:
        if now.record.leader_id == now.voter.node_id:
            return 0  # it led before its restart: nobody else does
        others = [voter for voter in now.record.members if voter.node_id != now.record.leader_id]
        rank = sum(voter < now.voter for voter in others)
        return rank * CANDIDATE_STEP_MS + (BEHIND_DELAY_MS if now.is_behind else 0)

    def _due_to_leader(self, now: Situation) -> list[Act]:
        heard_ms = max(now.majority_heard_ms, now.role_since_ms)
        if now.now_ms - heard_ms >= self._settings.quorum_lost_ms:
            self._free_from_ms = now.now_ms + RESIGNED_DELAY_MS
            return [Act.RESIGN]
        if now.role is Role.RECOVERING:
            return []
        acts: list[Act] = []
        if now.now_ms - self._planned_ms >= MEMBERS_MS:
            self._planned_ms = now.now_ms
            acts.append(Act.MEMBERS)
        # Nobody else could take over from a lone member.
        is_alone = now.record.members == {now.voter}
        if not is_alone and now.now_ms - self._renewed_ms >= self._settings.time_to_live_ms // 3:
            self._renewed_ms = now.now_ms
            acts.append(Act.RENEW)
        return acts
