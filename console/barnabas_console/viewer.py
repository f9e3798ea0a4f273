"""`Viewer`: what the console does for one principal, by that principal's own connection (CON-141).

It has the clients and the shared calls of one principal, and nobody else's. Not here: whose browser
it is (`viewers.py`), what pages show (`api/`).

Invariants: who somebody is for the console is the `identity`, which only the same credentials
have; the principal may be a guess, for showing; the admin client and the producer are started once
however many wait for them; a failed start is tried again by the next request; all clients are
closed with the viewer, those that are starting, too, and none is started after that.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Coroutine, Hashable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from barnabas_client.admin.admin import Admin
from barnabas_client.consumer.consumer import Consumer
from barnabas_client.env import Clock
from barnabas_client.errors import ClosedError
from barnabas_console.cluster.cluster_watch import ClusterWatch
from barnabas_console.cluster_connection import ClusterConnection
from barnabas_console.shared_calls import SHARED_MS, SharedCalls

if TYPE_CHECKING:
    from barnabas_client.producer.producer import Producer
    from barnabas_console.oidc.user_tokens import UserTokens

T = TypeVar("T")

_ADMIN: Final = "admin client"
_PRODUCER: Final = "producer"
_PAGES: Final = "pages"


class Viewer:
    """One principal's clients and what they have in common."""

    def __init__(
        self,
        connection: ClusterConnection,
        clock: Clock,
        *,
        identity: str = "",
        tokens: UserTokens | None = None,
    ) -> None:
        """With `tokens` it lasts as long as they do."""
        self.connection = connection
        self._tokens = tokens
        self.principal = connection.principal
        self.identity = identity
        self._calls = SharedCalls(clock)
        self._clock = clock
        self._admin: Admin | None = None
        self._cluster: ClusterWatch | None = None
        self._producer: Producer | None = None
        self._is_closed = False

    @property
    def admin(self) -> Admin:
        """The administrative client, started by `ready`."""
        assert self._admin is not None, "await ready() first"
        return self._admin

    @property
    def cluster(self) -> ClusterWatch:
        """What this principal sees of the cluster; there once `ready` is."""
        assert self._cluster is not None, "await ready() first"
        return self._cluster

    def is_surely(self, principal: str) -> bool:
        """Whether brokers are known to take the viewer for that principal."""
        return self.connection.is_principal_sure and self.principal == principal

    @property
    def is_over(self) -> bool:
        """Whether the log-in that it is of has ended by itself."""
        return self._tokens is not None and self._tokens.is_over

    async def renew(self) -> None:
        """Have a token that is good, where it is of tokens. Raises: the client's errors."""
        if self._tokens is not None:
            await self._tokens.token()

    async def ready(self) -> None:
        """Connect if that was not done. Raises: the client's errors."""
        await self.renew()
        if self._admin is None:
            self._check_open()
            await self._calls.shared(_ADMIN, self._start_admin)

    async def consumer(self, **settings: Any) -> Consumer:
        """A started consumer without a group, for the caller to close. Raises: client's errors."""
        self._check_open()
        consumer = self.connection.consumer(**settings)
        try:
            await consumer.start()
        except BaseException:
            await consumer.close()
            raise
        return consumer

    async def producer(self) -> Producer:
        """The started producer of this principal, which it keeps. Raises: the client's errors."""
        if self._producer is None:
            self._check_open()
            await self._calls.shared(_PRODUCER, self._start_producer)
        assert self._producer is not None
        return self._producer

    async def shared(
        self,
        key: Hashable,
        make: Callable[[], Coroutine[Any, Any, T]],
        *,
        ttl_ms: int = SHARED_MS,
    ) -> T:
        """The result of `make`, shared with whoever of this principal asks the same by then.

        Keys of pages are apart from those that `ClusterWatch` and this have for their own calls.
        """
        return await self._calls.shared((_PAGES, key), make, ttl_ms=ttl_ms)

    def changed(self) -> None:
        """Forget what was read: this principal has changed something."""
        self._calls.forget()

    async def close(self) -> None:
        """Close all clients; a start that is under way ends."""
        self._is_closed = True
        await self._calls.close()
        if self._cluster is not None:
            await self._cluster.close()
        if self._producer is not None:
            await self._producer.close()
        if self._admin is not None:
            await self._admin.close()
        if self._tokens is not None:
            await self._tokens.revoke()

    async def _start_admin(self) -> None:
        admin = self.connection.admin()
        await _start(admin)
        self._cluster = ClusterWatch(admin, self._calls, self._clock)
        self._admin = admin

    async def _start_producer(self) -> None:
        # Loaded beside the loop: it is as much as a turn may take.
        await asyncio.to_thread(importlib.import_module, "barnabas_client.producer")
        producer = self.connection.producer()
        await _start(producer)
        self._producer = producer

    def _check_open(self) -> None:
        """Raises: ClosedError where nobody would close what is started now."""
        if self._is_closed:
            raise ClosedError("the session has ended: log in again")


async def _start(client: Admin | Producer) -> None:
    """Start a client; one that does not start, or is not waited for, keeps nothing open."""
    try:
        await client.start()
    except BaseException:
        await client.close()
        raise
