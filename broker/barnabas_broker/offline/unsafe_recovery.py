"""The last resort after the disks of a majority of the metadata log's members are lost for good.

One broker that is stopped becomes the only member, by its own copy of the log. What only the lost
members had is gone: topics, configurations, leaders as they were decided last. So nothing here
runs by itself; `barnabas cluster recover` asks first. Source: rules 1 and 2 of the control plane
(`docs/formats/arbiter.md`), of which this breaks the second on purpose.

Invariant: the new epoch is above every one that the store, this node's log or its promise knows,
so that no member that comes back can go on in an old one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from barnabas_broker.arbiter.arbiter import Arbiter, ArbiterError, ArbiterRecord, Member, Stored
from barnabas_broker.arbiter.arbiter_factory import make_arbiter
from barnabas_broker.arbiter.decided_swap import swap_until_decided
from barnabas_broker.arbiter.election import ForeignClusterError, Verdict
from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.controller.elections import topic_configs
from barnabas_broker.controller.features import check_levels
from barnabas_broker.controller.pending_recovery import PendingRecovery, complete_unsafe_recovery
from barnabas_broker.env.clock import Clock, SystemClock
from barnabas_broker.env.disk import RealDisk
from barnabas_broker.env.randomness import SystemRandom
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.log.tail_cache import TailCache
from barnabas_broker.metadata.log_replay import read_image
from barnabas_broker.metadata.metadata_log import (
    MetadataLogError,
)
from barnabas_broker.metadata.metadata_log_storage import MetadataLogStorage
from barnabas_broker.metadata.quorum.history import (
    HISTORIES_MAX,
    History,
    first_history,
    new_history,
)
from barnabas_broker.metadata.quorum.promise_file import PromiseFile
from barnabas_broker.offline.stopped_broker import stopped_broker


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is known before anything is changed."""

    cluster_id: str
    me: Member
    last_epoch: int  # of the last record in this node's copy of the log
    end_offset: int
    promised_epoch: int
    stored: Stored
    histories: tuple[bytes, ...] = ()

    @property
    def other_members(self) -> list[int]:
        """The nodes that lose their voters."""
        record = self.stored.record
        members = () if record is None else record.members
        return sorted(member.node_id for member in members if member != self.me)


def alone(standing: Standing, now_ms: int) -> ArbiterRecord:
    """The record by which this node is the only member, without a leader yet.

    Raises: ForeignClusterError; MetadataLogError where this node has no log to go on from.
    """
    record = standing.stored.record
    if record is not None and record.cluster_id != standing.cluster_id:
        raise ForeignClusterError(
            f"the arbiter's record is of cluster {record.cluster_id}, not of {standing.cluster_id}"
        )
    if standing.end_offset == 0:
        raise MetadataLogError(
            "this broker has no copy of the metadata log: recover by a broker that has one"
        )
    epochs = (
        standing.last_epoch,
        standing.promised_epoch,
        0 if record is None else record.controller_epoch,
    )
    earlier = standing.histories or (first_history(standing.cluster_id),)
    new = new_history(standing.cluster_id, standing.me.directory_id, now_ms, earlier[0])
    return ArbiterRecord(
        standing.cluster_id,
        max(epochs) + 1,
        None,
        (standing.me,),
        now_ms,
        (new, *earlier)[:HISTORIES_MAX],
    )


class UnsafeRecovery:
    """One stopped broker, its locks held."""

    def __init__(
        self, standing: Standing, arbiter: Arbiter, clock: Clock, order: PendingRecovery
    ) -> None:
        self.standing = standing
        self._order = order
        self._arbiter = arbiter
        self._clock = clock

    async def carry_out(self) -> ArbiterRecord:
        """Make this node the only member; returns the record that is stored now.

        From before that on, the rest of the recovery is ordered on disk: whatever interrupts it,
        the broker's next start completes it.
        Raises: as `alone`; ArbiterError where the record has changed since it was shown.
        """
        tried = alone(self.standing, self._clock.wall_ms())
        await self._order.write(tried.histories[0])
        decided = await swap_until_decided(self._arbiter, self.standing.stored.token, tried)
        if decided.verdict is not Verdict.WON:
            await self._order.remove()
            raise ArbiterError("the arbiter's record has changed meanwhile: look again")
        return tried


async def fence_others(config: BrokerConfig) -> list[int]:
    """Complete a recovery of a broker that is still stopped; returns those that were fenced.

    To be called when this node is the only member; safe to be repeated.
    Raises: what opening directories, metadata log and arbiter raise.
    """
    configs = topic_configs(DynamicConfig(config.properties))
    async with stopped_broker(config) as (control, logs):
        others = await complete_unsafe_recovery(control.quorum, control.controller, configs)
        await PendingRecovery(logs.disk, control.quorum.log.directory).remove()
    return others


@asynccontextmanager
async def unsafe_recovery(config: BrokerConfig) -> AsyncIterator[UnsafeRecovery]:
    """Look at what a stopped broker and the arbiter have; nothing is changed by that.

    Raises: LogDirectoryLockedError where the broker is running, ArbiterError, IdentityError,
    MetadataLogError, OSError.
    """
    disk, clock, random = RealDisk(), SystemClock(), SystemRandom()
    logs = LogManager(config, disk, clock, random, TailCache(0))
    arbiter: Arbiter | None = None
    try:
        storage = MetadataLogStorage(logs, config)
        log = await storage.load()
        directory = storage.directory
        arbiter = make_arbiter(config, disk, clock, directory=directory.path)
        check_levels(await read_image(disk, log))
        history = History(disk, log.directory)
        history.read(logs.cluster_id, log.log_end_offset)
        standing = Standing(
            cluster_id=logs.cluster_id,
            me=Member(logs.node_id, directory.directory_id),
            last_epoch=log.leader_epochs.latest,
            end_offset=log.log_end_offset,
            promised_epoch=PromiseFile(disk, log.directory).read(),
            stored=await arbiter.read(),
            histories=history.ids,
        )
        yield UnsafeRecovery(standing, arbiter, clock, PendingRecovery(disk, log.directory))
    finally:
        if arbiter is not None:
            await arbiter.close()
        await logs.close()
        disk.close()
