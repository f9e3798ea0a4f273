"""The arbiter in one key of etcd, over the JSON gateway of its v3 API.

The token is the key's modification revision, 0 without the key: a transaction puts the new record
if the revision is still the expected one. Reads are linearizable, which is etcd's default, so that
what one server has stored is never missing in what another one returns.

Source: etcd's API reference (KV.Range, KV.Txn, Auth.Authenticate) and its gRPC gateway. The value
is in `docs/formats/arbiter.md`. Not here: watches; changes are found by reading.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, NamedTuple

from barnabas_broker.arbiter.arbiter import ArbiterError, ArbiterRecord, Stored, SwapOutcome
from barnabas_broker.arbiter.fault_log import FaultLog
from barnabas_broker.arbiter.polling import changes
from barnabas_broker.arbiter.record_json import FORMAT_VERSION, document_of, parse_document
from barnabas_broker.env.http_client import (
    HttpClient,
    HttpResponse,
    NoResponseError,
    NotSentError,
    TlsSettings,
)

logger = logging.getLogger(__name__)

_OK: Final = 200
# What etcd responds to a token that is missing, has expired or is older than a change of the users.
_SIGN_IN_AGAIN: Final = (
    "invalid auth token",
    "user name is empty",
    "revision of auth store is old",
)


class EtcdSettings(NamedTuple):
    """Where the record is and how it is reached."""

    endpoints: Sequence[str]  # http://host:port or https://host:port, tried in turn
    key: str
    username: str | None = None
    password: str | None = None
    tls: TlsSettings = TlsSettings()
    request_timeout_ms: int = 5000  # for all endpoints together
    poll_interval_ms: int = 1000


class EtcdArbiter:
    """One key; its modification revision is the token."""

    __slots__ = ("_faults", "_first", "_http", "_key", "_settings", "_sign_in")

    def __init__(self, settings: EtcdSettings) -> None:
        """Connects with the first request."""
        self._settings = settings
        self._key = _base64(settings.key.encode())
        self._http = HttpClient(settings.tls)
        self._faults = FaultLog(logger)
        self._first = 0  # the endpoint that responded last
        self._sign_in: str | None = None

    async def read(self) -> Stored:
        """The record as a majority of etcd's servers has it. Raises: ArbiterError."""
        response = await self._request("range", {"key": self._key})
        if response.status != _OK:
            raise ArbiterError(f"etcd: {response}")
        try:
            return _stored(response.document())
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ArbiterError(f"not a response of etcd: {error!r}: {response}") from error

    async def compare_and_swap(self, expected_token: int, record: ArbiterRecord) -> SwapOutcome:
        """Put the record if the key's modification revision is the one expected."""
        value = json.dumps({"version": FORMAT_VERSION, **document_of(record)}).encode()
        compare = {
            "key": self._key,
            "target": "MOD",
            "result": "EQUAL",
            "mod_revision": str(expected_token),
        }
        put = {"request_put": {"key": self._key, "value": _base64(value)}}
        try:
            response = await self._request("txn", {"compare": [compare], "success": [put]})
        except ArbiterError as error:
            self._faults.report("the arbiter's record may or may not be stored", error)
            return SwapOutcome.UNKNOWN
        document = response.document()
        if response.status != _OK or "header" not in document:
            self._faults.report(
                "the arbiter's record may or may not be stored", f"etcd: {response}"
            )
            return SwapOutcome.UNKNOWN
        self._faults.clear()
        # The gateway leaves out what is false.
        return SwapOutcome.STORED if document.get("succeeded") is True else SwapOutcome.CONFLICT

    def watch(self) -> AsyncIterator[Stored]:
        """The record now and after each change, looked for from time to time."""
        return changes(self.read, self._settings.poll_interval_ms)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def _request(self, method: str, document: dict[str, Any]) -> HttpResponse:
        """The response to a request, signed in where a user is set.

        Raises: ArbiterError where there is none.
        """
        if self._settings.username is None:
            return await self._send(f"kv/{method}", document, can_repeat=method == "range")
        for is_last in (False, True):
            if self._sign_in is None:
                await self._authenticate()
            response = await self._send(f"kv/{method}", document, can_repeat=method == "range")
            if is_last or not _must_sign_in(response):
                break
            self._sign_in = None  # refused before anything was done: to repeat it is safe
        return response

    async def _authenticate(self) -> None:
        settings = self._settings
        name_and_password = {"name": settings.username, "password": settings.password or ""}
        response = await self._send("auth/authenticate", name_and_password, can_repeat=True)
        token = response.document().get("token")
        if response.status != _OK or not isinstance(token, str):
            raise ArbiterError(f"etcd does not let {settings.username} in: {response}")
        self._sign_in = token

    async def _send(self, path: str, document: dict[str, Any], *, can_repeat: bool) -> HttpResponse:
        """The first response of an endpoint that is not a server's fault, else the last fault.

        A request that must not be repeated goes on to the next endpoint only if nobody was reached;
        others are sent twice at least, because a kept connection may have ended meanwhile.
        Raises: ArbiterError if no endpoint has responded.
        """
        settings = self._settings
        count = len(settings.endpoints)
        tries = max(count, 2) if can_repeat else count
        headers = {} if self._sign_in is None else {"Authorization": self._sign_in}
        if path.startswith("auth/"):
            headers = {}
        response: HttpResponse | None = None
        fault = ""
        for _ in range(tries):
            endpoint = settings.endpoints[self._first]
            try:
                response = await self._http.send(
                    "POST",
                    f"{endpoint}/v3/{path}",
                    document=document,
                    headers=headers,
                    timeout_ms=settings.request_timeout_ms // tries,
                )
                if response.status < 500:
                    return response
                can_go_on = can_repeat
            except NotSentError as error:
                fault, can_go_on = str(error), True
            except NoResponseError as error:
                fault, can_go_on = str(error), can_repeat
            self._first = (self._first + 1) % count
            if not can_go_on:
                break
        if response is None:
            raise ArbiterError(f"etcd: {fault}")
        return response


def _stored(document: dict[str, Any]) -> Stored:
    """The record and its revision in the response to a range. Raises: ArbiterError, ValueError."""
    if "header" not in document:
        raise ValueError("no header")
    values = document.get("kvs", [])
    if not values:
        return Stored(None, 0)
    _, record = parse_document(base64.b64decode(values[0].get("value", "")))
    return Stored(record, int(values[0]["mod_revision"]))


def _must_sign_in(response: HttpResponse) -> bool:
    if response.status == _OK:
        return False
    text = str(response)
    return any(words in text for words in _SIGN_IN_AGAIN)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
