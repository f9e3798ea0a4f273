"""`python -m barnabas_broker FILE`: one broker in the foreground until SIGTERM or SIGINT.

Exit code 0 after a clean stop; 1 when the start failed or the stop did not finish cleanly (BOOT-6).
"""

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import uvloop

from barnabas_broker.arbiter.arbiter import ArbiterError
from barnabas_broker.arbiter.election import ForeignClusterError
from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.config.parse import parse_properties
from barnabas_broker.env.allocator import forget_start_up, keep_freed_memory
from barnabas_broker.env.open_files import allow_many_open_files
from barnabas_broker.log.checkpoints import CheckpointError
from barnabas_broker.log.manager.log_directory import LogDirectoryLockedError
from barnabas_broker.log.manager.log_identity import IdentityError, NoLogDirectoryError
from barnabas_broker.metadata.metadata_log import MetadataLogError
from barnabas_broker.server import Server
from barnabas_protocol.records.compression import load_codecs

logger = logging.getLogger(__name__)

# By then the admin HTTP and its library are there too.
FORGET_START_UP_SECONDS = 3.0

# What an operator can mend: told in one line, without a stack.
START_ERRORS = (
    ArbiterError,
    CheckpointError,
    ConfigError,
    ForeignClusterError,
    IdentityError,
    LogDirectoryLockedError,
    MetadataLogError,
    NoLogDirectoryError,
    OSError,
)


OnReady = Callable[[Server], None]


def run_broker(properties: Mapping[str, str]) -> int:
    """Run a broker until it is told to stop; returns the exit code."""
    try:
        return serve(properties)
    except START_ERRORS as error:
        logger.critical("the broker cannot run: %s", error)
        return 1


def serve(properties: Mapping[str, str], on_ready: OnReady | None = None) -> int:
    """Run a broker until it is told to stop; returns the exit code.

    `on_ready` is called on its loop when it serves. Raises: one of START_ERRORS.
    """
    allow_many_open_files()
    load_codecs()  # before files can run out
    return uvloop.run(_run(properties, on_ready))


async def _run(properties: Mapping[str, str], on_ready: OnReady | None) -> int:
    server = Server(properties)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop_on(number: signal.Signals) -> None:
        if stop.is_set():
            logger.info("%s again: not waiting for leaderships to move", number.name)
            server.hurry()
            return
        logger.info("%s: stopping", number.name)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_on, number)
    server.on_fatal = stop.set
    starting = asyncio.ensure_future(server.start())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await starting
            keep_freed_memory()
            loop.call_later(FORGET_START_UP_SECONDS, forget_start_up)
            if on_ready is not None and not stop.is_set():
                on_ready(server)
        await stopping if not stop.is_set() else None
    finally:
        stopping.cancel()
        await server.stop()
        logger.info("stopped%s", "" if server.fatal_error else " cleanly")
    return 0 if server.fatal_error is None else 1


def main() -> None:
    """Read the properties file named by the only argument and run."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    if len(sys.argv) != 2:
        sys.exit("usage: python -m barnabas_broker FILE.properties")
    sys.exit(run_broker(parse_properties(Path(sys.argv[1]).read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
