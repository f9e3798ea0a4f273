"""The arbiter as the quorum uses it: one reading or swap at a time, and each swap is read back.

Not here: what is proposed and what a record means (`node`), rule 8 (`arbiter.election`).
Losing the store is no reason to stop (CTL-13): it is said once in the log, and tried again whenever
the quorum asks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from barnabas_broker.arbiter.arbiter import (
    Arbiter,
    ArbiterError,
    ArbiterRecord,
    Leader,
    Member,
    Stored,
    SwapOutcome,
)
from barnabas_broker.metadata.log_ends import LogEnd
from barnabas_broker.metadata.quorum.effects import Swap
from barnabas_broker.metadata.quorum.messages import ArbiterView
from barnabas_broker.metadata.quorum.voters import Voter
from barnabas_broker.metrics.sample import Sample

logger = logging.getLogger(__name__)

NO_ENDS: Final[Mapping[Voter, LogEnd]] = MappingProxyType({})


def view_of(stored: Stored) -> ArbiterView:
    """What the rules look at in a record."""
    record = stored.record
    if record is None:
        return ArbiterView(
            token=stored.token, controller_epoch=0, leader_id=None, members=frozenset()
        )
    return ArbiterView(
        token=stored.token,
        controller_epoch=record.controller_epoch,
        leader_id=None if record.leader is None else record.leader.node_id,
        members=frozenset(Voter(*member) for member in record.members),
        ends=tuple(
            (Voter(*member), LogEnd(*end))
            for member, end in zip(record.members, record.ends, strict=False)
        ),
    )


def record_of(
    swap: Swap,
    cluster_id: str,
    address: Leader,
    now_ms: int,
    *,
    histories: tuple[bytes, ...] = (),
    ends: Mapping[Voter, LogEnd] = NO_ENDS,
) -> ArbiterRecord:
    """The record that a swap is to store."""
    proposal = swap.proposal
    members = sorted(proposal.members)
    return ArbiterRecord(
        cluster_id=cluster_id,
        controller_epoch=proposal.controller_epoch,
        leader=None if proposal.leader_id is None else address,
        members=tuple(Member(*voter) for voter in members),
        renewed_ms=now_ms,
        histories=histories,
        ends=tuple((*ends.get(voter, LogEnd(-1, 0)),) for voter in members) if ends else (),
    )


class ArbiterAccess:
    """Runs what is asked of the store, in the background."""

    __slots__ = (
        "_arbiter",
        "_is_away",
        "_is_wanted",
        "_on_read",
        "_swap",
        "_task",
        "_tried",
        "failed_reads_count",
        "reads_count",
        "swaps",
    )

    def __init__(self, arbiter: Arbiter, on_read: Callable[[Stored], Awaitable[None]]) -> None:
        """`on_read` is called with what was read; the next request waits until it returns."""
        self._arbiter = arbiter
        self._on_read = on_read
        self._swap: tuple[int, ArbiterRecord] | None = None
        self._tried: tuple[Swap, ArbiterRecord] | None = None
        self._is_wanted = False
        self._is_away = False
        self._task: asyncio.Task[None] | None = None
        self.reads_count = 0
        self.failed_reads_count = 0
        self.swaps = dict.fromkeys(SwapOutcome, 0)

    @property
    def is_busy(self) -> bool:
        """Whether a reading or a swap is under way."""
        return self._task is not None and not self._task.done()

    @property
    def is_away(self) -> bool:
        """Whether the last reading failed."""
        return self._is_away

    def read(self) -> None:
        """Read the record soon."""
        self._is_wanted = True
        self._start()

    def swap(self, swap: Swap, make: Callable[[Swap], ArbiterRecord]) -> None:
        """Try a swap, then read. The same one is tried with the very same record (rule 7)."""
        if self._tried is None or self._tried[0] != swap:
            self._tried = (swap, make(swap))
        self._swap = (swap.expected_token, self._tried[1])
        self._start()

    async def settle(self) -> None:
        """Return when nothing is under way any more."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def close(self) -> None:
        """Ask nothing more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def samples(self) -> Iterator[Sample]:
        """What is told of the store: readings, swaps and whether it is away (MET-2)."""
        for name, text, value in (
            ("reads", "Readings of the arbiter's record.", self.reads_count),
            ("read_failures", "Readings that found no record or store.", self.failed_reads_count),
        ):
            yield Sample(f"barnabas_arbiter_{name}_total", "counter", text, {}, value)
        for outcome, count in self.swaps.items():
            yield Sample(
                "barnabas_arbiter_swaps_total",
                "counter",
                "Attempts to renew or change the arbiter's record, by what is known of them.",
                {"outcome": outcome.value},
                count,
            )
        yield Sample(
            "barnabas_arbiter_away",
            "gauge",
            "1 while the arbiter's record cannot be read, for which no broker stops.",
            {},
            float(self._is_away),
        )

    def _start(self) -> None:
        if not self.is_busy:
            self._task = asyncio.create_task(self._run(), name="arbiter")

    async def _run(self) -> None:
        while self._swap is not None or self._is_wanted:
            self._is_wanted = False
            if self._swap is not None:
                (token, record), self._swap = self._swap, None
                self.swaps[await self._arbiter.compare_and_swap(token, record)] += 1
            self.reads_count += 1
            try:
                stored = await self._arbiter.read()
            except ArbiterError as error:
                self.failed_reads_count += 1
                if not self._is_away:
                    self._is_away = True
                    logger.warning("the arbiter cannot be read, it is tried again: %s", error)
                continue
            if self._is_away:
                self._is_away = False
                logger.info("the arbiter can be read again")
            await self._on_read(stored)
