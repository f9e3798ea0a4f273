"""The world around real `QuorumNode`s: disks, a network, an arbiter, and faults of each.

A port of the executable specification of the control plane. Messages are lost, delayed, doubled and
reordered; nodes crash and forget what is not flushed; disks are lost; replies of the arbiter too.
Any member may try to take over at any moment, so no assumption about time is hidden here. After
each effect the invariants are checked; a breach is an AssertionError.
"""

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple, assert_never

from barnabas_broker.log.leader_epochs import LeaderEpochs
from barnabas_broker.metadata.log_ends import LogEnd
from barnabas_broker.metadata.quorum.effects import (
    Append,
    Effect,
    Effects,
    FetchSnapshot,
    Flush,
    HoldFetch,
    InstallSnapshot,
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
from barnabas_broker.metadata.quorum.messages import (
    ArbiterView,
    FetchRefused,
    Message,
    PromiseRequest,
    PromiseResponse,
    QuorumFetchRequest,
    RecordsResponse,
    SnapshotResponse,
)
from barnabas_broker.metadata.quorum.node import QuorumNode, Role
from barnabas_broker.metadata.quorum.voters import Voter

PACKETS_MAX = 40
RECORDS_MAX = 8
FIRST = 0  # the value of the first record of an epoch


class Entry(NamedTuple):
    """A record: equal if it is the same one."""

    epoch: int
    value: int


class WalkLog:
    """All records ever taken over, of which those below the log start are a snapshot's."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.disk: list[Entry] = []  # what a crash cannot take
        self.log_start_offset = 0
        self.leader_epochs = LeaderEpochs(None, "")

    @property
    def log_start_epoch(self) -> int:
        return self.entries[self.log_start_offset - 1].epoch if self.log_start_offset else -1

    @property
    def log_end_offset(self) -> int:
        return len(self.entries)

    def append(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self.leader_epochs.assign(entry.epoch, len(self.entries))
            self.entries.append(entry)

    def truncate(self, end_offset: int) -> None:
        del self.entries[end_offset:]
        self.leader_epochs.truncate_from_end(end_offset)

    def trim(self, start_offset: int) -> None:
        """Write a snapshot and let the log begin at its end."""
        if self.disk[:start_offset] != self.entries[:start_offset]:
            self.disk = self.entries[:start_offset]
        self.log_start_offset = start_offset
        self.leader_epochs.truncate_from_start(start_offset)

    def install(self, entries: list[Entry]) -> None:
        self.entries, self.disk = list(entries), list(entries)
        self.log_start_offset = len(entries)
        self.leader_epochs.clear()
        self.leader_epochs.assign(entries[-1].epoch, len(entries))

    def crash(self, kept_count: int) -> None:
        """Come back with what is flushed, and by luck with some of what is not."""
        common = 0
        while self.entries[common : common + 1] == self.disk[common : common + 1] != []:
            common += 1
        if common + kept_count <= len(self.disk) and kept_count == 0:
            self.entries = list(self.disk)
        else:
            self.entries = self.entries[: max(common + kept_count, self.log_start_offset)]
        self.disk = list(self.entries)
        entries, start = self.entries, self.log_start_offset
        self.entries, self.leader_epochs = entries[:start], LeaderEpochs(None, "")
        if start:
            self.leader_epochs.assign(entries[start - 1].epoch, start)
        self.append(entries[start:])


class Machine:
    """A node's disk, and the node that runs on it."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.disk_number = 0
        self.incarnation = 0
        self.log = WalkLog()
        self.promised = 0  # as on disk
        self.flushes: list[tuple[bool, Flush]] = []  # whether it has reached the disk
        self.snapshot: list[Entry] = []
        self.committed = 0  # as published since the start
        self.boot()

    @property
    def voter(self) -> Voter:
        return Voter(self.node_id, bytes((self.disk_number,)))

    def boot(self) -> None:
        self.incarnation += 1
        self.flushes.clear()
        self.committed = 0
        self.node = QuorumNode(self.voter, self.log, self.promised)


class Packet(NamedTuple):
    """Something on its way to a node: a message, or with an incarnation, a reply to that one."""

    to: int
    what: Message | ArbiterView | Swap | Effect
    entries: tuple[Entry, ...] = ()
    incarnation: int = 0


class World:
    """Some nodes, and what has ever been committed."""

    def __init__(self, rng: random.Random, node_count: int, member_count: int) -> None:
        self.rng = rng
        self.machines = [Machine(number) for number in range(node_count)]
        members = frozenset(machine.voter for machine in self.machines[:member_count])
        self.arbiter = ArbiterView(token=0, controller_epoch=0, leader_id=None, members=members)
        self.packets: list[Packet] = []
        self.truth: list[Entry] = []  # every record that any leader has counted as committed
        self.written: dict[tuple[int, int], Entry] = {}  # by epoch and offset
        self.led: dict[int, int] = {}  # by epoch, the node
        self.value = FIRST
        self.has_lost_disk = False
        # Each walk has its own mixture: what happens all the time in one hardly happens in another.
        self.weights = list(
            accumulate(weight * rng.choice((0.3, 1, 2)) for weight in WEIGHTS.values())
        )
        # Epoch 0 means "no record" to the nodes.
        self.arbiter = replace(self.arbiter, controller_epoch=1)
        self.records_appended = 0
        for machine in self.machines:
            self.execute(machine, machine.node.start())

    # ---- effects ------------------------------------------------------------------------------

    def execute(self, machine: Machine, effects: Effects, response: Packet | None = None) -> None:
        for effect in effects:
            self._perform(machine, effect, response)

    def _perform(self, machine: Machine, effect: Effect, told: Packet | None) -> None:
        log = machine.log
        match effect:
            case PersistPromise():
                assert effect.controller_epoch > machine.promised, "a promise went back"
                machine.promised = effect.controller_epoch
            case Send():
                self._send(machine, effect)
            case HoldFetch():
                self.packets.append(Packet(machine.node_id, effect.request))
            case Append():
                assert told is not None
                assert effect.base_offset == len(log.entries)
                assert effect.end_offset == len(log.entries) + len(told.entries)
                self.note_written(len(log.entries), told.entries)
                log.append(told.entries)
            case Truncate():
                log.truncate(effect.end_offset)
            case Flush():
                machine.flushes.append((False, effect))
            case FetchSnapshot():
                self.packets.append(
                    Packet(machine.node_id, effect, incarnation=machine.incarnation)
                )
            case InstallSnapshot():
                log.install(machine.snapshot)
                assert effect.snapshot == LogEnd(log.entries[-1].epoch, len(log.entries))
                self._published(machine, effect.snapshot.end_offset)
            case PublishCommitted():
                self._published(machine, effect.high_watermark)
            case Lead():
                self._led(machine, effect)
            case StepDown():
                pass
            case Swap() | ReadRecord():
                self.packets.append(
                    Packet(machine.node_id, effect, incarnation=machine.incarnation)
                )
            case other:
                assert_never(other)

    def _send(self, machine: Machine, effect: Send) -> None:
        message = effect.message
        entries: tuple[Entry, ...] = ()
        if isinstance(message, RecordsResponse) and not message.is_empty:
            start = message.requested.end_offset
            count = self.count_sent(message.end_offset - start)
            message = replace(message, end_offset=start + count)
            entries = tuple(machine.log.entries[start : start + count])
        self.packets.append(Packet(effect.node_id, message, entries))

    def count_sent(self, available: int) -> int:
        """How many of the records that there are go into a response."""
        return self.rng.randint(1, available)

    def _published(self, machine: Machine, offset: int) -> None:
        assert offset > machine.committed, f"node {machine.node_id}'s high watermark went back"
        machine.committed = offset
        entries, truth = machine.log.entries[:offset], self.truth
        assert len(entries) == offset, f"node {machine.node_id} publishes what it lacks"
        if machine.node.role is Role.LEADING and offset > len(truth):
            assert entries[: len(truth)] == truth, f"two histories: {truth} and {entries}"
            truth += entries[len(truth) :]
        assert entries == truth[:offset], f"two histories: {truth} and {entries}"

    def _led(self, machine: Machine, effect: Lead) -> None:
        epoch, log = effect.controller_epoch, machine.log
        who = self.led.setdefault(epoch, machine.node_id)
        assert who == machine.node_id, f"two leaders of epoch {epoch}"
        assert effect.base_offset == len(log.entries)
        assert log.entries[: len(self.truth)] == self.truth, (
            f"node {machine.node_id} leads without {self.truth}: {log.entries}"
        )
        self.write(machine, FIRST)

    def note_written(self, base_offset: int, entries: Iterable[Entry]) -> None:
        for offset, entry in enumerate(entries, base_offset):
            known = self.written.setdefault((entry.epoch, offset), entry)
            assert known == entry, f"two records at {offset} of epoch {entry.epoch}"

    def write(self, machine: Machine, value: int) -> None:
        entry = Entry(machine.node.promised_epoch, value)
        self.note_written(len(machine.log.entries), [entry])
        machine.log.append([entry])
        self.records_appended += 1
        self.execute(machine, machine.node.appended())

    # ---- events -------------------------------------------------------------------------------

    def tell(self, packet: Packet) -> None:
        """Give a packet to the node, or to the arbiter on its behalf."""
        machine = self.machines[packet.to]
        node, what = machine.node, packet.what
        if isinstance(what, Swap):
            self.swap(what)
            what = ReadRecord()
        if packet.incarnation not in (0, machine.incarnation):
            return
        match what:
            case PromiseRequest():
                effects = node.on_promise_request(what)
            case PromiseResponse():
                effects = node.on_promise_response(what)
            case QuorumFetchRequest():
                effects = node.on_fetch_request(what)
            case ArbiterView():
                effects = node.record_read(what)
            case ReadRecord():
                reply = Packet(packet.to, self.arbiter, incarnation=machine.incarnation)
                if self.rng.random() < 0.3:
                    self.packets.append(reply)
                    return
                effects = node.record_read(self.arbiter)
            case FetchSnapshot():
                effects = self._snapshot(machine, what.response)
            case FetchRefused() | RecordsResponse():
                effects = node.on_fetch_response(what)
            case _:
                effects = node.on_fetch_response(what)  # type: ignore[arg-type]
        self.execute(machine, effects, packet)

    def _snapshot(self, machine: Machine, response: SnapshotResponse) -> Effects:
        source = self.machines[response.source.node_id]
        end_offset = response.snapshot.end_offset
        if source.voter != response.source or source.log.log_start_offset != end_offset:
            return machine.node.snapshot_failed(response)
        machine.snapshot = source.log.entries[:end_offset]
        return machine.node.snapshot_fetched(response)

    def swap(self, swap: Swap) -> None:
        if self.arbiter.token != swap.expected_token:
            return
        self.arbiter = ArbiterView(
            token=swap.expected_token + 1,
            controller_epoch=swap.proposal.controller_epoch,
            leader_id=swap.proposal.leader_id,
            members=swap.proposal.members,
        )

    def flush(self, machine: Machine, index: int) -> None:
        """Let a flush reach the disk, and then or at once be told of."""
        is_done, effect = machine.flushes.pop(index)
        if not is_done:
            machine.log.disk = list(machine.log.entries)
            if self.rng.random() < 0.2:
                machine.flushes.append((True, effect))
                return
        self.execute(machine, machine.node.flushed(effect.truncation_count, effect.end_offset))

    def change_members(self, machine: Machine, members: frozenset[Voter]) -> None:
        try:
            effects = machine.node.change_members(members)
        except MembersRefusedError:
            return
        self.execute(machine, effects)

    def crash(self, machine: Machine) -> None:
        log = machine.log
        log.crash(self.rng.choice((0, self.rng.randint(0, len(log.entries)))))
        machine.boot()
        self.execute(machine, machine.node.start())

    def lose_disk(self, machine: Machine) -> None:
        """One lost disk a walk, and only when enough others have all: more nothing survives."""
        members = self.arbiter.members
        is_changing = any(isinstance(packet.what, Swap) for packet in self.packets)
        if self.has_lost_disk or len(members) < 3 or is_changing:
            return
        holders = [
            other
            for other in self.machines
            if other is not machine
            and other.voter in members
            and other.log.disk[: len(self.truth)] == self.truth
        ]
        if 2 * len(holders) <= len(members):
            return
        self.has_lost_disk = True
        machine.log, machine.promised = WalkLog(), 0
        self.replace_disk(machine)
        machine.boot()
        self.execute(machine, machine.node.start())

    def replace_disk(self, machine: Machine) -> None:
        machine.disk_number += 1

    # ---- the walk -----------------------------------------------------------------------------

    def deliver(self) -> None:
        if not self.packets:
            return
        index = self.rng.randrange(len(self.packets))
        packet, fate = self.packets[index], self.rng.random()
        self.packets[index] = self.packets[-1]
        self.packets.pop()
        if fate < 0.1 and len(self.packets) < PACKETS_MAX:
            self.packets.append(packet)  # and once more later
        elif fate > 0.93 and not isinstance(packet.what, Swap | FetchSnapshot):
            return  # lost
        self.tell(packet)

    def step(self) -> None:
        machine = self.rng.choice(self.machines)
        (act,) = self.rng.choices(ACTS, cum_weights=self.weights)
        getattr(self, act)(machine)

    def _deliver_some(self, _: Machine) -> None:
        self.deliver()

    def _flush_some(self, machine: Machine) -> None:
        if machine.flushes:
            self.flush(machine, self.rng.randrange(len(machine.flushes)))

    def _ask_again(self, machine: Machine) -> None:
        if len(self.packets) < PACKETS_MAX:
            self.execute(machine, machine.node.retry_requests())

    def _write(self, machine: Machine) -> None:
        if machine.node.role is Role.LEADING and len(machine.log.entries) < RECORDS_MAX:
            self.value += 1
            self.write(machine, self.value)

    def _change(self, machine: Machine) -> None:
        self.change_members(machine, self._random_members(machine))

    def _take_over(self, machine: Machine) -> None:
        self.execute(machine, machine.node.take_over())

    def _read(self, machine: Machine) -> None:
        self.execute(machine, machine.node.record_read(self.arbiter))

    def _renew(self, machine: Machine) -> None:
        self.execute(machine, machine.node.renew())

    def _give_up(self, machine: Machine) -> None:
        self.execute(machine, machine.node.resign())

    def _miss(self, machine: Machine) -> None:
        node_id = self.rng.randrange(len(self.machines))
        self.execute(machine, machine.node.unreachable(node_id))

    def _trim(self, machine: Machine) -> None:
        if machine.committed > machine.log.log_start_offset:
            machine.log.trim(self.rng.randint(machine.log.log_start_offset, machine.committed))

    def calm(self, rounds: int = 80) -> None:
        """No more faults: all is flushed and delivered, and one after the other tries to lead.

        Whoever has gathered no majority meanwhile gives up, as the shell has it.
        """
        for number in range(rounds):
            for machine in self.machines:
                while machine.flushes:
                    self.flush(machine, 0)
                self._ask_again(machine)
                self._read(machine)
            packets, self.packets = self.packets, []
            for packet in packets:
                self.tell(packet)
            if number % 8 == 3:
                for machine in self.machines:
                    if machine.node.role is Role.RECOVERING:
                        self._give_up(machine)
            if number % 8 == 4 and all(m.node.role is Role.FOLLOWER for m in self.machines):
                self._take_over(self.machines[number // 8 % len(self.machines)])

    def _random_members(self, machine: Machine) -> frozenset[Voter]:
        voters = {other.voter for other in self.machines} | self.arbiter.members
        return frozenset(
            voter for voter in sorted(voters) if voter == machine.voter or self.rng.random() < 0.6
        )


class RestoredWorld(World):
    """A world where an old copy of the arbiter's record is put back now and then.

    Whoever has seen the record that it takes the place of is not taken in. So a node is cut off
    before, and starts again when the copy is there.
    """

    def __init__(self, rng: random.Random, node_count: int, member_count: int) -> None:
        self._copies: list[ArbiterView] = []
        self._away: Machine | None = None
        super().__init__(rng, node_count, member_count)

    def swap(self, swap: Swap) -> None:
        self._copies.append(self.arbiter)
        super().swap(swap)

    def tell(self, packet: Packet) -> None:
        if self.machines[packet.to] is not self._away:
            super().tell(packet)

    def _read(self, machine: Machine) -> None:
        if machine is not self._away:
            super()._read(machine)

    def step(self) -> None:
        if self._away is None and self.rng.random() < 0.02:
            self._away = self.rng.choice(self.machines)
        elif self.rng.random() < 0.01:
            self._restore()
        super().step()

    def _restore(self) -> None:
        copies = [copy for copy in self._copies if copy.members == self.arbiter.members]
        away, self._away = self._away, None
        if copies:
            # The store counts on: to it this is a record like any other.
            self.arbiter = replace(self.rng.choice(copies), token=self.arbiter.token + 1)
        if away is not None:
            self.crash(away)
            self._read(away)


WEIGHTS: dict[str, float] = {
    "_deliver_some": 50,
    "_flush_some": 16,
    "_ask_again": 8,
    "_write": 7,
    "_change": 5,
    "_take_over": 3,
    "_read": 2,
    "_renew": 0.3,
    "_give_up": 0.3,
    "_miss": 0.4,
    "_trim": 0.3,
    "crash": 1.5,
    "lose_disk": 0.5,
}
ACTS = list(WEIGHTS)
STEPS = 500


def walk(seed: int, world_type: type[World] = World, steps: int = STEPS) -> World:
    """One random walk, by its seed alone: three to five nodes, any number of them members."""
    node_count = 3 + seed % 3
    world = world_type(random.Random(seed), node_count, 1 + seed % node_count)
    for _ in range(steps):
        world.step()
    return world
