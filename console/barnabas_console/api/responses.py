"""Responses of the API: JSON with an ETag, and errors as `{error, message, hint, broker}`,
and `lock` where a right is missing.

`as_of_ms` is the time of an answer, not part of what it says: it does not count for the ETag, and
comes in a header, also where nothing has changed (CON-160).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from aiohttp import web

from barnabas_client.errors import (
    AlreadyExistsError,
    AuthenticationError,
    AuthorizationError,
    BarnabasError,
    BrokerUnreachableError,
    NotFoundError,
    RejectedError,
    RetriableError,
    TimedOutError,
    UnsupportedError,
    UsageError,
)

AS_OF_HEADER: Final = "X-Barnabas-As-Of"
_ETAG_LENGTH: Final = 20
# What is larger is compressed on a thread.
_THREAD_BYTES: Final = 64 * 1024

_STATUS: Final[tuple[tuple[type[BarnabasError], int], ...]] = (
    (AuthenticationError, 401),
    (AuthorizationError, 403),
    (NotFoundError, 404),
    (AlreadyExistsError, 409),
    (RejectedError, 409),
    (TimedOutError, 504),
    (RetriableError, 503),
    (UnsupportedError, 501),
    (UsageError, 400),
)


class ApiError(Exception):
    """What a route answers instead of data."""

    def __init__(
        self,
        status: int,
        error: str,
        message: str,
        *,
        hint: str = "",
        broker: int | None = None,
        lock: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error = error
        self.message = message
        self.hint = hint
        self.broker = broker
        self.lock = lock
        """The missing right, where that is why (`rights.needed.lock_of`)."""


def json_response(
    request: web.Request, data: Mapping[str, Any], *, status: int = 200
) -> web.Response:
    """The data, or 304 where the browser has them already."""
    as_of = data.get("as_of_ms")
    headers = {} if as_of is None else {AS_OF_HEADER: str(as_of)}
    body = _encoded({key: value for key, value in data.items() if key != "as_of_ms"})
    if request.method == "GET" and status == 200:
        headers["ETag"] = f'"{hashlib.sha256(body).hexdigest()[:_ETAG_LENGTH]}"'
        if request.headers.get("If-None-Match") == headers["ETag"]:
            return web.Response(status=304, headers=headers)
    if as_of is not None:
        begun = body[:-1] + (b"," if len(data) > 1 else b"")
        body = begun + b'"as_of_ms":' + _encoded(as_of) + b"}"
    return _compressed(body, status, headers)


async def rows_response(
    data: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]
) -> web.StreamResponse:
    """The data with `rows`, however many: a thread makes them and encodes one after the other.

    One call of the encoder holds the interpreter to its end, for 20,000 rows a tenth of a second.
    """

    def encoded() -> bytes:
        parts = [_encoded(row) for row in rows]
        head = _encoded(data)[:-1] + (b"," if data else b"")
        return head + b'"rows":[' + b",".join(parts) + b"]}"

    return _compressed(await asyncio.to_thread(encoded), 200, {})


def _compressed(body: bytes, status: int, headers: Mapping[str, str]) -> web.Response:
    response = web.Response(
        body=body,
        status=status,
        headers=headers,
        content_type="application/json",
        zlib_executor_size=_THREAD_BYTES,
    )
    response.enable_compression()
    return response


def error_response(error: ApiError) -> web.Response:
    """The error as JSON."""
    body = {
        "error": error.error,
        "message": error.message,
        "hint": error.hint,
        "broker": error.broker,
        **({} if error.lock is None else {"lock": error.lock}),
    }
    return web.Response(body=_encoded(body), status=error.status, content_type="application/json")


def of_client(error: BarnabasError) -> ApiError:
    """An error of the client, with what to do about it."""
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    name = type(error).__name__ if error.code is None else error.code.name
    return ApiError(status, name, str(error), hint=_hint(error))


def denied(error: AuthorizationError, lock: Mapping[str, Any]) -> ApiError:
    """What a viewer is told that lacks a right which is known."""
    name = type(error).__name__ if error.code is None else error.code.name
    hint = f"'{lock['explain_command']}' says which rule decides."
    return ApiError(403, name, lock["words"], hint=hint, lock=lock)


def _hint(error: BarnabasError) -> str:
    match error:
        case BrokerUnreachableError():
            return "Start a broker ('barnabas dev'), or look whether its address is right."
        case TimedOutError():
            return "The broker may be busy: try again."
        case AuthenticationError():
            return "Log in again, or look at the credentials the console was started with."
        case AuthorizationError():
            return "'barnabas acl explain' says which ACL is missing."
    return ""


def _encoded(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str).encode(
        errors="replace"
    )
