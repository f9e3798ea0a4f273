"""How a broker gives its leaderships away before it stops: one idempotent state machine, pure.

Whoever comes first starts it: a signal, `/drain`, an operator. Source: STOP-1 to STOP-7;
KIP-631 for the controller's part.

| from | to | when |
|---|---|---|
| RUNNING | DRAINING | a drain is asked for; again: the earlier deadline holds |
| RUNNING | STOPPED | a broker that never ran, or was told not to drain, stops |
| DRAINING | DRAINED | told so, nothing can be moved, the budget is spent, cut short |
| DRAINED | STOPPED | the process ends |
| DRAINING, DRAINED | RUNNING | the drain is taken back, by `/undrain` |

Not here: heartbeats, by which the controller is told
(`broker_lifecycle_manager`), and the stop itself.
Invariant: a drain always ends, by its deadline at the latest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from barnabas_broker.metadata.image import MetadataImage, PartitionImage
from barnabas_broker.metrics.sample import Sample

# The controller has acted and what is left has nobody to go to: others get this long to hear of
# what did move, since the controller only says so of a broker that leads nothing.
UNMOVABLE_SETTLE_MS: Final = 500
# Without a majority of the metadata log's members nothing moves: they may just be restarting, or
# the whole cluster stops.
UNDECIDED_SETTLE_MS: Final = 2000


class DrainPhase(Enum):
    """How far a drain is."""

    RUNNING = "running"
    DRAINING = "draining"
    DRAINED = "drained"
    STOPPED = "stopped"


class DrainEnd(Enum):
    """Why a drain ended."""

    MOVED = "the broker leads nothing any more, and all others know"
    NOTHING_TO_MOVE = "nobody could take over what the broker leads"
    NOBODY_DECIDES = "a majority of the metadata log's members cannot be reached"
    BUDGET_SPENT = "the time for it was over"
    CUT_SHORT = "it was cut short"


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """What is left to give away, as the newest metadata and the controller say."""

    leaders_count: int
    movable_count: int  # of those: with another replica in sync on a broker that stays
    peers_count: int  # brokers that are there and stay
    is_announced: bool  # the metadata says that this broker is shutting down, or fenced
    may_stop: bool = False  # the controller said: leads nothing, and all others know (STOP-5)
    is_undecided: bool = False  # too few members can be reached to change anything


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """The state of the drain of one broker process."""

    phase: DrainPhase = DrainPhase.RUNNING
    started_ms: int = -1
    deadline_ms: int = -1
    unmovable_since_ms: int | None = None
    undecided_since_ms: int | None = None
    end: DrainEnd | None = None

    def started(self, now_ms: int, budget_ms: int) -> Drain:
        """The drain after it was asked for; a second one can only bring the deadline forward."""
        deadline_ms = now_ms + budget_ms
        match self.phase:
            case DrainPhase.RUNNING:
                return replace(
                    self, phase=DrainPhase.DRAINING, started_ms=now_ms, deadline_ms=deadline_ms
                )
            case DrainPhase.DRAINING:
                return replace(self, deadline_ms=min(self.deadline_ms, deadline_ms))
            case DrainPhase.DRAINED | DrainPhase.STOPPED:
                return self

    def observed(self, handover: Handover, now_ms: int) -> Drain:
        """The drain after a look at what is left."""
        if self.phase is not DrainPhase.DRAINING:
            return self
        if handover.may_stop:
            return self._ended(DrainEnd.MOVED)
        if handover.peers_count == 0:  # STOP-7
            return self._ended(DrainEnd.NOTHING_TO_MOVE)
        if now_ms >= self.deadline_ms:
            return self._ended(DrainEnd.BUDGET_SPENT)
        is_unmovable = (
            handover.is_announced and handover.leaders_count > 0 and handover.movable_count == 0
        )
        unmovable_ms = _since(self.unmovable_since_ms, now_ms) if is_unmovable else None
        if unmovable_ms is not None and now_ms - unmovable_ms >= UNMOVABLE_SETTLE_MS:
            return self._ended(DrainEnd.NOTHING_TO_MOVE)
        undecided_ms = _since(self.undecided_since_ms, now_ms) if handover.is_undecided else None
        if undecided_ms is not None and now_ms - undecided_ms >= UNDECIDED_SETTLE_MS:
            return self._ended(DrainEnd.NOBODY_DECIDES)
        return replace(self, unmovable_since_ms=unmovable_ms, undecided_since_ms=undecided_ms)

    def cut_short(self) -> Drain:
        """The drain after somebody would not wait any longer."""
        return self._ended(DrainEnd.CUT_SHORT) if self.phase is DrainPhase.DRAINING else self

    def undone(self) -> Drain:
        """The drain after the broker was told to stay; a process that ends cannot be."""
        return self if self.phase is DrainPhase.STOPPED else Drain()

    def stopped(self) -> Drain:
        """The drain of a process that ends, drained or not."""
        return replace(self, phase=DrainPhase.STOPPED)

    def _ended(self, end: DrainEnd) -> Drain:
        return replace(self, phase=DrainPhase.DRAINED, end=end)


def _since(known_ms: int | None, now_ms: int) -> int:
    return now_ms if known_ms is None else known_ms


def handover_of(
    image: MetadataImage, node_id: int, *, may_stop: bool = False, is_undecided: bool = False
) -> Handover:
    """What the broker has still to give away, by an image; looks at every partition."""
    staying = {
        broker.node_id
        for broker in image.brokers.values()
        if broker.node_id != node_id and not broker.fenced and not broker.is_shutting_down
    }
    led = [
        partition
        for topic in image.topics.by_id.values()
        for partition in topic.partitions
        if partition.leader == node_id
    ]
    me = image.brokers.get(node_id)
    return Handover(
        leaders_count=len(led),
        movable_count=sum(_is_movable(partition, staying) for partition in led),
        peers_count=len(staying),
        is_announced=me is not None and (me.is_shutting_down or me.fenced),
        may_stop=may_stop,
        is_undecided=is_undecided,
    )


def _is_movable(partition: PartitionImage, staying: set[int]) -> bool:
    return any(node_id in staying for node_id in partition.isr)


def drain_samples(drain: Drain, budget_ms: int, now_ms: int) -> Iterator[Sample]:
    """How long the drain has been going on, and how long it may at most."""
    is_draining = drain.phase is DrainPhase.DRAINING
    for name, text, value in (
        (
            "seconds",
            "Time since the drain began; 0 while there is none under way.",
            (now_ms - drain.started_ms) / 1000 if is_draining else 0,
        ),
        ("budget_seconds", "How long a drain may take.", budget_ms / 1000),
    ):
        yield Sample(f"barnabas_drain_{name}", "gauge", text, {}, value)
