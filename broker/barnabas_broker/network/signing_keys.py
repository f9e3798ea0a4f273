"""The keys that sign bearer tokens, from a file, a URL or the Kubernetes API server, kept fresh.

Fetched at the start, then now and then, and early when a token names a key that is not known. While
the source is away the last good keys stay; before it was reached once, nobody gets in. A file that
cannot be used fails the start, as nothing but its owner mends it.

Invariants: one fetch at a time; an early one at most once for a key id in `EARLY_MS`, and for
`EARLY_IDS_MAX` ids in that time, so that invented ids cost the source nothing.

Source: KIP-768, SEC-28, SEC-29; Kubernetes' "ServiceAccount issuer discovery".
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Disk
from barnabas_broker.env.http_client import HttpClient, NoResponseError, NotSentError
from barnabas_broker.env.kubernetes_api import KubernetesApi
from barnabas_protocol.web_tokens.key_set import KeySetError, SigningKey, parse_key_set

_log = logging.getLogger(__name__)

EARLY_MS: Final = 60_000
EARLY_IDS_MAX: Final = 16
FETCH_MS_MAX: Final = 10_000
ISSUERS_MAX: Final = 4
"""While an API server changes its issuer, tokens of the former are good until they expire."""
DISCOVERY_PATH: Final = "/.well-known/openid-configuration"
KEYS_PATH: Final = "/openid/v1/jwks"
_OK: Final = 200


class KeysUnavailableError(Exception):
    """The keys cannot be had now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedKeys:
    """The keys by their ids, and who signs with them, where the source says so."""

    keys: Mapping[str, SigningKey] = field(default_factory=dict)
    issuer: str | None = None


class KeySource(Protocol):
    """Where keys come from."""

    async def fetch(self) -> FetchedKeys:
        """The keys as they are now. Raises: KeysUnavailableError."""
        ...

    async def close(self) -> None:
        """Close its connections."""
        ...


class FileKeys:
    """A key set in a file."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path

    async def fetch(self) -> FetchedKeys:
        """The keys as they are now. Raises: KeysUnavailableError."""
        try:
            data = await self._disk.run(self._disk.read_bytes, self._path)
            return FetchedKeys(keys=parse_key_set(data))
        except (OSError, KeySetError) as error:
            raise KeysUnavailableError(f"{self._path}: {error}") from error

    async def close(self) -> None:
        """Do nothing."""


class UrlKeys:
    """A key set at an https address."""

    def __init__(self, http: HttpClient, url: str) -> None:
        self._http = http
        self._url = url

    async def fetch(self) -> FetchedKeys:
        """The keys as they are now. Raises: KeysUnavailableError."""
        try:
            response = await self._http.send("GET", self._url, timeout_ms=FETCH_MS_MAX)
        except (NotSentError, NoResponseError) as error:
            raise KeysUnavailableError(str(error)) from error
        if response.status != _OK:
            raise KeysUnavailableError(f"{self._url}: {response}")
        try:
            return FetchedKeys(keys=parse_key_set(response.body))
        except KeySetError as error:
            raise KeysUnavailableError(f"{self._url}: {error}") from error

    async def close(self) -> None:
        """Close its connections."""
        await self._http.close()


class ServiceAccountKeys:
    """The keys of the API server's own tokens, which every ServiceAccount may read."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api

    async def fetch(self) -> FetchedKeys:
        """The keys and the issuer as they are now. Raises: KeysUnavailableError."""
        try:
            issuer = json.loads(await self._body(DISCOVERY_PATH)).get("issuer")
            keys = parse_key_set(await self._body(KEYS_PATH))
        except (KeySetError, ValueError, AttributeError, RecursionError) as error:
            raise KeysUnavailableError(f"the API server's keys: {error}") from error
        if not isinstance(issuer, str) or not issuer:
            raise KeysUnavailableError(f"{DISCOVERY_PATH} names no issuer")
        return FetchedKeys(keys=keys, issuer=issuer)

    async def _body(self, path: str) -> bytes:
        try:
            response = await self._api.send("GET", path)
        except (NotSentError, NoResponseError) as error:
            raise KeysUnavailableError(str(error)) from error
        if response.status != _OK:
            raise KeysUnavailableError(f"{path}: {response}")
        return response.body

    async def close(self) -> None:
        """Close its connections."""
        await self._api.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshTimes:
    """When keys are fetched again: now and then, and how soon after a failure."""

    refresh_ms: int = 3_600_000
    retry_ms: int = 100
    retry_ms_max: int = 10_000


class SigningKeys:
    """The newest keys of one source."""

    def __init__(self, source: KeySource, clock: Clock, times: RefreshTimes) -> None:
        self.keys: Mapping[str, SigningKey] = {}
        self.issuers: tuple[str, ...] = ()
        """Who signs, by the source, the newest first; empty where the source does not say."""
        self.fetched_count = 0
        self.failed_count = 0
        self._source = source
        self._clock = clock
        self._times = times
        self._fetching: asyncio.Task[None] | None = None
        self._early: dict[str, int] = {}  # key id -> when it was looked for

    async def load(self) -> None:
        """Fetch the keys. Raises: KeysUnavailableError."""
        if self._fetching is None:
            self._fetching = asyncio.get_running_loop().create_task(self._fetch())
            self._fetching.add_done_callback(self._fetched)
        await asyncio.shield(self._fetching)

    async def keep_fresh(self) -> None:
        """Fetch the keys again and again, for as long as this runs."""
        delay_ms = self._times.refresh_ms if self.fetched_count else 0
        retry_ms = self._times.retry_ms
        while True:
            await asyncio.sleep(delay_ms / 1000)
            try:
                await self.load()
            except KeysUnavailableError as error:
                _log.warning("the keys of bearer tokens cannot be fetched: %s", error)
                delay_ms, retry_ms = retry_ms, min(2 * retry_ms, self._times.retry_ms_max)
            else:
                delay_ms, retry_ms = self._times.refresh_ms, self._times.retry_ms

    async def look_for(self, key_id: str) -> bool:
        """Fetch the keys early because of a key; whether it is known now."""
        now_ms = self._clock.monotonic_ms()
        if key_id not in self.keys and self._may_look(key_id, now_ms):
            self._early[key_id] = now_ms
            try:
                await self.load()
            except KeysUnavailableError as error:
                _log.warning("the keys of bearer tokens cannot be fetched: %s", error)
        return key_id in self.keys

    def _may_look(self, key_id: str, now_ms: int) -> bool:
        for known, looked_ms in list(self._early.items()):
            if now_ms - looked_ms >= EARLY_MS:
                del self._early[known]
        return key_id not in self._early and len(self._early) < EARLY_IDS_MAX

    async def _fetch(self) -> None:
        try:
            fetched = await self._source.fetch()
        except KeysUnavailableError:
            self.failed_count += 1
            raise
        self.fetched_count += 1
        self.keys = fetched.keys
        if fetched.issuer is not None:
            others = [issuer for issuer in self.issuers if issuer != fetched.issuer]
            self.issuers = (fetched.issuer, *others)[:ISSUERS_MAX]

    def _fetched(self, task: asyncio.Task[None]) -> None:
        self._fetching = None
        if not task.cancelled():
            task.exception()  # whoever waited has it

    async def close(self) -> None:
        """Close the connections of the source."""
        if self._fetching is not None:
            self._fetching.cancel()
        await self._source.close()
