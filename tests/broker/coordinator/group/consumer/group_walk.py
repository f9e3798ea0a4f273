"""One group with members of both protocols alive, as seeds have it.

Members keep what they have until they hear that it is to go, as clients do; responses get lost, the
log is slow, refuses, or forgets what was not committed. After every command the model compares the
group with a replay of its log. The walk adds: no two members that the coordinator knows have the
same partition, whoever of them has heard what; and when all faults end, each partition has a
reader.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from barnabas_broker.config.bounded_settings import Bounded
from barnabas_broker.coordinator.group.consumer.patterns import matching
from barnabas_broker.coordinator.group.context import RequestContext
from barnabas_protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
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

Partition = tuple[bytes, int]
TOPICS = ("t", "u")
CALM_ROUNDS = 200
FENCED = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.ILLEGAL_GENERATION,
)


class Violation(AssertionError):
    """Something that must hold does not."""


class Member:
    """What both kinds of members have in common."""

    def __init__(self, walk: "Walk", name: str, instance: str | None) -> None:
        self.walk = walk
        self.model = walk.model
        self.name = name
        self.instance = instance
        self.topics = walk.subscription(instance)
        self.member_id = ""
        self.owned: set[Partition] = set()
        self.hangs_until_ms = 0

    def own(self, given: set[Partition]) -> None:
        """Have these and no others."""
        self.walk.note(f"{self.name} has {_short(given)}")
        self.owned = set(given)
        self.walk.check_owners()

    def interrupted(self) -> None:
        """No response will come to what was sent."""

    def topics_changed(self) -> None:
        """Its metadata says that there are other topics or partitions."""


class ConsumerSide(Member):
    """A member of the consumer protocol."""

    def __init__(self, walk: "Walk", name: str, instance: str | None) -> None:
        super().__init__(walk, name, instance)
        self.member_id = walk.new_id(name)
        self.pattern = "t|u" if instance is None and walk.chance(5) else None
        self.epoch = 0
        self._is_full = True
        self._is_owned_news = False
        self._is_waiting = False

    def step(self) -> None:
        """Send a heartbeat, unless one is under way."""
        if self._is_waiting:
            return
        is_join = self.epoch == 0
        is_full = self._is_full or is_join
        owned = [] if is_join else sorted(self.owned)
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=self.epoch
        )
        request.instance_id = self.instance
        if is_full:
            request.rebalance_timeout_ms = 20_000
            request.subscribed_topic_names = None if self.pattern else list(self.topics)
            request.subscribed_topic_regex = self.pattern
        if is_full or self._is_owned_news:
            request.topic_partitions = [
                TopicPartitions(topic_id=topic_id, partitions=[number])
                for topic_id, number in owned
            ]
        self._is_full = self._is_owned_news = False
        self._is_waiting = True
        self.walk.send(self, lambda: self.walk.heartbeat(request), self._take, self._fail)

    def leave(self, epoch: int) -> None:
        """Leave, whatever the coordinator says."""
        self.owned = set()
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance
        )
        self.walk.send(self, lambda: self.walk.heartbeat(request), lambda _: None, lambda _: None)

    def interrupted(self) -> None:
        """Send everything with the next heartbeat."""
        self._is_waiting, self._is_full = False, True

    def _take(self, response: Any) -> None:
        self._is_waiting = False
        self.epoch = response.member_epoch
        if response.assignment is not None:
            given = {
                (each.topic_id, number)
                for each in response.assignment.topic_partitions
                for number in each.partitions
            }
            self._is_owned_news = True
            self.own(given & self.walk.partitions())

    def _fail(self, code: ErrorCode) -> None:
        self.interrupted()
        if code in FENCED:
            self.epoch = 0
            self.own(set())
            if self.instance is not None:
                self.member_id = self.walk.new_id(self.name)


class ClassicSide(Member):
    """A cooperative member of the classic protocol."""

    def __init__(self, walk: "Walk", name: str, instance: str | None) -> None:
        super().__init__(walk, name, instance)
        self.generation = -1
        self._is_to_join = True
        self._is_metadata_news = False
        self._join: Ticket | None = None
        self._sync: Ticket | None = None

    def step(self) -> None:
        """Do what is to be done next: take a response, join, sync or send a heartbeat."""
        if self._join is not None:
            if not self._join.is_parked:
                self._joined(self._join.response)
        elif self._sync is not None:
            if not self._sync.is_parked:
                self._synced(self._sync.response)
        elif self._is_to_join or self._is_metadata_news:
            self._is_to_join = self._is_metadata_news = False
            self._join = self.model.join(
                self.member_id, instance=self.instance, protocols=self._protocols(), version=5
            )
        else:
            code = self.model.heartbeat(
                self.member_id, self.generation, group_instance_id=self.instance
            )
            self._heard(code)

    def leave(self, epoch: int) -> None:
        """Leave, whatever the coordinator says."""
        self.owned = set()
        if self.member_id:
            with suppress(KafkaError):
                self.model.leave_many((self.member_id, self.instance))

    def interrupted(self) -> None:
        """Join again."""
        self._join = self._sync = None
        self._is_to_join = True

    def topics_changed(self) -> None:
        """Join again: where it leads, it is the one who assigns."""
        self._is_metadata_news = True

    def _protocols(self) -> tuple[tuple[str, bytes], ...]:
        owned: dict[str, tuple[int, ...]] = {}
        for topic_id, number in sorted(self.owned):
            name = self.model.named.topic_name(topic_id)
            if name is not None:
                owned[name] = (*owned.get(name, ()), number)
        subscription = Subscription(
            topics=self.topics, owned_partitions=owned, generation_id=self.generation
        )
        return (("cooperative-sticky", encode_subscription(subscription)),)

    def _joined(self, response: Any) -> None:
        self._join = None
        code = ErrorCode(response.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        if code is not ErrorCode.NONE:
            self._heard(code)
            self._is_to_join = True
            return
        self.member_id, self.generation = response.member_id, response.generation_id
        assignments = _shared(self.walk, response.members)
        self._sync = self.model.sync(
            self.member_id, self.generation, assignments, group_instance_id=self.instance
        )

    def _synced(self, response: Any) -> None:
        self._sync = None
        code = ErrorCode(response.error_code)
        if code is not ErrorCode.NONE:
            self._heard(code)
            self._is_to_join = True
            return
        ids = self.model.named.ids
        given = {
            (ids[name], number)
            for name, numbers in decode_assignment(response.assignment).partitions.items()
            if name in ids
            for number in numbers
        }
        self._is_to_join = bool(self.owned - given)
        self.own(given)

    def _heard(self, code: ErrorCode) -> None:
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._is_to_join = True
        elif code in FENCED:
            self._is_to_join = True
            self.generation = -1
            self.own(set())
            if code is not ErrorCode.ILLEGAL_GENERATION:
                self.member_id = ""


def _shared(walk: "Walk", members: list[Any]) -> dict[str, bytes] | None:
    """What a leader assigns: all evenly, but nothing that another member has still."""
    if not members:
        return None
    ids = walk.model.named.ids
    subscriptions = {each.member_id: decode_subscription(each.metadata) for each in members}
    owners = {
        (ids[name], number): member_id
        for member_id, one in subscriptions.items()
        for name, numbers in (one.owned_partitions or {}).items()
        if name in ids
        for number in numbers
    }
    given: dict[str, dict[str, tuple[int, ...]]] = {each: {} for each in subscriptions}
    for topic_id, number in sorted(walk.partitions()):
        name = walk.model.named.topic_name(topic_id) or ""
        takers = [each for each, one in subscriptions.items() if name in one.topics]
        if takers:
            taker = takers[number % len(takers)]
            if owners.get((topic_id, number), taker) == taker:
                given[taker][name] = (*given[taker].get(name, ()), number)
    return {
        each: encode_assignment(Assignment(partitions=partitions))
        for each, partitions in given.items()
    }


class Walk:
    """One story, told by a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.model = ConsumerModel(
            {"t": 4, "u": 3},
            assignment_interval_ms=Bounded(self._random.choice((0, 1_000)), 0, 2_000),
            session_timeout_ms=Bounded(6_000, 6_000, 6_000),
        )
        self.members: list[ConsumerSide | ClassicSide] = []
        self.lines: list[str] = []
        self._made = 0
        self._topics_of: dict[str, tuple[str, ...]] = {}
        self._is_held = False
        self._waiting: list[tuple[Member, Callable[[ErrorCode | None], None]]] = []

    # ---- what members ask ------------------------------------------------------------------------

    def chance(self, one_in: int) -> bool:
        """Whether something happens that happens once in so many times."""
        return self._random.randrange(one_in) == 0

    def subscription(self, instance: str | None) -> tuple[str, ...]:
        """Topics of a new member.

        Those of an instance stay: a classic group does not rebalance for a member that has come
        back (GRP-18), as Kafka's does not.
        """
        topics = self._random.choice((("t",), ("u",), TOPICS, TOPICS))
        return topics if instance is None else self._topics_of.setdefault(instance, topics)

    def new_id(self, name: str) -> str:
        """An id that no member has had."""
        self._made += 1
        return f"{name}-{self._made}"

    def partitions(self) -> set[Partition]:
        """All that there are."""
        named = self.model.named
        return {
            (topic_id, number)
            for name, topic_id in named.ids.items()
            for number in range(named.counts[name])
        }

    def note(self, line: str) -> None:
        """Note what happened."""
        self.lines.append(f"{self.model.now_ms / 1000:8.3f}  {line}")

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> Any:
        """Give the shard a heartbeat. Raises: KafkaError."""
        context = RequestContext("client", "/127.0.0.1", 1)
        return self.model.run(
            lambda shard, now: shard.consumer_members.heartbeat(request, context, now)
        )

    def send(
        self,
        member: Member,
        call: Callable[[], Any],
        take: Callable[[Any], None],
        fail: Callable[[ErrorCode], None],
    ) -> None:
        """Have a response taken when what it shows is committed; some get lost."""
        is_lost = self.chance(12)

        def outcome(code: ErrorCode | None) -> None:
            if member not in self.members:
                return
            if is_lost:
                member.interrupted()
            elif code is None:
                take(response)
            else:
                fail(code)

        try:
            response = call()
        except KafkaError as error:
            self.note(f"{member.name}: {error.code.name}")
            outcome(error.code)
            return
        if self._is_held:
            self._waiting.append((member, outcome))
        else:
            outcome(None)

    # ---- checks ----------------------------------------------------------------------------------

    def _known(self) -> set[str]:
        shard = self.model.shard
        consumer_group, group = shard.consumer_groups.get(GROUP), shard.groups.get(GROUP)
        return {
            *(consumer_group.members if consumer_group else ()),
            *(group.members if group else ()),
        }

    def check_owners(self) -> None:
        """No two members that the coordinator knows have one partition. Raises: Violation."""
        known = self._known()
        owners: dict[Partition, str] = {}
        for member in self.members:
            if member.member_id not in known:
                continue
            for partition in member.owned:
                if partition in owners:
                    text = f"{owners[partition]} and {member.name} have {_short({partition})}"
                    self.note(text)
                    raise Violation(text)
                owners[partition] = member.name

    # ---- the story -------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """Tell it to its end. Raises: AssertionError."""
        for _ in range(steps):
            self._step()
        self._release(None)
        self.model.fail_with = None
        if not self.members:
            self._enter()
        for _ in range(CALM_ROUNDS):
            self._round()
            if self._is_settled():
                return
        raise Violation(f"not settled: {[(m.name, _short(m.owned)) for m in self.members]}")

    def _round(self) -> None:
        for member in list(self.members):
            for _ in range(3):
                self._have_step(member)
        self._answer_patterns()
        self.model.advance(1_000)

    def _is_settled(self) -> bool:
        wanted = {
            (self.model.named.ids[name], number)
            for member in self.members
            for name in (TOPICS if getattr(member, "pattern", None) else member.topics)
            if name in self.model.named.ids
            for number in range(self.model.named.counts[name])
        }
        owned = [partition for member in self.members for partition in member.owned]
        return len(owned) == len(wanted) and set(owned) == wanted

    def _step(self) -> None:
        match self._random.randrange(20):
            case 0 | 1:
                if len(self.members) < 5:
                    self._enter()
            case 2:
                self._exit()
            case 3:
                if not self._is_held:
                    self.note("the log is slow")
                    self._is_held = True
                    self.model.hold()
            case 4:
                self._release(None)
            case 5:
                code = self._random.choice((None, ErrorCode.NOT_ENOUGH_REPLICAS))
                self._release(code)
                if not self._is_held:
                    self.model.fail_with = code
            case 6:
                if self.chance(2):
                    self._fail_over()
            case 7:
                if self.chance(2):
                    self._change_topics()
            case 8 | 9:
                self.model.advance(self._random.choice((100, 1_000, 3_000, 8_000)))
            case 10:
                self._answer_patterns()
            case 11:
                if self.members:
                    member = self._random.choice(self.members)
                    member.hangs_until_ms = self.model.now_ms + self._random.choice(
                        (2_000, 10_000, 30_000)
                    )
                    self.note(f"{member.name} hangs until {member.hangs_until_ms}")
            case _:
                if self.members:
                    self._have_step(self._random.choice(self.members))
        self.check_owners()

    def _have_step(self, member: ConsumerSide | ClassicSide) -> None:
        if self.model.now_ms >= member.hangs_until_ms:
            member.step()

    def _enter(self) -> None:
        used = {member.instance for member in self.members}
        instance = self._random.choice((None, None, "i", "j"))
        kind = self._random.choice((ConsumerSide, ClassicSide))
        name = f"{'n' if kind is ConsumerSide else 'c'}{self._made}"
        self._made += 1
        if instance in used and instance is not None:
            # A new process of the same instance: the former one is dead.
            self.members = [each for each in self.members if each.instance != instance]
        member = kind(self, name, instance)
        self.note(f"{name} comes, instance {instance}, {member.topics}")
        self.members.append(member)

    def _exit(self) -> None:
        if not self.members:
            return
        member = self._random.choice(self.members)
        self.members.remove(member)
        if self.chance(3):
            self.note(f"{member.name} dies")
            return
        epoch = -2 if member.instance is not None and self.chance(2) else -1
        self.note(f"{member.name} leaves: {epoch}")
        member.leave(epoch)

    def _release(self, code: ErrorCode | None) -> None:
        if not self._is_held:
            return
        self.note(f"what was written is {'committed' if code is None else 'refused'}")
        self._is_held = False
        waiting, self._waiting = self._waiting, []
        self.model.release(code)
        for _, outcome in waiting:
            outcome(code)

    def _fail_over(self) -> None:
        self.note("another coordinator, which has what was committed")
        self._is_held = False
        self.model.forget_held()
        self._waiting.clear()
        self.model.fail_with = None
        self.model.restart()
        for member in self.members:
            member.interrupted()

    def _change_topics(self) -> None:
        named = self.model.named
        if self.chance(2) and named.counts.get("t", 0) < 6:
            named.put("t", named.counts["t"] + 1)
        elif "u" in named.ids:
            gone = named.ids["u"]
            named.remove("u")
            for member in self.members:
                member.owned = {each for each in member.owned if each[0] != gone}
        else:
            named.put("u", 3)
        for member in self.members:
            member.topics_changed()
        self.note(f"topics are {named.counts}")

    def _answer_patterns(self) -> None:
        asked, self.model.asked = self.model.asked, []
        for group_id, patterns in asked:
            matched = {
                each: frozenset(matching(each, self.model.named.names())) for each in patterns
            }
            with suppress(KafkaError):
                self.model.run(
                    lambda shard, now, group_id=group_id, matched=matched: shard.patterns.resolved(
                        group_id, matched, now
                    )
                )


def _short(partitions: set[Partition]) -> list[str]:
    return [f"{topic_id[-1]}:{number}" for topic_id, number in sorted(partitions)]
