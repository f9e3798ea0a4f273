"""Log-ins frame by frame: codes, texts, and when a broker closes the connection.

What a real client makes of a refusal hides at which step it came; here each response is a line.
"""

import asyncio
import ssl
from collections.abc import Sequence
from pathlib import Path

from barnabas_protocol.api import ApiKey
from barnabas_protocol.connection.sasl import (
    OAuthBearerSaslClient,
    PlainSaslClient,
    SaslClient,
    ScramSaslClient,
)
from barnabas_protocol.messages.api_versions import ApiVersionsRequest
from barnabas_protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas_protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.interop.logins.cases import LoginCase
from tests.support.raw_client import RawClient


class WireProgram:
    """SaslHandshake v1 and SaslAuthenticate v2, and nothing else."""

    def outcomes(self, cases: Sequence[LoginCase], directory: Path) -> list[str]:
        async def run() -> list[str]:
            return [await _outcome(case) for case in cases]

        return asyncio.run(run())


async def _outcome(case: LoginCase) -> str:
    if not case.mechanism:
        return "not tried"
    context = ssl.create_default_context(cafile=case.authority)
    host, _, port = case.address.partition(":")
    async with await RawClient.connect(int(port), host, tls=context) as client:
        lines: list[str] = []
        request = SaslHandshakeRequest(mechanism=case.mechanism)
        response = await client.call(ApiKey.SASL_HANDSHAKE, 1, request)
        lines.append(f"handshake {response.error_code} {sorted(response.mechanisms)}")
        if response.error_code == 0:
            lines += await _tokens(client, _sasl_client(case))
        if lines[-1] != "in":
            lines.append("open" if await _is_served(client) else "closed")
        return " > ".join(lines)


async def _is_served(client: RawClient) -> bool:
    """Whether the connection goes on: the next request tells."""
    try:
        await client.call(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
    except (ConnectionError, asyncio.IncompleteReadError):
        return False
    return True


async def _tokens(client: RawClient, sasl: SaslClient) -> list[str]:
    lines: list[str] = []
    token = sasl.first()
    while True:
        request = SaslAuthenticateRequest(auth_bytes=token)
        response = await client.call(ApiKey.SASL_AUTHENTICATE, 2, request)
        if response.error_code:
            return [*lines, f"token {response.error_code} {response.error_message}"]
        challenge = bytes(response.auth_bytes)
        # Those of SCRAM are random; a refused bearer token has its reason there.
        lines.append(f"token 0 {challenge.decode() if challenge.startswith(b'{') else ''}".strip())
        following = sasl.respond(challenge)
        if following is None:
            return [*lines, "in"]
        assert isinstance(following, bytes)
        token = following


def _sasl_client(case: LoginCase) -> SaslClient:
    if case.token_file:
        return OAuthBearerSaslClient(Path(case.token_file).read_text().strip())
    if case.mechanism == "PLAIN":
        return PlainSaslClient(case.username, case.password)
    return ScramSaslClient(case.mechanism, case.username, case.password, "a-nonce-of-the-tests")
