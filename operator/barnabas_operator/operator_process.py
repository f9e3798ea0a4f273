"""The running operator: everything is made, connected, started and stopped here, and only here.

Order: probes and metrics, the eviction webhook, then waiting for the Lease, then workers and the
renewal of the Lease, then kopf. Losing the Lease, a signal or the end of any part ends all of it,
and the process.

Invariant: whatever is written to the API server, or changed at the brokers, is sent by a client
that asks the Lease right before. Two exceptions are safe from any replica: the Lease itself, and
what the eviction webhook notes (`evictions`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import kopf

from barnabas_client.env import SystemClock
from barnabas_client.errors import BarnabasError
from barnabas_operator.admin_pool import AdminPool
from barnabas_operator.eviction.evictions import (
    ANSWER_TIMEOUT_SECONDS,
    CLUSTER_TIMEOUT_SECONDS,
    Evictions,
    MomentaryClusters,
)
from barnabas_operator.eviction.webhook_server import WebhookServer
from barnabas_operator.gateway.broker_admin import BrokerAdmin
from barnabas_operator.handlers import WATCHED, EventHandlers, kopf_settings, registry_of
from barnabas_operator.http_server import HttpServer
from barnabas_operator.kubernetes.api import KubernetesError
from barnabas_operator.kubernetes.connection import kopf_credentials, load_configuration, new_client
from barnabas_operator.kubernetes.dynamic_api import DynamicApi
from barnabas_operator.kubernetes.leader_lease import LeaderLease, LeaseTimes
from barnabas_operator.metrics import OperatorMetrics
from barnabas_operator.reconcile.broker.broker_reconciler import BrokerReconciler
from barnabas_operator.reconcile.elsewhere import Elsewhere
from barnabas_operator.reconcile.group.group_reconciler import GroupReconciler
from barnabas_operator.reconcile.topic_reconciler import TopicReconciler
from barnabas_operator.reconcile.user.user_reconciler import UserReconciler
from barnabas_operator.settings import OperatorSettings
from barnabas_operator.work.freshness import WatchFreshness
from barnabas_operator.work.key import Key, KeyKind
from barnabas_operator.work.watch_cache import WatchCache
from barnabas_operator.work.work_queue import ReconcileResult, WorkQueue

logger = logging.getLogger(__name__)

_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class Reconciler(Protocol):
    """What a kind of work is done by."""

    async def reconcile(self, key: Key) -> float | None:
        """Bring it forward; returns the seconds until it should be looked at again."""
        ...


class OperatorProcess:
    """One replica; `run` returns when it has stopped."""

    def __init__(
        self, settings: OperatorSettings, *, works: Collection[KeyKind] = tuple(KeyKind)
    ) -> None:
        """Take the settings; `works` are the kinds of work that are done."""
        self.settings = settings
        self._works = works
        self.metrics = OperatorMetrics()
        self._stop = asyncio.Event()
        self._watching = asyncio.Event()
        self._resources = AsyncExitStack()
        self._queue: WorkQueue | None = None
        self._freshness: WatchFreshness | None = None
        self._lease: LeaderLease | None = None
        self.webhook: WebhookServer | None = None
        self.http = HttpServer(
            self.metrics,
            host=settings.http_host,
            port=settings.http_port,
            trouble=self._trouble,
            unreadiness=self._unreadiness,
        )

    def stop(self) -> None:
        """Let `run` return soon; for the loop's own thread."""
        self._stop.set()

    async def run(self) -> None:
        """Serve, wait for the Lease, act until told to stop.

        Raises: what ended a part of it that must not end.
        """
        try:
            await self._resources.enter_async_context(_running(self.http))
            configuration = await load_configuration(self.settings.kubeconfig)
            self._handle_signals()
            await self._serve_evictions(configuration)
            self._lease = await self._make_lease(configuration)
            if not await self._until_stopped(self._lease.acquire()):
                return
            await self._act(configuration, self._lease)
        finally:
            await self._shut_down()

    async def _act(self, configuration: Any, lease: LeaderLease) -> None:
        """All that only the leader does."""
        self.metrics.lead(True)
        client = await self._resources.enter_async_context(new_client(configuration))
        freshness = WatchFreshness(
            WATCHED, asyncio.get_running_loop().time, self.settings.namespaces
        )
        api = DynamicApi(
            client,
            guard=lease.check,
            observe=self.metrics.request,
            on_list=freshness.listed,
            request_timeout_seconds=self.settings.request_timeout_seconds,
        )
        admins = AdminPool(
            api,
            SystemClock(),
            timeout_seconds=self.settings.admin_timeout_seconds,
            guard=lease.check,
        )
        self._resources.push_async_callback(admins.close)
        cache = WatchCache(
            api,
            asyncio.get_running_loop().time,
            namespaces=self.settings.namespaces,
            list_seconds=self.settings.resync_seconds,
        )
        queue = WorkQueue(
            _reconcile_with(self._reconcilers(api, admins, cache)),
            workers=self.settings.workers,
            settle_seconds=self.settings.settle_seconds,
            on_result=self._finished,
        )
        self.metrics.watch_queue(queue)
        self._queue, self._freshness = queue, freshness
        handlers = EventHandlers(
            queue.add, admins=admins, cache=cache, freshness=freshness, metrics=self.metrics
        )
        # kopf takes every task that begins after it for one of its own, so these begin before.
        for part in (queue.run(), lease.keep()):
            await self._start_part(part)
        registry = registry_of(
            handlers, login=lambda: kopf_credentials(configuration), stopped=self._shut_down
        )
        await kopf.operator(
            registry=registry,
            settings=kopf_settings(),
            standalone=True,
            clusterwide=self.settings.is_clusterwide,
            namespaces=self.settings.namespaces,
            stop_flag=self._stop,
            ready_flag=self._watching,
        )

    async def _serve_evictions(self, configuration: Any) -> None:
        """Answer the API server about evictions, if that is set up; leader or not."""
        settings = self.settings
        if not settings.webhook_certificates:
            return
        client = await self._resources.enter_async_context(new_client(configuration))
        api = DynamicApi(
            client,
            observe=self.metrics.request,
            request_timeout_seconds=ANSWER_TIMEOUT_SECONDS / 2,
        )
        admins = AdminPool(api, SystemClock(), timeout_seconds=CLUSTER_TIMEOUT_SECONDS)
        self._resources.push_async_callback(admins.close)
        self.webhook = WebhookServer(
            Evictions(
                api,
                MomentaryClusters(admins),
                BrokerAdmin(timeout_seconds=CLUSTER_TIMEOUT_SECONDS),
                SystemClock(),
                patience_seconds=settings.eviction_patience_seconds,
                counted=self.metrics.eviction,
            ),
            Path(settings.webhook_certificates),
            host=settings.http_host,
            port=settings.webhook_port,
        )
        await self._resources.enter_async_context(_running(self.webhook))
        certificate = self.webhook.certificate
        self.metrics.watch_certificate(lambda: certificate.expires_seconds)

    async def _make_lease(self, configuration: Any) -> LeaderLease:
        """A candidate with connections of its own, so that no pass delays its renewals."""
        settings = self.settings
        client = await self._resources.enter_async_context(new_client(configuration))
        api = DynamicApi(
            client,
            observe=self.metrics.request,
            request_timeout_seconds=settings.lease_renew_deadline_seconds / 2,
        )
        lease = LeaderLease(
            api,
            namespace=settings.operator_namespace or own_namespace(),
            name=settings.lease_name,
            # The same pod may start anew, and must not take its former self for itself.
            identity=f"{settings.identity or os.uname().nodename}_{secrets.token_hex(4)}",
            times=LeaseTimes(
                duration_seconds=settings.lease_duration_seconds,
                renew_deadline_seconds=settings.lease_renew_deadline_seconds,
                retry_seconds=settings.lease_retry_seconds,
            ),
        )
        self._resources.push_async_callback(lease.release)
        return lease

    def _reconcilers(
        self, api: DynamicApi, admins: AdminPool, cache: WatchCache
    ) -> dict[KeyKind, Reconciler]:
        shared = api, admins, self.settings, SystemClock()
        found: dict[KeyKind, Reconciler] = {
            KeyKind.TOPICS: TopicReconciler(*shared, cache, counted=self.metrics.resources),
            KeyKind.GROUPS: GroupReconciler(*shared, cache),
            KeyKind.USERS: UserReconciler(*shared, cache, counted=self.metrics.resources),
            KeyKind.BROKER: BrokerReconciler(
                *shared,
                changes_of=cache.changes_of,
                elsewhere=Elsewhere(cache.all_brokers, self.settings.elsewhere_namespaces),
            ),
        }
        return {work: one for work, one in found.items() if work in self._works}

    async def _start_part(self, part: Awaitable[None]) -> None:
        """Run it beside kopf: its end is the end of all, and the end of all ends it."""

        async def run() -> None:
            try:
                await part
            finally:
                self._stop.set()

        task = asyncio.create_task(run())
        self._resources.push_async_callback(_cancelled, task)
        await asyncio.sleep(0)

    async def _until_stopped(self, waiting: Awaitable[None]) -> bool:
        """Whether it finished; it is cancelled when the operator is to stop before that."""
        task = asyncio.ensure_future(waiting)
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                await task
                return True
            return False
        finally:
            await _cancelled(task)
            await _cancelled(stopping)

    async def _shut_down(self) -> None:
        """Stop working, then give the Lease away: in this order nobody acts twice."""
        self._watching.clear()
        self.metrics.lead(False)
        await self._resources.aclose()

    def _finished(self, done: ReconcileResult) -> None:
        self.metrics.finished(done)
        if done.error is not None:
            # Faults of the network and refusals are everyday; others are bugs and show their way.
            is_expected = not _is_bug(done.error)
            logger.warning(
                "%s failed after %.1f s: %s: %s",
                done.key,
                done.seconds,
                type(done.error).__name__,
                done.error,
                exc_info=None if is_expected else done.error,
            )

    def _trouble(self) -> str:
        """Why the process should be restarted, empty while all is well."""
        if self._queue is None or self._freshness is None:
            return ""
        for seconds, what in (
            (self._queue.stuck_seconds, "work has been stuck"),
            (self._freshness.behind_seconds, "watching has been behind"),
        ):
            if seconds > self.settings.stuck_seconds:
                return f"{what} for {seconds:.0f} s"
        return ""

    def _unreadiness(self) -> str:
        """Whether a waiting replica counts as ready: it does, it is ready to take over."""
        if self._lease is None:
            return "starting"
        return "not watching yet" if self._queue is not None and not self._watching.is_set() else ""

    def _handle_signals(self) -> None:
        """Stop in order also while waiting for the Lease; kopf takes the signals over later."""
        if threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._stop.set)


def own_namespace() -> str:
    """The pod's namespace, `default` outside of one."""
    try:
        return _NAMESPACE_FILE.read_text(encoding="utf-8").strip()
    except OSError:
        return "default"


def _reconcile_with(
    reconcilers: dict[KeyKind, Reconciler],
) -> Callable[[Key], Awaitable[float | None]]:
    async def reconcile(key: Key) -> float | None:
        reconciler = reconcilers.get(key.kind)
        return None if reconciler is None else await reconciler.reconcile(key)

    return reconcile


def _is_bug(error: Exception) -> bool:
    return not isinstance(error, KubernetesError | BarnabasError | TimeoutError | OSError)


@asynccontextmanager
async def _running(server: HttpServer | WebhookServer) -> AsyncIterator[None]:
    await server.start()
    try:
        yield
    finally:
        await server.close()


async def _cancelled(task: asyncio.Future[Any]) -> None:
    """Return when the task has ended; how it ended is told by whoever waits for its result."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and task.exception() is not None:
        logger.error("a part of the operator failed", exc_info=task.exception())
