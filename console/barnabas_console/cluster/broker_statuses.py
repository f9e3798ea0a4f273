"""`broker_statuses`: what brokers tell of themselves alone, by `/status` of their admin ports.

How late its loop runs, the bytes that came and went by its sockets, whether it drains (CON-135).

Where a broker's admin HTTP is follows from its settings. Those with https, which wants a login of
its own, those on a loopback address of another machine, Apache Kafka's, and whoever does not
respond at once, are left out: unknown.

Invariants: nothing but that is taken; no answer above `_ANSWER_BYTES_MAX` is held, and no
redirect followed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final

import aiohttp

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.cluster import BrokerDescription
from barnabas_client.admin.values.configs import ConfigEntry, ConfigResource
from barnabas_client.env import Clock
from barnabas_client.errors import BarnabasError
from barnabas_console.http_bodies import body_of
from barnabas_console.loopback import is_loopback

_HOST: Final = "admin.http.host"
_PORT: Final = "admin.http.port"
_PROTOCOL: Final = "admin.http.protocol"
_ANSWER_BYTES_MAX: Final = 256 * 1024
_SETTINGS_MS_MAX: Final = 2_000
_SECONDS_MAX: Final = 0.5
_ADDRESSES_MS: Final = 60_000
_TOGETHER: Final = 16
_NO_DRAIN: Final = ("running",)


async def status_addresses(admin: Admin, brokers: Sequence[BrokerDescription]) -> dict[int, str]:
    """Where brokers have their `/status`, of those that say so and can be reached."""
    wanted = {
        ConfigResource.broker(broker.node_id): [_HOST, _PORT, _PROTOCOL] for broker in brokers
    }
    try:
        found = await admin.configs.describe(wanted, timeout_ms=_SETTINGS_MS_MAX)
    except BarnabasError:
        return {}
    told = found.successes
    addresses = {
        broker.node_id: address_of(broker.host, told.get(ConfigResource.broker(broker.node_id), {}))
        for broker in brokers
    }
    return {node_id: address for node_id, address in addresses.items() if address}


def address_of(host: str, settings: Mapping[str, ConfigEntry]) -> str:
    """The address of a broker's `/status`; empty where there is none for us."""
    values = {name: entry.value or "" for name, entry in settings.items()}
    port = values.get(_PORT, "")
    if values.get(_PROTOCOL) != "http" or not port.isdigit() or port == "0":
        return ""
    listening = values.get(_HOST, "")
    if is_loopback(listening) and not is_loopback(host):
        return ""
    reached = host if not listening or _is_any(listening) else listening
    return (
        f"http://[{reached}]:{port}/status" if ":" in reached else f"http://{reached}:{port}/status"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatus:
    """What one broker tells; None is what it does not."""

    loop_lag_ms: float | None
    """The most of the last one or two minutes."""
    bytes_in: int | None
    """Since the broker started: requests and what it copies from other brokers' replicas."""
    bytes_out: int | None
    drain: str | None
    """A phase of its drain; None where it does not drain."""

    @classmethod
    def of(cls, told: object) -> BrokerStatus | None:
        """Of what a `/status` has; None where that is no status of a broker."""
        if not isinstance(told, dict):
            return None
        lag, drain = _number(told, "loop_lag_ms_max"), told.get("drain")
        bytes_in, bytes_out = _number(told, "bytes_in"), _number(told, "bytes_out")
        if lag is None and bytes_in is None:
            return None
        return cls(
            loop_lag_ms=lag,
            bytes_in=None if bytes_in is None else int(bytes_in),
            bytes_out=None if bytes_out is None else int(bytes_out),
            drain=drain if isinstance(drain, str) and drain not in _NO_DRAIN else None,
        )


def _number(told: Mapping[str, Any], name: str) -> float | None:
    value = told.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


class StatusReader:
    """Reads the statuses of live brokers; where those are is looked up once in a while."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Of which brokers, where their status is, and until when that holds.
        self._found: tuple[frozenset[tuple[int, str]], Mapping[int, str], int] | None = None

    async def read(
        self, admin: Admin, brokers: Sequence[BrokerDescription]
    ) -> dict[int, BrokerStatus]:
        """By broker, of those of `brokers` that are live and respond at once."""
        live = [broker for broker in brokers if not broker.is_fenced]
        known = frozenset((broker.node_id, broker.host) for broker in live)
        now_ms = self._clock.monotonic_ms()
        if self._found is None or known != self._found[0] or now_ms >= self._found[2]:
            addresses = await status_addresses(admin, live)
            self._found = known, addresses, now_ms + _ADDRESSES_MS
        return await broker_statuses(self._found[1])


async def broker_statuses(addresses: Mapping[int, str]) -> dict[int, BrokerStatus]:
    """By broker, of those that respond at once."""
    if not addresses:
        return {}
    async with aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=_SECONDS_MAX),
        connector=aiohttp.TCPConnector(limit=_TOGETHER),
    ) as session:
        found = await asyncio.gather(*(_status(session, one) for one in addresses.values()))
    return {node_id: one for node_id, one in zip(addresses, found, strict=True) if one is not None}


async def _status(session: aiohttp.ClientSession, address: str) -> BrokerStatus | None:
    try:
        async with session.get(address, allow_redirects=False) as response:
            if response.status != 200:
                return None
            body = await body_of(response, _ANSWER_BYTES_MAX)
            return None if body is None else BrokerStatus.of(json.loads(body))
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
        return None


def _is_any(listening: str) -> bool:
    try:
        return ip_address(listening).is_unspecified
    except ValueError:
        return False
