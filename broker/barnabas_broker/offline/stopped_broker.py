"""The control plane of a broker that is not running, for commands that change its metadata.

The locks of the log directories keep a running broker and such a command apart.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.config.listeners import Endpoint
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.controller.features import check_levels
from barnabas_broker.env.clock import SystemClock
from barnabas_broker.env.disk import RealDisk
from barnabas_broker.env.randomness import SystemRandom
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.log.tail_cache import TailCache
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.log_replay import read_image
from barnabas_broker.metadata.metadata_log_storage import MetadataLogStorage
from barnabas_broker.metadata.publisher import MetadataPublisher
from barnabas_broker.server.control_plane import ControlPlane

NOWHERE = Endpoint("PLAINTEXT", "localhost", 0, "PLAINTEXT")
# A broker of a cluster does not lead by itself: its members have to be there.
LEAD_SECONDS_MAX = 30


def _ignore(error: BaseException) -> None:
    """The command gets the failure as the refusal of what it submits."""


@asynccontextmanager
async def recovered_metadata(config: BrokerConfig) -> AsyncIterator[tuple[MetadataImage, int]]:
    """What the broker's copy of the metadata log says, committed or not, and its node id.

    Raises: as `stopped_broker`, but for the arbiter, which is not asked.
    """
    disk, clock, random = RealDisk(), SystemClock(), SystemRandom()
    logs = LogManager(config, disk, clock, random, TailCache(0))
    try:
        log = await MetadataLogStorage(logs, config).load()
        image = await read_image(disk, log)
        check_levels(image)
        yield image, logs.node_id
    finally:
        await logs.close()
        disk.close()


@asynccontextmanager
async def stopped_broker(config: BrokerConfig) -> AsyncIterator[tuple[ControlPlane, LogManager]]:
    """Lead the control plane of the broker's data for the time of the block.

    Raises: what opening directories, metadata log and arbiter raise; LogDirectoryLockedError where
    the broker is running.
    """
    disk, clock, random = RealDisk(), SystemClock(), SystemRandom()
    logs = LogManager(config, disk, clock, random, TailCache(0))
    control = ControlPlane(
        config,
        logs,
        disk,
        clock,
        random,
        MetadataPublisher(),
        DynamicConfig(config.properties),
        _ignore,
    )
    try:
        await control.recover()
        await logs.begin_writing()
        await control.lead([NOWHERE], LEAD_SECONDS_MAX)
        control.controller.expect_no_heartbeats()  # no broker is running that could be heard
        yield control, logs
    finally:
        await control.stop()
        await logs.close()
        disk.close()
