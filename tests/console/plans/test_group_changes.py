"""Resets of groups with very many partitions hold neither the loop nor a broker (CON-136)."""

import asyncio
import threading
from collections.abc import Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas_client.admin.outcome import Outcome, Outcomes
from barnabas_client.admin.values.groups import GroupState
from barnabas_client.admin.values.partitions import OffsetSpec, PartitionOffset
from barnabas_client.cluster.offset_ranges import ResetTarget
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.errors import RejectedError
from barnabas_client.facts.group_offset_kinds import GroupMembers
from barnabas_client.facts.offsets_reset import Wanted
from barnabas_client.facts.topic_facts import PARTITIONS_PER_CALL
from barnabas_console.plans import group_changes
from barnabas_console.plans.change import Draft
from barnabas_console.plans.group_changes import PARTITIONS_PER_REQUEST, ResetOffsets
from barnabas_protocol.ids import TopicPartition

PLACES = [TopicPartition(f"t{number // 10:04}", number % 10) for number in range(20_000)]
END = 100


class ManyPartitions:
    """A cluster and a kind of group; notes how many partitions each call was for."""

    noun = "group"

    def __init__(self, *, is_by_partition: bool = True, failing: int = -1) -> None:
        self.is_by_partition = is_by_partition
        self.failing = failing
        self.looked_up: list[int] = []
        self.set: list[int] = []
        self.committed = OffsetAndMetadata(7)
        self.now: dict[TopicPartition, OffsetAndMetadata | None] = {}
        self.partitions = SimpleNamespace(list_offsets=self._list_offsets)

    async def _list_offsets(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec | int],
        *,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, PartitionOffset]:
        self.looked_up.append(len(wanted))
        await asyncio.sleep(0)
        return Outcomes(
            {
                place: Outcome.of(PartitionOffset(offset=0 if spec == OffsetSpec.EARLIEST else END))
                for place, spec in wanted.items()
            }
        )

    async def group_ids(self, admin: Any) -> Collection[str]:
        return {"billing"}

    async def offsets(
        self, admin: Any, group_id: str
    ) -> Mapping[TopicPartition, OffsetAndMetadata | None]:
        return {**dict.fromkeys(PLACES, self.committed), **self.now}

    async def members(self, admin: Any, group_id: str) -> GroupMembers:
        return GroupMembers(state=GroupState.EMPTY, client_ids=())

    async def set_offsets(self, admin: Any, group_id: str, offsets: Mapping[Any, Any]) -> None:
        if len(self.set) == self.failing:
            raise RejectedError("the group has members")
        self.set.append(len(offsets))
        self.now.update(offsets)


@pytest.fixture(autouse=True)
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kinds of groups that undo files name; `reset` puts its own there."""
    monkeypatch.setattr(group_changes, "KINDS", {})


class OnThreads(dict[TopicPartition, OffsetAndMetadata | None]):
    """Offsets of a file; notes who looks them up."""

    def __init__(self, *values: Any) -> None:
        super().__init__(*values)
        self.threads: set[int] = set()

    def get(self, place: Any, default: Any = None) -> Any:
        self.threads.add(threading.get_ident())
        return super().get(place, default)


def reset(many: ManyPartitions, wanted: Wanted) -> ResetOffsets:
    kind: Any = many
    group_changes.KINDS["consumer"] = kind  # type: ignore[index]
    return ResetOffsets(
        group="billing",
        kind=kind,
        wanted=wanted,
        option=("to_latest", ""),
        scopes=(),
        moment="",
        bootstrap="",
    )


async def drawn(many: ManyPartitions, wanted: Wanted) -> tuple[ResetOffsets, Draft]:
    change = reset(many, wanted)
    admin: Any = many
    return change, await change.draft(admin)


LATEST = Wanted(target=ResetTarget.LATEST)


async def carried_out(many: ManyPartitions, wanted: Wanted = LATEST) -> Sequence[str]:
    """Draw up, look again, and do it: the error of each item."""
    change, draft = await drawn(many, wanted)
    admin: Any = many
    await change.check(admin, draft)
    return [result.error async for result in change.carry_out(admin, draft)]


def test_offsets_are_looked_up_some_at_a_time_and_compared_beside_the_loop() -> None:
    """CON-135, CON-174."""
    many, file = ManyPartitions(), OnThreads(dict.fromkeys(PLACES, OffsetAndMetadata(5)))
    wanted = Wanted(target=ResetTarget.LOOKED_UP, from_file=file)
    _, draft = asyncio.run(drawn(many, wanted))
    assert len(draft.rows) == len(PLACES)
    assert sum(many.looked_up) == 2 * len(PLACES)
    assert max(many.looked_up) <= PARTITIONS_PER_CALL
    assert file.threads
    assert threading.get_ident() not in file.threads


def test_a_large_reset_is_several_requests() -> None:
    """CON-174: 20,000 partitions in one took 80 ms of the loop."""
    many = ManyPartitions()
    assert not any(asyncio.run(carried_out(many)))
    assert sum(many.set) == len(PLACES)
    assert max(many.set) == PARTITIONS_PER_REQUEST


def test_what_stands_or_falls_together_is_one_request() -> None:
    """SHR-32: a share group forgets whole topics, which parts of a request could not tell."""
    many = ManyPartitions(is_by_partition=False)
    assert not any(asyncio.run(carried_out(many)))
    assert many.set == [len(PLACES)]


@pytest.mark.parametrize("failing", [0, 3])
def test_after_a_failure_no_more_is_set_and_each_item_says_so(failing: int) -> None:
    """CON-120: the result of each item."""
    many = ManyPartitions(failing=failing)
    errors = asyncio.run(carried_out(many))
    assert len(errors) == len(PLACES)
    done = failing * PARTITIONS_PER_REQUEST
    assert not any(errors[:done])
    assert all("the group has members" in error for error in errors[done:])


async def _undone(many: ManyPartitions) -> tuple[str, ...]:
    """Reset and undo; the warnings of the plan."""
    _, draft = await drawn(many, LATEST)
    assert not any(await carried_out(many))
    assert set(many.now.values()) == {OffsetAndMetadata(END)}
    assert draft.undo is not None
    assert draft.undo.request["value"] == draft.undo.text
    wanted = Wanted.parse("from_file", draft.undo.text, (), 0)
    assert not any(await carried_out(many, wanted))
    return draft.warnings


def test_an_undo_brings_back_metadata_and_leader_epochs() -> None:
    many = ManyPartitions()
    many.committed = OffsetAndMetadata(7, 3, "done by seven")
    assert asyncio.run(_undone(many)) == ()
    assert many.now == dict.fromkeys(PLACES, many.committed)


def test_an_undo_that_would_be_too_long_says_that_it_is_of_offsets_only() -> None:
    """Metadata is up to 4 KiB a partition; undo files are kept in memory."""
    many = ManyPartitions()
    many.committed = OffsetAndMetadata(7, 3, "x" * 100)
    (warning,) = asyncio.run(_undone(many))
    assert "without metadata" in warning
    assert many.now == dict.fromkeys(PLACES, OffsetAndMetadata(7))
