"""`ShareConsumer`: what a program calls to process the records of a share group.

Each call checks its arguments and hands over: membership to `share_membership.py`, requests and
what they bring to `share_fetcher.py`, open records to `open_records.py`. Not thread-safe: one task
at a time uses it.

Source: KIP-932, Kafka's Java share consumer for what is not said there; SHR-40, SHR-41.
Invariants: a record is open from its delivery until it is acknowledged; no poll delivers anything
while a record is open: with implicit acknowledgement it accepts them first, with explicit
acknowledgement it refuses. What is open when the consumer closes is released.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from types import TracebackType
from typing import Final, Self, Unpack

from barnabas_client.cluster.metadata import ClusterMetadata
from barnabas_client.cluster.topic_names import check_topic_name
from barnabas_client.config.options import ShareConsumerOptions
from barnabas_client.config.share_consumer_settings import ShareConsumerSettings
from barnabas_client.consumer.exclusive_use import ExclusiveUse
from barnabas_client.errors import (
    BarnabasError,
    ClosedError,
    IllegalStateError,
    TimedOutError,
    UsageError,
)
from barnabas_client.network.client import Client
from barnabas_client.network.closing import run_to_end
from barnabas_client.share.acquisition import TopicIdPartition
from barnabas_client.share.open_records import OpenRecords
from barnabas_client.share.records import (
    AcknowledgementCallback,
    AcknowledgementResult,
    AcknowledgeType,
    ShareRecord,
)
from barnabas_client.share.share_fetcher import ShareFetcher
from barnabas_client.share.share_membership import ShareMembership
from barnabas_protocol.ids import TopicPartition

_log = logging.getLogger(__name__)

POLL_TIMEOUT_MS: Final = 500
CLOSE_TIMEOUT_MS: Final = 30_000
# What a close that was cancelled still spends on leaving the group.
_LEAVE_TIMEOUT_MS: Final = 1000
_FOREVER_MS: Final = 1 << 53
# A poll that waits looks at everything this often, whatever wakes it.
_WAIT_MS_MAX: Final = 1000
# Polls that find records do not wait: other tasks get a turn this often.
_YIELD_INTERVAL_MS: Final = 10
# An iteration whose records are here already sends its acknowledgements this often.
_SEND_INTERVAL_MS: Final = 1000


class ShareConsumer:
    """Processes records: `async with ShareConsumer("host:9092", group_id="workers") as it:`."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        client: Client | None = None,
        acknowledgement_callback: AcknowledgementCallback | None = None,
        **settings: Unpack[ShareConsumerOptions],
    ) -> None:
        """Take the settings, those of docs/reference; nothing is connected yet.

        The callback gets the result of every acknowledgement, also of those that ride on fetches;
        it is called within the calls of the event loop and must not block. A `client` that is
        given stays open at the end. Raises: ConfigurationError.
        """
        chosen = ShareConsumerSettings.create({"bootstrap_servers": bootstrap_servers, **settings})
        self.settings = chosen
        self._owns_client = client is None
        self._client = client or Client(chosen)
        self._callback = acknowledgement_callback
        self._topics: frozenset[str] = frozenset()
        self._use = ExclusiveUse()
        self._open = OpenRecords()
        self._wake = asyncio.Event()
        self._is_woken_up = False
        self._membership: ShareMembership | None = None
        self._fetcher: ShareFetcher | None = None
        # What `commit` is going to return, while it waits.
        self._results: dict[TopicPartition, BarnabasError | None] | None = None
        # What the assignment was resolved from.
        self._resolved: tuple[frozenset[TopicIdPartition], int] = (frozenset(), -1)
        self._assigned: frozenset[TopicPartition] = frozenset()
        self._yielded_at_ms = self._sent_at_ms = 0
        self._forget_metadata: Callable[[], None] | None = None
        self._is_closed = False
        self._closed: asyncio.Future[None] | None = None

    async def start(self) -> None:
        """Find the cluster; to be awaited before anything else, does nothing if that was done.

        Raises: BrokerUnreachableError, AuthenticationError, UnsupportedError.
        """
        if self._is_closed:
            raise ClosedError("the share consumer is closed: make a new one")
        await self._client.start()
        if self._membership is not None:
            return
        self._membership = ShareMembership(self._client, self.settings, self._wake.set)
        self._fetcher = ShareFetcher(
            self._client,
            self.settings,
            self._membership.member.member_id,
            on_change=self._wake.set,
            on_result=self._on_result,
            on_renewed=self._open.renew,
        )
        self._forget_metadata = self._client.on_metadata(self._on_metadata)
        self._membership.subscribe(self._topics)
        self._client.set_wanted_topics(self._topics)

    async def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Send the last acknowledgements, release what is open, leave the group, end everything.

        May be called while another task polls: its poll raises ClosedError, its iteration ends.
        A second call waits for the first.
        """
        if self._closed is not None:
            await asyncio.shield(self._closed)
            return
        self._closed = asyncio.get_running_loop().create_future()
        self._is_closed = True
        self._wake.set()
        try:
            await self._finish(timeout_ms)
        finally:
            try:
                await run_to_end(self._release())
            finally:
                self._closed.set_result(None)

    async def _finish(self, timeout_ms: int) -> None:
        if self._fetcher is None or self._membership is None:
            return
        now = asyncio.get_running_loop().time
        deadline = now() + timeout_ms / 1000
        if self._use.is_taken_by_other:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await self._use.wait_until_free()
        await self._fetcher.close(max(0, round((deadline - now()) * 1000)))
        await self._membership.leave(max(0, round((deadline - now()) * 1000)))

    async def _release(self) -> None:
        if self._forget_metadata is not None:
            self._forget_metadata()
        if self._fetcher is not None:
            await self._fetcher.close(0)
        if self._membership is not None:
            await self._membership.leave(_LEAVE_TIMEOUT_MS)
            await self._membership.stop()
        if self._owns_client:
            await self._client.close()

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close; without an exception and with implicit acknowledgement, accept what is open."""
        if kind is None and not self._is_closed and not self.settings.is_explicit:
            self._accept_open()
        await self.close()

    # ---- what to read ----------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to topics as a member of the share group; replaces those of an earlier call.

        Raises: UsageError for no or blank names.
        """
        self._check_use()
        names = frozenset([topics] if isinstance(topics, str) else topics)
        if not names:
            raise UsageError("no topics: name at least one, or await unsubscribe()")
        for name in names:
            check_topic_name(name)
        self._topics = names
        if self._membership is not None:
            self._membership.subscribe(names)
            self._client.set_wanted_topics(names)

    async def unsubscribe(self) -> None:
        """Leave the group; open records can still be acknowledged."""
        with self._use:
            fetcher, membership = self._running
            self._topics = frozenset()
            await membership.leave(self.settings.default_api_timeout_ms)
            membership.subscribe(self._topics)
            self._follow_assignment(fetcher, membership)
            self._client.set_wanted_topics(self._topics)

    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed to."""
        return self._topics

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions whose records may come to this member; other members may have them too."""
        return self._assigned

    # ---- records ---------------------------------------------------------------------------

    async def poll(
        self, *, timeout_ms: int = POLL_TIMEOUT_MS, max_records: int | None = None
    ) -> list[ShareRecord]:
        """The next records, as soon as there are some; none when the time is over.

        With implicit acknowledgement this accepts the records that were returned before.
        Raises: IllegalStateError while a record is open, with explicit acknowledgement;
        CorruptRecordError or SerializationError behind the last record before it, which is
        released; AuthorizationError; errors of the group.
        """
        if timeout_ms < 0:
            raise UsageError(f"a timeout is not negative: {timeout_ms}")
        count_max = self.settings.max_poll_records if max_records is None else max_records
        if count_max < 1:
            raise UsageError(f"poll for at least one record, not {count_max}")
        with self._use:
            records, has_fetched = await self._poll(timeout_ms, count_max)
            if not has_fetched:
                # They had no fetch to ride on.
                self._send_acknowledgements()
            return records

    async def __aiter__(self) -> AsyncIterator[ShareRecord]:
        """Iterate over records until `wakeup` or `close`; raises as `poll` does.

        With implicit acknowledgement a record is accepted when the next one is requested.
        """
        self._check_open()
        while not self._is_closed:
            with self._use:
                try:
                    records, _ = await self._poll(_FOREVER_MS, 1)
                except ClosedError:
                    return
                if self._now_ms() - self._sent_at_ms >= _SEND_INTERVAL_MS:
                    self._send_acknowledgements()
            if not records:
                return
            yield records[0]

    def wakeup(self) -> None:
        """Make the poll that waits, or the next one, return no records; end an iteration.

        May be called by any task of the loop; from a thread with `loop.call_soon_threadsafe`.
        """
        self._is_woken_up = True
        self._wake.set()

    # ---- acknowledgement -------------------------------------------------------------------

    def acknowledge(
        self, record: ShareRecord, kind: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Acknowledge a record that was returned; sent by the next poll or `commit`.

        RENEW leaves the record open, and its lock begins again with the next `commit`.
        Raises: IllegalStateError without explicit acknowledgement or if the record is not open.
        """
        self._check_use()
        fetcher, _ = self._running
        if not self.settings.is_explicit:
            raise IllegalStateError(
                "the next poll acknowledges all records: set share_acknowledgement_mode=explicit"
                " to do it one by one"
            )
        kind = AcknowledgeType(kind)
        found = self._open.acknowledge(record.topic, record.partition, record.offset, kind)
        if found is None:
            raise IllegalStateError(
                f"the record {record.topic}-{record.partition} at offset {record.offset} is not"
                " open: it was acknowledged before, or is not of the last poll"
            )
        acquisition, one = found
        fetcher.acknowledge(acquisition, (one,))

    async def commit(
        self, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, BarnabasError | None]:
        """Send all acknowledgements and wait for their results, None where they hold.

        With implicit acknowledgement this accepts the records that were returned. An error is one
        of the broker, as INVALID_RECORD_STATE for locks that ran out, or TimedOutError; then the
        records may be delivered again.
        """
        if timeout_ms is None:
            timeout_ms = self.settings.default_api_timeout_ms
        with self._use:
            fetcher, membership = self._running
            deadline_ms = self._now_ms() + timeout_ms
            if not self.settings.is_explicit:
                self._accept_open()
            results = self._results = {}
            try:
                self._send_acknowledgements()
                with membership.program_waits():
                    while late := fetcher.unsettled():
                        if not await self._wait(deadline_ms):
                            break
            finally:
                self._results = None
            for partition in late:
                results.setdefault(
                    partition, TimedOutError(f"no answer to acknowledgements in {timeout_ms} ms")
                )
            return results

    # ---- inside ----------------------------------------------------------------------------

    async def _poll(self, timeout_ms: int, count_max: int) -> tuple[list[ShareRecord], bool]:
        """The next records, and whether some were to be fetched for that."""
        fetcher, membership = self._running
        if not self._topics:
            raise IllegalStateError("nothing to read: call subscribe() first")
        if self.settings.is_explicit and len(self._open):
            raise IllegalStateError(
                f"{len(self._open)} records of the last poll are open: acknowledge each of them"
            )
        self._accept_open()
        deadline_ms = self._now_ms() + timeout_ms
        has_fetched = False
        try:
            with membership.program_waits():
                while True:
                    await self._let_others_run()
                    self._check_open()
                    membership.poll()
                    self._follow_assignment(fetcher, membership)
                    taken = [] if self._is_woken_up else fetcher.take(count_max)
                    for acquisition, records in taken:
                        self._open.deliver(acquisition, records)
                    if taken:
                        return [one for _, records in taken for one in records], has_fetched
                    if self._is_woken_up:
                        self._is_woken_up = False
                        return [], has_fetched
                    has_fetched = True
                    fetcher.want_records(is_wanting=True)
                    if not await self._wait(deadline_ms):
                        return [], has_fetched
        finally:
            fetcher.want_records(is_wanting=False)

    async def _wait(self, deadline_ms: int) -> bool:
        """Wait for a change; False when the time is over."""
        left_ms = deadline_ms - self._now_ms()
        if left_ms <= 0:
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(left_ms, _WAIT_MS_MAX) / 1000):
                await self._wake.wait()
        self._wake.clear()
        self._yielded_at_ms = self._now_ms()
        return True

    async def _let_others_run(self) -> None:
        now_ms = self._now_ms()
        if now_ms - self._yielded_at_ms >= _YIELD_INTERVAL_MS:
            self._yielded_at_ms = now_ms
            await asyncio.sleep(0)

    def _accept_open(self) -> None:
        """Accept every open record."""
        if self._fetcher is None:
            return
        for acquisition, ranges in self._open.acknowledge_all(AcknowledgeType.ACCEPT).items():
            self._fetcher.acknowledge(acquisition, ranges)

    def _send_acknowledgements(self) -> None:
        self._sent_at_ms = self._now_ms()
        if self._fetcher is not None:
            self._fetcher.send()

    def _follow_assignment(self, fetcher: ShareFetcher, membership: ShareMembership) -> None:
        """Fetch from what is assigned, as far as topic ids have names."""
        cluster = self._client.cluster
        resolved = (membership.assigned, cluster.version)
        if resolved == self._resolved:
            return
        self._resolved = resolved
        partitions = {
            one: TopicPartition(cluster.topic_names[one.topic_id], one.partition)
            for one in membership.assigned
            if one.topic_id in cluster.topic_names
        }
        if len(partitions) < len(membership.assigned):
            # Topics that the broker has just found: the metadata has to catch up.
            self._client.request_refresh()
        self._assigned = frozenset(partitions.values())
        fetcher.assign(partitions)

    def _on_result(self, result: AcknowledgementResult) -> None:
        if self._results is not None:
            partition = result.topic_partition
            self._results[partition] = result.error or self._results.get(partition)
        if self._callback is None:
            return
        try:
            self._callback(result)
        except Exception:
            _log.exception("the acknowledgement callback failed")

    def _on_metadata(self, _: ClusterMetadata) -> None:
        if self._fetcher is not None:
            self._fetcher.send()
        self._wake.set()

    @property
    def _running(self) -> tuple[ShareFetcher, ShareMembership]:
        self._check_open()
        if self._fetcher is None or self._membership is None:
            raise IllegalStateError("the share consumer is not started: await start() first")
        return self._fetcher, self._membership

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the share consumer is closed")

    def _check_use(self) -> None:
        self._check_open()
        self._use.check()

    def _now_ms(self) -> int:
        return self._client.environment.clock.monotonic_ms()
