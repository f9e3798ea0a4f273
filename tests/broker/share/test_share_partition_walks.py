"""Random walks of a share partition against a model that keeps one entry for each offset (SHR-42).

Members fetch, acknowledge, renew, go away and let locks run out; writes are lost, or fail although
they were carried out; dead letters are handed over and have an outcome later; the leader moves, and
begins anew with what was stored.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from barnabas_broker.share.acquisition import AcquireParameters, FetchedBatch, acquire
from barnabas_broker.share.dead_letters import DeadLetters
from barnabas_broker.share.persister import StateBatch
from barnabas_broker.share.record_states import AcknowledgementBatch, RecordState
from barnabas_broker.share.share_partition import SharePartition
from barnabas_broker.share.share_settings import ShareSettings
from barnabas_broker.share.transition import StateWrite, Transition
from barnabas_protocol.errors import ErrorCode, KafkaError
from tests.broker.share.share_partition_model import (
    DELIVERY_COUNT,
    FINAL,
    REJECTED,
    Entry,
    PartitionModel,
)

MEMBERS = ("a", "b", "c")
STEPS = 400
BATCH_COUNT = 60


def offsets_of(letters: Sequence[DeadLetters]) -> list[int]:
    """All offsets of dead letters."""
    return [o for one in letters for o in range(one.first_offset, one.last_offset + 1)]


class Store:
    """What the share coordinator keeps, offset by offset: the higher count wins, then the state."""

    def __init__(self) -> None:
        self.start = 0
        self.offsets: dict[int, tuple[int, int]] = {}

    def write(self, write: StateWrite) -> None:
        self.start = max(self.start, write.start_offset)
        for first, last, state, count in (
            (one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
            for one in write.batches
        ):
            assert state != RecordState.ACQUIRED  # SHR-5
            for offset in range(first, last + 1):
                self.offsets[offset] = max(self.offsets.get(offset, (0, 0)), (count, state))
        self.offsets = {o: one for o, one in self.offsets.items() if o >= self.start}

    def batches(self) -> list[StateBatch]:
        return [StateBatch(o, o, state, count) for o, (count, state) in self.offsets.items()]


class Walk:
    """A share partition with a log, a store and the model."""

    def __init__(self, seed: int) -> None:
        self.random = chance = random.Random(seed)
        self.settings = ShareSettings(
            record_lock_duration_ms=chance.choice([10, 50]),
            delivery_count_limit=chance.choice([2, 3, 5, 6]),
            record_locks_max=chance.choice([7, 30, 100]),
            has_dead_letters=chance.random() < 0.5,
        )
        self.log: list[FetchedBatch] = []
        offset = 0
        for _ in range(BATCH_COUNT):
            offset += chance.choice([0, 0, 0, 1, 12])  # what compaction has left out
            size = chance.choice([1, 1, 2, 5, 17])
            self.log.append(FetchedBatch(offset, offset + size - 1, chance.random() < 0.1))
            offset += size
        self.log_start = 0
        self.store = Store()
        self.now_ms = 0
        self.partition = SharePartition(0, self.settings)
        self.model = PartitionModel(0, self.settings)
        self.under_way: StateWrite | None = None
        self.tokens: dict[Transition, list[KafkaError | None]] = {}
        self.own: object = None
        # What members were told is accepted.
        self.accepted: set[int] = set()
        # What became a dead letter, and what of that has no outcome yet.
        self.dead: set[int] = set()
        self.letters: list[DeadLetters] = []
        # What was to be Archiving by a write that failed: it may be stored all the same, and is no
        # less a dead letter for what a member made of it since.
        self.doubtful: set[int] = set()
        self.seen: Counter[str] = Counter()

    def step(self) -> None:
        steps = {
            self.fetch: 6,
            self.acknowledge: 8,
            self.write: 6,
            self.dead_letter: 4,
            self.pass_time: 3,
            self.leave: 0.5,
            self.move_log_start: 0.1,
            self.move_leader: 0.3,
            self.change_settings: 0.3,
        }
        chosen = self.random.choices(list(steps), list(steps.values()))[0]
        self.seen[chosen.__name__] += 1
        chosen()
        self.model.check(self.partition)

    def fetch(self) -> None:
        parameters = AcquireParameters(
            member_id=self.random.choice(MEMBERS),
            records_max=self.random.choice([1, 3, 10, 200]),
            batch_size=self.random.choice([1, 4, 50]),
            is_record_limit=self.random.random() < 0.4,
        )
        self.acquire(parameters, self.random.randint(1, 8))

    def acquire(self, parameters: AcquireParameters, batch_count: int) -> list[int]:
        offset = self.partition.next_fetch_offset
        if offset is None:
            return []
        found = [one for one in self.log if one.last_offset >= offset][:batch_count]
        result = acquire(self.partition, parameters, offset, found, self.now_ms)
        if not found:
            assert not result
            return []
        offsets = self.model.acquired(
            self.partition, parameters, offset, found, result, self.now_ms
        )
        assert not self.accepted.intersection(offsets), "final, and delivered again"
        assert not self.dead.intersection(offsets), "a dead letter, and delivered again"
        self.seen["again"] += any(one.delivery_count > 1 for one in result)
        return offsets

    def acknowledge(self) -> None:
        member = self.random.choice(MEMBERS)
        held = [o for o, one in self.model.entries.items() if one.member == member]
        is_renew = self.random.random() < 0.3
        batches = self._batches(held, is_renew)
        if batches:
            self.acknowledged(member, batches, is_renew=is_renew)

    def acknowledged(
        self, member: str, batches: list[AcknowledgementBatch], *, is_renew: bool = False
    ) -> None:
        token: list[KafkaError | None] = []
        expected = self.model.acknowledge(member, batches, self.now_ms, token, is_renew=is_renew)
        try:
            transition = self.partition.acknowledge(member, batches, self.now_ms, is_renew=is_renew)
        except KafkaError as error:
            assert error.code == expected
            self.seen[error.code.name] += 1
            return
        assert expected == 0
        if transition is not None:
            transition.on_done = token.append
            self.tokens[transition] = token

    def _batches(self, held: Sequence[int], is_renew: bool) -> list[AcknowledgementBatch]:
        """Some acknowledgements of what a member holds, now and then of something else."""
        chance = self.random
        batches: list[AcknowledgementBatch] = []
        offsets = sorted(chance.sample(list(held), min(len(held), chance.choice([1, 4, 30]))))
        allowed = [0, 1, 1, 1, 2, 2, 2, 3] + [4, 4] * is_renew
        while offsets:
            first = last = offsets.pop(0)
            while offsets and offsets[0] == last + 1:
                last = offsets.pop(0)
            count = chance.choice([1, last - first + 1])
            batches.append(
                AcknowledgementBatch(first, last, [chance.choice(allowed) for _ in range(count)])
            )
        if chance.random() < 0.1:
            first = chance.randint(0, self.model.end + 3)
            last = first + chance.randint(-1, 3)
            types = [chance.choice([0, 1, 2, 4, 5])] * chance.choice([1, 1, 2])
            batches.insert(
                chance.choice([0, len(batches)]), AcknowledgementBatch(first, last, types)
            )
        return batches

    def write(self) -> None:
        """Take a write, or end the one that is under way."""
        write = self.under_way
        if write is None:
            self.take_write()
            return
        self.under_way = None
        fate = self.random.random()
        if fate < 0.9:
            self.store.write(write)
        if fate >= 0.8:
            archiving = RecordState.ARCHIVING
            self.doubtful.update(
                o
                for one in write.batches
                if one.delivery_state == archiving
                for o in range(one.first_offset, one.last_offset + 1)
            )
        self.finish(write, KafkaError(ErrorCode.REQUEST_TIMED_OUT) if fate >= 0.8 else None)

    def take_write(self) -> None:
        self.under_way = self.partition.take_write()
        if self.under_way is not None:
            self.own = self.model.take_own()

    def dead_letter(self) -> None:
        """Hand over what is Archiving, or end what was handed over."""
        if self.letters:
            letters, self.letters = self.letters, []
            self.partition.finish_dead_letters(letters)
            self.model.finish_dead_letters(offsets_of(letters))
            return
        self.letters = self.partition.take_dead_letters()
        taken = self.model.take_dead_letters()
        # In their order; of what the log has no more, too.
        known = {
            offset: (one.delivery_count, one.cause)
            for one in self.letters
            for offset in range(one.first_offset, one.last_offset + 1)
            if offset >= self.partition.start_offset
        }
        assert known == taken
        assert list(known) == sorted(known)
        self.dead.update(offsets_of(self.letters))
        self.seen["dead letters"] += bool(taken)

    def finish(self, write: StateWrite, error: KafkaError | None) -> None:
        self.partition.finish_write(write, error)
        tokens = [self.tokens.pop(one) for one in write.transitions if one in self.tokens]
        acknowledged = self.model.written([*tokens, self.own], has_failed=error is not None)
        assert all(token == [error] for token in tokens)
        assert not self.accepted.intersection(acknowledged), "accepted twice"
        self.accepted.update(acknowledged)
        self.seen["failed writes"] += error is not None and bool(tokens)

    def pass_time(self) -> None:
        self.now_ms += self.random.randint(0, 30)
        self.partition.expire_locks(self.now_ms)
        self.model.expire(self.now_ms)

    def leave(self) -> None:
        member = self.random.choice(MEMBERS)
        self.partition.release_members({member})
        self.model.release(member)

    def move_log_start(self) -> None:
        self.log_start += self.random.randint(0, 20)
        self.log = [one for one in self.log if one.last_offset >= self.log_start]
        self.partition.log_start_moved(self.log_start)
        self.model.log_start_moved(self.log_start)

    def change_settings(self) -> None:
        limit = self.random.choice([2, 3, 5, 6])
        locks_max = self.random.choice([7, 30, 100])
        self.settings = replace(
            self.settings,
            delivery_count_limit=limit,
            record_locks_max=locks_max,
            has_dead_letters=self.random.random() < 0.5,
        )
        self.partition.settings = self.model.settings = self.settings

    def move_leader(self) -> None:
        """Begin anew with what is stored: what was Acquired is Available (SHR-33)."""
        if self.under_way is not None and self.random.random() < 0.5:
            self.store.write(self.under_way)  # written, but nobody was told
        self.under_way = None
        self.partition.fail_waiting(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        self.tokens.clear()
        self.letters = []
        self.partition = SharePartition.load(self.store.start, self.store.batches(), self.settings)
        self.model = PartitionModel(self.store.start, self.settings)
        for offset in range(self.store.start, max(self.store.offsets, default=-1) + 1):
            count, state = self.store.offsets.get(offset, (0, 0))
            entry = self.model.entries[offset] = Entry(RecordState(state), count)
            if entry.state is RecordState.ARCHIVING:
                is_at_limit = count >= self.settings.delivery_count_limit
                entry.cause = DELIVERY_COUNT if is_at_limit else REJECTED
        self.model.settle()
        for offset in self.accepted:
            known = self.model.entries.get(offset)
            assert (
                offset < self.model.start
                or (known is not None and known.state in FINAL)
                or (known is not None and offset in self.doubtful)
            )

    def drain(self) -> None:
        """Let one member accept all that is left; what is never offered was lost."""
        everything = AcquireParameters(member_id="last", records_max=1_000, batch_size=1_000)
        for _ in range(10_000):
            if self.under_way is not None:
                self.finish(self.under_way, None)
            self.now_ms += 1_000
            self.partition.expire_locks(self.now_ms)
            self.model.expire(self.now_ms)
            offsets = self.acquire(everything, 1_000)
            batches = [AcknowledgementBatch(offset, offset, [1]) for offset in offsets]
            self.acknowledged("last", batches)
            self.take_write()
            had_letters = bool(self.letters)
            self.dead_letter()
            if self.under_way is None and not offsets and not had_letters and not self.letters:
                break
            if self.under_way is not None:
                self.store.write(self.under_way)
            self.model.check(self.partition)
        assert not self.model.entries
        assert not self.log or self.model.start > self.log[-1].last_offset


@pytest.mark.parametrize("group", range(12))
def test_share_partition_does_what_the_model_does(group: int) -> None:
    """SHR-42: nothing accepted is delivered again, nothing is under two locks, nothing is lost."""
    seen: Counter[str] = Counter()
    for seed in range(group * 5, group * 5 + 5):
        walk = Walk(seed)
        try:
            for _ in range(STEPS):
                walk.step()
            walk.drain()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
        seen += walk.seen
    happened = {"again", "failed writes", "INVALID_REQUEST", "INVALID_RECORD_STATE", "move_leader"}
    happened.add("dead letters")
    assert happened <= {name for name, count in seen.items() if count}
