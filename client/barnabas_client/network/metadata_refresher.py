"""Keeps the metadata of the cluster new enough: one background task, one request in flight.

Requests it when a caller wants newer metadata, when topics are wanted that were never requested,
when a broker was lost (CLI-5), when leaders are missing, and when the metadata is
`metadata_max_age_ms` old (CLI-7). A failed request is repeated with backoff while it is needed.
The first response is waited for no longer than `bootstrap_timeout_ms`, and who waits is told early.
Invariants: whoever waits gets errors that waiting does not cure; `close` ends the task.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final, Protocol

from barnabas_client.cluster.metadata import ClusterMetadata
from barnabas_client.cluster.metadata_cache import MetadataCache
from barnabas_client.config.client_settings import ClientSettings
from barnabas_client.env import Environment
from barnabas_client.errors import (
    BarnabasError,
    ClientBrokenError,
    ClosedError,
    RetriableError,
    TimedOutError,
)
from barnabas_client.network.connection import again
from barnabas_protocol.backoff import RETRY_JITTER, ExponentialBackoff
from barnabas_protocol.messages.metadata import MetadataRequest, MetadataResponse

_log: Final = logging.getLogger(__name__)
FIRST_WORD_MS: Final = 2_000
"""Without a response for so long, a new client tells what it tries."""


class FetchMetadata(Protocol):
    """Sends the request to some broker."""

    async def __call__(self, request: MetadataRequest) -> MetadataResponse:
        """Return the response. Raises: BarnabasError."""
        ...


class MetadataRefresher:
    """The task that requests metadata, and the waiting for what comes."""

    def __init__(
        self,
        cache: MetadataCache,
        settings: ClientSettings,
        environment: Environment,
        *,
        fetch: FetchMetadata,
        last_tried: Callable[[], str],
        on_metadata: Callable[[ClusterMetadata], None],
    ) -> None:
        self.cache = cache
        self.failing_since_ms: int | None = None
        self._settings = settings
        self._clock = environment.clock
        self._random = environment.random
        self._fetch = fetch
        self._last_tried = last_tried
        self._on_metadata = on_metadata
        self._backoff = ExponentialBackoff(
            settings.retry_backoff_ms, settings.retry_backoff_max_ms, RETRY_JITTER
        )
        self._wake = asyncio.Event()
        self._full_due = False
        self._sent = 0  # requests so far; those with a response count in _received
        self._received = 0
        self._changed: asyncio.Future[None] | None = None
        self._last_error: BarnabasError | None = None
        self._failures = 0  # of all time, so that a waiter can tell new errors from old ones
        self._waiting = 0
        self._sent_at_ms: int | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def start(self) -> None:
        """Begin to run; needs the loop."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="metadata refresher")

    @property
    def has_ended(self) -> bool:
        """Whether its task was cancelled, by `close` or by the end of the program."""
        return self._task is not None and self._task.done()

    async def close(self) -> None:
        """End the task and fail those who wait."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self._notify()

    def request(self, *, full: bool = True) -> None:
        """Send a request soon; `full` renews all wanted topics, else only those that are new."""
        self._full_due = self._full_due or full
        self._wake.set()

    async def refresh(self, timeout_ms: int) -> ClusterMetadata:
        """Wait for the response to a request that is sent after this call.

        Raises: what a request ended with if that is not retriable, else TimedOutError.
        """
        needed = self._sent + 1
        self.request()
        return await self._wait(lambda: self._received >= needed, timeout_ms)

    async def wait_for_version(self, newer_than: int, timeout_ms: int) -> ClusterMetadata:
        """Wait for metadata newer than a version that was seen."""
        if self.cache.cluster.version <= newer_than:
            return await self._wait(lambda: self.cache.cluster.version > newer_than, timeout_ms)
        return self.cache.cluster

    def publish(self) -> None:
        """Hand out new metadata, also what came in another way than by a request."""
        self._on_metadata(self.cache.cluster)
        self._notify()

    async def _wait(self, condition: Callable[[], bool], timeout_ms: int) -> ClusterMetadata:
        word: asyncio.TimerHandle | None = None
        if not self._received:
            timeout_ms = min(timeout_ms, self._settings.bootstrap_timeout_ms)
            if not self._waiting:
                word = asyncio.get_running_loop().call_later(FIRST_WORD_MS / 1000, self._tell)
        self._waiting += 1
        failures = self._failures
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not condition():
                    if self._is_closed:
                        raise ClosedError("the client is closed")
                    error = self._last_error if self._failures > failures else None
                    if error is not None and not isinstance(error, RetriableError):
                        raise again(error)
                    if self._changed is None:
                        self._changed = asyncio.get_running_loop().create_future()
                    await asyncio.shield(self._changed)
        except TimeoutError:
            raise self._timed_out(timeout_ms) from None
        finally:
            self._waiting -= 1
            if word is not None:
                word.cancel()
        return self.cache.cluster

    def _tell(self) -> None:
        """Say what a client tries that nobody has responded to yet."""
        if not self._received:
            cause = "" if self._last_error is None else f"; the last cause: {self._last_error}"
            _log.warning("no broker has responded yet, trying %s%s", self._last_tried(), cause)

    def _timed_out(self, timeout_ms: int) -> BarnabasError:
        cause = self._last_error
        if cause is None:
            return TimedOutError(
                f"no metadata of the cluster within {timeout_ms} ms, tried {self._last_tried()}"
            )
        error = again(cause, f"no metadata of the cluster within {timeout_ms} ms: {cause.message}")
        error.__cause__ = cause
        return error

    def _notify(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None and not changed.done():
            changed.set_result(None)

    async def _run(self) -> None:
        failures = 0
        while True:
            await self._until_due()
            full = self._full_due or not self.cache.has_missing
            self._full_due = False
            self._wake.clear()
            request = self.cache.request(
                full=full, allow_auto_create=self._settings.allow_auto_create_topics
            )
            self._sent += 1
            error = await self._attempt(request)
            if error is not None:
                self._take_failure(request, error, full=full)
                await self._pause(failures)
                failures += 1
                continue
            if not self.cache.is_incomplete:
                failures = 0
                continue
            await self._pause_for_topics(failures)
            self.request()
            failures += 1

    async def _attempt(self, request: MetadataRequest) -> BarnabasError | None:
        """Send a request and publish the response; return why there is none."""
        try:
            response = await self._fetch(request)
            self.failing_since_ms = None
            self._last_error = None
            self.cache.merge(request, response)
            self._received = self._sent
            self.publish()
        except BarnabasError as error:
            return error
        except Exception as error:  # those who wait must get a bug, too
            _log.exception("the client cannot take in metadata")
            return ClientBrokenError(f"the client cannot take in metadata: {error!r}")
        return None

    def _take_failure(self, request: MetadataRequest, error: BarnabasError, *, full: bool) -> None:
        self.cache.failed(request)
        self._last_error = error
        self._failures += 1
        if self.failing_since_ms is None:
            self.failing_since_ms = self._clock.monotonic_ms()
        self.request(full=full)
        self._notify()

    async def _until_due(self) -> None:
        """Wait until somebody wants metadata or the last is old."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.metadata_max_age_ms / 1000):
                await self._wake.wait()
        # A thousand failing batches want it once; who waits for it is not held up.
        if self._sent_at_ms is not None and not self._waiting and not self.cache.has_missing:
            since_ms = self._clock.monotonic_ms() - self._sent_at_ms
            await asyncio.sleep(max(0, self._settings.retry_backoff_ms - since_ms) / 1000)
        self._sent_at_ms = self._clock.monotonic_ms()

    async def _pause_for_topics(self, failures: int) -> None:
        """Wait for what the cluster does not have yet; a topic that is new here is requested."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(
                self._backoff.wait_ms(failures, self._random.random()) / 1000
            ):
                while not self.cache.has_missing:
                    self._wake.clear()
                    await self._wake.wait()

    async def _pause(self, failures: int) -> None:
        await asyncio.sleep(self._backoff.wait_ms(failures, self._random.random()) / 1000)
