"""Offsets to consumer groups without members, in the background and for show only.

Nothing waits for a commit but `settle`. What could not be committed because brokers are away stays
until newer offsets replace it, and is tried again; what they refuse (the group has members, no
right, no such topic) is dropped until the next offsets come. Each group's failure is logged once,
and so is its end.

Not here: where offsets come from (`progress.py`).
Invariants: one event loop; of a partition, what was offered last is committed last.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from barnabas_client import OffsetAndMetadata, TopicPartition
from barnabas_client.admin import Admin
from barnabas_client.errors import BarnabasError, RetriableError

_log = logging.getLogger(__name__)

# A group is looked at by people and scraped every 15 seconds or so.
_RETRY_SECONDS: Final = 5.0
_CLIENT_DEFAULTS: Final[Mapping[str, Any]] = {
    "default_api_timeout_ms": 10_000,
    "request_timeout_ms": 5_000,
}

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class GroupCommits:
    """Commits what is offered."""

    def __init__(
        self, settings: Mapping[str, Any], *, retry_seconds: float = _RETRY_SECONDS
    ) -> None:
        """`settings` are those of an `Admin`, `bootstrap_servers` among them."""
        self._settings = {**_CLIENT_DEFAULTS, **settings}
        self._retry_seconds = retry_seconds
        self._waiting: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
        self._has_more = asyncio.Event()
        self._is_settled = asyncio.Event()
        self._is_settled.set()
        self._admin: Admin | None = None
        self._failing: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Commit what is offered from now on, until `close`."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop; what waits is not committed."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._disconnect()

    def offer(self, group_id: str, offsets: Offsets) -> None:
        """Commit these soon, in place of what still waits for the same partitions."""
        if offsets:
            self._waiting.setdefault(group_id, {}).update(offsets)
            self._is_settled.clear()
            self._has_more.set()

    async def settle(self) -> None:
        """Wait until nothing waits: it is committed or refused."""
        await self._is_settled.wait()

    @property
    def waiting_groups(self) -> list[str]:
        """Those for which something could not be committed yet."""
        return sorted(self._waiting)

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._retry_seconds if self._waiting else None):
                    await self._has_more.wait()
            self._has_more.clear()
            for group_id in list(self._waiting):
                await self._commit(group_id)
            if not self._waiting:
                self._is_settled.set()

    async def _commit(self, group_id: str) -> None:
        offered = self._waiting.pop(group_id)
        try:
            admin = await self._connected()
            outcomes = await admin.group_offsets.alter(group_id, offered)
            errors: dict[TopicPartition, BarnabasError] = outcomes.errors
        except BarnabasError as failure:
            await self._disconnect()
            errors = dict.fromkeys(offered, failure)
        for partition, error in errors.items():
            if isinstance(error, RetriableError):
                # What was offered meanwhile is newer.
                newer = self._waiting.setdefault(group_id, {})
                newer.setdefault(partition, offered[partition])
        self._log_outcome(group_id, errors)

    def _log_outcome(self, group_id: str, errors: Mapping[TopicPartition, BarnabasError]) -> None:
        if errors and group_id not in self._failing:
            self._failing.add(group_id)
            partition, error = next(iter(errors.items()))
            _log.warning(
                "group %s does not show progress: the offsets of %d partitions were not committed, "
                "%s-%d among them: %s. The query goes on; this is logged once",
                group_id,
                len(errors),
                partition.topic,
                partition.partition,
                error,
            )
        elif not errors and group_id in self._failing:
            self._failing.discard(group_id)
            _log.warning("group %s shows progress again", group_id)

    async def _connected(self) -> Admin:
        if self._admin is None:
            admin = Admin(**self._settings)
            try:
                await admin.start()
            except BaseException:
                await admin.close()
                raise
            self._admin = admin
        return self._admin

    async def _disconnect(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            await admin.close()
