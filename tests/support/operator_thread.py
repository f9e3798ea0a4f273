"""The whole operator in a thread of the test's process, with a loop of its own.

kopf takes every task of its loop for one of its own when it stops, so the brokers and the API
server of a test must be in another loop.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from barnabas_operator.operator_process import OperatorProcess
from barnabas_operator.settings import OperatorSettings
from barnabas_operator.work.key import KeyKind

DEADLINE_SECONDS = 30


class OperatorThread:
    """One replica; `start` returns at once, `stop` and `join` when it has ended."""

    def __init__(
        self, settings: OperatorSettings, works: Collection[KeyKind] = tuple(KeyKind)
    ) -> None:
        self.settings = settings
        self.error: BaseException | None = None
        self.process: OperatorProcess | None = None
        self._works = works
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def http_address(self) -> str:
        assert self.process is not None
        return f"http://127.0.0.1:{self.process.http.port}"

    def start(self) -> None:
        self._thread.start()
        assert self._begun.wait(DEADLINE_SECONDS)

    async def stop(self) -> None:
        """Stop in order, as SIGTERM does; raise what ended it if that was an error."""
        if self._loop is not None and self._thread.is_alive():
            assert self.process is not None
            # The loop may have been closed by an end of its own.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.process.stop)
        await self.join()

    async def join(self) -> None:
        """Wait for the end."""
        await asyncio.to_thread(self._thread.join, DEADLINE_SECONDS)
        assert not self._thread.is_alive(), "the operator does not stop"
        if self.error is not None:
            raise self.error

    async def call(self, function: Any) -> Any:
        """What a function gives that is called in the operator's own thread."""
        assert self._loop is not None

        async def run() -> Any:
            return function()

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), self._loop))

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:
            self.error = error
            self._begun.set()

    async def _main(self) -> None:
        self.process = OperatorProcess(self.settings, works=self._works)
        self._loop = asyncio.get_running_loop()
        self._begun.set()
        await self.process.run()


def operator_settings(kubeconfig: Path, **fields: Any) -> OperatorSettings:
    """Settings for tests: quick, on any free port of the loopback address.

    Leadership outlasts whatever holds up the test's process; tests of its loss shorten it.
    """
    return OperatorSettings(
        **{
            "kubeconfig": str(kubeconfig),
            "operator_namespace": "default",
            "http_host": "127.0.0.1",
            "http_port": 0,
            "settle_seconds": 0.05,
            "resync_seconds": 2.0,
            "lease_duration_seconds": 60.0,
            "lease_renew_deadline_seconds": 50.0,
            "lease_retry_seconds": 0.5,
            "admin_timeout_seconds": 5.0,
            **fields,
        }
    )


@asynccontextmanager
async def running_operator(
    settings: OperatorSettings, works: Collection[KeyKind] = tuple(KeyKind)
) -> AsyncIterator[OperatorThread]:
    """Start a replica and stop it cleanly."""
    operator = OperatorThread(settings, works)
    operator.start()
    try:
        yield operator
    finally:
        await operator.stop()
