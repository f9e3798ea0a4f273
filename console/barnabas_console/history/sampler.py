"""`Sampler`: looks at the cluster every ten seconds and keeps what the last hour was like.

All comes from ends of partitions, committed offsets and metadata, so Apache Kafka has it, too
(CON-137). It has one admin client, the user's that the console was started with.

Gentle (CON-135): at most `ENDS_PER_SECOND` ends a second in requests of `ENDS_PER_CALL`; groups'
partitions and topics on the screen first, the others by turns; topics anew only when the metadata
log has moved; five minutes after the last viewer once a minute.

Invariants: one look at a time; a look that fails leaves gaps and is told in the log, and the next
one is taken all the same; all that is kept is bounded.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.cluster import ClusterDescription
from barnabas_client.admin.values.partitions import OffsetSpec
from barnabas_client.admin.values.topics import TopicDescription
from barnabas_client.env import Clock
from barnabas_client.errors import BarnabasError
from barnabas_client.facts.cluster_facts import described_cluster
from barnabas_client.facts.group_observation import (
    GroupObservation,
    end_offsets,
    with_open_transactions,
)
from barnabas_console.cluster.broker_statuses import StatusReader
from barnabas_console.history.byte_rates import ByteRate, ByteRates, total
from barnabas_console.history.changes import (
    NO_LEADER,
    Leadership,
    SeenGroup,
    cluster_changes,
    group_changes,
    setting_changes,
    topic_changes,
)
from barnabas_console.history.group_looks import look_at_groups
from barnabas_console.history.group_samples import GroupSample, GroupSamples
from barnabas_console.history.series import SeriesStore
from barnabas_console.history.setting_looks import Settings, call_count, look_at_settings
from barnabas_console.history.timeline import ClusterChange, Timeline
from barnabas_console.history.topic_traffic import TopicTraffic
from barnabas_console.loop_slices import LoopSlices
from barnabas_protocol.ids import TopicPartition

logger = logging.getLogger(__name__)

INTERVAL_MS: Final = 10_000
IDLE_INTERVAL_MS: Final = 60_000
IDLE_AFTER_MS: Final = 300_000
ENDS_PER_CALL: Final = 500
ENDS_PER_SECOND: Final = 1_000
ENDS_PER_LOOK: Final = 5_000
#: Groups and topics that have series of their own, beside those on the screen.
GROUP_SERIES_MAX: Final = 200
TOPIC_SERIES_MAX: Final = 150
#: What pages show now: recorded whatever else is.
WATCHED_MAX: Final = 50
_PARTITIONS_PER_CALL: Final = 500
_READING_MS_MAX: Final = 60_000
_STARTS_MS: Final = 60_000
_QUORUM_TIMEOUT_MS: Final = 2_000
_TRANSACTION_LOOKS_MAX: Final = 20
_RECORD_LOOKS_MAX: Final = 100


class Sampler:
    """The history of one cluster, while the console runs."""

    def __init__(self, make_admin: Callable[[], Admin], principal: str, clock: Clock) -> None:
        self._make_admin = make_admin
        self.principal = principal
        self._clock = clock
        self.series = SeriesStore()
        self.timeline = Timeline()
        self.traffic = TopicTraffic()
        self.groups = GroupSamples()
        self.looked_at_ms: int | None = None
        self._admin: Admin | None = None
        self._viewed_ms: int | None = None
        self._watched: dict[tuple[str, str], None] = {}
        self._wake = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self._described: ClusterDescription | None = None
        self._metadata_end: int | None = None
        self._read_topics_ms: int | None = None
        self._topic_calls = 1
        self._settings: Settings | None = None
        self._beside: list[Callable[[], Awaitable[list[ClusterChange]]]] = []
        self._ends_before: dict[TopicPartition, int] = {}
        self._starts: dict[TopicPartition, int] = {}
        self._read_starts_ms: int | None = None
        self._seen_groups: dict[str, SeenGroup] | None = None
        self._record_times: dict[tuple[TopicPartition, int], int] = {}
        self._statuses = StatusReader(clock)
        self._bytes = ByteRates()

    def viewed(self) -> None:
        """Somebody looks at a page; an idle sampler goes on at once."""
        was_idle = self._is_idle
        self._viewed_ms = self._clock.monotonic_ms()
        if was_idle:
            self._wake.set()

    def watch(self, kind: str, name: str) -> None:
        """A page shows this `topic` or `group` now."""
        self._watched.pop((kind, name), None)
        self._watched[kind, name] = None
        while len(self._watched) > WATCHED_MAX:
            del self._watched[next(iter(self._watched))]

    def look_beside(self, news: Callable[[], Awaitable[list[ClusterChange]]]) -> None:
        """Ask with every look, also for the timeline, what has changed elsewhere."""
        self._beside.append(news)

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        try:
            while True:
                begun_ms = self._clock.monotonic_ms()
                try:
                    await self.look()
                except BarnabasError as error:
                    logger.info("the cluster could not be looked at: %s", error)
                    self.series.begin(self._clock.wall_ms())
                except Exception:
                    logger.exception("a look at the cluster failed")
                    self.series.begin(self._clock.wall_ms())
                await self._pause(begun_ms)
        finally:
            await self.close()

    async def close(self) -> None:
        """Close the client."""
        admin, self._admin = self._admin, None
        if admin is not None:
            await admin.close()

    async def look(self) -> None:
        """Look at the cluster once. Raises: the client's errors."""
        async with self._one_at_a_time:
            await self._look()

    async def _look(self) -> None:
        admin = await self._started()
        await self._look_at_cluster(admin)
        groups = await look_at_groups(admin, await admin.groups.list())
        places = await self._places_of(groups.values())
        ends = await self._ends(admin, places)
        starts = await self._starts_of(admin, places)
        groups = await self._with_offsets(groups, starts, ends)
        groups = await self._with_transactions(admin, groups)
        await self._look_up_records(admin, groups.values())
        bytes_by_broker = await self._look_at_bytes(admin)
        samples = await self.groups.take(
            groups,
            self._record_times,
            now_ms=self._clock.monotonic_ms(),
            wall_ms=self._clock.wall_ms(),
        )
        await self._note_groups(samples)
        await self._record(samples, bytes_by_broker)
        for news in self._beside:
            self.timeline.add(await news(), self._clock.wall_ms())
        self.looked_at_ms = self._clock.wall_ms()

    # ---- how often -----------------------------------------------------------------------------

    @property
    def _is_idle(self) -> bool:
        now_ms = self._clock.monotonic_ms()
        return self._viewed_ms is None or now_ms - self._viewed_ms > IDLE_AFTER_MS

    async def _pause(self, begun_ms: int) -> None:
        self._wake.clear()
        interval_ms = IDLE_INTERVAL_MS if self._is_idle else INTERVAL_MS
        rest_ms = begun_ms + interval_ms - self._clock.monotonic_ms()
        if rest_ms <= 0:
            # A cluster that takes longer than that gets a rest all the same.
            rest_ms = INTERVAL_MS // 2
        try:
            async with asyncio.timeout(rest_ms / 1000):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _started(self) -> Admin:
        if self._admin is None:
            admin = self._make_admin()
            try:
                await admin.start()
            except BaseException:
                await admin.close()
                raise
            self._admin = admin
        return self._admin

    # ---- brokers and topics --------------------------------------------------------------------

    async def _look_at_cluster(self, admin: Admin) -> None:
        before = self._described
        self._described = after = await described_cluster(admin)
        if before is not None:
            self.timeline.add(cluster_changes(before, after), self._clock.wall_ms())
        metadata_end = await _metadata_end(admin)
        is_moved = metadata_end is None or metadata_end != self._metadata_end
        now_ms = self._clock.monotonic_ms()
        if self._read_topics_ms is not None:
            age_ms = now_ms - self._read_topics_ms
            # On an average a request a second, whatever moves.
            calls = self._topic_calls + call_count(len(self.traffic.leadership))
            least_ms = min(_READING_MS_MAX, calls * 1000)
            if age_ms < least_ms or not (is_moved or age_ms >= _READING_MS_MAX * 5):
                return
        leadership = await self._leadership(admin)
        slices = LoopSlices(self._clock)
        if self._read_topics_ms is not None:
            changes = await topic_changes(self.traffic.leadership, leadership, slices)
            self.timeline.add(changes, self._clock.wall_ms())
        await self.traffic.follow(leadership, slices)
        self._read_topics_ms, self._metadata_end = now_ms, metadata_end
        await self._look_at_settings(admin, after)

    async def _look_at_bytes(self, admin: Admin) -> dict[int, ByteRate]:
        """Of all brokers that are there; those that do not tell, as Apache Kafka's, are unknown."""
        assert self._described is not None
        brokers = self._described.brokers
        statuses = await self._statuses.read(admin, brokers)
        rates = self._bytes.take(statuses, self._clock.monotonic_ms())
        live = [broker.node_id for broker in brokers if not broker.is_fenced]
        return {node_id: rates.get(node_id, ByteRate(None, None)) for node_id in live}

    async def _look_at_settings(self, admin: Admin, described: ClusterDescription) -> None:
        node_ids = [broker.node_id for broker in described.brokers if not broker.is_fenced]
        before = self._settings
        self._settings = await look_at_settings(admin, node_ids, self.traffic.leadership)
        if before is not None:
            changes = setting_changes(before, self._settings)
            self.timeline.add(changes, self._clock.wall_ms())

    async def _leadership(self, admin: Admin) -> dict[str, Leadership]:
        """Page by page: one answer with all topics would hold this loop, and a broker's."""
        known = self.traffic.leadership
        one_of: dict[Leadership, Leadership] = {}
        found: dict[str, Leadership] = {}
        self._topic_calls = 0
        async for page in admin.topics.pages(partitions_per_page=_PARTITIONS_PER_CALL):
            self._topic_calls += 1
            await asyncio.sleep(0)  # to read a page is a turn of its own
            for topic in page:
                new = _leadership_of(topic)
                old = known.get(topic.name)
                # What did not change is kept, and equals are one: most topics are led like others.
                kept = old if old is not None and old == new else new
                found[sys.intern(topic.name)] = one_of.setdefault(kept, kept)
        return found

    # ---- offsets -------------------------------------------------------------------------------

    async def _places_of(self, groups: Iterable[GroupObservation]) -> set[TopicPartition]:
        """All that groups read."""
        slices = LoopSlices(self._clock)
        places: set[TopicPartition] = set()
        for group in groups:
            await slices.pause_if_due()
            places.update(group.places)
        return places

    async def _with_offsets(
        self,
        groups: Mapping[str, GroupObservation],
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> dict[str, GroupObservation]:
        """The groups, and what there is to read for them."""
        slices = LoopSlices(self._clock)
        found = {}
        for group_id, group in groups.items():
            await slices.pause_if_due()
            leaderless = self.traffic.leaderless(group.places)
            found[group_id] = replace(group, starts=starts, ends=ends, leaderless=leaderless)
        return found

    async def _ends(
        self, admin: Admin, of_groups: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The ends of what groups read, of what is watched, and of some others in their turn."""
        watched = [name for kind, name in self._watched if kind == "topic"]
        read = sorted({place.topic for place in of_groups})
        await asyncio.sleep(0)  # the next takes some milliseconds of ten thousand topics
        places = self.traffic.next_partitions([*watched, *read], ENDS_PER_LOOK)
        ends = await self._paced(admin, places, OffsetSpec.LATEST)
        await asyncio.sleep(0)
        self.traffic.read(ends, self._clock.monotonic_ms())
        await asyncio.sleep(0)
        # Of more than a look reads, the last ones that were told.
        kept = {place: end for place, end in self._ends_before.items() if place in of_groups}
        self._ends_before = {**kept, **{p: end for p, end in ends.items() if p in of_groups}}
        return self._ends_before

    async def _starts_of(
        self, admin: Admin, places: set[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The first offsets of what groups read; they move seldom."""
        now_ms = self._clock.monotonic_ms()
        is_due = self._read_starts_ms is None or now_ms - self._read_starts_ms >= _STARTS_MS
        new = places - self._starts.keys()
        wanted = sorted(places if is_due else new)[:ENDS_PER_LOOK]
        away = self.traffic.leaderless(wanted)
        found = await self._paced(
            admin, [place for place in wanted if place not in away], OffsetSpec.EARLIEST
        )
        kept = {place: offset for place, offset in self._starts.items() if place in places}
        self._starts = {**kept, **found}
        if is_due:
            self._read_starts_ms = now_ms
        return self._starts

    async def _paced(
        self, admin: Admin, places: list[TopicPartition], spec: OffsetSpec
    ) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for start in range(0, len(places), ENDS_PER_CALL):
            if start:
                await asyncio.sleep(ENDS_PER_CALL / ENDS_PER_SECOND)
            some = places[start : start + ENDS_PER_CALL]
            found.update(await end_offsets(admin, some, spec))
        return found

    async def _with_transactions(
        self, admin: Admin, groups: dict[str, GroupObservation]
    ) -> dict[str, GroupObservation]:
        """With the transactions that hold back groups which have not moved since the last look."""
        slices = LoopSlices(self._clock)
        held: list[str] = []
        for group_id, group in groups.items():
            await slices.pause_if_due()
            before = self.groups.by_id.get(group_id)
            if before is not None and _stands(before.group, group):
                held.append(group_id)
        for group_id in held[:_TRANSACTION_LOOKS_MAX]:
            groups[group_id] = await with_open_transactions(admin, groups[group_id])
        return groups

    async def _look_up_records(self, admin: Admin, groups: Iterable[GroupObservation]) -> None:
        """Timestamps of next records where the ends were not watched for long enough."""
        wall_ms = self._clock.wall_ms()
        wanted: dict[TopicPartition, int] = {}
        needed: set[tuple[TopicPartition, int]] = set()
        slices = LoopSlices(self._clock)
        for group in groups:
            await slices.pause_if_due()
            by_ends = self.groups.lag_ms(group, wall_ms)
            for place, lag in group.lags.items():
                if not lag or place in by_ends or place not in group.committed:
                    continue
                position = max(group.committed[place], group.starts.get(place, 0))
                needed.add((place, position))
                if (place, position) not in self._record_times:
                    wanted.setdefault(place, position)
        if len(wanted) > _RECORD_LOOKS_MAX:
            wanted = dict(list(wanted.items())[:_RECORD_LOOKS_MAX])
        self._record_times = {
            key: time for key, time in self._record_times.items() if key in needed
        }
        if not wanted:
            return
        try:
            found = await admin.partitions.record_timestamps(wanted, timeout_ms=5_000)
        except BarnabasError:
            return
        for place, time in found.successes.items():
            if time is not None and time > 0:
                self._record_times[place, wanted[place]] = time

    # ---- what is kept --------------------------------------------------------------------------

    async def _note_groups(self, samples: Mapping[str, GroupSample]) -> None:
        slices = LoopSlices(self._clock)
        seen = {}
        for group_id, sample in samples.items():
            await slices.pause_if_due()
            seen[group_id] = SeenGroup.of(sample.group, sample.finding)
        await asyncio.sleep(0)
        if self._seen_groups is not None:
            changes = group_changes(self._seen_groups, seen)
            self.timeline.add(changes, self._clock.wall_ms())
        self._seen_groups = seen

    async def _record(
        self, samples: Mapping[str, GroupSample], bytes_by_broker: Mapping[int, ByteRate]
    ) -> None:
        # Each takes some milliseconds of ten thousand topics, or of a thousand groups.
        await asyncio.sleep(0)
        rates = self.traffic.rates()
        await asyncio.sleep(0)
        busiest = heapq.nsmallest(TOPIC_SERIES_MAX, rates, key=lambda name: (-rates[name], name))
        await asyncio.sleep(0)
        rates_of_leaders = self.traffic.rates_of_leaders()
        recorded_groups = self._recorded_groups(samples)
        await asyncio.sleep(0)
        # Not before all is known: a slot that is open and empty would be read as a gap.
        self.series.begin(self._clock.wall_ms())
        self.series.record("cluster:arriving:", sum(rates.values()) if rates else None)
        reading = [one.movement.reading_now for one in samples.values()]
        known = [rate for rate in reading if rate is not None]
        self.series.record("cluster:reading:", sum(known) if known else None)
        self._record_bytes(bytes_by_broker)
        for node_id, rate in rates_of_leaders.items():
            self.series.record(f"broker:arriving:{node_id}", rate)
        watched = [name for kind, name in self._watched if kind == "topic"]
        for name in dict.fromkeys([*busiest, *watched]):
            self.series.record(f"topic:arriving:{name}", rates.get(name))
        for group_id in recorded_groups:
            sample = samples[group_id]
            self.series.record(f"group:lag:{group_id}", sample.lag)
            self.series.record(f"group:lag_seconds:{group_id}", sample.lag_seconds)
            self.series.record(f"group:arriving:{group_id}", sample.movement.arriving_now)
            self.series.record(f"group:reading:{group_id}", sample.movement.reading_now)

    def _record_bytes(self, by_broker: Mapping[int, ByteRate]) -> None:
        for node_id, rate in by_broker.items():
            self.series.record(f"broker:bytes_in:{node_id}", rate.incoming)
            self.series.record(f"broker:bytes_out:{node_id}", rate.outgoing)
            self.series.record(f"broker:bytes:{node_id}", total([*rate]))
        for name, rates in (
            ("bytes_in", [rate.incoming for rate in by_broker.values()]),
            ("bytes_out", [rate.outgoing for rate in by_broker.values()]),
        ):
            self.series.record(f"cluster:{name}:", total(rates))

    def _recorded_groups(self, samples: Mapping[str, GroupSample]) -> list[str]:
        """Those on the screen, then those that lag most, then those that were recorded before."""
        watched = [name for kind, name in self._watched if kind == "group" and name in samples]
        worst = sorted(samples, key=lambda one: (-samples[one].lag_known, one))
        return list(dict.fromkeys([*watched, *worst[: GROUP_SERIES_MAX - len(watched)]]))


def _stands(before: GroupObservation, now: GroupObservation) -> bool:
    """Whether a group has records to read of a partition in which it has not moved."""
    return any(
        before.committed.get(place) == now.committed.get(place)
        for place, lag in now.lags.items()
        if lag
    )


async def _metadata_end(admin: Admin) -> int | None:
    """How far the metadata log is; None where nobody tells."""
    try:
        quorum = await admin.quorum.describe(timeout_ms=_QUORUM_TIMEOUT_MS)
    except BarnabasError:
        return None
    return quorum.high_watermark


def _leadership_of(topic: TopicDescription) -> Leadership:
    partitions = topic.partitions.values()
    return Leadership(
        tuple(NO_LEADER if one.leader_id is None else one.leader_id for one in partitions),
        tuple(tuple(sorted(one.in_sync_replica_ids)) for one in partitions),
    )
