"""From a frame to its handler and back to bytes.

Reads the header, finds the handler, turns what it raises into an error response of that API.
Handlers come in three shapes: a plain function that returns the response; a plain function that
returns None and replies by itself later; a coroutine, during which the connection's next requests
wait (NET-7). A plain function may return a coroutine where there is much to do, and a coroutine the
encoded response. Source: NET-10, NET-11, NET-16.
"""

import importlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from types import CoroutineType
from typing import Any

from barnabas_broker.handlers.audited_changes import audited
from barnabas_broker.handlers.authorization import require_cluster, require_rights_change
from barnabas_broker.handlers.broker_listener import is_of_brokers, is_on_listener_of_brokers
from barnabas_broker.handlers.forwarding import (
    Resolution,
    Split,
    forward,
    forward_message,
    forward_resolved,
    throttle_time_ms,
)
from barnabas_broker.handlers.request_limits import (
    LONG_RESPONSES,
    UNLIMITED_BYTES,
    bytes_max,
    check_elements,
    elements_max,
    encode,
    encode_apart,
    encode_checked,
    is_long,
    loop_bytes_max,
)
from barnabas_broker.handlers.request_slices import as_a_whole, in_slices, slicing_of
from barnabas_broker.handlers.rights import RULES, check_rules
from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.table import FORWARDED, HANDLERS, VERSIONS, is_repeatable
from barnabas_broker.metadata.quorum.leadership import NotLeadingError
from barnabas_broker.metrics.sample import Sample
from barnabas_broker.network.heavy_work import ConnectionGoneError
from barnabas_broker.network.limited_lines import LimitedLines
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol import codec
from barnabas_protocol.api import INTERNAL, ApiKey
from barnabas_protocol.connection.api_versions import unsupported_version_response
from barnabas_protocol.errors import ErrorCode, KafkaError, ParseError
from barnabas_protocol.schema import Message

logger = logging.getLogger(__name__)

TRACES_MAX = 10
TRACE_EVERY = 1000
"""So many failures of an API are logged with their traces, then one of so many."""

CLIENT_ID_LENGTH_MAX = 1024
"""It is remembered with groups, quotas and fetch sessions."""

Failed = Callable[[Any, KafkaError], Any]
CheckFrame = Callable[[memoryview, int, int], None]
"""Checks a frame before it is read: of a version, with the request at a position."""
Check = Callable[[Services, InFlightRequest, Any], Awaitable[None]]
"""Refuses to send a request on to the controller. Raises: KafkaError."""
Resolve = Callable[[Services, InFlightRequest, Any], Resolution | None]
SplitRequest = Callable[[Any], Split | None]


class UnservedRequestError(ParseError):
    """A key or version that is not served.

    The connection is closed, as nothing after it can be parsed; a foreign input like any other
    that is malformed, so it gets a line in the log and no trace.
    """


class Api:
    """One served API: its handler, loaded at the first request, and its counters."""

    __slots__ = (
        "bytes_max",
        "check",
        "check_frame",
        "counted_bytes_min",
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
        "rule",
        "split",
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
        self.handle: Callable[[Services, InFlightRequest, Any], Any] = audited(key, module.handle)
        self.is_coroutine = inspect.iscoroutinefunction(self.handle)
        self.is_forwarded = key in FORWARDED
        self.is_internal = key in INTERNAL
        self.rule = RULES[key]
        # A larger frame is checked before it is read.
        self.counted_bytes_min: int = getattr(module, "COUNTED_BYTES_MIN", UNLIMITED_BYTES)
        self.check_frame: CheckFrame = getattr(module, "check_frame", lambda *_: None)
        self.failed: Failed | None = getattr(module, "failed", None)
        self.resolve: Resolve | None = getattr(module, "resolve", None)
        self.check: Check | None = getattr(module, "check", None)
        self.split: SplitRequest | None = getattr(module, "split", None)
        self.requests_count = 0
        self.errors_count = 0
        self.failures_count = 0  # by faults of this broker
        self.total_ns = 0


class Dispatcher:
    """Hands each frame of every connection to the handler of its API."""

    def __init__(self, services: Services) -> None:
        """Raises: RuntimeError where an API is served and no rule says who may send it."""
        check_rules(HANDLERS)
        self._services = services
        self.apis: dict[int, Api] = services.apis
        self._running = 0
        self._has_warned = False  # of brokers without a listener of their own
        self._lines = LimitedLines(logger, services.clock)

    @property
    def running_count(self) -> int:
        """Coroutine handlers at work."""
        return self._running

    def samples(self) -> Iterator[Sample]:
        """Requests at work and failures by API, for the collector (MET-1)."""
        yield Sample(
            "barnabas_handlers_running",
            "gauge",
            "Requests at work in coroutines.",
            {},
            self.running_count,
        )
        for api in self.apis.values():
            yield Sample(
                "barnabas_request_failures_total",
                "counter",
                "Requests that failed as a whole.",
                {"api": api.key.name},
                api.errors_count,
            )

    def __call__(self, in_flight: InFlightRequest) -> None:
        """Handle one frame.

        Raises: ParseError, UnservedRequestError; the connection is to be closed then.
        """
        frame, header = in_flight.frame, _read_header(in_flight)
        key, version = header.api_key, header.api_version
        api = self.apis.get(key) or load_api(self.apis, key)
        if not api.min_version <= version <= api.max_version:
            if key == ApiKey.API_VERSIONS:
                refusal = unsupported_version_response(api.min_version, api.max_version)
                self.reply(in_flight, refusal, version=0)
                return
            raise UnservedRequestError(f"{api.key.name} version {version} is not served")
        is_refused = api.is_internal and not self._is_of_broker(api, in_flight)
        if is_refused:
            self._refuse(api, in_flight, header.position)
            return
        if len(frame) > api.loop_bytes_max:
            self._check_size(api, frame)
            self._start(api, in_flight, None, self._read_apart(api, in_flight, header.position))
            return
        if len(frame) > api.counted_bytes_min:
            api.check_frame(frame, version, header.position)
        request, _ = codec.decode(api.request_class, frame, version, header.position)
        if len(frame) > api.elements_max and api.bytes_max < UNLIMITED_BYTES:
            check_elements(api.key, request)
        api.requests_count += 1
        if api.is_forwarded and self._is_for_another():
            self._start(api, in_flight, request, self._forwarded(api, in_flight, request))
            return
        if api.is_coroutine and not api.rule.cluster:
            work = api.handle(self._services, in_flight, request)
            self._start(api, in_flight, request, work)
            return
        try:
            if api.rule.cluster:
                check_rule(api, self._services, in_flight)
            response = api.handle(self._services, in_flight, request)
        except ParseError:
            raise
        except Exception as error:
            response = error_response(api, request, error)
        if isinstance(response, CoroutineType):
            self._start(api, in_flight, request, response)
        elif response is not None:
            self._respond(api, in_flight, request, response)

    def refuse(self, in_flight: InFlightRequest, code: ErrorCode) -> None:
        """Respond to a frame whose header was read with an error, in the form of its API.

        Raises: ParseError, UnservedRequestError; the connection is to be closed then.
        """
        key, version = in_flight.api_key, in_flight.api_version
        api = self.apis.get(key) or load_api(self.apis, key)
        if not api.min_version <= version <= api.max_version:
            raise UnservedRequestError(f"{api.key.name} version {version} is not served")
        self._check_size(api, in_flight.frame)
        position = codec.read_request_header(in_flight.frame).position
        request = read_whole(api, in_flight.frame, version, position)
        self.reply(in_flight, error_response(api, request, KafkaError(code)))

    def _check_size(self, api: Api, frame: memoryview) -> None:
        if len(frame) > api.bytes_max:
            raise UnservedRequestError(
                f"{api.key.name} of {len(frame)} bytes, {api.bytes_max} at most"
            )

    async def _read_apart(self, api: Api, in_flight: InFlightRequest, position: int) -> Any:
        """Read a large request in a thread, then carry it out; returns the frame of the response.

        None where the handler responds by itself. Closes the connection itself where the request is
        malformed.
        """
        services, request = self._services, None
        try:
            frame, version = in_flight.frame, in_flight.api_version
            request = await services.heavy_work.run(
                in_flight, read_whole, api, frame, version, position
            )
            if in_flight.session.is_closed:
                return None
            api.requests_count += 1
            if api.is_forwarded and self._is_for_another():
                response = await self._forwarded(api, in_flight, request)
            else:
                response = await carry_out(api, services, in_flight, request)
            if not isinstance(response, Message):
                return response
            request_time = services.quotas.request
            if request_time is not None:
                response = request_time.stamped(in_flight, response)
            return await encode_apart(services.heavy_work, in_flight, response)
        except ConnectionGoneError:
            return None
        except ParseError as error:
            in_flight.session.close(str(error), "malformed-request")
            return None
        except Exception as error:
            return await self._failure_apart(api, in_flight, request, error)

    async def _failure_apart(
        self, api: Api, in_flight: InFlightRequest, request: Any, error: Exception
    ) -> Any:
        """The frame that has the error for each element of a large request."""
        try:
            run = self._services.heavy_work.run
            response = await run(in_flight, error_response, api, request, error)
            return await run(in_flight, encode, in_flight, response)
        except ConnectionGoneError:
            return None

    def _is_of_broker(self, api: Api, in_flight: InFlightRequest) -> bool:
        """Whether a broker sends what only brokers may.

        Raises: UnservedRequestError where it comes by a listener of clients.
        """
        if not is_of_brokers(self._services, in_flight):
            if is_on_listener_of_brokers(self._services, in_flight):
                return False
            raise UnservedRequestError(f"{api.key.name} is for the listener of the brokers only")
        own = self._services.config.inter_broker_listener_name
        is_own = is_on_listener_of_brokers(self._services, in_flight)
        if not is_own and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "requests of brokers are taken on every listener until each registered broker has"
                " the listener %s; unregister a broker that is gone for good",
                own,
            )
        return True

    def _refuse(self, api: Api, in_flight: InFlightRequest, position: int) -> None:
        """Refuse what only brokers may request to somebody else on their listener (SEC-60)."""
        frame, version = in_flight.frame, in_flight.api_version
        if len(frame) > api.loop_bytes_max:
            raise UnservedRequestError(f"{api.key.name} is for brokers only")
        request, _ = codec.decode(api.request_class, frame, version, position)
        api.requests_count += 1
        self._lines.write(
            "not-a-broker",
            "refused %s of %s from %s: barnabas.broker.principals does not name it",
            api.key.name,
            str(in_flight.principal),
            in_flight.host,
        )
        error = KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"{in_flight.principal} is not a broker"
        )
        self._respond(api, in_flight, request, error_response(api, request, error))

    def _is_for_another(self) -> bool:
        """Whether what only the controller does has to be sent to another node."""
        channel = self._services.channel
        return channel is not None and not channel.is_local

    async def _forwarded(self, api: Api, in_flight: InFlightRequest, request: Any) -> Any:
        """The response of the controller, or of this node if it has become it meanwhile.

        Raises: KafkaError.
        """
        services = self._services
        assert services.channel is not None
        timeout_ms = services.config.request_timeout_ms

        async def here(inner: InFlightRequest, request: Any) -> Any:
            return await carry_out(api, services, inner, request)

        if api.check is not None:
            await api.check(services, in_flight, request)
        split = None if api.split is None else api.split(request)
        if split is not None:
            response = await here(in_flight, split.here)
            if split.rest is None:
                return response
            try:
                rest, _ = await forward_message(
                    services.channel,
                    in_flight,
                    split.rest,
                    timeout_ms,
                    here,
                    version=in_flight.api_version,
                    is_repeatable=is_repeatable(api.key),
                )
            except KafkaError as error:
                rest = error_response(api, split.rest, error)
            return split.joined(response, rest)
        resolution = None if api.resolve is None else api.resolve(services, in_flight, request)
        if resolution is not None:
            return await forward_resolved(services.channel, in_flight, resolution, timeout_ms, here)
        frame, _ = await forward(
            services.channel,
            in_flight,
            in_flight.frame,
            timeout_ms,
            is_repeatable=is_repeatable(api.key),
        )
        return await here(in_flight, request) if frame is None else frame

    def _start(
        self, api: Api, in_flight: InFlightRequest, request: Any, work: Awaitable[Any]
    ) -> None:
        in_flight.session.hold()
        self._running += 1
        run = self._run(api, in_flight, request, work)
        request_time = self._services.quotas.request
        self._services.spawn(run if request_time is None else request_time.timed(in_flight, run))

    async def _run(
        self, api: Api, in_flight: InFlightRequest, request: Any, work: Awaitable[Any]
    ) -> None:
        try:
            try:
                response = await work
            except ConnectionGoneError:
                return
            except Exception as error:
                response = error_response(api, request, error)
            if in_flight.session.is_closed or response is None:
                return  # or the handler responds later
            if api.is_forwarded:
                in_flight.session.mute(throttle_time_ms(in_flight, response))
            if isinstance(response, Message) and api.key in LONG_RESPONSES and is_long(response):
                await self._respond_apart(api, in_flight, request, response)
            elif isinstance(response, Message):
                self._respond(api, in_flight, request, response)
            else:  # a frame, of another node or encoded in a thread
                in_flight.reply([response])
        except Exception:
            logger.exception("%s has got no response", api.key.name)
            in_flight.session.close("the response could not be made")
        finally:
            self._running -= 1
            in_flight.session.release()

    def _respond(self, api: Api, in_flight: InFlightRequest, request: Any, response: Any) -> None:
        """Reply with a response, or with an error where it is too large to be sent."""
        request_time = self._services.quotas.request
        if request_time is not None:
            response = request_time.stamped(in_flight, response)
        try:
            frame = encode_checked(in_flight, response)
        except KafkaError as error:
            frame = encode(in_flight, error_response(api, request, error))
        in_flight.reply([frame])

    async def _respond_apart(
        self, api: Api, in_flight: InFlightRequest, request: Any, response: Message
    ) -> None:
        """The same with a response that is long: it is encoded in a thread."""
        services = self._services
        request_time = services.quotas.request
        if request_time is not None:
            response = request_time.stamped(in_flight, response)
        try:
            frame = await encode_apart(services.heavy_work, in_flight, response)
        except ConnectionGoneError:
            return
        except KafkaError as error:
            frame = encode(in_flight, error_response(api, request, error))
        if not in_flight.session.is_closed:
            in_flight.reply([frame])

    def reply(self, in_flight: InFlightRequest, response: Any, version: int | None = None) -> None:
        """Encode a response and put it in the connection's order."""
        in_flight.reply(
            [
                codec.encode_response(
                    response,
                    in_flight.api_key,
                    in_flight.api_version if version is None else version,
                    in_flight.correlation_id,
                )
            ]
        )


def _read_header(in_flight: InFlightRequest) -> codec.RequestHeader:
    """The header of a frame, which is noted. Raises: ParseError, UnservedRequestError."""
    header = codec.read_request_header(in_flight.frame)
    in_flight.api_key = header.api_key
    in_flight.api_version = header.api_version
    in_flight.correlation_id = header.correlation_id
    in_flight.client_id = header.client_id
    if header.client_id is not None and len(header.client_id) > CLIENT_ID_LENGTH_MAX:
        raise UnservedRequestError(
            f"a client id of {len(header.client_id)} characters, {CLIENT_ID_LENGTH_MAX} at most"
        )
    return header


async def carry_out(api: Api, services: Services, in_flight: InFlightRequest, request: Any) -> Any:
    """What the handler does with a request that may be large: in slices where it can be.

    Raises: what the handler raises; KafkaError 31 where its rule does not let the request in.
    """
    check_rule(api, services, in_flight)

    def handle(piece: Any) -> Any:
        return api.handle(services, in_flight, piece)

    is_large = len(in_flight.frame) > api.loop_bytes_max
    slicing = slicing_of(api.key, request) if is_large else None
    if slicing is not None:
        heavy = services.heavy_work
        request, refusal = await heavy.run(in_flight, as_a_whole, slicing, request)
        pause, failed = partial(heavy.pause_of, in_flight), partial(error_response, api)
        return await in_slices(slicing, handle, failed, pause, request, refusal)
    response = handle(request)
    return await response if inspect.isawaitable(response) else response


def check_rule(api: Api, services: Services, in_flight: InFlightRequest) -> None:
    """Refuse a request whose principal lacks the right to the cluster. Raises: KafkaError 31."""
    rule = api.rule
    if services.authorizer is None:
        return
    if rule.changes_rights:
        require_rights_change(services, in_flight)
    elif rule.needs_cluster(in_flight.api_version):
        require_cluster(services, in_flight, *rule.cluster)


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


def error_response(api: Api, request: Any, error: Exception) -> Any:
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
        error = KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "the broker failed; its log has the reason"
        )
    if api.failed is None:
        raise error
    return api.failed(request, error)
