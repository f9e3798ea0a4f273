"""A broker's life in its cluster: it registers, shows that it lives, and says what it wants.

Source: REG-1 to REG-9 and STOP-5; KIP-631. Everything goes to the active
controller, wherever that is. Not here: what the controller decides, when a broker may serve (the
server waits for `until_unfenced`) or when a drain is over (`drain`).

Invariants: one heartbeat is under way at a time; a wish is told at once, not at the next interval;
a broker never goes on under an epoch that the controller does not know.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.env.clock import Clock
from barnabas_broker.lifecycle.session_lease import SessionLease
from barnabas_broker.metadata.image import MetadataImage
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from barnabas_protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)

logger = logging.getLogger(__name__)

REGISTRATION_BACKOFF_MS: Final = 200
# A broker that drains asks again soon, then less often (STOP-5).
DRAIN_INTERVAL_MS_MIN: Final = 50
DRAIN_INTERVAL_MS_MAX: Final = 500
FAILED_HEARTBEAT_BACKOFF_MS: Final = 100

# Asking again does not help: the broker stops and says why.
_REFUSED_FOR_GOOD: Final = frozenset(
    {
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


class RegistrationError(Exception):
    """The broker cannot become part of its cluster."""


class Channel(Protocol):
    """The way to the active controller."""

    async def send(self, request: Any, *, timeout_ms: int) -> Any:
        """The controller's response. Raises: KafkaError when there was none in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleSettings:
    """The times of a broker's life."""

    heartbeat_interval_ms: int
    session_timeout_ms: int
    registration_timeout_ms: int

    @staticmethod
    def of(config: BrokerConfig) -> LifecycleSettings:
        """What the broker's settings say."""
        return LifecycleSettings(
            heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
            session_timeout_ms=config.broker_session_timeout_ms,
            registration_timeout_ms=config.initial_broker_registration_timeout_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedState:
    """What a broker tells the controller that it wants."""

    is_fenced: bool = True
    is_shut_down: bool = False


class BrokerLifecycleManager:
    """Registers one broker and keeps it registered."""

    def __init__(
        self,
        *,
        node_id: int,
        settings: LifecycleSettings,
        channel: Channel,
        clock: Clock,
        describe: Callable[[], BrokerRegistrationRequest],
        registered: Callable[[int], Awaitable[None]],
        image: Callable[[], MetadataImage],
        offline_directories: Callable[[], Sequence[bytes]],
        cordoned_directories: Callable[[], Sequence[bytes]] = tuple,
        on_fatal: Callable[[BaseException], None],
        majority_heard_ms: Callable[[], int | None] = lambda: None,
    ) -> None:
        """`image` is the newest that this broker has applied; `describe` says what it is (REG-1).

        `registered` is called with each new broker epoch before anything is done under it.

        `on_fatal` hears of what makes going on impossible. `majority_heard_ms`: while this node is
        the controller itself, when it last heard the majority by which it is.
        """
        self._node_id = node_id
        self._settings = settings
        self._channel = channel
        self._clock = clock
        self._describe = describe
        self._registered = registered
        self._image = image
        self._offline_directories = offline_directories
        self._cordoned_directories = cordoned_directories
        self._on_fatal = on_fatal
        self._majority_heard_ms = majority_heard_ms
        self.broker_epoch = -1
        self.requested_state = RequestedState()
        self.may_stop = False  # the controller said so (STOP-5)
        self.on_answer: list[Callable[[BrokerHeartbeatResponse], None]] = []
        self._wake = asyncio.Event()
        self._heard = asyncio.Event()
        self._stopping: frozenset[tuple[int, int]] = frozenset()  # others, with their broker epochs
        self._task: asyncio.Task[None] | None = None
        self._drain_interval_ms = DRAIN_INTERVAL_MS_MIN
        self._is_unheard = False  # said that nobody answers
        self._lease = SessionLease(settings.session_timeout_ms)

    # ---- registration ----------------------------------------------------------------------------

    async def register(self, is_arbiter_away: Callable[[], bool] = lambda: False) -> None:
        """Return when the controller has accepted this broker, fenced (REG-4).

        A second broker of the id may be this one's last life, whose session ends soon: that is
        tried again. A live controller of this very id answers nobody here, so silence counts, too
        (NODE-7). Only while nobody answers and the arbiter is away the time stands still: no
        controller can be made then, and a broker that gives up would help nobody (CTL-13).
        Raises: RegistrationError when refused for good, or for longer than
        initial.broker.registration.timeout.ms (BOOT-12).
        """
        deadline_ms = self._clock.monotonic_ms() + self._settings.registration_timeout_ms
        told = ""
        while True:
            try:
                await self._register_once(self._settings.session_timeout_ms)
                return
            except KafkaError as error:
                if error.code in _REFUSED_FOR_GOOD:
                    raise RegistrationError(f"the registration was refused: {error}") from error
                reason = str(error)
                now_ms = self._clock.monotonic_ms()
                if error.code == ErrorCode.REQUEST_TIMED_OUT and is_arbiter_away():
                    deadline_ms = now_ms + self._settings.registration_timeout_ms
                    reason += "; the arbiter cannot be read: this broker waits until it can"
                elif now_ms >= deadline_ms:
                    raise RegistrationError(f"the broker could not register: {error}") from error
                if reason != told:
                    told = reason
                    logger.warning("not registered yet: %s", reason)
            await asyncio.sleep(REGISTRATION_BACKOFF_MS / 1000)

    async def _register_once(self, timeout_ms: int) -> None:
        request = self._describe()
        if self.broker_epoch >= 0:
            # The process has not ended since: nothing of its logs is lost (REG-8).
            request.previous_broker_epoch = self.broker_epoch
        response: BrokerRegistrationResponse = await self._channel.send(
            request, timeout_ms=timeout_ms
        )
        code = ErrorCode(response.error_code)
        cluster_id = self._describe().cluster_id
        if code is ErrorCode.INCONSISTENT_CLUSTER_ID and cluster_id != request.cluster_id:
            # A blank node, which has become one of this cluster since it asked.
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "the cluster id is another by now")
        if code is not ErrorCode.NONE:
            raise KafkaError(code)
        await self._registered(response.broker_epoch)
        self.broker_epoch = response.broker_epoch
        logger.info("registered under broker epoch %d", self.broker_epoch)

    # ---- heartbeats ------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to send heartbeats."""
        self._task = asyncio.create_task(self._run(), name="heartbeats")

    async def close(self) -> None:
        """Send no more; safe before `start` and a second time."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def want(self, *, is_fenced: bool | None = None, is_shut_down: bool | None = None) -> None:
        """Change what the broker wants and tell it at once; a wish to stop stays."""
        requested_state = self.requested_state
        if is_fenced is not None:
            requested_state = replace(requested_state, is_fenced=is_fenced)
        if is_shut_down is not None:
            requested_state = replace(
                requested_state, is_shut_down=requested_state.is_shut_down or is_shut_down
            )
        if requested_state != self.requested_state:
            self.requested_state = requested_state
            self._drain_interval_ms = DRAIN_INTERVAL_MS_MIN
            self.wake()

    def stay(self) -> None:
        """Take back the wish to stop: a controller that has fenced this broker unfences it."""
        self.requested_state = RequestedState(is_fenced=False, is_shut_down=False)
        self.may_stop = False
        self.wake()

    def wake(self) -> None:
        """Send the next heartbeat now: there is something to tell."""
        self._wake.set()

    def image_applied(self) -> None:
        """The newest image changed; whoever waits for what it says looks again.

        When another broker begins to shut down, the next heartbeat goes out at once: that one waits
        until the controller has heard that all others know (STOP-5).
        """
        self._heard.set()
        stopping = frozenset(
            (broker.node_id, broker.epoch)
            for broker in self._image().brokers.values()
            if broker.is_shutting_down and not broker.fenced and broker.node_id != self._node_id
        )
        if not stopping <= self._stopping:
            self.wake()
        self._stopping = stopping

    @property
    def is_unfenced(self) -> bool:
        """Whether the metadata that this broker has applied says that it may serve."""
        broker = self._image().brokers.get(self._node_id)
        return broker is not None and broker.epoch == self.broker_epoch and not broker.fenced

    @property
    def lease(self) -> int | None:
        """The number of the lease by which this broker leads, None without one."""
        return self._lease.number(self._clock.monotonic_ms())

    async def until_unfenced(self) -> None:
        """Ask to be unfenced and return once this broker has applied that it is."""
        self.want(is_fenced=False)
        while not self.is_unfenced:
            self._heard.clear()
            await self._heard.wait()

    async def leave(self, timeout_ms: int, *, is_last: Callable[[], bool] = lambda: False) -> None:
        """Have the controller fence this broker: it stops now (REG-9). Never raises.

        For the last one, nobody may be left to do that.
        """
        await self.close()
        self._lease.lose()
        self.requested_state = RequestedState(
            is_fenced=True, is_shut_down=self.requested_state.is_shut_down
        )
        try:
            await self._beat(timeout_ms)
        except KafkaError as error:
            level = logging.INFO if is_last() else logging.WARNING
            logger.log(level, "the controller does not know that this broker stops: %s", error)

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            delay_ms = self._delay_ms()
            sent_ms, led_ms = self._clock.monotonic_ms(), self._majority_heard_ms()
            try:
                answer = await self._beat(max(self._settings.session_timeout_ms // 2, 1))
                self._note_lease(answer, sent_ms, led_ms)
                if not await self._accepted(answer):
                    delay_ms = FAILED_HEARTBEAT_BACKOFF_MS
            except KafkaError as error:
                self._note_silence(error)
                delay_ms = FAILED_HEARTBEAT_BACKOFF_MS
            except RegistrationError as error:
                self._on_fatal(error)
                return
            except Exception:
                # A broker without heartbeats would be fenced for good, and nobody would know why.
                logger.exception("a heartbeat failed")
            try:
                async with asyncio.timeout(delay_ms / 1000):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _note_lease(
        self, answer: BrokerHeartbeatResponse, sent_ms: int, led_ms: int | None
    ) -> None:
        """Hold the lease for longer, or no more; a refusal says nothing of it.

        The controller in this process responds without having heard anybody: cut off, it may have
        been replaced, and its successor counts from when it heard this node last. `led_ms`: what
        `majority_heard_ms` said at the sending.
        """
        code, heard_ms = answer.error_code, self._majority_heard_ms()
        heard_ms = led_ms if heard_ms is None else heard_ms
        if heard_ms is not None:
            sent_ms = min(sent_ms, heard_ms)
        if code == ErrorCode.NONE and not answer.is_fenced:
            self._lease.renew(sent_ms, self._clock.monotonic_ms())
        elif code in (
            ErrorCode.NONE,
            ErrorCode.STALE_BROKER_EPOCH,
            ErrorCode.BROKER_ID_NOT_REGISTERED,
        ):
            self._lease.lose()

    def _note_silence(self, error: KafkaError) -> None:
        """Say once that nobody answers; `_accepted` says when somebody does again."""
        if not self._is_unheard:
            self._is_unheard = True
            logger.warning("heartbeats are not answered: %s", error)

    def _delay_ms(self) -> int:
        """How long to wait after this heartbeat; a drain asks sooner, and less and less often."""
        if not self.requested_state.is_shut_down or self.may_stop:
            return self._settings.heartbeat_interval_ms
        delay_ms = min(self._drain_interval_ms, self._settings.heartbeat_interval_ms)
        self._drain_interval_ms = min(self._drain_interval_ms * 2, DRAIN_INTERVAL_MS_MAX)
        return delay_ms

    async def _beat(self, timeout_ms: int) -> BrokerHeartbeatResponse:
        response: BrokerHeartbeatResponse = await self._channel.send(
            BrokerHeartbeatRequest(
                broker_id=self._node_id,
                broker_epoch=self.broker_epoch,
                current_metadata_offset=self._image().offset,
                want_fence=self.requested_state.is_fenced,
                want_shut_down=self.requested_state.is_shut_down,
                offline_log_dirs=list(self._offline_directories()),
                cordoned_log_dirs=list(self._cordoned_directories()),
            ),
            timeout_ms=timeout_ms,
        )
        return response

    async def _accepted(self, answer: BrokerHeartbeatResponse) -> bool:
        """Act on an answer; returns whether it was one to a broker in good standing.

        Raises: RegistrationError, KafkaError.
        """
        match answer.error_code:
            case ErrorCode.NONE:
                if self._is_unheard:
                    self._is_unheard = False
                    logger.info("heartbeats are answered again")
                self.may_stop = self.may_stop or (
                    self.requested_state.is_shut_down and answer.should_shut_down
                )
                for listener in self.on_answer:
                    listener(answer)
                return True
            case ErrorCode.STALE_BROKER_EPOCH | ErrorCode.BROKER_ID_NOT_REGISTERED:
                await self._register_again(ErrorCode(answer.error_code))
                return True
            case code:
                logger.warning("a heartbeat was refused: %s", KafkaError(ErrorCode(code)))
                return False

    async def _register_again(self, reason: ErrorCode) -> None:
        """Register under a new epoch, unless another process has taken the id (REG-3, NODE-7)."""
        logger.warning("registering again: %s", KafkaError(reason))
        try:
            await self._register_once(self._settings.session_timeout_ms)
        except KafkaError as error:
            if error.code in _REFUSED_FOR_GOOD | {ErrorCode.DUPLICATE_BROKER_REGISTRATION}:
                raise RegistrationError(f"this broker has lost its place: {error}") from error
            raise
        self.wake()
