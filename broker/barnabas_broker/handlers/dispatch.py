"""From a frame to its handler and back to bytes.

Reads the header, finds the handler, turns what it raises into an error response of that API.
Handlers come in three shapes: a plain function that returns the response; a plain function that
returns None and replies by itself later; a coroutine, during which the connection's next requests
wait (NET-7). A plain function may return a coroutine where there is much to do, and a coroutine the
encoded response. Source: NET-10, NET-11, NET-16 of the behaviour list.
"""

import importlib
import inspect
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from types import CoroutineType
from typing import Any

from barnabas_broker.handlers.broker_listener import is_of_brokers
from barnabas_broker.handlers.encoding import encoded, encoded_apart
from barnabas_broker.handlers.forwarding import Resolution, forward, forward_resolved
from barnabas_broker.handlers.produce_elements import COUNTED_BYTES_MIN, check_produce
from barnabas_broker.handlers.request_limits import (
    UNLIMITED_BYTES,
    bytes_max,
    check_answer,
    check_elements,
    elements_max,
    loop_bytes_max,
)
from barnabas_broker.handlers.request_slices import as_a_whole, in_slices, slicing_of
from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.table import FORWARDED, HANDLERS, VERSIONS, is_repeatable
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.leadership import NotLeadingError
from barnabas_broker.network.heavy_work import ConnectionGoneError
from barnabas_broker.network.session import Exchange
from barnabas_protocol import codec
from barnabas_protocol.api import INTERNAL, ApiKey
from barnabas_protocol.errors import ErrorCode, KafkaError, ParseError
from barnabas_protocol.schema import Message

logger = logging.getLogger(__name__)

TRACES_MAX = 10
TRACE_EVERY = 1000
"""So many failures of an API are logged with their traces, then one of so many."""

Failed = Callable[[Any, KafkaError], Any]
Resolve = Callable[[MetadataImage, Any], Resolution | None]


class UnservedRequestError(ParseError):
    """A key or version that is not served.

    The connection is closed, as nothing after it can be parsed; a foreign input like any other
    that is malformed, so it gets a line in the log and no trace.
    """


class Api:
    """One served API: its handler, loaded when first asked for, and its counters."""

    __slots__ = (
        "bytes_max",
        "elements_max",
        "errors_count",
        "failed",
        "failures_count",
        "handle",
        "is_coroutine",
        "is_forwarded",
        "is_internal",
        "key",
        "loop_bytes_max",
        "max_version",
        "min_version",
        "request_class",
        "requests_count",
        "resolve",
        "total_ns",
    )

    def __init__(self, key: ApiKey, module_name: str) -> None:
        module = importlib.import_module(f"barnabas_broker.handlers.{module_name}")
        self.key = key
        self.min_version, self.max_version = VERSIONS[key]
        self.bytes_max = bytes_max(key)
        self.loop_bytes_max = loop_bytes_max(key)
        self.elements_max = elements_max(key)
        self.request_class: Any = codec.request_class(key)
        self.handle: Callable[[Services, Exchange, Any], Any] = module.handle
        self.is_coroutine = inspect.iscoroutinefunction(module.handle)
        self.is_forwarded = key in FORWARDED
        self.is_internal = key in INTERNAL
        self.failed: Failed | None = getattr(module, "failed", None)
        self.resolve: Resolve | None = getattr(module, "resolve", None)
        self.requests_count = 0
        self.errors_count = 0
        self.failures_count = 0  # by faults of this broker
        self.total_ns = 0


class Dispatcher:
    """Hands each frame of every connection to the handler of its API."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.apis: dict[int, Api] = services.apis
        self._running = 0
        self._has_warned = False  # of brokers without a listener of their own

    @property
    def running_count(self) -> int:
        """Coroutine handlers at work."""
        return self._running

    def __call__(self, exchange: Exchange) -> None:
        """Handle one frame.

        Raises: ParseError, UnservedRequestError; the connection is to be closed then.
        """
        frame = exchange.frame
        header = codec.read_request_header(frame)
        key, version = header.api_key, header.api_version
        exchange.api_key = key
        exchange.api_version = version
        exchange.correlation_id = header.correlation_id
        exchange.client_id = header.client_id
        api = self.apis.get(key) or load_api(self.apis, key)
        if not api.min_version <= version <= api.max_version:
            if key == ApiKey.API_VERSIONS:
                self.reply(exchange, _unsupported_api_versions(), version=0)
                return
            raise UnservedRequestError(f"{api.key.name} version {version} is not served")
        if api.is_internal:
            self._check_broker(api, exchange)
        if len(frame) > api.loop_bytes_max:
            self._check_size(api, frame)
            self._start(api, exchange, None, self._read_apart(api, exchange, header.position))
            return
        if key == ApiKey.PRODUCE and len(frame) > COUNTED_BYTES_MIN:
            check_produce(frame, version, header.position)
        request, _ = codec.decode(api.request_class, frame, version, header.position)
        if len(frame) > api.elements_max and api.bytes_max < UNLIMITED_BYTES:
            check_elements(api.key, request)
        api.requests_count += 1
        if api.is_forwarded and self._is_for_another():
            self._start(api, exchange, request, self._forwarded(api, exchange, request))
            return
        if api.is_coroutine:
            work = api.handle(self._services, exchange, request)
            self._start(api, exchange, request, work)
            return
        try:
            response = api.handle(self._services, exchange, request)
        except ParseError:
            raise
        except Exception as error:
            response = answer_of_failure(api, request, error)
        if isinstance(response, CoroutineType):
            self._start(api, exchange, request, response)
        elif response is not None:
            self._answer(api, exchange, request, response)

    def _check_size(self, api: Api, frame: memoryview) -> None:
        if len(frame) > api.bytes_max:
            raise UnservedRequestError(
                f"{api.key.name} of {len(frame)} bytes, {api.bytes_max} at most"
            )

    async def _read_apart(self, api: Api, exchange: Exchange, position: int) -> Any:
        """Read a large request in a thread, then carry it out; returns the frame of the response.

        None where the handler answers by itself. Closes the connection itself where the request is
        malformed.
        """
        services, request = self._services, None
        try:
            frame, version = exchange.frame, exchange.api_version
            request = await services.heavy_work.run(
                exchange, read_whole, api, frame, version, position
            )
            if exchange.session.is_closed:
                return None
            api.requests_count += 1
            if api.is_forwarded and self._is_for_another():
                response = await self._forwarded(api, exchange, request)
            else:
                response = await carry_out(api, services, exchange, request)
            if not isinstance(response, Message):
                return response
            return await encoded_apart(services.heavy_work, exchange, response)
        except ConnectionGoneError:
            return None
        except ParseError as error:
            exchange.session.close(str(error), "malformed-request")
            return None
        except Exception as error:
            return await self._failure_apart(api, exchange, request, error)

    async def _failure_apart(
        self, api: Api, exchange: Exchange, request: Any, error: Exception
    ) -> Any:
        """The frame that answers each element of a large request with the error."""
        try:
            run = self._services.heavy_work.run
            response = await run(exchange, answer_of_failure, api, request, error)
            return await run(exchange, encoded, exchange, response)
        except ConnectionGoneError:
            return None

    def _check_broker(self, api: Api, exchange: Exchange) -> None:
        """Let requests of brokers alone pass. Raises: UnservedRequestError."""
        if not is_of_brokers(self._services, exchange):
            raise UnservedRequestError(f"{api.key.name} is for the listener of the brokers only")
        own = self._services.config.inter_broker_listener_name
        if exchange.session.listener_name != own and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "requests of brokers are taken on every listener until each registered broker has"
                " the listener %s; unregister a broker that is gone for good",
                own,
            )

    def _is_for_another(self) -> bool:
        """Whether what only the controller does has to be sent to another node."""
        channel = self._services.channel
        return channel is not None and not channel.is_local

    async def _forwarded(self, api: Api, exchange: Exchange, request: Any) -> Any:
        """The answer of the controller, or of this node if it has become it meanwhile.

        Raises: KafkaError.
        """
        services = self._services
        assert services.channel is not None
        timeout_ms = services.config.request_timeout_ms

        async def here(inner: Exchange, request: Any) -> Any:
            return await carry_out(api, services, inner, request)

        resolution = None if api.resolve is None else api.resolve(services.image, request)
        if resolution is not None:
            return await forward_resolved(services.channel, exchange, resolution, timeout_ms, here)
        frame, _ = await forward(
            services.channel,
            exchange,
            exchange.frame,
            timeout_ms,
            is_repeatable=is_repeatable(api.key),
        )
        return await here(exchange, request) if frame is None else frame

    def _start(self, api: Api, exchange: Exchange, request: Any, work: Awaitable[Any]) -> None:
        exchange.session.hold()
        self._running += 1
        self._services.spawn(self._run(api, exchange, request, work))

    async def _run(self, api: Api, exchange: Exchange, request: Any, work: Awaitable[Any]) -> None:
        try:
            try:
                response = await work
            except ConnectionGoneError:
                return
            except Exception as error:
                response = answer_of_failure(api, request, error)
            if exchange.session.is_closed or response is None:
                return  # or the handler answers later
            if isinstance(response, Message):
                self._answer(api, exchange, request, response)
            else:  # a frame, of another node or encoded in a thread
                exchange.reply([response])
        except Exception:
            logger.exception("%s could not be answered", api.key.name)
            exchange.session.close("the response could not be made")
        finally:
            self._running -= 1
            exchange.session.release()

    def _answer(self, api: Api, exchange: Exchange, request: Any, response: Any) -> None:
        """Reply with a response, or with an error where it is too large to be sent."""
        frame = encoded(exchange, response)
        try:
            check_answer(api.key, frame)
        except KafkaError as error:
            frame = encoded(exchange, answer_of_failure(api, request, error))
        exchange.reply([frame])

    def reply(self, exchange: Exchange, response: Any, version: int | None = None) -> None:
        """Encode a response and put it in the connection's order."""
        exchange.reply(
            [
                codec.encode_response(
                    response,
                    exchange.api_key,
                    exchange.api_version if version is None else version,
                    exchange.correlation_id,
                )
            ]
        )


async def carry_out(api: Api, services: Services, exchange: Exchange, request: Any) -> Any:
    """What the handler does with a request that may be large: in slices where it can be.

    Raises: what the handler raises.
    """

    def handle(piece: Any) -> Any:
        return api.handle(services, exchange, piece)

    is_large = len(exchange.frame) > api.loop_bytes_max
    slicing = slicing_of(api.key, request) if is_large else None
    if slicing is not None:
        heavy = services.heavy_work
        request, refusal = await heavy.run(exchange, as_a_whole, slicing, request)
        pause, failed = partial(heavy.pause_of, exchange), partial(answer_of_failure, api)
        return await in_slices(slicing, handle, failed, pause, request, refusal)
    response = handle(request)
    return await response if inspect.isawaitable(response) else response


def read_whole(api: Api, frame: memoryview, version: int, position: int) -> Any:
    """The request in a frame, in a thread where it is large. Raises: ParseError."""
    request, _ = codec.decode(api.request_class, frame, version, position)
    if not api.is_internal:
        check_elements(api.key, request)
    return request


def load_api(apis: dict[int, Api], key: int) -> Api:
    """The API of a key, from now on in `apis`. Raises: UnservedRequestError."""
    try:
        api_key = ApiKey(key)
        module_name = HANDLERS[api_key]
    except (ValueError, KeyError):
        raise UnservedRequestError(f"api key {key} is not served") from None
    api = apis[key] = Api(api_key, module_name)
    return api


def answer_of_failure(api: Api, request: Any, error: Exception) -> Any:
    """The error response of an API.

    Unmapped errors are ours: they are logged with their stack.
    """
    api.errors_count += 1
    if isinstance(error, NotLeadingError):
        # Also of a metadata log that has stopped: another node knows better, nothing is wrong.
        error = KafkaError(ErrorCode.NOT_CONTROLLER, str(error))
    if not isinstance(error, KafkaError):
        api.failures_count += 1
        # Whoever finds a request that does this sends it again and again.
        is_traced = api.failures_count <= TRACES_MAX or api.failures_count % TRACE_EVERY == 0
        logger.error("%s failed: %r", api.key.name, error, exc_info=error if is_traced else None)
        error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker failed; its log says why")
    if api.failed is None:
        raise error
    return api.failed(request, error)


def _unsupported_api_versions() -> Any:
    """KIP-511.

    A version 0 body that names just our range of ApiVersions, which every client can read.
    """
    from barnabas_protocol.messages.api_versions import ApiVersion, ApiVersionsResponse

    minimum, maximum = VERSIONS[ApiKey.API_VERSIONS]
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[
            ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=minimum, max_version=maximum)
        ],
    )
