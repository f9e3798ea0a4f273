"""A listener that clients log in on, with nothing behind it but a test."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from barnabas_broker.config.sasl_settings import SaslSettings
from barnabas_broker.metadata.scram_records import FormerKeys, ScramCredentialRecord
from barnabas_broker.network.login import FailureRates, LoginStage
from barnabas_broker.network.login_metrics import LoginMetrics
from barnabas_broker.network.login_verdicts import LoadedCredentials, LoginVerdicts, TokenVerifier
from barnabas_broker.network.login_work import LoginWork
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.security.credentials import MECHANISM_NUMBERS, ScramCredentials
from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey
from barnabas_protocol.connection.sasl import (
    SaslClient,
    ScramSaslClient,
    salted_password,
    scram_keys,
)
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.api_versions import ApiVersionsResponse
from barnabas_protocol.messages.metadata import MetadataResponse
from barnabas_protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from barnabas_protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.session_bench import Bench, Client
from tests.support.virtual_loop import VirtualClock

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def credential(
    user: str,
    password: str,
    mechanism: str = "SCRAM-SHA-512",
    *,
    salt: bytes = b"some-salt",
    former: tuple[str, int] | None = None,
) -> ScramCredentialRecord:
    """A stored credential; `former` is a password that is good until a time of day."""

    def keys_of(password: str) -> tuple[bytes, bytes]:
        keys = scram_keys(mechanism, salted_password(mechanism, password, salt, 4096))
        return keys.stored_key, keys.server_key

    before = None if former is None else FormerKeys(former[1], *keys_of(former[0]))
    return ScramCredentialRecord(
        user, MECHANISM_NUMBERS[mechanism], 4096, salt, *keys_of(password), before
    )


class Response(NamedTuple):
    """A response and the correlation id before it."""

    correlation_id: int
    body: Any


class LoginBench(Bench):
    """A bench with a stage of log-ins; requests of who has logged in come to `dispatch`."""

    def __init__(
        self,
        *stored: ScramCredentialRecord,
        settings: SaslSettings | None = None,
        tokens: TokenVerifier | None = None,
        is_loaded: bool = True,
        timeout_ms: int = 10_000,
        **options: Any,
    ) -> None:
        loop = asyncio.get_running_loop()
        clock = options.pop("clock", None) or VirtualClock(loop)
        self.credentials = ScramCredentials(b"own secret")
        self.loaded = LoadedCredentials(self.credentials, clock)
        self.stored = {record.key: record for record in stored}
        self.login_metrics = LoginMetrics()
        self.tasks: set[asyncio.Task[None]] = set()
        settings = settings or SaslSettings(mechanisms=MECHANISMS)
        self.threads = asyncio.Event()  # cleared: what they find is not told yet
        self.threads.set()
        self.work = LoginWork(self.run_here)
        self.stage = LoginStage(
            settings,
            LoginVerdicts(settings, self.loaded, self.work, tokens),
            clock=clock,
            rates=FailureRates(clock),
            metrics=self.login_metrics,
            spawn=self.spawn,
            timeout_ms=timeout_ms,
        )
        self.stage.refuse = refuse
        if is_loaded:
            self.load()
        options.setdefault("first_request_bytes_max", settings.receive_bytes_max)
        super().__init__(clock=clock, login=self.stage, **options)
        self.dispatch = self.handle
        self.handled: list[int] = []

    def load(self) -> None:
        """Have the stored credentials applied."""
        self.credentials.update(self.stored, b"cluster secret")
        self.loaded.wake()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def run_here(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What threads do, on the loop of a test."""
        await asyncio.sleep(0)
        result = function(*arguments)
        await self.threads.wait()
        return result

    def handle(self, in_flight: InFlightRequest) -> None:
        """Respond as a dispatcher would."""
        header = codec.read_request_header(in_flight.frame)
        in_flight.api_key, in_flight.api_version = header.api_key, header.api_version
        in_flight.correlation_id = header.correlation_id
        self.handled.append(header.api_key)
        login = in_flight.session.login
        assert login is not None
        if header.api_key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
            login.take(in_flight)
        elif header.api_key == ApiKey.API_VERSIONS:
            version = header.api_version
            code = ErrorCode.NONE if version <= 3 else ErrorCode.UNSUPPORTED_VERSION
            if code is ErrorCode.NONE:
                login.versions_sent()
            respond(in_flight, ApiVersionsResponse(error_code=code), min(version, 3))
        else:
            respond(in_flight, MetadataResponse())


def respond(in_flight: InFlightRequest, response: Any, version: int | None = None) -> None:
    key, used = in_flight.api_key, in_flight.api_version if version is None else version
    in_flight.reply([codec.encode_response(response, key, used, in_flight.correlation_id)])


def refuse(in_flight: InFlightRequest, code: ErrorCode) -> None:
    """Stand in for what knows the forms of all APIs: Metadata has no error of its own."""
    response = SaslAuthenticateResponse(error_code=code)
    in_flight.reply(
        [codec.encode_response(response, ApiKey.SASL_AUTHENTICATE, 1, in_flight.correlation_id)]
    )


def frame(key: ApiKey, version: int, request: Any, correlation_id: int = 7) -> bytes:
    return codec.encode_request(request, key, version, correlation_id, "client")


async def received(client: Client, key: ApiKey, version: int) -> Any:
    _, response = codec.decode_response(await client.answer(), key, version)
    return response


async def handshake(client: Client, mechanism: str, version: int = 1) -> Any:
    client.send(frame(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism=mechanism)))
    return await received(client, ApiKey.SASL_HANDSHAKE, version)


def authenticate_frame(token: bytes, version: int = 2) -> bytes:
    return frame(ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(auth_bytes=token))


async def authenticate(client: Client, token: bytes, version: int = 2) -> Any:
    client.send(authenticate_frame(token, version))
    return await received(client, ApiKey.SASL_AUTHENTICATE, version)


async def exchange(client: Client, sasl: SaslClient) -> Any:
    """The last response of an exchange that goes well, or the one that ends it."""
    token: bytes | None = sasl.first()
    while True:
        assert token is not None
        response = await authenticate(client, token)
        if response.error_code:
            return response
        token = sasl.respond(bytes(response.auth_bytes))
        if sasl.is_complete:
            return response


async def log_in(client: Client, user: str, password: str, mechanism: str = "SCRAM-SHA-512") -> Any:
    assert (await handshake(client, mechanism)).error_code == ErrorCode.NONE
    return await exchange(client, ScramSaslClient(mechanism, user, password, "nonce"))
