"""Members that commit after processing, of any client, and what a group has read and committed.

What counts is when a member said something, by the clock of the one machine.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from barnabas_client.consumer.consumer import Consumer
from barnabas_client.errors import MembershipLostError
from barnabas_protocol.ids import TopicPartition
from tests.client.consumer.group.readers import Notes
from tests.interop.java_readers import DEADLINE_SECONDS, MemberProcess, Timeline


class Said(NamedTuple):
    """Up to `end` of a partition something was read or committed, at a time."""

    now_ms: int
    member: str
    partition: int
    first: int
    end: int


class GroupHistory:
    """What the members of one group said that they did."""

    def __init__(self, group: str, topic: str) -> None:
        self.group = group
        self.topic = topic
        self.timeline = Timeline()
        self.reads: list[Said] = []
        self.commits: list[Said] = []
        #: What was read in vain: its commit came in the middle of a rebalance.
        self.refused: list[Said] = []
        self.failures: list[str] = []
        self.repeated_count = 0
        self.read_count = 0
        self._uncommitted: dict[str, list[Said]] = {}

    def __str__(self) -> str:
        refused = sum(one.end - one.first for one in self.refused)
        return (
            f"{self.group}: {self.read_count} records read, {len(self.commits)} commits,"
            f" {self.repeated_count} repeated, of {refused} records refused"
        )

    def heard(self, member: str, kind: str, rest: str) -> None:
        """Take a line of a member's program."""
        if kind == "failed":
            self.failures.append(f"{member}: {rest}")
        elif kind == "repeated":
            self.repeated_count += 1
            print(f"{member} repeats a commit: {rest}")
        elif kind in ("assigned", "revoked", "lost"):
            at, _, numbers = rest.partition("\t")
            partitions = [TopicPartition(self.topic, int(n)) for n in numbers.split(",") if n]
            what = "take" if kind == "assigned" else "give"
            self.timeline.note(int(at), member, what, partitions)
        elif kind in ("read", "committed", "refused"):
            at, _, words = rest.partition("\t")
            if kind == "read":
                parts = [[int(number) for number in word.split(":")] for word in words.split(",")]
                for _, first, last, count in parts:
                    assert last - first + 1 == count, f"{member} has read with gaps: {words}"
                self.read(member, int(at), {p: (first, last + 1) for p, first, last, _ in parts})
            elif kind == "committed":
                self.committed(member, int(at))
            else:
                self.refuse(member)

    def read(self, member: str, now_ms: int, ranges: Mapping[int, tuple[int, int]]) -> None:
        """A member has got the records of these ranges, and will commit next."""
        said = [Said(now_ms, member, p, first, end) for p, (first, end) in ranges.items()]
        self.reads += said
        self._uncommitted[member] = said
        self.read_count += sum(one.end - one.first for one in said)

    def committed(self, member: str, now_ms: int) -> None:
        """The group remembers what the member has read last."""
        self.commits += [one._replace(now_ms=now_ms) for one in self._uncommitted.pop(member)]

    def refuse(self, member: str) -> None:
        """The commit came in the middle of a rebalance."""
        self.refused += self._uncommitted.pop(member)

    def died(self, member: str) -> None:
        """It ended without a word: what it had, and had read last, may be somebody else's."""
        self.refused += self._uncommitted.pop(member, [])
        owners = self.timeline.owners
        mine = [partition for partition, owner in owners.items() if owner == member]
        self.timeline.note(_now_ms(), member, "give", mine)

    def ends(self) -> dict[int, int]:
        """The newest commit of each partition."""
        ends: dict[int, int] = defaultdict(int)
        for one in self.commits:
            ends[one.partition] = max(ends[one.partition], one.end)
        return dict(ends)

    def violations(self, acknowledged: Mapping[int, Iterable[int]]) -> list[str]:
        """What is wrong, given the offsets of all records; the group must have come to an end."""
        found = [*self.failures]
        read: dict[int, set[int]] = defaultdict(set)
        forgiven = {(one.partition, n) for one in self.refused for n in range(one.first, one.end)}
        committed: dict[int, int] = defaultdict(int)
        told = [(one.now_ms, True, one) for one in self.commits]
        told += [(one.now_ms, False, one) for one in self.reads]
        # Of one millisecond what was read comes first: it may be what was committed.
        for _, is_commit, one in sorted(told, key=lambda entry: entry[:2]):
            if is_commit:
                committed[one.partition] = max(committed[one.partition], one.end)
                continue
            if one.first < committed[one.partition]:
                found.append(f"{one} although {committed[one.partition]} was committed")
            offsets = set(range(one.first, one.end))
            doubled = [
                n for n in offsets & read[one.partition] if (one.partition, n) not in forgiven
            ]
            if doubled:
                found.append(f"{one} was read before: {doubled[:5]}")
            read[one.partition] |= offsets
        for partition, wanted in acknowledged.items():
            missed = set(wanted) - read[partition]
            if missed:
                found.append(f"partition {partition}: missed {sorted(missed)[:5]}")
        return found


class Member(Protocol):
    """A member of a group that can come and go."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class ForeignMember:
    """A member that lives in a program."""

    def __init__(
        self,
        process: MemberProcess,
        bootstrap: str,
        name: str,
        history: GroupHistory,
        **more: str,
    ) -> None:
        self._more = [f"{key.replace('_', '.')}={value}" for key, value in more.items()]
        self._process = process
        self._bootstrap = bootstrap
        self._name = name
        self._history = history
        self._left = asyncio.Event()

    async def start(self) -> None:
        self._process.hear(self._name, self._hear)
        settings = (
            f"bootstrap.servers={self._bootstrap}",
            f"group.id={self._history.group}",
            "auto.offset.reset=earliest",
            "enable.auto.commit=false",
        )
        await self._process.tell("join", self._name, self._history.topic, *settings, *self._more)

    async def stop(self) -> None:
        await self._process.tell("leave", self._name)
        async with asyncio.timeout(DEADLINE_SECONDS):
            await self._left.wait()

    def _hear(self, kind: str, rest: str) -> None:
        if kind == "left":
            self._left.set()
        self._history.heard(self._name, kind, rest)


class OwnMember:
    """A member with our client, in the process of the tests."""

    def __init__(self, bootstrap: str, name: str, history: GroupHistory) -> None:
        self._bootstrap = bootstrap
        self._name = name
        self._history = history
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        self._stop.set()
        assert self._task is not None
        await self._task

    async def _run(self) -> None:
        history = self._history
        async with Consumer(
            self._bootstrap,
            group_id=history.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            consumer.subscribe([history.topic], listener=Notes(self._name, history.timeline))
            while not self._stop.is_set():
                offsets: dict[int, list[int]] = defaultdict(list)
                for record in await consumer.poll(timeout_ms=100):
                    offsets[record.partition].append(record.offset)
                if not offsets:
                    continue
                for some in offsets.values():
                    assert some == list(range(some[0], some[-1] + 1)), "read with gaps"
                ranges = {p: (some[0], some[-1] + 1) for p, some in offsets.items()}
                history.read(self._name, _now_ms(), ranges)
                try:
                    await consumer.commit()
                    history.committed(self._name, _now_ms())
                except MembershipLostError:
                    history.refuse(self._name)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
