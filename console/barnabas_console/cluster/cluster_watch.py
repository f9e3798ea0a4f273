"""`ClusterWatch`: what one principal sees of the cluster, read as seldom as it can be (CON-135).

Brokers and the metadata log are asked every two seconds while somebody looks. All topics are read
by pages of `PAGE_PARTITIONS` partitions, one after another: again only when the end of the metadata
log has moved, on an average not more than a page a second; sooner after a broker came or went;
never while nobody looks. What takes long is read in the background while the last reading is shown.

Not here: what a page of topics says (`reading.py`), words (`overview.py`).

Invariants: one reading at a time; a reading is used whole or not at all; one that fails is tried
again as seldom as others, and until then what is known is not called current.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.cluster import ClusterDescription, QuorumDescription
from barnabas_client.admin.values.configs import ConfigResource
from barnabas_client.admin.values.log_dirs import LogDirDescription
from barnabas_client.admin.values.topics import TopicDescription
from barnabas_client.env import Clock
from barnabas_client.errors import BarnabasError, UnsupportedError
from barnabas_client.facts.cluster_facts import metadata_roles
from barnabas_console.cluster.broker_statuses import BrokerStatus, StatusReader
from barnabas_console.cluster.reading import Reading, is_in_trouble
from barnabas_console.shared_calls import SharedCalls
from barnabas_operator.reconcile.broker.cluster_state import MetadataMembers
from barnabas_operator.reconcile.broker.cluster_view import metadata_members
from barnabas_protocol.acl import AclOperation
from barnabas_protocol.ids import TopicPartition

logger = logging.getLogger(__name__)

PAGE_PARTITIONS: Final = 500
READING_MS_MIN: Final = 2_000
READING_MS_MAX: Final = 60_000
STALE_MS: Final = 300_000
_MS_PER_PAGE: Final = 1_000
_MS_PER_PAGE_AFTER_CHANGE: Final = 200
# A reading that takes longer than this is not waited for where there is an older one.
_WAIT_SECONDS: Final = 1.0
_SLOW_MS: Final = 10_000
_QUORUM_TIMEOUT_MS: Final = 2_000
# Pages look every two seconds, and a broker that has died is to be seen after three (CON-173).
_BROKERS_MS: Final = 500
_MOVED: Final = "brokers have come or gone; topics are being read anew"
_MIN_IN_SYNC: Final = "min.insync.replicas"
_MEMBERS: Final = "metadata.members"
# Who may do all of this to a cluster sees all of its topics, or there are no rights at all.
_EVERYTHING: Final = frozenset(
    {AclOperation.ALTER, AclOperation.ALTER_CONFIGS, AclOperation.CLUSTER_ACTION}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDisk:
    """The log directories of a broker: the fill of their file systems, where it is told."""

    used_bytes: int | None
    total_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What is known at one time; `reading` may be a little older, as of `read_ms`.

    `outdated` says why topics may be otherwise than they were read; empty where they are not.
    """

    described: ClusterDescription
    members: MetadataMembers | None
    roles: Mapping[int, str]
    disks: Mapping[int, BrokerDisk]
    statuses: Mapping[int, BrokerStatus]
    """What brokers tell of themselves alone; those that do not are missing."""
    reading: Reading
    read_ms: int
    outdated: str = ""

    @property
    def sees_everything(self) -> bool:
        """Whether no topic can be hidden from this principal, as far as brokers tell."""
        operations = self.described.authorized_operations
        return operations is not None and operations >= _EVERYTHING


@dataclass(frozen=True, slots=True)
class _Kept:
    reading: Reading
    brokers: frozenset[tuple[int, bool]]
    metadata_end: int | None
    began_ms: int
    wall_ms: int


class ClusterWatch:
    """The cluster by one admin client."""

    def __init__(self, admin: Admin, calls: SharedCalls, clock: Clock) -> None:
        self._admin = admin
        self._calls = calls
        self._clock = clock
        self._statuses = StatusReader(clock)
        self._kept: _Kept | None = None
        self._reading: asyncio.Task[None] | None = None
        # Since the last reading that went well: when one failed last, and why.
        self._failed_ms: int | None = None
        self._failure = ""

    async def facts(self) -> ClusterFacts:
        """What is known now. Raises: the client's errors, where no broker responds for one."""
        described, quorum = await asyncio.gather(self.described(), self.quorum())
        kept = await self._current(described, quorum)
        members, roles, disks, statuses = await asyncio.gather(
            self._members(quorum),
            self._calls.shared("roles", lambda: metadata_roles(self._admin, described)),
            self._calls.shared("disks", lambda: self._disks(described), ttl_ms=_SLOW_MS),
            self._calls.shared(
                "statuses",
                lambda: self._statuses.read(self._admin, described.brokers),
                ttl_ms=_SLOW_MS,
            ),
        )
        return ClusterFacts(
            described=described,
            members=members,
            roles=roles,
            disks=disks,
            statuses=statuses,
            reading=kept.reading,
            read_ms=kept.wall_ms,
            outdated=self._outdated(kept, described),
        )

    async def described(self) -> ClusterDescription:
        """The brokers, fenced ones included where brokers tell of them."""
        return await self._calls.shared("described", self._describe, ttl_ms=_BROKERS_MS)

    async def quorum(self) -> QuorumDescription | None:
        """Who has the metadata log and how far it is; None where nobody tells."""
        return await self._calls.shared("quorum", self._quorum, ttl_ms=_BROKERS_MS)

    async def topic_names(self) -> Set[str]:
        """All topics of the last reading, internal ones included. Raises: as `facts` does."""
        described, quorum = await asyncio.gather(self.described(), self.quorum())
        return (await self._current(described, quorum)).reading.topics.names

    async def sizes(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Bytes of the largest replica of each; those that no broker tells of are missing."""
        described = await self.described()
        return (await self._log_dirs(described, partitions))[0]

    async def close(self) -> None:
        """End a reading that is under way."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _current(
        self, described: ClusterDescription, quorum: QuorumDescription | None
    ) -> _Kept:
        """The last reading, or a new one if it is time for one and it is quick."""
        kept = self._kept
        if self._reading is None and (kept is None or self._is_due(kept, described, quorum)):
            self._reading = asyncio.get_running_loop().create_task(self._read(described, quorum))
            self._reading.add_done_callback(self._done)
        reading = self._reading
        if reading is not None:
            limit = None if kept is None else _WAIT_SECONDS
            await asyncio.wait({reading}, timeout=limit)
            if kept is None and (error := reading.exception()) is not None:
                raise error
        assert self._kept is not None
        return self._kept

    def _outdated(self, kept: _Kept, described: ClusterDescription) -> str:
        if self._failed_ms is not None:
            return f"topics cannot be read anew: {self._failure}"
        return _MOVED if kept.brokers != _brokers(described) else ""

    def _is_due(
        self, kept: _Kept, described: ClusterDescription, quorum: QuorumDescription | None
    ) -> bool:
        now_ms, pages = self._clock.monotonic_ms(), kept.reading.page_count
        age_ms = now_ms - kept.began_ms
        least_ms = min(READING_MS_MAX, max(READING_MS_MIN, pages * _MS_PER_PAGE))
        if self._failed_ms is not None:
            return now_ms - self._failed_ms >= least_ms
        if kept.brokers != _brokers(described):
            return age_ms >= max(READING_MS_MIN, pages * _MS_PER_PAGE_AFTER_CHANGE)
        if quorum is not None and quorum.high_watermark == kept.metadata_end:
            # What is not in the metadata, sizes for one, is looked at now and then.
            return age_ms >= STALE_MS
        return age_ms >= least_ms

    def _done(self, task: asyncio.Task[None]) -> None:
        self._reading = None
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._failed_ms = None
            return
        self._failed_ms, self._failure = self._clock.monotonic_ms(), str(error)
        is_bug = not isinstance(error, BarnabasError)
        logger.warning("topics could not be read: %s", error, exc_info=error if is_bug else None)

    async def _read(self, described: ClusterDescription, quorum: QuorumDescription | None) -> None:
        began_ms, wall_ms = self._clock.monotonic_ms(), self._clock.wall_ms()
        try:
            moves = await self._admin.partitions.list_reassignments()
        except BarnabasError:
            moves = {}
        reading = Reading(moves)
        async for topics in self._admin.topics.pages(partitions_per_page=PAGE_PARTITIONS):
            partitions = [
                TopicPartition(topic.name, number)
                for topic in topics
                for number in topic.partitions
            ]
            in_sync_min, (sizes, of_brokers) = await asyncio.gather(
                self._in_sync_min(topics), self._log_dirs(described, partitions)
            )
            reading.add(topics, in_sync_min, sizes)
            for node_id, size in of_brokers.items():
                known = reading.sizes_of_brokers.get(node_id, 0)
                reading.sizes_of_brokers[node_id] = known + size
        self._kept = _Kept(
            reading,
            _brokers(described),
            None if quorum is None else quorum.high_watermark,
            began_ms,
            wall_ms,
        )

    async def _in_sync_min(self, topics: Iterable[TopicDescription]) -> dict[str, int]:
        """Of topics in trouble; who may not see it gets the most careful guess.

        That is all replicas but one: with all of them, gates ignore the topic.
        """
        troubled = {topic.name: topic for topic in topics if is_in_trouble(topic)}
        if not troubled:
            return {}
        found = await self._admin.configs.describe(
            {ConfigResource.topic(name): [_MIN_IN_SYNC] for name in troubled}
        )
        told: dict[str, int] = {}
        for name, topic in troubled.items():
            outcome = found[ConfigResource.topic(name)]
            entry = None if outcome.error is not None else outcome.unwrap().get(_MIN_IN_SYNC)
            if entry is not None and entry.value:
                told[name] = int(entry.value)
            else:
                told[name] = max(1, topic.replication_factor - 1)
        return told

    async def _log_dirs(
        self, described: ClusterDescription, partitions: Sequence[TopicPartition]
    ) -> tuple[dict[TopicPartition, int], dict[int, int]]:
        """Sizes of partitions, and what they take on each broker."""
        live = [broker.node_id for broker in described.brokers if not broker.is_fenced]
        if not partitions or not live:
            return {}, {}
        found = await self._admin.log_dirs.describe(live, partitions=partitions)
        sizes: dict[TopicPartition, int] = {}
        of_brokers: dict[int, int] = {}
        for node_id, directories in found.successes.items():
            for directory in directories.values():
                for place, replica in directory.replicas.items():
                    of_brokers[node_id] = of_brokers.get(node_id, 0) + replica.size_bytes
                    if not replica.is_future:
                        sizes[place] = max(sizes.get(place, 0), replica.size_bytes)
        return sizes, of_brokers

    async def _describe(self) -> ClusterDescription:
        cluster = self._admin.cluster
        try:
            return await cluster.describe(
                include_fenced_brokers=True, include_authorized_operations=True
            )
        except UnsupportedError:
            return await cluster.describe(include_authorized_operations=True)

    async def _quorum(self) -> QuorumDescription | None:
        try:
            return await self._admin.quorum.describe(timeout_ms=_QUORUM_TIMEOUT_MS)
        except BarnabasError:
            return None

    async def _members(self, quorum: QuorumDescription | None) -> MetadataMembers | None:
        """As the operator's gates take them: none where nobody tells, None without such a log."""
        if quorum is None:
            apis = await self._calls.shared(
                "apis", lambda: self._admin.features.served_apis(), ttl_ms=READING_MS_MAX
            )
            return MetadataMembers() if "DESCRIBE_QUORUM" in apis else None
        wanted = await self._calls.shared(
            ("wanted members", quorum.leader_id),
            lambda: self._wanted_members(quorum.leader_id),
            ttl_ms=_SLOW_MS,
        )
        return metadata_members(quorum, wanted)

    async def _wanted_members(self, leader_id: int) -> int:
        """The leader's own setting; 0 where it does not tell, as at Apache Kafka."""
        leader = ConfigResource.broker(leader_id)
        try:
            found = await self._admin.configs.describe(
                {leader: [_MEMBERS]}, timeout_ms=_QUORUM_TIMEOUT_MS
            )
        except BarnabasError:
            return 0
        entry = None if found[leader].error is not None else found[leader].unwrap().get(_MEMBERS)
        return int(entry.value) if entry is not None and entry.value else 0

    async def _disks(self, described: ClusterDescription) -> dict[int, BrokerDisk]:
        """The file systems of live brokers; asks for no replica."""
        live = [broker.node_id for broker in described.brokers if not broker.is_fenced]
        try:
            found = await self._admin.log_dirs.describe(live, partitions=())
        except BarnabasError:
            return {}
        return {
            node_id: _disk(directories.values()) for node_id, directories in found.successes.items()
        }


def _brokers(described: ClusterDescription) -> frozenset[tuple[int, bool]]:
    return frozenset((broker.node_id, broker.is_fenced) for broker in described.brokers)


def _disk(directories: Iterable[LogDirDescription]) -> BrokerDisk:
    total, usable = 0, 0
    for directory in directories:
        if directory.total_bytes is None or directory.usable_bytes is None:
            return BrokerDisk(used_bytes=None, total_bytes=None)
        total += directory.total_bytes
        usable += directory.usable_bytes
    return BrokerDisk(used_bytes=total - usable, total_bytes=total) if total else _UNKNOWN_DISK


_UNKNOWN_DISK: Final = BrokerDisk(used_bytes=None, total_bytes=None)


def rows_of_brokers(facts: ClusterFacts) -> list[dict[str, Any]]:
    """The brokers as `barnabas cluster status -o json` has them."""
    reading = facts.reading
    status = reading.tally.status(facts.described, reading.sizes_of_brokers, facts.roles)
    rows: list[dict[str, Any]] = status["brokers"]
    return rows
