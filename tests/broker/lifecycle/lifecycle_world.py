"""A broker's lifecycle beside a controller that a test speaks for."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from barnabas_broker.lifecycle.broker_lifecycle_manager import (
    BrokerLifecycleManager,
    LifecycleSettings,
)
from barnabas_broker.metadata.image import BrokerImage, MetadataImage
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from barnabas_protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from tests.support.virtual_loop import VirtualClock

NODE = 3
INTERVAL_MS = 1_500


class ScriptedController:
    """Answers registrations and heartbeats as told; remembers what came, and when."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.image = MetadataImage.empty()
        self.registrations: list[BrokerRegistrationRequest] = []
        self.beats: list[tuple[int, BrokerHeartbeatRequest]] = []
        self.refusals: list[ErrorCode] = []
        self.next_epoch = 10
        self.should_shut_down = False
        self.is_away = False
        self.on_beat: Callable[[], None] = lambda: None

    async def send(self, request: Any, *, timeout_ms: int) -> Any:
        if self.is_away:
            await asyncio.sleep(timeout_ms / 1000)
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        if isinstance(request, BrokerRegistrationRequest):
            self.registrations.append(request)
            if self.refusals:
                return BrokerRegistrationResponse(error_code=self.refusals.pop(0))
            self.next_epoch += 1
            return BrokerRegistrationResponse(broker_epoch=self.next_epoch)
        self.beats.append((self.clock.monotonic_ms(), request))
        self.on_beat()
        if self.refusals:
            return BrokerHeartbeatResponse(error_code=self.refusals.pop(0))
        return BrokerHeartbeatResponse(
            is_caught_up=True,
            is_fenced=request.want_fence,
            should_shut_down=self.should_shut_down,
        )

    def show(self, broker_epoch: int, *, fenced: bool) -> None:
        """What the metadata says of the broker from now on."""
        broker = BrokerImage(NODE, broker_epoch, bytes(16), {}, None, (), fenced)
        self.image = replace(MetadataImage.empty(), brokers={NODE: broker}, offset=broker_epoch)


class World:
    """One lifecycle and its controller."""

    def __init__(self) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.controller = ScriptedController(self.clock)
        self.failures: list[BaseException] = []
        self.offline: list[bytes] = []
        self.epochs: list[int] = []
        self.majority_heard_ms: int | None = None
        self.lifecycle = BrokerLifecycleManager(
            node_id=NODE,
            settings=LifecycleSettings(
                heartbeat_interval_ms=INTERVAL_MS,
                session_timeout_ms=6_000,
                registration_timeout_ms=60_000,
            ),
            channel=self.controller,
            clock=self.clock,
            describe=lambda: BrokerRegistrationRequest(broker_id=NODE, incarnation_id=b"i" * 16),
            registered=self.registered,
            image=lambda: self.controller.image,
            offline_directories=lambda: self.offline,
            on_fatal=self.failures.append,
            majority_heard_ms=lambda: self.majority_heard_ms,
        )

    async def registered(self, broker_epoch: int) -> None:
        """What the broker does before it takes an epoch for its own."""
        assert self.lifecycle.broker_epoch != broker_epoch
        self.epochs.append(broker_epoch)

    async def until_beats(self, count: int) -> None:
        async with asyncio.timeout(3_600):
            while len(self.controller.beats) < count:
                await asyncio.sleep(0.01)
