"""HTTP requests and their responses, for the stores that are reached over HTTP.

Reports what matters to a swap: whether a request that failed had been sent. Not here: what is
requested, from which server, what a status means. aiohttp takes longer to import than all of the
broker: it is imported with the first request, in a thread.

aiohttp sends a GET or PUT a second time if the connection closes without a response. A swap that is
sent twice names the same token twice, so at most one of the two takes effect, and the response may
then be a conflict with itself: one more reason for `decided_swap`.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import aiohttp

# An arbiter's record has a few hundred bytes; a Lease with others' annotations some thousand.
RESPONSE_BYTES_MAX: Final = 4 << 20
_TEXT_SHOWN_MAX: Final = 300


class NotSentError(Exception):
    """Nobody was reached: the request has certainly not taken effect."""


class NoResponseError(Exception):
    """The request may have been sent, and may have taken or still take effect."""


class HttpResponse(NamedTuple):
    """A response, whatever its status."""

    status: int
    body: bytes

    def document(self) -> dict[str, Any]:
        """The body as a JSON object; empty where it is none."""
        try:
            document = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return document if isinstance(document, dict) else {}

    def __str__(self) -> str:
        """The status and the beginning of the body, for people."""
        text = self.body[:_TEXT_SHOWN_MAX].decode(errors="replace").strip()
        return f"status {self.status}: {text}" if text else f"status {self.status}"


class TlsSettings(NamedTuple):
    """Files in PEM; None means the system's authorities, or no certificate of our own."""

    authority_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None

    def make_context(self) -> ssl.SSLContext:
        """What connections check and show. Raises: OSError if a file is missing or unfit."""
        context = ssl.create_default_context(cafile=self.authority_file)
        if self.certificate_file is not None:
            context.load_cert_chain(self.certificate_file, self.key_file)
        return context


class HttpClient:
    """Connections to a few servers, kept open between requests, for one loop."""

    __slots__ = ("_aiohttp", "_session", "_tls")

    def __init__(self, tls: TlsSettings) -> None:
        """The files are read with the first request to an https address."""
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None
        self._aiohttp: Any = None

    async def send(
        self,
        method: str,
        url: str,
        *,
        timeout_ms: int,
        document: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> HttpResponse:
        """The response to one request; the timeout bounds connecting and waiting together.

        Raises: NotSentError, NoResponseError.
        """
        session = await self._opened(is_secure=url.startswith("https:"))
        errors = self._aiohttp
        try:
            async with session.request(
                method,
                url,
                json=document,
                headers=headers,
                allow_redirects=False,
                timeout=errors.ClientTimeout(total=timeout_ms / 1000),
            ) as response:
                return HttpResponse(response.status, await _bounded(response))
        except errors.ClientConnectorError as error:
            if url.startswith("https:"):
                # The files may have been renewed since: the next request reads them again.
                await self.close()
            raise NotSentError(f"{url}: {error}") from error
        except (errors.ClientError, OSError, ValueError) as error:
            reason = str(error) or type(error).__name__  # timeouts have no text
            raise NoResponseError(f"{url}: {reason}") from error

    async def close(self) -> None:
        """Close the connections; the next request opens others."""
        session, self._session = self._session, None
        if session is not None:
            # Whoever is cancelled while closing must not leave the sockets behind.
            with contextlib.suppress(self._aiohttp.ClientError):
                await session.close()

    async def _opened(self, *, is_secure: bool) -> aiohttp.ClientSession:
        if self._aiohttp is None:
            self._aiohttp = await asyncio.to_thread(importlib.import_module, "aiohttp")
        if self._session is None:
            library = self._aiohttp
            try:
                context = await asyncio.to_thread(self._tls.make_context) if is_secure else True
            except OSError as error:
                raise NotSentError(f"{_named(self._tls)}: {error}") from error
            if self._session is None:  # another request may have been quicker
                self._session = library.ClientSession(
                    connector=library.TCPConnector(ssl=context),
                    cookie_jar=library.DummyCookieJar(),
                )
        return self._session


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    """The body. Raises: ValueError if it is longer than any response should be."""
    body = bytearray()
    async for chunk in response.content.iter_chunked(1 << 16):
        body += chunk
        if len(body) > RESPONSE_BYTES_MAX:
            raise ValueError(f"the response is longer than {RESPONSE_BYTES_MAX} bytes")
    return bytes(body)


def _named(tls: TlsSettings) -> str:
    return ", ".join(str(Path(file)) for file in tls if file is not None) or "authorities"
