"""Writing and reading the offsets of the consumer's group.

Not here: which offsets (`SubscriptionState.positions`), who is a member of the group (`group/`).

Commits leave one at a time and in order, whoever asks: callbacks come in that order, and a commit
that is waited for starts when those before it have ended. `commit` repeats until it succeeds or
cannot; `commit_soon` tries once.

Source: CON-8, CON-9, CG-6, GRP-19 of behaviour.md.
Invariants: at most `PENDING_MAX` commits wait. A commit says which member and generation it comes
from, read when it is sent: it never counts for a membership that began later than the call unless
the same member still owns the partition.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, TypeAlias

from barnabas_client.cluster.offsets import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.consumer.commit_requests import (
    COORDINATOR_GONE,
    MEMBERSHIP_OVER,
    NAMES_UNTIL,
    TOPICS_UNKNOWN,
    FetchedOffsets,
    commit_errors,
    commit_request,
    fetch_request,
    fetched_offsets,
    topic_ids,
)
from barnabas_client.consumer.subscription_state import SubscriptionState
from barnabas_client.errors import (
    BarnabasError,
    BrokerUnreachableError,
    BufferFullError,
    ClientBrokenError,
    ClosedError,
    CommitFailedError,
    CoordinatorMovedError,
    DisconnectedError,
    MembershipLostError,
    RetriableError,
    StaleMetadataError,
    UsageError,
    error_for,
)
from barnabas_client.network.client import Client, CoordinatorType
from barnabas_client.network.retrying import retrying
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition, Uuid
from barnabas_protocol.schema import Message

_log = logging.getLogger(__name__)

# A program that commits faster than the coordinator answers is told so.
PENDING_MAX: Final = 1000
_REBALANCING: Final = "the group is rebalancing: poll() first, then commit what is still assigned"

Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]
CommitCallback: TypeAlias = Callable[[Offsets, BarnabasError | None], None]


class CommittingMember(Protocol):
    """What commits need to know of the membership."""

    def metadata(self) -> ConsumerGroupMetadata:
        """Who commits; a generation of -1 while there is no membership."""
        ...

    def accepts_commits(self) -> bool:
        """Whether the coordinator would take a commit now; it does not in a rebalance."""
        ...

    def commit_refused(self, code: ErrorCode, sent_as: ConsumerGroupMetadata) -> None:
        """The coordinator no longer accepts what this member was when it sent a commit."""
        ...


class OffsetCommitter:
    """The one way of a consumer to its group's offsets."""

    def __init__(
        self, client: Client, settings: ConsumerSettings, subscription: SubscriptionState
    ) -> None:
        self._client = client
        self._settings = settings
        self._subscription = subscription
        self._member: CommittingMember | None = None
        self._waiting: deque[tuple[Offsets, CommitCallback | None]] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._is_closed = False
        self._is_auto_committing = False
        self._next_auto_commit_ms: int | None = None
        # For interceptors: called with what was committed.
        self.on_committed: Callable[[Offsets], None] | None = None

    def bind(self, member: CommittingMember) -> None:
        """Commit in the name of this member from now on."""
        self._member = member

    # ---- commits ---------------------------------------------------------------------------

    async def commit(self, offsets: Offsets, *, timeout_ms: int | None = None) -> None:
        """Return when the group remembers these offsets, and all that were to be committed before.

        Raises: CommitFailedError or MembershipLostError if the partitions may be another member's;
        the last RetriableError after `timeout_ms` (default_api_timeout_ms); what `error_for` gives
        for codes that no retry helps against.
        """
        checked = _checked(offsets)
        timeout_ms = self._settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = self._now_ms() + timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._settle()
                await self._turn.acquire()
        except TimeoutError:
            raise RetriableError("earlier commits are still under way") from None
        try:
            if checked:
                left_ms = max(0, deadline_ms - self._now_ms())
                await retrying(self._client, lambda: self._attempt(checked), timeout_ms=left_ms)
                self._report(checked)
        finally:
            self._turn.release()

    def commit_soon(self, offsets: Offsets, callback: CommitCallback | None = None) -> None:
        """Commit once, after what was asked for before; `callback(offsets, error or None)` follows.

        Raises: ClosedError; BufferFullError if `PENDING_MAX` commits wait already.
        """
        if self._is_closed:
            raise ClosedError("the consumer is closed")
        if len(self._waiting) >= PENDING_MAX:
            raise BufferFullError(
                f"{PENDING_MAX} commits wait for the coordinator: commit less often, or wait for"
                " commit()"
            )
        self._waiting.append((_checked(offsets), callback))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work(), name="commits")

    def auto_commit_due(self, now_ms: int) -> bool:
        """Whether offsets are to be committed now, by the program's own settings."""
        if not self._settings.enable_auto_commit or self._settings.group_id is None:
            return False
        if self._next_auto_commit_ms is None:
            self._next_auto_commit_ms = now_ms + self._settings.auto_commit_interval_ms
        if now_ms < self._next_auto_commit_ms or self._is_auto_committing:
            return False
        return self._member is None or self._member.accepts_commits()

    def auto_commit(self, now_ms: int) -> None:
        """Commit in the background what was handed out; call it when it is due (CON-8)."""
        self._next_auto_commit_ms = now_ms + self._settings.auto_commit_interval_ms
        offsets = self._subscription.positions()
        if not offsets or self._is_closed or len(self._waiting) >= PENDING_MAX:
            return
        self._is_auto_committing = True
        self.commit_soon(offsets, self._auto_commit_ended)

    async def commit_before_rebalance(self, timeout_ms: int) -> None:
        """Commit what was handed out, if the settings say so; failing is logged, not raised."""
        if not self._settings.enable_auto_commit or self._settings.group_id is None:
            return
        self._next_auto_commit_ms = self._now_ms() + self._settings.auto_commit_interval_ms
        offsets = self._subscription.positions()
        try:
            await self.commit(offsets, timeout_ms=timeout_ms)
        except BarnabasError as error:
            _log.warning("the commit before giving partitions up failed: %s", error)

    async def settle(self, timeout_ms: int) -> None:
        """Wait for what `commit_soon` was asked for, for as long as the time allows."""
        if self._worker is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._settle()

    async def close(self, timeout_ms: int) -> None:
        """End the commits that wait, within the time; then refuse new ones."""
        await self.settle(timeout_ms)
        self._is_closed = True
        worker = self._worker
        if worker is not None:
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
        while self._waiting:
            offsets, callback = self._waiting.popleft()
            self._answer(offsets, callback, ClosedError("the consumer was closed"))

    # ---- committed offsets -----------------------------------------------------------------

    async def fetch_committed(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group remembers of each partition; None where nothing was committed.

        Waits for transactions that are about to commit offsets of these partitions (KIP-447).
        """
        wanted = list(dict.fromkeys(partitions))
        if not wanted:
            return {}
        timeout_ms = self._settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        return await retrying(
            self._client, lambda: self._fetch_attempt(wanted), timeout_ms=timeout_ms
        )

    # ---- single attempts -------------------------------------------------------------------

    async def _attempt(self, offsets: Offsets) -> None:
        sent_as = self._identity()
        is_managed = self._subscription.is_group_managed
        if is_managed and self._member is not None and not self._member.accepts_commits():
            raise MembershipLostError(_REBALANCING, ErrorCode.REBALANCE_IN_PROGRESS)
        if is_managed and sent_as.generation_id < 0:
            raise CommitFailedError(
                "this consumer is not a member of the group: poll() joins again; what was read"
                " since the last commit is read by whoever gets the partitions"
            )
        node_id = await self._coordinator()
        ids, version = await self._version(
            node_id, ApiKey.OFFSET_COMMIT, (topic for topic, _ in offsets)
        )
        request = commit_request(sent_as, offsets, ids)
        response = await self._request(node_id, request, version)
        errors = commit_errors(response, offsets, _by_id(ids))
        self._raise_for_commit(errors, sent_as)

    def _raise_for_commit(
        self, errors: Mapping[TopicPartition, ErrorCode], sent_as: ConsumerGroupMetadata
    ) -> None:
        for partition, code in errors.items():
            if code is ErrorCode.NONE:
                continue
            if code in COORDINATOR_GONE:
                self._forget_coordinator()
            if code in TOPICS_UNKNOWN:
                self._client.request_refresh()
            if code in MEMBERSHIP_OVER:
                raise self._membership_error(code, sent_as)
            if code is ErrorCode.REQUEST_TIMED_OUT:
                raise CoordinatorMovedError(f"the commit of {partition} timed out", code)
            raise error_for(code, f"the offset of {partition} was not committed: {code.name}")

    def _membership_error(self, code: ErrorCode, sent_as: ConsumerGroupMetadata) -> BarnabasError:
        """Tell the membership, unless it has moved on by itself; what the caller should know."""
        is_current = self._identity() == sent_as
        if is_current and self._member is not None:
            self._member.commit_refused(code, sent_as)
        if code is ErrorCode.FENCED_INSTANCE_ID:
            return error_for(code, "another consumer has this group_instance_id: close this one")
        if code is ErrorCode.STALE_MEMBER_EPOCH:
            # The epoch rises with heartbeats that take nothing away: the commit is still good.
            return CoordinatorMovedError("the member epoch has changed meanwhile", code)
        if code is ErrorCode.REBALANCE_IN_PROGRESS or not is_current:
            return MembershipLostError(_REBALANCING, code)
        return CommitFailedError(
            "the group went on without this member, and its partitions are given to others:"
            " call poll() more often or raise max_poll_interval_ms",
            code,
        )

    async def _fetch_attempt(
        self, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        node_id = await self._coordinator()
        ids, version = await self._version(
            node_id, ApiKey.OFFSET_FETCH, (topic for topic, _ in partitions)
        )
        identity = self._identity()
        request = fetch_request(identity, partitions, ids, version)
        response = await self._request(node_id, request, version)
        found = fetched_offsets(response, identity.group_id, partitions, _by_id(ids))
        self._raise_for_fetch(found)
        return {partition: found.offsets[partition] for partition in partitions}

    def _raise_for_fetch(self, found: FetchedOffsets) -> None:
        code = found.group_error
        where = f"group {self._settings.group_id!r}"
        if code is ErrorCode.NONE and found.errors:
            partition, code = next(iter(found.errors.items()))
            where = str(partition)
        if code is ErrorCode.NONE:
            return
        if code in COORDINATOR_GONE:
            self._forget_coordinator()
        if code is ErrorCode.STALE_MEMBER_EPOCH:
            raise CoordinatorMovedError("the member epoch has changed meanwhile", code)
        if code in TOPICS_UNKNOWN:
            self._client.request_refresh()
            raise StaleMetadataError(f"the coordinator does not know {where} yet", code)
        raise error_for(code, f"no committed offset of {where}: {code.name}")

    # ---- shared ----------------------------------------------------------------------------

    def _identity(self) -> ConsumerGroupMetadata:
        """Who commits: the member, or the bare group where partitions are assigned by hand."""
        if self._member is not None and self._subscription.is_group_managed:
            return self._member.metadata()
        return ConsumerGroupMetadata(self._group_id())

    def _group_id(self) -> str:
        group_id = self._settings.group_id
        if group_id is None:
            raise UsageError("offsets are kept per group: set group_id")
        return group_id

    async def _coordinator(self) -> int:
        return await self._client.coordinator(CoordinatorType.GROUP, self._group_id())

    def _forget_coordinator(self) -> None:
        self._client.forget_coordinator(CoordinatorType.GROUP, self._group_id())

    async def _version(
        self, node_id: int, api: ApiKey, topics: Iterable[str]
    ) -> tuple[dict[str, Uuid], int]:
        """The ids of the topics, and the version to speak: names only unless all ids are known."""
        ids = topic_ids(self._client.cluster, set(topics))
        maximum = NAMES_UNTIL if ids is None else None
        return ids or {}, await self._client.version(node_id, api, maximum=maximum)

    async def _request(self, node_id: int, request: Message, version: int) -> Any:
        try:
            return await self._client.request(node_id, request, version=version)
        except (DisconnectedError, BrokerUnreachableError):
            self._forget_coordinator()
            raise

    async def _settle(self) -> None:
        """Wait until no commit of `commit_soon` is left."""
        while self._worker is not None:
            await asyncio.shield(self._worker)

    async def _work(self) -> None:
        """Send what waits, one after the other; ends when nothing is left."""
        try:
            while self._waiting:
                offsets, callback = self._waiting.popleft()
                error: BarnabasError | None = None
                try:
                    async with self._turn:
                        if offsets:
                            await self._attempt(offsets)
                except BarnabasError as failure:
                    error = failure
                except asyncio.CancelledError:
                    self._answer(offsets, callback, ClosedError("the consumer was closed"))
                    raise
                except Exception as failure:  # the commits behind it must not wait forever
                    _log.exception("a commit failed")
                    error = ClientBrokenError(f"the commit failed: {failure!r}")
                self._answer(offsets, callback, error)
        finally:
            self._worker = None

    def _answer(
        self, offsets: Offsets, callback: CommitCallback | None, error: BarnabasError | None
    ) -> None:
        if error is None:
            self._report(offsets)
        if callback is not None:
            try:
                callback(offsets, error)
            except Exception:
                _log.exception("the callback of a commit failed")

    def _report(self, offsets: Offsets) -> None:
        if self.on_committed is not None:
            self.on_committed(offsets)

    def _auto_commit_ended(self, offsets: Offsets, error: BarnabasError | None) -> None:
        self._is_auto_committing = False
        if error is None:
            return
        may_pass = isinstance(error, RetriableError | MembershipLostError)
        level = logging.INFO if may_pass else logging.WARNING
        _log.log(level, "automatic commit of %d offsets failed: %s", len(offsets), error)
        if isinstance(error, RetriableError) and self._next_auto_commit_ms is not None:
            soon_ms = self._now_ms() + self._settings.retry_backoff_ms
            self._next_auto_commit_ms = min(self._next_auto_commit_ms, soon_ms)

    def _now_ms(self) -> int:
        return self._client.environment.clock.monotonic_ms()


def _checked(offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
    """A copy that the caller cannot change.

    Raises: UsageError for a negative offset.
    """
    copy = dict(offsets)
    for partition, offset in copy.items():
        if offset.offset < 0:
            raise UsageError(f"an offset to commit is never negative: {partition} {offset.offset}")
    return copy


def _by_id(ids: Mapping[str, Uuid]) -> dict[Uuid, str]:
    return {topic_id: name for name, topic_id in ids.items()}
