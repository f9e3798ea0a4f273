"""Commits and committed offsets at the network seam: order, retries, versions, every error."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from barnabas_client.cluster.offsets import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas_client.consumer.commits import PENDING_MAX, OffsetCommitter
from barnabas_client.consumer.subscription_state import SubscriptionState
from barnabas_client.errors import (
    AuthorizationError,
    BarnabasError,
    BufferFullError,
    ClosedError,
    CommitFailedError,
    CoordinatorMovedError,
    FencedError,
    MembershipLostError,
    RetriableError,
    UsageError,
)
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from tests.client.consumer.commit_coordinator import Coordinator
from tests.client.consumer.group.scripted_client import (
    ScriptedClient,
    cluster,
    subscribed,
    topic,
)
from tests.support.virtual_loop import run_virtual

T0 = TopicPartition("t", 0)
TOPIC_ID = b"i" * 16
AT_5 = {T0: OffsetAndMetadata(5, 2, "note")}


class Member:
    """A membership as commits see it."""

    def __init__(self) -> None:
        self.generation_id = 3
        self.is_open = True
        self.refused: list[ErrorCode] = []

    def metadata(self) -> ConsumerGroupMetadata:
        return ConsumerGroupMetadata("g", self.generation_id, "me", None)

    def accepts_commits(self) -> bool:
        return self.is_open

    def on_commit_error(self, code: ErrorCode, sent_as: ConsumerGroupMetadata) -> None:
        self.refused.append(code)


def committer(
    handler: Any, subscription: SubscriptionState | None = None, **settings: Any
) -> tuple[ScriptedClient, OffsetCommitter, Member]:
    client = ScriptedClient(handler, **settings)
    client.versions = {ApiKey.OFFSET_COMMIT: 9, ApiKey.OFFSET_FETCH: 9}
    member = Member()
    made = OffsetCommitter(client, client.settings, subscription or subscribed("t"))  # type: ignore[arg-type]
    made.bind(member)
    return client, made, member


@pytest.mark.parametrize(
    ("code", "kind", "is_refusal"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, CommitFailedError, True),
        (ErrorCode.ILLEGAL_GENERATION, CommitFailedError, True),
        (ErrorCode.REBALANCE_IN_PROGRESS, MembershipLostError, True),
        (ErrorCode.FENCED_INSTANCE_ID, FencedError, True),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, AuthorizationError, False),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, AuthorizationError, False),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, UsageError, False),
        (ErrorCode.INVALID_COMMIT_OFFSET_SIZE, UsageError, False),
        (ErrorCode.UNKNOWN_SERVER_ERROR, BarnabasError, False),
    ],
    ids=lambda value: getattr(value, "name", "") or str(value),
)
def test_what_no_retry_helps_against_is_raised_at_once(
    code: ErrorCode, kind: type[BarnabasError], is_refusal: bool
) -> None:
    """CON-9, GRP-19; the membership is told what concerns it."""

    async def run() -> None:
        client, commits, member = committer(Coordinator(code))
        with pytest.raises(kind):
            await commits.commit(AT_5)
        assert len(client.requests) == 1
        assert member.refused == ([code] if is_refusal else [])

    run_virtual(run())


@pytest.mark.parametrize(
    ("code", "forgotten"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 1),
        (ErrorCode.NOT_COORDINATOR, 1),
        (ErrorCode.REQUEST_TIMED_OUT, 1),
        (ErrorCode.NETWORK_EXCEPTION, 1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
        (ErrorCode.STALE_MEMBER_EPOCH, 0),
    ],
    ids=lambda value: getattr(value, "name", "") or str(value),
)
def test_a_commit_is_repeated_until_it_succeeds(code: ErrorCode, forgotten: int) -> None:
    """CON-9; `commit_soon` tries once and tells its callback."""

    async def run() -> None:
        coordinator = Coordinator(code, code)
        client, commits, _ = committer(coordinator)
        await commits.commit(AT_5)
        assert coordinator.committed == [(3, 5)]
        assert client.forgotten == 2 * forgotten
        coordinator.codes = [code]
        errors: list[BarnabasError | None] = []
        commits.commit_soon(AT_5, lambda _, error: errors.append(error))
        await commits.commit({})
        assert [isinstance(error, RetriableError) for error in errors] == [True]
        assert len(coordinator.committed) == 1

    run_virtual(run())


def test_a_commit_gives_up_at_its_timeout_with_the_last_error() -> None:
    async def run() -> None:
        client, commits, _ = committer(Coordinator(*[ErrorCode.NOT_COORDINATOR] * 99))
        with pytest.raises(CoordinatorMovedError):
            await commits.commit(AT_5, timeout_ms=5000)
        assert 4 < client.requests[-1][0] <= 5

    run_virtual(run())


def test_a_repeated_commit_goes_out_with_the_new_epoch() -> None:
    """CG-6: the member epoch may rise between two heartbeats without anything being lost."""

    async def run() -> None:
        coordinator = Coordinator(ErrorCode.STALE_MEMBER_EPOCH)
        _, commits, member = committer(coordinator)

        def later(code: ErrorCode, sent_as: ConsumerGroupMetadata) -> None:
            member.generation_id = 4

        member.on_commit_error = later  # type: ignore[method-assign]
        await commits.commit(AT_5)
        assert coordinator.committed == [(4, 5)]

    run_virtual(run())


def test_an_answer_to_an_earlier_generation_does_not_end_the_present_one() -> None:
    """The membership moved on while the commit was on its way."""

    async def run() -> None:
        coordinator = Coordinator(ErrorCode.ILLEGAL_GENERATION, takes_ms=100)
        _, commits, member = committer(coordinator)
        asyncio.get_running_loop().call_later(0.05, setattr, member, "generation_id", 4)
        with pytest.raises(MembershipLostError) as caught:
            await commits.commit(AT_5)
        assert not isinstance(caught.value, CommitFailedError)
        assert member.refused == []

    run_virtual(run())


def test_nothing_is_sent_without_a_membership_or_between_two_generations() -> None:
    """A commit would wait behind the JoinGroup that is parked at the same broker."""

    async def run() -> None:
        client, commits, member = committer(Coordinator())
        member.is_open = False
        with pytest.raises(MembershipLostError):
            await commits.commit(AT_5)
        assert not commits.auto_commit_due(1 << 40)
        member.is_open, member.generation_id = True, -1
        with pytest.raises(CommitFailedError):
            await commits.commit(AT_5)
        assert client.requests == []

    run_virtual(run())


def test_commits_leave_one_at_a_time_in_order() -> None:
    """CON-9: callbacks in order; a commit that is waited for comes last."""

    async def run() -> None:
        coordinator = Coordinator(takes_ms=50)
        _, commits, _ = committer(coordinator)
        order: list[int] = []

        def ended(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: object) -> None:
            order.append(offsets[T0].offset)
            raise RuntimeError("a callback's error stays its own")

        for offset in range(5):
            commits.commit_soon({T0: OffsetAndMetadata(offset)}, ended)
        await commits.commit({T0: OffsetAndMetadata(9)})
        assert order == [0, 1, 2, 3, 4]
        assert [offset for _, offset in coordinator.committed] == [0, 1, 2, 3, 4, 9]

    run_virtual(run())


def test_the_line_of_commits_is_bounded_and_closing_answers_it() -> None:
    async def run() -> None:
        _, commits, _ = committer(Coordinator(takes_ms=60_000))
        errors: list[BarnabasError | None] = []
        for _ in range(PENDING_MAX):
            commits.commit_soon(AT_5, lambda _, error: errors.append(error))
        with pytest.raises(BufferFullError):
            commits.commit_soon(AT_5)
        await commits.close(100)
        assert len(errors) == PENDING_MAX
        assert all(isinstance(error, ClosedError) for error in errors)
        with pytest.raises(ClosedError):
            commits.commit_soon(AT_5)

    run_virtual(run())


def test_offsets_that_make_no_sense_are_refused_at_once() -> None:
    async def run() -> None:
        _, commits, _ = committer(Coordinator())
        with pytest.raises(UsageError, match=r"never negative: .* -1"):
            await commits.commit({T0: OffsetAndMetadata(-1)})
        with pytest.raises(UsageError, match=r"is an OffsetAndMetadata: .* 5"):
            commits.commit_soon({T0: 5})  # type: ignore[dict-item]

    run_virtual(run())


def test_topic_ids_are_used_where_all_are_known() -> None:
    """OffsetCommit 10 knows no names."""

    async def run() -> None:
        client, commits, _ = committer(Coordinator())
        client.versions[ApiKey.OFFSET_COMMIT] = 10
        await commits.commit(AT_5)
        client.cluster = cluster(topic("t", 4, TOPIC_ID))
        await commits.commit(AT_5)
        first, second = ((request, version) for _, request, version in client.requests)
        assert (first[1], first[0].topics[0].name) == (9, "t")
        assert (second[1], second[0].topics[0].topic_id) == (10, TOPIC_ID)
        row = second[0].topics[0].partitions[0]
        assert (row.committed_leader_epoch, row.committed_metadata) == (2, "note")

    run_virtual(run())


def test_auto_commit_is_due_every_interval_and_soon_after_a_passing_error() -> None:
    """CON-8."""

    async def run() -> None:
        coordinator = Coordinator(ErrorCode.NOT_COORDINATOR)
        subscription = subscribed("t")
        client, commits, _ = committer(coordinator, subscription, auto_commit_interval_ms=1000)
        subscription.assign_from_group([T0])
        subscription.assigned[T0].offset = 8
        assert not commits.auto_commit_due(0)
        assert not commits.auto_commit_due(999)
        assert commits.auto_commit_due(1000)
        commits.auto_commit(1000)
        assert not commits.auto_commit_due(5000), "one is under way"
        await commits.commit({})
        assert commits.auto_commit_due(client.settings.retry_backoff_ms)
        commits.auto_commit(1200)
        await commits.commit({})
        assert coordinator.committed == [(3, 8)]
        assert not commits.auto_commit_due(2199)
        assert commits.auto_commit_due(2200)

    run_virtual(run())


class Offsets:
    """Answers offset fetches in the form of each version, errors first."""

    def __init__(self, *errors: tuple[ErrorCode, ErrorCode]) -> None:
        self.errors = list(errors)

    async def __call__(self, request: Any, version: int) -> Any:
        assert isinstance(request, OffsetFetchRequest)
        assert request.require_stable
        none = (ErrorCode.NONE, ErrorCode.NONE)
        group_error, code = self.errors.pop(0) if self.errors else none
        values = {0: 42, 1: -1}
        if version < 8:
            rows = [
                OffsetFetchResponsePartition(
                    partition_index=at, committed_offset=offset, metadata="m", error_code=code
                )
                for at, offset in values.items()
            ]
            topics = [OffsetFetchResponseTopic(name="t", partitions=rows)]
            return OffsetFetchResponse(topics=topics, error_code=group_error)
        later = [
            OffsetFetchResponsePartitions(
                partition_index=at, committed_offset=offset, metadata="m", error_code=code
            )
            for at, offset in values.items()
        ]
        name, topic_id = ("t", bytes(16)) if version < 10 else ("", TOPIC_ID)
        topics_later = [OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=later)]
        group = OffsetFetchResponseGroup(group_id="g", topics=topics_later, error_code=group_error)
        return OffsetFetchResponse(groups=[group])


@pytest.mark.parametrize("version", [5, 7, 8, 9, 10])
def test_committed_offsets_are_read_in_every_version(version: int) -> None:
    """-1 is no offset; from version 8 on several groups fit a request, from 10 on ids."""

    async def run() -> None:
        client, commits, _ = committer(Offsets())
        client.versions[ApiKey.OFFSET_FETCH] = version
        client.cluster = cluster(topic("t", 4, TOPIC_ID))
        found = await commits.fetch_committed([T0, TopicPartition("t", 1)])
        assert found == {T0: OffsetAndMetadata(42, -1, "m"), TopicPartition("t", 1): None}

    run_virtual(run())


def test_offsets_of_open_transactions_are_waited_for() -> None:
    """KIP-447: UNSTABLE_OFFSET_COMMIT passes when the transaction ends."""

    async def run() -> None:
        unstable = (ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        loading = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE)
        moved = (ErrorCode.NOT_COORDINATOR, ErrorCode.NONE)
        client, commits, _ = committer(Offsets(unstable, unstable, loading, moved))
        found = await commits.fetch_committed([T0])
        assert found[T0] == OffsetAndMetadata(42, -1, "m")
        assert len(client.requests) == 5
        assert client.forgotten == 1
        denied = (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.NONE)
        _, refused, _ = committer(Offsets(denied))
        with pytest.raises(AuthorizationError, match="'g'"):
            await refused.fetch_committed([T0])

    run_virtual(run())
