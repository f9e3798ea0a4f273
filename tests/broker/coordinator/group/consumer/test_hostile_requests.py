"""Requests of every kind that no honest member sends, by seed.

Whatever comes is answered or refused with a code, and leaves what a replay of the log gives.
Source: CG-3, CG-7, CG-9, OFS-5.
"""

import random
from contextlib import suppress
from typing import Any

import pytest

from barnabas_broker.config.bounded_settings import Bounded
from barnabas_broker.coordinator.group.consumer.settings import MigrationPolicy
from barnabas_broker.coordinator.group.context import RequestContext
from barnabas_protocol.consumer_protocol import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from tests.broker.coordinator.group.consumer.consumer_model import ConsumerModel
from tests.support.group_model import GROUP, Ticket

SEEDS = 60
STEPS = 200
NUMBERS = (-(2**31), -2, -1, 0, 1, 2, 3, 7, 2**31 - 1)
IDS = ("", "a", "b", "c", "\0", "é" * 20)
INSTANCES = (None, None, None, "", "i", "j")
PATTERNS = (None, None, None, "", "t", "t|u", "(", ".*", "(.?){1000}")


class Hostile:
    """Sends what a seed says to one group."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._pick = self._random.choice
        self.model = ConsumerModel(
            {"t": 4, "u": 2},
            assignment_interval_ms=Bounded(self._pick((0, 1_000)), 0, 2_000),
            group_size_max=self._pick((2, 4, 100)),
            migration_policy=self._pick(tuple(MigrationPolicy)),
        )
        self._ids = list(IDS)
        self._is_held = False
        self.errors: set[ErrorCode] = set()

    def step(self) -> None:
        """Send something, or have something befall the shard."""
        steps = (
            self._heartbeat, self._heartbeat, self._heartbeat, self._join, self._join, self._sync,
            self._classic_heartbeat, self._leave, self._commit, self._delete, self._topics,
            self._log, self._time, self._patterns,
        )  # fmt: skip
        try:
            self._pick(steps)()
        except KafkaError as error:
            self.errors.add(error.code)

    def end(self) -> None:
        """Have everybody gone by their sessions."""
        self._release(None)
        self.model.fail_with = None
        for _ in range(4):
            self.model.advance(200_000)

    def _epoch(self, member_id: str) -> int:
        group = self.model.shard.consumer_groups.get(GROUP)
        member = None if group is None else group.members.get(member_id)
        if member is not None and self._random.random() < 0.6:
            return self._pick((member.member_epoch, member.previous_member_epoch))
        return self._pick(NUMBERS)

    def _partitions(self) -> list[TopicPartitions]:
        ids = (*self.model.named.ids.values(), b"\xff" * 16, b"\0" * 16)
        return [
            TopicPartitions(
                topic_id=self._pick(ids), partitions=[self._pick(NUMBERS) for _ in range(3)]
            )
            for _ in range(self._random.randrange(4))
        ]

    def _heartbeat(self) -> None:
        member_id = self._pick(self._ids)
        epoch = self._epoch(member_id)
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=member_id, member_epoch=epoch
        )
        request.instance_id = self._pick(INSTANCES)
        request.rack_id = self._pick((None, "", "r"))
        request.rebalance_timeout_ms = self._pick((-1, -5, 0, 1_000, 2**31 - 1))
        request.subscribed_topic_names = self._pick((None, [], ["t"], ["u", "t", "t"], ["", "x"]))
        request.subscribed_topic_regex = self._pick(PATTERNS)
        request.server_assignor = self._pick((None, None, "range", "uniform", "none"))
        request.topic_partitions = self._pick((None, [], [], self._partitions()))
        context = RequestContext("client", "/127.0.0.1", self._pick((0, 1)))
        response = self.model.run(
            lambda shard, now: shard.consumer_members.heartbeat(request, context, now)
        )
        self._know(response.member_id)

    def _know(self, member_id: str) -> None:
        if member_id not in self._ids:
            self._ids = [*self._ids[-12:], member_id]

    def _join(self) -> None:
        subscription = encode_subscription(
            Subscription(
                topics=self._pick((("t",), ("u", "u"), ())),
                owned_partitions={"t": tuple(self._pick(NUMBERS) for _ in range(2))},
                generation_id=self._pick(NUMBERS),
            ),
            self._pick((0, 1, 3)),
        )
        ticket = self.model.join(
            self._pick(self._ids),
            instance=self._pick(INSTANCES),
            protocols=self._pick(
                (
                    (("range", subscription),),
                    (("range", subscription), ("cooperative-sticky", subscription)),
                    (("other", b"\0"),),
                    (),
                )
            ),
            protocol_type=self._pick(("consumer", "consumer", "connect")),
            version=self._pick((1, 3, 5, 9)),
            rebalance_ms=self._pick((-1, 0, 5_000, 2**31 - 1)),
        )
        self._answered(ticket)
        if not ticket.is_parked:
            self._know(ticket.response.member_id)

    def _answered(self, ticket: Ticket) -> None:
        if not ticket.is_parked:
            self.errors.add(ticket.error)

    def _generation(self) -> int:
        group = self.model.shard.groups.get(GROUP)
        numbers = NUMBERS if group is None else (group.generation_id, *NUMBERS[-3:])
        return self._pick(numbers)

    def _sync(self) -> None:
        blob = self._pick(
            (
                b"",
                b"\0",
                encode_assignment(Assignment(partitions={"t": (0, 1, -1), "x": (3,)})),
                encode_assignment(Assignment(partitions={"u": tuple(NUMBERS)})),
            )
        )
        member_id = self._pick(self._ids)
        generation = self._pick((self._generation(), self._epoch(member_id)))
        ticket = self.model.sync(member_id, generation, dict.fromkeys(self._ids, blob))
        self._answered(ticket)

    def _classic_heartbeat(self) -> None:
        member_id = self._pick(self._ids)
        instance = self._pick(INSTANCES)
        generation = self._pick((self._generation(), self._epoch(member_id)))
        self.errors.add(self.model.heartbeat(member_id, generation, group_instance_id=instance))

    def _leave(self) -> None:
        names = [(self._pick(self._ids), self._pick(INSTANCES)) for _ in range(3)]
        self.errors.update(self.model.leave_many(*names))

    def _commit(self) -> None:
        member_id = self._pick(self._ids)
        offsets = dict.fromkeys((self._pick(NUMBERS) for _ in range(2)), self._pick(NUMBERS))
        generation = self._pick((self._generation(), self._epoch(member_id)))
        self.model.commit(offsets, member_id, generation, instance=self._pick(INSTANCES))

    def _delete(self) -> None:
        if self._random.randrange(4) == 0:
            self.model.run(lambda shard, _: shard.commits.delete_group(GROUP))

    def _topics(self) -> None:
        named = self.model.named
        if "u" in named.ids and self._random.randrange(2):
            named.remove("u")
        else:
            named.put("u", named.counts.get("u", 0) + 1)

    def _log(self) -> None:
        match self._random.randrange(5):
            case 0:
                if not self._is_held:
                    self._is_held = True
                    self.model.hold()
            case 1 | 2:
                self._release(self._pick((None, ErrorCode.NOT_ENOUGH_REPLICAS)))
            case 3:
                if not self._is_held:
                    self.model.fail_with = self._pick((None, ErrorCode.NOT_ENOUGH_REPLICAS))
            case _:
                self._is_held = False
                self.model.forget_held()
                self.model.fail_with = None
                self.model.restart()

    def _release(self, code: ErrorCode | None) -> None:
        if self._is_held:
            self._is_held = False
            self.model.release(code)

    def _time(self) -> None:
        self.model.advance(self._pick((1, 1_000, 10_000, 60_000)))

    def _patterns(self) -> None:
        asked, self.model.asked = self.model.asked, []
        for group_id, patterns in asked:
            matched: dict[str, Any] = {
                each: self._pick((None, frozenset(), frozenset(self.model.named.names())))
                for each in patterns
            }
            with suppress(KafkaError):
                self.model.run(
                    lambda shard, now, group_id=group_id, matched=matched: shard.patterns.resolved(
                        group_id, matched, now
                    )
                )


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_is_sent_is_answered_or_refused(seed: int) -> None:
    """CG-3, OFS-5: no other exception, no second owner, and in the end no member that stays."""
    hostile = Hostile(seed)
    for _ in range(STEPS):
        hostile.step()
    hostile.end()
    groups = hostile.model.shard.consumer_groups
    assert not any(group.members for group in groups.values())
    assert not any(group.members for group in hostile.model.shard.groups.values())
    assert ErrorCode.UNKNOWN_MEMBER_ID in hostile.errors
