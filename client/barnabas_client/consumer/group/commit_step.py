"""The commit that precedes giving partitions up; it goes on when the program's poll times out."""

from __future__ import annotations

import asyncio

from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.consumer.commits import OffsetCommitter


class CommitStep:
    """At most one commit at a time, in a task of its own."""

    def __init__(self, committer: OffsetCommitter, settings: ConsumerSettings) -> None:
        self._committer = committer
        # Other members wait for this one: no longer than the group would.
        self._timeout_ms = min(settings.max_poll_interval_ms, settings.default_api_timeout_ms)
        self._task: asyncio.Task[None] | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether `start` was called and `finish` has not returned True since."""
        return self._task is not None

    def start(self) -> None:
        """Commit what was handed out, if the settings say so."""
        if self._task is None:
            self._task = asyncio.create_task(
                self._committer.commit_before_rebalance(self._timeout_ms),
                name="commit before rebalance",
            )

    async def finish(self, timeout_ms: int) -> bool:
        """Wait for the end of it; False if the time is over before."""
        if self._task is None:
            return True
        await asyncio.wait({self._task}, timeout=max(0, timeout_ms) / 1000)
        if not self._task.done():
            return False
        self._task = None
        return True

    async def cancel(self) -> None:
        """Give it up."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
