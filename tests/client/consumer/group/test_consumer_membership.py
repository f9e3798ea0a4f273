"""The shell of KIP-848 membership on virtual time, with a small model of its coordinator behind."""

import asyncio
import re
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from barnabas_client.consumer.group.classic_membership import ClassicMembership
from barnabas_client.consumer.group.consumer_membership import ConsumerMembership
from barnabas_client.consumer.rebalance_listener import RebalanceListener
from barnabas_client.consumer.subscription_state import SubscriptionState
from barnabas_client.errors import AuthorizationError, ConfigurationError, DisconnectedError
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
)
from tests.client.consumer.group.consumer_coordinator import Coordinator, Member
from tests.client.consumer.group.consumer_group_model import (
    COUNTS,
    TOPIC_IDS,
)
from tests.client.consumer.group.scripted_client import (
    cluster,
    subscribed,
    topic,
)
from tests.support.virtual_loop import run_virtual


@asynccontextmanager
async def joined(
    coordinator: Coordinator, subscription: SubscriptionState | None = None, **settings: Any
) -> AsyncIterator[Member]:
    """A member that has all partitions of `t` (or whatever it subscribes to)."""
    member = Member(coordinator, subscription or subscribed("t"), settings)
    await member.poll_until(lambda: bool(member.subscription.assigned))
    await asyncio.sleep(0.5)
    try:
        yield member
    finally:
        await member.membership.close(5000)
        await member.committer.close(0)


def test_a_member_commits_gives_up_and_then_says_so() -> None:
    """CG-4, CON-8, in this order; the other one gets what is free."""

    async def run() -> None:
        coordinator = Coordinator()
        async with joined(coordinator) as first:
            for state in first.subscription.assigned.values():
                state.offset = 7
            assert coordinator.log == ["heartbeat 0 0", "assigned 4", "heartbeat 1 4"]
            second = Member(coordinator, subscribed("t"), {})
            await second.poll()
            await asyncio.sleep(1)
            coordinator.log.clear()
            await first.poll_until(lambda: len(first.subscription.assigned) == 2)
            await asyncio.sleep(0.1)
            own = [line for line in coordinator.log if line != "heartbeat 2"]
            assert own[:4] == ["commit", "revoked 2", "assigned 0", "heartbeat 1 2"]
            await second.poll_until(lambda: len(second.subscription.assigned) == 2)
            await second.membership.close(1000)

    run_virtual(run())


def test_what_is_to_go_since_the_commit_began_is_committed_as_well() -> None:
    """CG-4, CON-8: the program has read on in partitions that were to stay when it began."""

    async def run() -> None:
        coordinator = Coordinator()
        async with joined(coordinator) as first:
            states = first.subscription.assigned
            for state in states.values():
                state.offset = 7
            coordinator.commits_go.clear()
            others = [Member(coordinator, subscribed("t"), {}) for _ in range(2)]
            await others[0].poll()
            async with asyncio.timeout(10):
                while "commit" not in coordinator.log:
                    await first.poll(10)
                    await asyncio.sleep(0.1)
            for state in states.values():
                if not state.is_pending_revocation:
                    state.offset = 9
            read_on = {each for each, state in states.items() if state.offset == 9}
            assert len(read_on) == 2
            await others[1].poll()
            await asyncio.sleep(2)
            coordinator.commits_go.set()
            await first.poll_until(lambda: len(first.subscription.assigned) < 2)
            (gone,) = read_on - set(first.subscription.assigned)
            assert coordinator.committed(gone) == 9
            for other in others:
                await other.membership.close(1000)

    run_virtual(run())


def test_heartbeats_come_as_often_as_the_broker_says() -> None:
    """CG-5; after a lost connection one says everything, to whoever is coordinator by then."""

    async def run() -> None:
        coordinator = Coordinator()
        async with joined(coordinator) as member:
            coordinator.log.clear()
            await asyncio.sleep(5)
            assert coordinator.log == ["heartbeat 1"] * 5
            coordinator.failure = DisconnectedError("gone")
            coordinator.log.clear()
            await asyncio.sleep(1.5)
            assert coordinator.log[:2] == ["heartbeat 1", "heartbeat 1 4"]
            assert member.client.forgotten == 1
            assert coordinator.heartbeats[-1][1].member_epoch == 1
            full = next(r for _, r in reversed(coordinator.heartbeats) if r.subscribed_topic_names)
            assert full.subscribed_topic_names == ["t"]

    run_virtual(run())


def test_a_fenced_member_hands_out_nothing_more_and_reports_it_lost() -> None:
    """CG-3: it joins again when the program has heard of it."""

    async def run() -> None:
        coordinator = Coordinator()
        async with joined(coordinator) as member:
            coordinator.model.members.clear()
            await asyncio.sleep(2)
            assert all(s.is_pending_revocation for s in member.subscription.assigned.values())
            assert member.membership.metadata().generation_id == -1
            assert member.membership.needs_poll()
            coordinator.log.clear()
            await asyncio.sleep(5)
            assert coordinator.log == []
            await member.poll_until(lambda: "assigned 4" in coordinator.log)
            assert coordinator.log[:3] == ["lost 4", "heartbeat 0 0", "assigned 4"]

    run_virtual(run())


def test_a_program_that_does_not_poll_makes_its_member_leave() -> None:
    """CON-10; one that asks whether it should poll is alive."""

    async def run() -> None:
        coordinator = Coordinator()
        async with joined(coordinator, max_poll_interval_ms=3000) as member:
            for _ in range(8):
                await asyncio.sleep(1)
                assert not member.membership.needs_poll()
            assert "heartbeat -1" not in coordinator.log
            await asyncio.sleep(4)
            assert "heartbeat -1" in coordinator.log
            await member.poll_until(lambda: "lost 4" in coordinator.log)
            await member.poll_until(lambda: len(member.subscription.assigned) == 4)

    run_virtual(run())


def test_a_cancelled_callback_is_called_again_although_metadata_has_lost_the_topic() -> None:
    """What is assigned may be handed out: the listener hears of it before anything else."""

    async def run() -> None:
        coordinator = Coordinator()
        member = Member(coordinator, subscribed("t"), {})
        calls: list[str] = []

        class Slow(RebalanceListener):
            async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
                calls.append("begun")
                if len(calls) == 1:
                    await asyncio.Event().wait()
                calls.append(f"ended for {len(partitions)}")

        member.subscription.listener = Slow()
        polling = asyncio.create_task(member.poll_until(lambda: False))
        async with asyncio.timeout(10):
            while not calls:
                await asyncio.sleep(0.01)
        polling.cancel()
        with suppress(asyncio.CancelledError):
            await polling
        assert member.subscription.assigned
        member.client.cluster = cluster(version=2)
        await member.poll()
        assert calls == ["begun", "begun", f"ended for {COUNTS['t']}"]
        await member.membership.close(5000)
        await member.committer.close(0)

    run_virtual(run())


def test_what_the_listener_began_to_give_up_goes_although_the_broker_gives_it_back() -> None:
    """Whoever was told that partitions go hears of it when they are there again."""

    async def run() -> None:
        coordinator = Coordinator()
        async with joined(coordinator) as first:
            held: set[TopicPartition] = set(first.subscription.assigned)
            calls: list[str] = []

            class Slow(RebalanceListener):
                async def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
                    calls.append(f"gives up {len(partitions)}")
                    held.difference_update(partitions)
                    if len(calls) == 1:
                        await asyncio.Event().wait()

                async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
                    calls.append(f"has {len(partitions)} more")
                    held.update(partitions)

            first.subscription.listener = Slow()
            second = Member(coordinator, subscribed("t"), {})
            await second.poll()
            polling = asyncio.create_task(first.poll_until(lambda: False))
            async with asyncio.timeout(60):
                while not calls:
                    await asyncio.sleep(0.01)
            polling.cancel()
            with suppress(asyncio.CancelledError):
                await polling
            assert len(held) == 2
            await second.membership.close(5000)
            await asyncio.sleep(30)
            await first.poll()
            assert held == set(first.subscription.assigned)
            assert len(held) == COUNTS["t"]
            assert calls == ["gives up 2", "gives up 2", "has 2 more"]

    run_virtual(run())


@pytest.mark.parametrize(
    ("instance", "leave_group", "epoch"),
    [(None, None, -1), (None, False, None), ("i", None, -2), ("i", True, -1), ("i", False, None)],
)
def test_who_leaves_at_the_end(
    instance: str | None, leave_group: bool | None, epoch: int | None
) -> None:
    """CG-3, KIP-1092."""

    async def run() -> None:
        coordinator = Coordinator()
        async with joined(coordinator, group_instance_id=instance) as member:
            coordinator.log.clear()
            await member.membership.close(5000, leave_group=leave_group)
            leaving = [] if epoch is None else [f"heartbeat {epoch}"]
            assert coordinator.log == ["revoked 4", *leaving]

    run_virtual(run())


def test_a_changed_subscription_is_told_at_once() -> None:
    async def run() -> None:
        coordinator = Coordinator()
        async with joined(coordinator) as member:
            member.subscription.subscribe_names(["t", "u"], member.subscription.listener)
            began = asyncio.get_running_loop().time()
            await member.poll()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            at, request = coordinator.heartbeats[-1]
            assert (at, request.subscribed_topic_names) == (began, ["t", "u"])
            await member.poll_until(lambda: len(member.subscription.assigned) == 7)

    run_virtual(run())


def test_topics_that_metadata_lacks_are_waited_for() -> None:
    """The client asks for a new picture, and does not spin meanwhile."""

    async def run() -> None:
        coordinator = Coordinator()
        member = Member(coordinator, subscribed("t", "u"), {})
        complete = member.client.cluster
        member.client.cluster = cluster(topic("t", 4, TOPIC_IDS["t"]))
        await member.poll_until(lambda: len(member.subscription.assigned) == 4)
        await asyncio.sleep(1)
        await member.poll()
        assert not member.membership.needs_poll()
        assert member.client.refreshes
        member.client.show(complete)
        member.client.cluster = cluster(*complete.topics.values(), version=2)
        await member.poll_until(lambda: len(member.subscription.assigned) == 7)
        await member.membership.close(1000)

    run_virtual(run())


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        (re.compile("[tu]"), "[tu]"),
        (re.compile("(?!x)[tu]"), None),
        (re.compile("T|U", re.IGNORECASE), None),
        (re.compile(".*"), None),
        (re.compile(r"(t|u)\b"), r"(t|u)\b"),
        (re.compile(r"(?P<a>t|u)(?P=a)?"), None),
    ],
    ids=lambda value: getattr(value, "pattern", "") or str(value),
)
def test_a_pattern_goes_to_the_broker_if_it_means_the_same_there(
    pattern: re.Pattern[str], told: str | None
) -> None:
    """CG-8: RE2 lacks what looks around or back; a pattern for everything has internal topics."""

    async def run() -> None:
        subscription = SubscriptionState()
        subscription.subscribe_pattern(pattern)
        coordinator = Coordinator()
        member = Member(coordinator, subscription, {})
        await member.poll(100)
        request = coordinator.heartbeats[0][1]
        assert request.subscribed_topic_regex == told
        assert request.subscribed_topic_names == ([] if told else ["t", "u"])
        await member.membership.close(1000)

    run_virtual(run())


def test_a_pattern_that_the_broker_refuses_is_matched_here() -> None:
    async def run() -> None:
        subscription = SubscriptionState()
        subscription.subscribe_pattern(re.compile("t"))
        coordinator = Coordinator()
        coordinator.failure = ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.INVALID_REGULAR_EXPRESSION
        )
        async with joined(coordinator, subscription) as member:
            assert len(member.subscription.assigned) == 4
            assert coordinator.heartbeats[-1][1].subscribed_topic_regex is None

    run_virtual(run())


def test_an_error_without_remedy_is_raised_in_the_next_poll() -> None:
    async def run() -> None:
        coordinator = Coordinator()
        async with joined(coordinator) as member:
            coordinator.failure = ConsumerGroupHeartbeatResponse(
                error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
            )
            await asyncio.sleep(2)
            with pytest.raises(AuthorizationError):
                await member.poll()

    run_virtual(run())


def chosen(member: Member) -> object:
    return member.membership.chosen  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ],
    ids=lambda code: code.name,
)
def test_auto_goes_on_with_the_classic_protocol_if_the_group_cannot_have_the_new_one(
    code: ErrorCode,
) -> None:
    """The feature is off, or the group has classic members that cannot migrate."""

    async def run() -> None:
        coordinator = Coordinator()
        coordinator.failure = ConsumerGroupHeartbeatResponse(error_code=code)
        member = Member(coordinator, subscribed("t"), {"group_protocol": "auto"})
        await member.poll_until(lambda: len(member.subscription.assigned) == 4)
        assert isinstance(chosen(member), ClassicMembership)
        assert member.membership.metadata().generation_id == 1
        await member.membership.close(1000)

    run_virtual(run())


def test_auto_chooses_by_what_is_served_and_set() -> None:
    """Unless a setting of the classic protocol alone is given."""

    async def run() -> None:
        for settings, is_served, kind in (
            ({}, True, ConsumerMembership),
            ({}, False, ClassicMembership),
            ({"heartbeat_interval_ms": 1000}, True, ClassicMembership),
            ({"session_timeout_ms": 10_000}, True, ClassicMembership),
            ({"partition_assignment_strategy": ["sticky"]}, True, ClassicMembership),
        ):
            member = Member(Coordinator(), subscribed("t"), {"group_protocol": "auto", **settings})
            if not is_served:
                del member.client.versions[ApiKey.CONSUMER_GROUP_HEARTBEAT]
            await member.poll_until(lambda member=member: bool(member.subscription.assigned))
            assert isinstance(chosen(member), kind), settings
            await member.membership.close(1000)

    run_virtual(run())


def test_a_group_needs_a_name_and_known_assignors() -> None:
    async def run() -> None:
        coordinator = Coordinator()
        with pytest.raises(ConfigurationError, match="group_id"):
            Member(coordinator, subscribed("t"), {"group_id": None})
        unknown = {"group_protocol": "classic", "partition_assignment_strategy": ["rang"]}
        with pytest.raises(ConfigurationError, match="did you mean 'range'"):
            Member(coordinator, subscribed("t"), unknown)

    run_virtual(run())
