"""The group shard: replay, restarts, questions of admins; and random runs against the log."""

import logging
import random
from collections.abc import Callable

import pytest

from barnabas_broker.coordinator.group.metrics import GroupMetrics
from barnabas_broker.coordinator.group.records import (
    CommittedOffset,
    OffsetKey,
    group_tombstone,
    offset_record,
    offset_tombstone,
)
from barnabas_broker.coordinator.group.settings import GroupSettings
from barnabas_broker.coordinator.group.shard import GroupShard
from barnabas_broker.coordinator.runtime.shard import CoordinatorRecord, Instant
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.records.record import Record
from tests.support.group_model import GROUP, GroupModel, Ticket, subscription
from tests.support.simulated_random import SimulatedRandom


def loaded(*records: tuple[CoordinatorRecord, int]) -> GroupShard:
    """A shard that replayed records, each with its producer id."""
    shard = GroupShard(3, GroupSettings(), SimulatedRandom(1), GroupMetrics())
    for offset, ((key, value), producer_id) in enumerate(records):
        shard.replay(Record(offset, 0, key, value), producer_id)
    return shard


def plain(offset: int, partition: int = 0) -> tuple[CoordinatorRecord, int]:
    return offset_record(OffsetKey(GROUP, "t", partition), CommittedOffset(offset, -1, "", 0)), -1


def test_a_group_survives_a_restart_without_a_rebalance() -> None:
    """GRP-20, OFS-3: members continue if they heartbeat in time, with fresh sessions."""
    model = GroupModel()
    ids = model.stable(3)
    model.commit({0: 42}, ids[0], 3)
    model.advance(9_000)
    model.restart()
    assert model.state() == "Stable"
    model.advance(9_000)
    assert [model.heartbeat(each, 3) for each in ids[:2]] == [ErrorCode.NONE] * 2
    assert model.sync(ids[1], 3).response.assignment == b"assigned to " + ids[1].encode()
    assert model.offsets() == {("t", 0): 42}
    assert model.commit({0: 43}, ids[0], 3) == {0: ErrorCode.NONE}
    model.advance(1_000)
    assert model.state() == "PreparingRebalance"
    assert ids[2] not in model.shard.groups[GROUP].members


def test_a_rebalance_under_way_at_a_restart_falls_back_to_the_last_assignment() -> None:
    """GRP-20: what was not persisted is lost; the members find out by heartbeats."""
    model = GroupModel()
    ids = model.stable(2)
    parked = model.join(ids[0])
    newcomer = model.join()
    model.restart()
    assert parked.error is newcomer.error is ErrorCode.NOT_COORDINATOR
    assert model.state() == "Stable"
    assert model.heartbeat(ids[1], 2) is ErrorCode.NONE
    assert model.join(ids[0]).is_parked


def test_a_member_that_joins_after_a_restart_finds_the_protocols() -> None:
    """GRP-8, OFS-3: loaded members support the protocol that was chosen."""
    model = GroupModel()
    model.stable()
    model.restart()
    assert model.join(protocols=(("x", b""),)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert model.join().is_parked


def test_a_loaded_group_over_capacity_rebalances() -> None:
    """GRP-3: the limit may have been lowered."""
    model = GroupModel()
    model.stable(3)
    model.settings = GroupSettings(group_size_max=2)
    model.restart()
    assert model.state() == "PreparingRebalance"


def test_an_empty_group_keeps_its_generation_over_a_restart() -> None:
    """OFS-3."""
    model = GroupModel()
    (leader,) = model.stable()
    model.leave(leader)
    model.restart()
    assert model.state() == "Empty"
    assert model.generation() == 2
    assert model.join().response.generation_id == 3


def test_a_group_with_only_offsets_becomes_an_empty_group() -> None:
    """OFS-3: without protocol."""
    shard = loaded(plain(5), plain(6))
    shard.loaded(Instant(0, 0))
    group = shard.groups[GROUP]
    assert (group.state.value, group.protocol_type) == ("Empty", None)
    assert shard.offsets.of_group(GROUP)["t", 0].offset == 6


def test_tombstones_remove_offsets_and_groups() -> None:
    """OFS-3: a group's tombstone keeps live offsets."""
    model = GroupModel()
    model.stable()
    group_records = [(record, -1) for record in model.log]
    shard = loaded(*group_records, plain(5), plain(6, 1), (group_tombstone(GROUP), -1))
    shard.loaded(Instant(0, 0))
    assert shard.groups[GROUP].protocol_type is None
    assert len(shard.offsets.of_group(GROUP)) == 2
    shard = loaded(*group_records, plain(5), (offset_tombstone(OffsetKey(GROUP, "t", 0)), -1))
    shard.loaded(Instant(0, 0))
    assert shard.groups[GROUP].state.value == "Stable"
    assert not shard.offsets.of_group(GROUP)


def test_unreadable_records_are_skipped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """formats.md 10: with a warning, never fatal."""
    good = plain(5)
    with caplog.at_level(logging.WARNING):
        shard = loaded(
            (CoordinatorRecord(b"\x00\x63", b""), -1),
            (CoordinatorRecord(b"\x00", b""), -1),
            (CoordinatorRecord(good[0].key, b"\x00\x09"), -1),
            (CoordinatorRecord(good[0].key, b"\x00\x03\x00"), -1),
            good,
        )
    assert shard.metrics.skipped_record_count == 4
    assert len(caplog.records) == 4
    assert "__consumer_offsets-3: record 0 skipped: unknown key type" in caplog.text
    assert shard.offsets.of_group(GROUP)["t", 0].offset == 5


def test_transactional_offsets_count_after_their_marker() -> None:
    """formats.md 10, OFS-11."""
    shard = loaded(plain(1), (plain(5)[0], 9), (plain(6, 1)[0], 8))
    assert shard.offsets.of_group(GROUP)["t", 0].offset == 1
    assert shard.offsets.is_pending(OffsetKey(GROUP, "t", 1))
    shard.end_transaction(9, True)
    shard.end_transaction(8, False)
    assert {each[2]: each[3].offset for each in shard.offsets.all_offsets()} == {0: 5}


def test_groups_are_listed_by_state_and_type() -> None:
    """GRP-21."""
    model = GroupModel()
    model.stable(group="busy")
    model.commit({0: 1}, group="store")

    def listed(states: set[str], types: set[str]) -> list[tuple[str, str, str, str]]:
        return [
            (each.group_id, each.group_state, each.protocol_type, each.group_type)
            for each in list(filter(None, model.shard.listed_groups(states, types)))
        ]

    busy = ("busy", "Stable", "consumer", "classic")
    store = ("store", "Empty", "", "classic")
    assert listed(set(), set()) == [busy, store]
    assert listed({"stable"}, {"classic"}) == [busy]
    assert listed({"empty", "dead"}, set()) == [store]
    assert listed(set(), {"consumer"}) == []
    assert model.shard.count_by_state() == {
        model.shard.groups["busy"].state: 1,
        model.shard.groups["store"].state: 1,
    }


def test_a_group_is_described_with_what_is_in_force() -> None:
    """GRP-21: no metadata of members while rebalancing."""
    model = GroupModel()
    ids = model.stable(2)
    stable = model.shard.describe(GROUP)
    assert stable is not None
    assert (stable.group_state, stable.protocol_type, stable.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert [each.member_id for each in stable.members] == ids
    assert stable.members[0].member_metadata == subscription("t")
    assert stable.members[0].member_assignment == b"assigned to " + ids[0].encode()
    assert (stable.members[0].client_id, stable.members[0].client_host) == ("client", "/127.0.0.1")
    model.join(ids[0])
    preparing = model.shard.describe(GROUP)
    assert preparing is not None
    assert (preparing.group_state, preparing.protocol_data) == ("PreparingRebalance", "")
    # What was assigned last stays in sight until the next assignment, as in Apache Kafka.
    shares = {bytes(each.member_assignment) for each in preparing.members}
    assert shares == {b"assigned to " + each.encode() for each in ids}
    assert model.shard.describe("x") == "Group x not found."


def check_invariants(model: GroupModel) -> None:
    for group in model.shard.groups.values():
        members = list(group.members.values())
        assert group.awaiting_join_count == sum(each.join_reply is not None for each in members)
        counts: dict[str, int] = {}
        for member in members:
            for name, _ in member.protocols:
                counts[name] = counts.get(name, 0) + 1
        assert group.protocol_counts == counts
        assert group.leader_id in group.members or not members
        assert group.pending_sync_ids <= set(group.members)
        assert set(group.static_member_ids.values()) <= set(group.members)
        state = group.state.value
        assert members or state in ("Empty", "PreparingRebalance")
        assert (state == "PreparingRebalance") == (("join", group.group_id) in model.shard.timers)
        for member in members:
            assert member.sync_reply is None or state == "CompletingRebalance"
            assert member.join_reply is None or state == "PreparingRebalance"
            is_timed = ("session", group.group_id, member.member_id) in model.shard.timers
            assert is_timed or member.is_parked


class RandomClients:
    """Clients that do as they please: joins, syncs, leaves, silence, refused appends, restarts."""

    def __init__(self, model: GroupModel, source: random.Random) -> None:
        self.model = model
        self.source = source
        self.tickets: list[Ticket] = []
        # Group, member id and instance id of members that are or once were; the newest twenty.
        self._known: list[tuple[str, str, str | None]] = []

    def step(self) -> None:
        """One thing that happens."""
        source, model = self.source, self.model
        group = source.choice(["a", "b"])
        member_group, member_id, instance = source.choice(self._known or [(group, "", None)])
        target = model.shard.groups.get(member_group)
        generation = target.generation_id if target else 0
        version = source.choice([2, 5, 9])
        rebalance_ms = source.choice([10_000, 60_000])
        match source.randrange(13):
            case 0 | 1 | 2:
                self._join_anew(group, version, rebalance_ms)
            case 3 | 4:
                self.tickets.append(
                    model.join(
                        member_id, group=member_group, instance=instance, rebalance_ms=rebalance_ms
                    )
                )
            case 5 | 6:
                everyone = {} if target is None else dict.fromkeys(target.members, b"x")
                self.tickets.append(model.sync(member_id, generation, everyone, group=member_group))
            case 7:
                model.heartbeat(member_id, generation, group=member_group)
            case 8:
                self._unless_refused(
                    lambda: model.leave_many((member_id, instance), group=member_group)
                )
            case 9:
                self._commit(member_group, member_id, generation)
            case 10:
                model.advance(source.choice([1, 1_000, 9_000, 70_000]))
            case 11:
                refused = source.random() < 0.3
                model.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS if refused else None
            case _:
                self._restart_or_delete(group)

    def _join_anew(self, group: str, version: int, rebalance_ms: int) -> None:
        instance = self.source.choice([None, None, "i", "j"])
        topics = self.source.choice([("t",), ("t", "u")])
        ticket = self.model.join(
            group=group,
            instance=instance,
            version=version,
            rebalance_ms=rebalance_ms,
            protocols=(("range", subscription(*topics)),),
        )
        self.tickets.append(ticket)
        self._known += [
            (each.group_id, member.member_id, member.group_instance_id)
            for each in self.model.shard.groups.values()
            for member in each.members.values()
        ]
        if ticket.answers:
            self._known.append((group, ticket.response.member_id, None))
        self._known = self._known[-20:]

    def _commit(self, group: str, member_id: str, generation: int) -> None:
        offsets = {self.source.randrange(3): self.source.randrange(100)}
        is_simple = self.source.random() < 0.3
        self.model.commit_error(
            offsets,
            "" if is_simple else member_id,
            -1 if is_simple else generation,
            group=group,
        )

    def _restart_or_delete(self, group: str) -> None:
        if self.source.random() < 0.1:
            self.model.fail_with = None
            self.model.restart()
        elif self.source.random() < 0.1:
            self._unless_refused(
                lambda: self.model.run(lambda shard, _: shard.commits.delete_group(group))
            )

    def _unless_refused(self, work: Callable[[], object]) -> None:
        try:
            work()
        except KafkaError:
            assert self.model.fail_with is not None


@pytest.mark.parametrize("seed", range(25))
def test_random_clients_never_break_the_shard(seed: int) -> None:
    """Every ticket gets at most one answer, all of them one in the end; state equals the log."""
    source = random.Random(seed)
    model = GroupModel(initial_rebalance_delay_ms=source.choice([0, 3000]), group_size_max=4)
    clients = RandomClients(model, source)
    for _ in range(300):
        clients.step()
        check_invariants(model)
    offsets = sorted(model.shard.offsets.all_offsets())
    stable = {
        group.group_id: (group.generation_id, sorted(group.members))
        for group in model.shard.groups.values()
        if group.state.value == "Stable"
    }
    model.restart()
    assert sorted(model.shard.offsets.all_offsets()) == offsets
    assert all(not ticket.is_parked for ticket in clients.tickets)
    for group_id, (generation, members) in stable.items():
        group = model.shard.groups[group_id]
        assert (group.generation_id, sorted(group.members)) == (generation, members)
